//! Ids of the metrics and data sets that rules read, in one place.

pub(super) const STAGE_TIME: &str = "stage_time";
pub(super) const BUSY_SHARE: &str = "busy_share";
pub(super) const OPERATIONS: &str = "operations";
pub(super) const OPERATION_TIME_SUM: &str = "operation_time_sum";
pub(super) const INFERRED_SHARE: &str = "inferred_share";
pub(super) const ATTRIBUTED_SHARE: &str = "attributed_share_from_first_stage";
pub(super) const CLASS_SHARE: &str = "class_share";
pub(super) const MFU: &str = "mfu";
pub(super) const KERNEL_TIME_MFU: &str = "kernel_time_mfu";
pub(super) const MBU: &str = "mbu";
pub(super) const BOUND_SHARE: &str = "bound_share";
pub(super) const THROTTLED_SHARE: &str = "throttled_share";

pub(super) const IDLE_LAUNCHING: &str = "idle_launching";
pub(super) const IDLE_HOST_CODE: &str = "idle_host_code";
pub(super) const IDLE_SYNC: &str = "idle_sync";
pub(super) const IDLE_ALLOCATOR: &str = "idle_allocator";
pub(super) const IDLE_COPY: &str = "idle_copy";
pub(super) const IDLE_COMMUNICATION: &str = "idle_communication";
pub(super) const IDLE_OS: &str = "idle_os";
pub(super) const IDLE_OFF_CPU: &str = "idle_off_cpu";
pub(super) const IDLE_PROFILER: &str = "idle_profiler";
pub(super) const IDLE_QUEUE: &str = "idle_queue";
pub(super) const IDLE_OTHER_WORK: &str = "idle_other_work";
pub(super) const IDLE_UNKNOWN: &str = "idle_unknown";
pub(super) const LAUNCHES_PER_STEP: &str = "launches_per_step";
pub(super) const MEAN_KERNEL_TIME: &str = "mean_kernel_time";
pub(super) const LAUNCH_API_TIME: &str = "launch_api_time";
pub(super) const BETWEEN_IDLE: &str = "between_idle";
pub(super) const BETWEEN_IDLE_SHARE: &str = "between_idle_share";
pub(super) const BOUND_LAUNCHING: &str = "bound_launching";

pub(super) const HOST_TIME: &str = "host_time";
pub(super) const SYNC_CALLS: &str = "sync_calls";
pub(super) const SYNC_IDLE: &str = "sync_idle";
pub(super) const COMM_EXPOSED: &str = "comm_exposed";
pub(super) const COMM_WAIT: &str = "comm_wait";
pub(super) const MEMORY_PEAK_ALLOCATED: &str = "memory_peak_allocated";
pub(super) const MEMORY_PEAK_RESERVED: &str = "memory_peak_reserved";
pub(super) const MEMORY_FRAGMENTATION: &str = "memory_fragmentation";
pub(super) const PACE_DRIFT: &str = "pace_drift";
pub(super) const PACE_TREND_Z: &str = "pace_trend_z";
pub(super) const TENSOR_ACTIVE: &str = "tensor_active";

pub(super) const HFU: &str = "hfu";
pub(super) const PROFILED_SHARE: &str = "profiled_share";
pub(super) const PROFILED_TIME: &str = "profiled_time";
pub(super) const REPRESENTATIVE_SHARE: &str = "representative_share";

/// Words for causes of which rules know more.
pub(super) const HOST_CODE_WORDS: &str = "the host runs other code";
pub(super) const QUEUE_WORDS: &str = "issued work waits for its turn";

/// The causes of idle time, with the words for them.
pub(super) const IDLE_CAUSES: [(&str, &str); 12] = [
    (IDLE_LAUNCHING, "the host is launching"),
    (IDLE_HOST_CODE, HOST_CODE_WORDS),
    (IDLE_SYNC, "the host waits in a synchronizing call"),
    (IDLE_ALLOCATOR, "the host is in the allocator"),
    (IDLE_COPY, "a synchronous copy holds the host up"),
    (IDLE_COMMUNICATION, "another rank is late"),
    (IDLE_OS, "the host thread is in the operating system"),
    (IDLE_OFF_CPU, "no CPU runs the host thread"),
    (IDLE_PROFILER, "the profiler runs"),
    (IDLE_QUEUE, QUEUE_WORDS),
    (IDLE_OTHER_WORK, "it runs work of others"),
    (IDLE_UNKNOWN, "the cause is unknown"),
];

// Data sets.

pub(super) const ALLOCATOR_CALLS: &str = "allocator_calls";
pub(super) const DEEP_DIVE: &str = "deep_dive";
pub(super) const DEEP_DIVE_RULES: &str = "deep_dive_rules";
pub(super) const BETWEEN: &str = "between";
pub(super) const GRAPHS: &str = "graphs";
pub(super) const IDLE_SUMS: &str = "idle";
pub(super) const LONGEST_GAPS: &str = "gaps";
pub(super) const LAUNCH_FIGURES: &str = "launch_figures";
pub(super) const POWER: &str = "power";
pub(super) const PROFILED_KERNELS: &str = "profiled_kernels";
pub(super) const REPRESENTATIVENESS: &str = "representativeness";
pub(super) const REPEATS: &str = "repeats";
pub(super) const REPEAT_STATISTICS: &str = "repeat_statistics";
pub(super) const STAGE_KERNELS: &str = "stage_kernels";
pub(super) const STAGE_PARTS: &str = "stage_parts";
pub(super) const THROTTLE_REASONS: &str = "throttle_reasons";
pub(super) const SYNCHRONIZATION: &str = "synchronization";
pub(super) const WORKLOAD_BOUNDS: &str = "workload_bounds";
pub(super) const UNPROFILED_KERNELS: &str = "unprofiled_kernels";
