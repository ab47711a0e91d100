//! Kernels profiled by Nsight Compute: one launch each, with counters.

use crate::table::table;
use crate::tables::Dim3;
use crate::{
    PassId, ProfileFocusId, ProfileId, ProfileInstanceId, ProfileMetricId, ProfileReportId,
    ProfileRuleId, ProfileSectionId, StrId,
};
use rooflens_units::Percent;

table! {
    /// Launches profiled by Nsight Compute.
    KernelProfiles "kernel_profiles" { row: KernelProfile, id: ProfileId,
        /// Pass.
        pass: PassId,
        /// Path of the file that gave the launch first.
        artifact: StrId,
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
        speedup: Option<Percent>,
    }
}

table! {
    /// Metrics that remarks of Nsight Compute's rules rest on; from reports only.
    ProfileFocus "ncu_focus" { row: ProfileFocusRow, id: ProfileFocusId,
        /// Remark.
        rule: ProfileRuleId,
        /// Metric id.
        metric: StrId,
        /// Value that the rule saw, in ncu's base unit.
        value: Option<f64>,
        /// What the rule says of it; empty if nothing.
        info: StrId,
    }
}

table! {
    /// Parts of a metric that have a name of their own, such as instructions by opcode; from reports only.
    ProfileInstances "ncu_instances" { row: ProfileInstance, id: ProfileInstanceId,
        /// Metric.
        metric: ProfileMetricId,
        /// Name of the part.
        instance: StrId,
        /// Value in the unit of the metric.
        value: f64,
    }
}

table! {
    /// Sections that were collected for a profiled launch; from reports only.
    ProfileSections "ncu_sections" { row: ProfileSection, id: ProfileSectionId,
        /// Profiled launch.
        profile: ProfileId,
        /// Section identifier, such as `SpeedOfLight`.
        section: StrId,
        /// Name that ncu shows.
        name: StrId,
    }
}

table! {
    /// Reports of Nsight Compute that were read themselves and not as exported pages.
    ProfileReports "ncu_reports" { row: ProfileReport, id: ProfileReportId,
        /// Pass.
        pass: PassId,
        /// Path of the report in the bundle.
        artifact: StrId,
        /// Version of Nsight Compute; empty if unknown.
        version: StrId,
        /// Launches in the report.
        launches: u32,
        /// Replay mode by the command line, `kernel` if it does not say; empty if the report holds no command line.
        replay_mode: StrId,
        /// Clock control by the command line, `base` if it does not say; empty if the report holds no command line.
        clock_control: StrId,
        /// Cache control by the command line, `all` if it does not say; empty if the report holds no command line.
        cache_control: StrId,
    }
}
