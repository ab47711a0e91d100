//! Passes and the machines, processes and threads that they saw.

use rooflens_schemas::PassKind;

use crate::table::{label_element, table};
use crate::{GpuId, Ns, PassId, ProcessId, StrId, ThreadId};

label_element!(PassKind);

table! {
    /// Passes: one row an artifact that carries its own clock.
    Passes "passes" { row: Pass, id: PassId,
        /// Short name: the manifest's pass id, or the artifact's folder.
        name: StrId,
        /// What was recorded.
        kind: PassKind,
        /// Path of the artifact in the bundle.
        artifact: StrId,
        /// Program and version that recorded it, such as "nsys 2025.3.1"; empty if unknown.
        producer: StrId,
        /// Command line of the pass as the manifest records it, arguments joined by spaces; empty if unknown.
        command: StrId,
        /// Rank in a distributed run, where the artifact or the manifest says so.
        rank: Option<u32>,
        /// UTC time of this pass's time zero, in nanoseconds since 1970; absent if unknown.
        utc_origin: Option<Ns>,
    }
}

table! {
    /// GPUs as each pass saw them.
    Gpus "gpus" { row: Gpu, id: GpuId,
        /// Pass.
        pass: PassId,
        /// Ordinal that the pass's artifact gives it.
        ordinal: u32,
        /// Ordinal that CUDA gives it; absent where the processes of the pass differ in that.
        cuda_ordinal: Option<u32>,
        /// Device name as the driver reports it; empty if unknown.
        name: StrId,
        /// Number of streaming multiprocessors.
        sm_count: Option<u32>,
        /// Compute capability, major × 10 + minor.
        compute_capability: Option<u32>,
        /// Device memory in bytes.
        memory_bytes: Option<u64>,
        /// Peak memory bandwidth as the driver derives it, bytes per second.
        memory_bandwidth: Option<u64>,
        /// Maximum SM clock in hertz.
        clock_hz: Option<u64>,
    }
}

table! {
    /// Processes of each pass.
    Processes "processes" { row: Process, id: ProcessId,
        /// Pass.
        pass: PassId,
        /// Process id of the operating system, as far as the artifact holds it.
        pid: i64,
        /// Name or command; empty if unknown.
        name: StrId,
        /// Rank in a distributed run, if known.
        rank: Option<u32>,
    }
}

table! {
    /// Host threads of each pass.
    Threads "threads" { row: Thread, id: ThreadId,
        /// Process.
        process: ProcessId,
        /// Thread id as the artifact gives it.
        tid: i64,
        /// Name; empty if unknown.
        name: StrId,
    }
}
