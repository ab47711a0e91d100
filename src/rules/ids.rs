//! Ids of the metrics and data sets that rules read, in one place.

use crate::analysis::time::idle::Cause;

pub(super) const STAGE_TIME: &str = "stage_time";
pub(super) const BUSY_SHARE: &str = "busy_share";
pub(super) const OPERATIONS: &str = "operations";
pub(super) const INFERRED_SHARE: &str = "inferred_share";
pub(super) const ATTRIBUTED_SHARE: &str = "attributed_share_from_first_stage";
pub(super) const CLASS_SHARE: &str = "class_share";
pub(super) const MFU: &str = "mfu";
pub(super) const KERNEL_TIME_MFU: &str = "kernel_time_mfu";
pub(super) const MBU: &str = "mbu";
pub(super) const THROTTLED_SHARE: &str = "throttled_share";

pub(super) const IDLE_ALLOCATOR: &str = "idle_allocator";

pub(super) const HOST_TIME: &str = "host_time";
pub(super) const COMM_EXPOSED: &str = "comm_exposed";
pub(super) const COMM_WAIT: &str = "comm_wait";
pub(super) const MEMORY_PEAK_ALLOCATED: &str = "memory_peak_allocated";
pub(super) const MEMORY_PEAK_RESERVED: &str = "memory_peak_reserved";
pub(super) const MEMORY_FRAGMENTATION: &str = "memory_fragmentation";
pub(super) const TENSOR_ACTIVE: &str = "tensor_active";

pub(super) const HFU: &str = "hfu";

/// Why the GPU is idle, in words.
pub(super) const fn because(cause: Cause) -> &'static str {
    match cause {
        Cause::Launching => "the host is launching",
        Cause::HostCode => "the host runs other code",
        Cause::Sync => "the host waits in a synchronizing call",
        Cause::Allocator => "the host is in the allocator",
        Cause::Copy => "a synchronous copy holds the host up",
        Cause::Communication => "another rank is late",
        Cause::Os => "the host thread is in the operating system",
        Cause::OffCpu => "no CPU runs the host thread",
        Cause::Profiler => "the profiler runs",
        Cause::Queue => "issued work waits for its turn",
        Cause::OtherWork => "it runs work of others",
        Cause::Unknown => "the cause is unknown",
    }
}

// Data sets.

pub(super) const ALLOCATOR_CALLS: &str = "allocator_calls";
pub(super) const GRAPHS: &str = "graphs";
pub(super) const POWER: &str = "power";
pub(super) const STAGE_PARTS: &str = "stage_parts";
pub(super) const THROTTLE_REASONS: &str = "throttle_reasons";
