//! Device samples, allocator events, timings, measured peaks and environment facts.

use rooflens_schemas::PassKind;

use crate::table::table;
use crate::{
    CommandRunId, DeviceSampleId, FactId, MeasuredPeakId, MemoryEventId, Ns, PassId, StrId,
    ThreadId, TimingId,
};

table! {
    /// NVML samples, on the UTC clock.
    DeviceSamples "device_samples" { row: DeviceSample, id: DeviceSampleId,
        /// UTC time in nanoseconds since 1970.
        utc: Ns,
        /// Device index.
        device: u32,
        /// Board power in milliwatts.
        power_mw: Option<u64>,
        /// SM clock in megahertz.
        sm_mhz: Option<u32>,
        /// Memory clock in megahertz.
        memory_mhz: Option<u32>,
        /// Share of the sample period with a kernel resident, percent (NVML "GPU utilization").
        gpu_util: Option<u32>,
        /// Share of the sample period with memory being read or written, percent.
        memory_util: Option<u32>,
        /// Temperature in degrees Celsius.
        temperature: Option<u32>,
        /// Device memory in use, bytes.
        memory_used: Option<u64>,
        /// Bit mask of clock-throttle (clock-event) reasons as NVML defines them.
        throttle_reasons: Option<u64>,
        /// Path of the artifact.
        artifact: StrId,
    }
}

table! {
    /// Events of the framework's memory allocator (`[memory]` instants of a PyTorch trace).
    MemoryEvents "memory_events" { row: MemoryEvent, id: MemoryEventId,
        /// Time on the pass's clock, nanoseconds.
        time: Ns,
        /// Pass.
        pass: PassId,
        /// Thread that allocated or freed; absent where it did nothing else in the trace.
        thread: Option<ThreadId>,
        /// Device ordinal; absent for host memory.
        device: Option<u32>,
        /// Address.
        address: u64,
        /// Bytes allocated; negative where freed.
        bytes: i64,
        /// Bytes allocated in all after the event.
        allocated: Option<i64>,
        /// Bytes reserved in all after the event.
        reserved: Option<i64>,
    }
}

table! {
    /// Repeats of stages, timed by the workload itself: end-to-end times.
    Timings "timings" { row: Timing, id: TimingId,
        /// Stage.
        stage: StrId,
        /// Number of the repeat, from 0.
        repeat: u32,
        /// Duration in nanoseconds.
        duration: Ns,
        /// Decode steps in it, where stated.
        steps: Option<u64>,
        /// Sequences in it, where stated for each repeat or for all of the stage.
        batch: Option<u64>,
        /// Tokens of its longest sequence in a forward pass.
        tokens: Option<u64>,
        /// Keys that the attention of its longest sequence reads.
        keys: Option<u64>,
        /// Path of the artifact.
        artifact: StrId,
        /// Pass name, as the manifest or the folder gives it.
        pass: StrId,
        /// Whether a profiler ran: absent if nothing in the bundle tells.
        profiled: Option<bool>,
    }
}

table! {
    /// Runs of the whole command: those of a baseline, and one per pass with a profiler.
    CommandRuns "command_runs" { row: CommandRun, id: CommandRunId,
        /// Pass name, as the manifest or the folder gives it.
        pass: StrId,
        /// What was recorded in the pass.
        kind: PassKind,
        /// Number of the run in its pass, from 0.
        run: u32,
        /// Whether the run is warm-up.
        warmup: bool,
        /// Wall time in nanoseconds.
        duration: Ns,
        /// Exit code; absent if the capture ended the command.
        exit_code: Option<i64>,
        /// Path of the artifact.
        artifact: StrId,
    }
}

table! {
    /// Ceilings measured on the very GPU.
    MeasuredPeaks "measured_peaks" { row: MeasuredPeak, id: MeasuredPeakId,
        /// GPU name.
        gpu: StrId,
        /// What was measured: a dtype (`bf16`, operations per second) or `copy` (bytes per second, read plus write).
        what: StrId,
        /// Median rate, per second.
        median: f64,
        /// Lowest rate, per second.
        min: Option<f64>,
        /// Highest rate, per second.
        max: Option<f64>,
        /// Path of the artifact.
        artifact: StrId,
    }
}

table! {
    /// Facts of the environment, as read.
    Environment "environment" { row: Fact, id: FactId,
        /// Path of the artifact.
        artifact: StrId,
        /// Subject, such as `gpu 0`, `driver`, `host`.
        subject: StrId,
        /// Key, such as `power limit`.
        key: StrId,
        /// Value with its unit, as text.
        value: StrId,
    }
}
