//! What the standard library has not: a timer that wakes epoll to the microsecond, priority, and room for connections.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

/// A timer of the kernel. epoll itself counts milliseconds.
pub(super) struct Timer(OwnedFd);

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no memory of ours.
        let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Becomes readable after so long, and no more at the time that was set before.
    pub(super) fn set(&self, after: Duration) -> io::Result<()> {
        // Nothing would disarm it.
        let after = after.max(Duration::from_nanos(1));
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let setting = libc::itimerspec {
            it_interval: none,
            it_value: value,
        };
        // SAFETY: the setting is read, and the old one is not asked for.
        let set = unsafe {
            libc::timerfd_settime(
                self.descriptor(),
                0,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        if set < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// Asks for as many open files as this process may have.
pub(super) fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is written, then read. If it fails, connections beyond the limit fail and say so.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Asks that this thread runs when it wakes: what is due does not wait for other threads. Granted to root and to who has
/// `CAP_SYS_NICE`; of others requests may be late, and that is recorded.
pub(super) fn raise_priority() {
    const NICE: libc::c_int = -15;
    // SAFETY: the call takes no memory of ours. Linux has a priority for each thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}
