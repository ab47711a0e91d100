//! Kernels profiled by Nsight Compute: one launch each, with counters.

use crate::model::table::table;
use crate::model::tables::Dim3;
use crate::model::{PassId, ProfileId, ProfileMetricId, ProfileRuleId, StrId};

table! {
    /// Launches profiled by Nsight Compute.
    KernelProfiles "kernel_profiles" { row: KernelProfile, id: ProfileId,
        /// Pass.
        pass: PassId,
        /// Number of the launch in the report.
        ordinal: u32,
        /// Kernel name as Nsight Compute prints it; differs from nsys in details.
        name: StrId,
        /// Process id.
        process: i64,
        /// CUDA context.
        context: u32,
        /// CUDA stream.
        stream: u64,
        /// Device ordinal.
        device: u32,
        /// Compute capability, major × 10 + minor.
        compute_capability: Option<u32>,
        /// Blocks in the grid.
        grid: Dim3,
        /// Threads in a block.
        block: Dim3,
        /// NVTX ranges around the launch, outermost first, joined by `/`; empty if none.
        nvtx: StrId,
    }
}

table! {
    /// Metrics of profiled launches, in base units: seconds, bytes, hertz, bytes per second.
    ProfileMetrics "ncu_metrics" { row: ProfileMetric, id: ProfileMetricId,
        /// Profiled launch.
        profile: ProfileId,
        /// Section as the details page names it; empty for the raw page.
        section: StrId,
        /// Metric id (`dram__bytes_read.sum`) or display name ("DRAM Throughput").
        metric: StrId,
        /// Unit after conversion to base units.
        unit: StrId,
        /// Value in that unit; absent for texts and `n/a`.
        value: Option<f64>,
        /// Value as text where it is not a number.
        text: Option<StrId>,
    }
}

table! {
    /// Remarks of Nsight Compute's rules.
    ProfileRules "ncu_rules" { row: ProfileRule, id: ProfileRuleId,
        /// Profiled launch.
        profile: ProfileId,
        /// Section identifier.
        section: StrId,
        /// Rule name, such as `SOLBottleneck`.
        rule: StrId,
        /// Kind of remark, such as `OPT`.
        kind: StrId,
        /// The remark.
        description: StrId,
        /// What the estimated speedup refers to: `global` or `local`; empty if none.
        speedup_kind: StrId,
        /// Estimated speedup in percent.
        speedup: Option<f64>,
    }
}
