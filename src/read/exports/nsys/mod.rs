//! Nsight Systems exports: the tables that decide stages.
//!
//! Columns are found by name, because each version of nsys adds, renames and reorders them. A table without a needed column
//! is refused, and a row with a value that makes no sense is skipped; the reader reports both.

mod host;
mod names;
mod ranges;
mod work;

pub use host::{CALL_COLUMNS, CALLS, CallRow};
pub use names::{Names, STRING_COLUMNS, STRINGS, string};
pub use ranges::{AddedRanges, EVENT_COLUMNS, EVENTS, Event, add_ranges};
pub use work::{
    COPY_COLUMNS, CopyRow, GRAPH_COLUMNS, GRAPHS, GraphRow, KERNEL_COLUMNS, KERNELS, KernelRow,
    MEMCPYS, MEMSETS, Work,
};

use rooflens_session::{PassId, ProcessId, Session, ThreadId};

use crate::Want;

/// Tables of which at least one must be there for a file to be an nsys export.
const MARKS: [&str; 6] = [
    "StringIds",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "TARGET_INFO_SYSTEM_ENV",
    "NVTX_EVENTS",
];

/// The table of the capture's start in UTC, on which no stage depends.
pub const SESSION_STARTS: &str = "TARGET_INFO_SESSION_START_TIME";

/// Its column.
pub const SESSION_START_COLUMNS: [Want; 1] = [Want::May(&["utcEpochNs"])];

/// A table of other profilers, whose exports have tables of the same names.
const OTHER_MARK: &str = "StringTable";

/// The low bits of a global id: the thread. The rest is the global process id.
pub const THREAD_MASK: i64 = 0xff_ffff;

/// Bits of a global id that hold the thread; those of the process id follow.
pub const PROCESS_BITS: u32 = 24;

/// Whether a database with these tables is an nsys export.
pub fn is_export(has: impl Fn(&str) -> bool) -> bool {
    MARKS.iter().any(|table| has(table)) && !has(OTHER_MARK)
}

/// The global process id of a global id.
pub const fn process_of(global: i64) -> i64 {
    global & !THREAD_MASK
}

/// The process id of the operating system in a global id.
pub const fn pid_of(global: i64) -> i64 {
    (global >> PROCESS_BITS) & THREAD_MASK
}

/// The session's id of the process of a global id.
pub fn process(session: &mut Session, pass: PassId, global: i64) -> ProcessId {
    session.process(pass, process_of(global), pid_of(global))
}

/// The session's id of the thread of a global id.
pub fn thread(session: &mut Session, pass: PassId, global: i64) -> ThreadId {
    let process = process(session, pass, global);
    session.thread(process, global & THREAD_MASK)
}
