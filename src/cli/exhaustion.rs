//! Memory that runs out: an answer with an exit code, like any other input that cannot be read.
//!
//! Tables beyond the memory that is available are refused before. This is for what comes on top of them: Rust prints the
//! allocation that failed and aborts, and no safe code runs in between but the handler of a signal.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGABRT;
use signal_hook::flag::register_conditional_shutdown;

use super::error::UNUSABLE;

/// Makes an allocation that fails end the program with the exit code of unusable input. A panic is a defect and still
/// aborts.
pub(super) fn is_an_answer() {
    let is_exhausted = Arc::new(AtomicBool::new(true));
    let is_handled =
        register_conditional_shutdown(SIGABRT, i32::from(UNUSABLE), Arc::clone(&is_exhausted));
    if is_handled.is_err() {
        return;
    }
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        is_exhausted.store(false, Ordering::SeqCst);
        print(panic);
    }));
}
