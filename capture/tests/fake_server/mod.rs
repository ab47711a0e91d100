//! An OpenAI-compatible server whose latencies are planted: one thread, one epoll, a timer of the kernel.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use socket::Socket;

#[path = "../../src/serve/timer.rs"]
#[allow(dead_code)]
mod timer;

#[path = "../../src/serve/socket.rs"]
mod socket;

pub(crate) mod tls;

const LISTENER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Place among the requests with a body, from 0.
    pub(crate) index: usize,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// What the server does with a request: bytes, each so long after the request arrived.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<(Duration, Vec<u8>)>,
    pub(crate) end: End,
    /// The whole server stands still for so long, before anything else.
    pub(crate) stall: Duration,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Keep,
    Close,
    Reset,
}

/// The server; it ends with the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<Asked>,
    in_flight: usize,
    most_in_flight: usize,
    late: Vec<Duration>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&Asked) -> Script + Send + 'static) -> Self {
        timer::raise_open_files();
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("free");
        let (address, seen) = (listener.local_addr().expect("bound"), Arc::default());
        let own = Arc::clone(&seen);
        thread::spawn(move || Loop::new(listener, script, own).run().expect("epoll works"));
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Requests with a body, in the order in which they were read.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.seen.lock().expect("no panic").asked.clone()
    }

    /// How long after it was due each piece was written: by how much the server itself misses what is planted.
    pub(crate) fn late(&self) -> Vec<Duration> {
        self.seen.lock().expect("no panic").late.clone()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.seen.lock().expect("no panic").most_in_flight
    }
}

struct Connection {
    socket: Socket,
    input: Vec<u8>,
    out: Vec<u8>,
    script: Script,
    next: usize,
    began: Instant,
    /// A request with a body has no whole answer.
    is_asked: bool,
}

struct Loop<F> {
    poll: Poll,
    timer: timer::Timer,
    listener: TcpListener,
    script: F,
    seen: Arc<Mutex<Seen>>,
    connections: BTreeMap<usize, Connection>,
    count: usize,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl<F: Fn(&Asked) -> Script> Loop<F> {
    fn new(mut listener: TcpListener, script: F, seen: Arc<Mutex<Seen>>) -> Self {
        let (poll, timer) = (
            Poll::new().expect("epoll"),
            timer::Timer::new().expect("timerfd"),
        );
        let registry = poll.registry();
        registry
            .register(&mut listener, LISTENER, Interest::READABLE)
            .expect("new");
        let descriptor = timer.descriptor();
        registry
            .register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)
            .expect("new");
        let (connections, due) = (BTreeMap::new(), BinaryHeap::new());
        Self {
            poll,
            timer,
            listener,
            script,
            seen,
            connections,
            count: 0,
            due,
        }
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            self.answer()?;
            if let Some(Reverse((at, _))) = self.due.peek() {
                self.timer
                    .set(at.saturating_duration_since(Instant::now()))?;
            }
            self.poll
                .poll(&mut events, None)
                .or_else(|error| match error.kind() {
                    io::ErrorKind::Interrupted => Ok(()),
                    _ => Err(error),
                })?;
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    TIMER => {}
                    Token(token) => self.ready(token),
                }
                self.answer()?;
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let (mut socket, _) = match self.listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                accepted => accepted?,
            };
            let _ = socket.set_nodelay(true);
            let token = Token(self.count);
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut socket, token, interest)?;
            let (input, out, script) = (Vec::new(), Vec::new(), Script::default());
            let connection = Connection {
                socket: Socket::new(socket),
                input,
                out,
                script,
                next: 0,
                began: Instant::now(),
                is_asked: false,
            };
            self.connections.insert(self.count, connection);
            self.count += 1;
        }
    }

    /// Reads what is there; a client that is gone is forgotten.
    fn ready(&mut self, token: usize) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let mut buffer = [0; 16 << 10];
        loop {
            match connection.socket.read(&mut buffer) {
                Ok(0) => return self.remove(token),
                Ok(read) => connection.input.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.remove(token),
            }
        }
        connection.write();
        let Some((head, body)) = whole_request(&mut connection.input) else {
            return;
        };
        connection.began = connection.socket.arrived();
        connection.next = 0;
        if let Some(text) = fact(&head) {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
            connection.script = Script::one(answer.into_bytes(), End::Keep);
        } else {
            let mut seen = self.seen.lock().expect("no panic");
            connection.is_asked = true;
            seen.in_flight += 1;
            seen.most_in_flight = seen.most_in_flight.max(seen.in_flight);
            let asked = Asked {
                index: seen.asked.len(),
                head,
                body,
            };
            connection.script = (self.script)(&asked);
            seen.asked.push(asked);
        }
        thread::sleep(connection.script.stall);
        if let Some((after, _)) = connection.script.steps.first() {
            self.due.push(Reverse((connection.began + *after, token)));
        }
    }

    fn remove(&mut self, token: usize) {
        if let Some(mut gone) = self.connections.remove(&token) {
            gone.ended(&self.seen);
        }
    }

    /// Writes what is due.
    fn answer(&mut self) -> io::Result<()> {
        while let Some(Reverse((at, token))) = self.due.peek().copied() {
            if at > Instant::now() {
                break;
            }
            self.due.pop();
            let Some(connection) = self.connections.get_mut(&token) else {
                continue;
            };
            let step = &mut connection.script.steps[connection.next].1;
            connection.out.append(step);
            connection.next += 1;
            connection.write();
            self.seen.lock().expect("no panic").late.push(at.elapsed());
            if let Some((after, _)) = connection.script.steps.get(connection.next) {
                self.due.push(Reverse((connection.began + *after, token)));
                continue;
            }
            connection.ended(&self.seen);
            match connection.script.end {
                End::Keep => continue,
                End::Close => {}
                End::Reset => reset(&connection.socket),
            }
            self.connections.remove(&token);
        }
        Ok(())
    }
}

