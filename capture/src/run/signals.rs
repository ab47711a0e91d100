//! Signals go on to the command that runs; the first of them also ends the capture after it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;

/// A command that ignored so many signals is killed by the next.
const PATIENCE: u32 = 2;

/// Forwards signals for as long as the program runs.
#[derive(Clone)]
pub(crate) struct Forwarder(Arc<State>);

struct State {
    /// Process group of the command that runs; 0 for none.
    group: AtomicI32,
    count: AtomicU32,
}

impl Forwarder {
    /// Takes the signals over.
    pub(crate) fn start() -> io::Result<Self> {
        let state = Arc::new(State {
            group: AtomicI32::new(0),
            count: AtomicU32::new(0),
        });
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for signal in signals.forever() {
                let before = own.count.fetch_add(1, Ordering::SeqCst);
                let signal = if before >= PATIENCE { SIGKILL } else { signal };
                send(own.group.load(Ordering::SeqCst), signal);
            }
        });
        Ok(Self(state))
    }

    /// Whether a signal came.
    pub(crate) fn interrupted(&self) -> bool {
        self.0.count.load(Ordering::SeqCst) > 0
    }

    /// From now on signals go to this process group; 0 for none. One that came before ends a workload.
    pub(crate) fn target(&self, group: u32, is_workload: bool) {
        let group = i32::try_from(group).unwrap_or(0);
        self.0.group.store(group, Ordering::SeqCst);
        if is_workload && self.interrupted() {
            // It came while nothing ran, or just before this began.
            send(group, SIGTERM);
        }
    }
}

/// Sends a signal to a process group, if there is one.
pub(super) fn send(group: i32, signal: i32) {
    if group > 0 {
        // SAFETY: the call touches no memory of ours. A group that is gone needs no signal.
        unsafe { libc::kill(-group, signal) };
    }
}
