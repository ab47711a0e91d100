//! A socket that knows when the kernel received what was read, however late this thread came to read it.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::TcpStream;

/// Room for the one control message that is asked for, aligned as its header must be.
const CONTROL_WORDS: usize = 8;

/// Time within which two clocks are read at one moment, and how often that is tried.
const CLOSE: Duration = Duration::from_micros(10);
const TRIES: u32 = 4;

/// The socket.
pub(super) struct Socket {
    stream: TcpStream,
    arrived: Option<Instant>,
}

impl Socket {
    /// Asks the kernel for times of arrival: `SO_TIMESTAMPNS` of socket(7).
    pub(super) fn new(stream: TcpStream) -> Self {
        let (on, size) = (1_i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: the option is read from the integer given, of the size given. Without it times are those of reading.
        unsafe {
            let value = (&raw const on).cast();
            let option = libc::SO_TIMESTAMPNS;
            libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, option, value, size);
        }
        Self {
            stream,
            arrived: None,
        }
    }

    /// When the last of what was read last came; now, if the kernel does not say.
    pub(super) fn arrived(&self) -> Instant {
        self.arrived.unwrap_or_else(Instant::now)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (read, stamp) = receive(self.stream.as_raw_fd(), buffer)?;
        self.arrived = stamp.map(|stamp| {
            let (clock, now) = clocks();
            let age = clock
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .saturating_sub(stamp);
            now.checked_sub(age).unwrap_or(now)
        });
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Both clocks at one moment. Where the thread is held up between the two, again; at last the time is late rather than early:
/// no latency is shorter than it was.
fn clocks() -> (SystemTime, Instant) {
    let mut tries = 0;
    loop {
        let (before, clock, now) = (Instant::now(), SystemTime::now(), Instant::now());
        tries += 1;
        if now - before < CLOSE || tries == TRIES {
            return (clock, now);
        }
    }
}

/// Bytes that wait in the socket, and when the last of them arrived, since 1970.
fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a header of zeros is an empty one. The kernel writes within the two buffers that it is reported of, which
    // live as long as the call, and only what it wrote is read: a message whose header says that it holds the time.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let Ok(read) = usize::try_from(libc::recvmsg(socket, &raw mut message, 0)) else {
            return Err(io::Error::last_os_error());
        };
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_stamp = !header.is_null()
            && ((*header).cmsg_level, (*header).cmsg_type)
                == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let stamp = is_stamp.then(|| {
            let time = libc::CMSG_DATA(header)
                .cast::<libc::timespec>()
                .read_unaligned();
            Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
        });
        Ok((read, stamp))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;
    use std::time::{Duration, Instant};

    use mio::net::TcpStream;

    use super::Socket;

    #[test]
    fn what_is_read_late_arrived_when_it_was_sent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut socket = Socket::new(TcpStream::connect(address).expect("listens"));
        let (mut server, _) = listener.accept().expect("connects");
        // The kernel begins to stamp a moment after it was asked.
        thread::sleep(Duration::from_millis(100));
        let before = Instant::now();
        server.write_all(b"token").expect("is open");
        let after = Instant::now();
        thread::sleep(Duration::from_millis(100));
        let mut buffer = [0; 16];
        assert_eq!(socket.read(&mut buffer).expect("there are bytes"), 5);
        let slack = Duration::from_millis(20);
        assert!(before - slack < socket.arrived() && socket.arrived() < after + slack);
        assert!(socket.read(&mut buffer).is_err(), "nothing is left");
    }
}