impl Connection {
    fn ended(&mut self, seen: &Mutex<Seen>) {
        if std::mem::take(&mut self.is_asked) {
            seen.lock().expect("no panic").in_flight -= 1;
        }
    }

    fn write(&mut self) {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(written) => drop(self.out.drain(..written)),
                Err(_) => return,
            }
        }
    }
}

impl Script {
    /// One piece at once.
    pub(crate) fn one(bytes: Vec<u8>, end: End) -> Self {
        Self {
            steps: vec![(Duration::ZERO, bytes)],
            end,
            stall: Duration::ZERO,
        }
    }

    /// A stream of events of `completions` in which the first token comes after `ttft` and each other one `itl` later.
    pub(crate) fn tokens(ttft: Duration, itl: Duration, count: u32) -> Self {
        let mut steps = Vec::new();
        for index in 0..count {
            let mut bytes = if index == 0 {
                HEAD.as_bytes().to_vec()
            } else {
                Vec::new()
            };
            let token =
                r#"{"id":"c","object":"text_completion","choices":[{"index":0,"text":" so"}]}"#;
            bytes.extend(chunk(&format!("data: {token}\n\n")));
            if index + 1 == count {
                bytes.extend(chunk(&format!(
                    "data: {{\"choices\":[{{\"text\":\"\",\"finish_reason\":\"length\"}}]}}\n\n\
                     data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":11,\"completion_tokens\":{count}}}}}\n\n\
                     data: [DONE]\n\n"
                )));
                bytes.extend(b"0\r\n\r\n");
            }
            steps.push((ttft + itl * index, bytes));
        }
        Self {
            steps,
            ..Self::default()
        }
    }
}

/// Begins an answer that is a stream of events.
pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(crate) fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Head and body of the first request, once both are there; they are taken out.
fn whole_request(input: &mut Vec<u8>) -> Option<(String, String)> {
    let end = input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&input[..end]).into_owned();
    let length = head
        .split("Content-Length: ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
    if input.len() < end + length {
        return None;
    }
    let body = String::from_utf8_lossy(&input[end..end + length]).into_owned();
    input.drain(..end + length);
    Some((head, body))
}

pub(crate) const METRICS: &str = "vllm:num_requests_running 3\n\
    vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n";

/// What the engine says of itself.
fn fact(head: &str) -> Option<&'static str> {
    match head.strip_prefix("GET ")?.split(' ').next()? {
        "/metrics" => Some(METRICS),
        "/version" => Some("{\"version\": \"0.10.1\"}"),
        "/v1/models" => Some(
            "{\"data\": [{\"id\": \"fake\", \"owned_by\": \"vllm\", \"max_model_len\": 4096}]}",
        ),
        _ => None,
    }
}

/// The socket is closed with RST.
fn reset(socket: &Socket) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = libc::socklen_t::try_from(size_of_val(&linger)).expect("small");
    // SAFETY: the option is read from the struct given, of the size given.
    let set = unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            value,
            size,
        )
    };
    assert_eq!(set, 0);
}
