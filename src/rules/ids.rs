//! Ids of the metrics and data sets that rules read, in one place.

pub(super) const OPERATION_TIME_SUM: &str = "operation_time_sum";
pub(super) const BOUND_SHARE: &str = "bound_share";

pub(super) const PROFILED_SHARE: &str = "profiled_share";
pub(super) const PROFILED_TIME: &str = "profiled_time";
pub(super) const REPRESENTATIVE_SHARE: &str = "representative_share";

// Data sets.

pub(super) const DEEP_DIVE: &str = "deep_dive";
pub(super) const DEEP_DIVE_RULES: &str = "deep_dive_rules";
pub(super) const PROFILED_KERNELS: &str = "profiled_kernels";
pub(super) const REPRESENTATIVENESS: &str = "representativeness";
pub(super) const STAGE_KERNELS: &str = "stage_kernels";
pub(super) const WORKLOAD_BOUNDS: &str = "workload_bounds";
pub(super) const UNPROFILED_KERNELS: &str = "unprofiled_kernels";
