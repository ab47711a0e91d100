//! What held the host next to CUDA: calls of the operating system's libraries, its scheduler, the profiler itself.

use crate::table::table;
use crate::{CpuSampleId, Ns, OffCpuId, OsCallId, OverheadId, PassId, ProcessId, StrId, ThreadId};

table! {
    /// Calls of the operating system's libraries: files, locks, sleeps; of processes that use CUDA or mark ranges.
    OsCalls "os_calls" { row: OsCall, id: OsCallId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Function, such as `pthread_mutex_lock`.
        name: StrId,
        /// Pass.
        pass: PassId,
        /// Thread that called.
        thread: ThreadId,
    }
}

table! {
    /// Times in which no CPU ran a thread, from the scheduler's events: it was blocked or preempted; of threads that
    /// call CUDA.
    OffCpu "off_cpu" { row: OffCpuTime, id: OffCpuId,
        /// When the thread was taken off its CPU, on the pass's clock, nanoseconds.
        start: Ns,
        /// When a CPU ran it again, on the pass's clock, nanoseconds.
        end: Ns,
        /// Pass.
        pass: PassId,
        /// The thread.
        thread: ThreadId,
    }
}

table! {
    /// Samples of what a CPU ran of the threads that call CUDA: the innermost function of each call stack.
    CpuSamples "cpu_samples" { row: CpuSample, id: CpuSampleId,
        /// When the sample was taken, on the pass's clock, nanoseconds.
        time: Ns,
        /// Function; empty if its library has no symbols.
        function: StrId,
        /// File name of the library or program, such as `libtorch_cpu.so`.
        library: StrId,
        /// Pass.
        pass: PassId,
        /// The thread.
        thread: ThreadId,
    }
}

table! {
    /// Time that the profiler took for itself, as far as it says so; of processes that use CUDA or mark ranges.
    Overheads "overheads" { row: Overhead, id: OverheadId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// What the profiler did, such as `CUPTI Buffer flush`.
        name: StrId,
        /// Pass.
        pass: PassId,
        /// Process.
        process: ProcessId,
        /// Thread that it held up.
        thread: ThreadId,
    }
}
