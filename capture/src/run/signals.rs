//! Signals go on to the command that runs; the first of them also ends the capture after it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
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
        let state = Arc::new(State { group: AtomicI32::new(0), count: AtomicU32::new(0) });
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for signal in signals.forever() {
                let before = own.count.fetch_add(1, Ordering::SeqCst);
                let signal = match signal {
                    _ if before >= PATIENCE => Signal::KILL,
                    SIGINT => Signal::INT,
                    SIGHUP => Signal::HUP,
                    _ => Signal::TERM,
                };
                send(own.group.load(Ordering::SeqCst), signal);
            }
        });
        Ok(Self(state))
    }

    /// Whether a signal came.
    pub(crate) fn interrupted(&self) -> bool {
        self.0.count.load(Ordering::SeqCst) > 0
    }

    /// From now on signals go to this process group; 0 for none.
    pub(crate) fn target(&self, group: u32) {
        let group = i32::try_from(group).unwrap_or(0);
        self.0.group.store(group, Ordering::SeqCst);
        if self.interrupted() {
            // It came while nothing ran, or just before this began.
            send(group, Signal::TERM);
        }
    }
}

fn send(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // A group that is gone needs no signal.
        let _ = kill_process_group(group, signal);
    }
}
