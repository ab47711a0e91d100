//! What the analyses came to, as types: each is computed once, from the tables and from those before it.

use rooflens_schemas::PassKind;
use rooflens_session::Session;

use super::Context;

/// Why a result is not there, and what to capture to have it: a key of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub &'static str);

/// A result, or what is missing for it.
pub type Known<T> = Result<T, Missing>;

/// Why a session has no GPU work: what its artifacts hold instead tells.
pub fn no_gpu_work(session: &Session) -> Missing {
    let launches = |name: &&rooflens_session::StrId| session.text(**name).contains("Launch");
    Missing(
        if session.api_calls.name.iter().any(|name| launches(&name)) {
            "missing.lost_activity"
        } else if !session.operators.is_empty() {
            "missing.cuda_activities"
        } else if session.passes.kind.contains(&PassKind::Operators) {
            "missing.empty_window"
        } else {
            "missing.gpu_work"
        },
    )
}

/// Of a result that is asked for before its turn.
const NOT_YET: Missing = Missing("missing.not_computed");

/// Each `name: Type = compute;` becomes a field of [`Results`] and its accessor. The order of declaration is that of
/// computation: `compute(&Context) -> Known<Type>` finds the earlier results in its context.
macro_rules! results {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $compute:path;)*) => {
        /// The results of one bundle.
        pub struct Results {
            $($(#[$doc])* pub $name: Known<$type>,)*
        }

        /// Before anything is computed.
        pub static NONE: Results = Results::NONE;

        impl Results {
            /// Before anything is computed.
            pub const NONE: Self = Self { $($name: Err(NOT_YET),)* };

            /// Computes all of them.
            pub fn compute(context: &Context<'_>) -> Self {
                let mut results = Self::NONE;
                $(
                    let result = $compute(&context.with(&results));
                    results.$name = result;
                )*
                results
            }

            /// Computes those of these names: for tests that make their facts by hand.
            pub fn some(context: &Context<'_>, names: &[&str]) -> Self {
                let mut results = Self { $($name: Err(NOT_YET),)* };
                $(
                    if names.contains(&stringify!($name)) {
                        let result = $compute(&context.with(&results));
                        results.$name = result;
                    }
                )*
                results
            }

            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// What is missing for it.
                pub fn $name(&self) -> Known<&$type> {
                    self.$name.as_ref().map_err(|missing| *missing)
                }
            )*
        }
    };
}

results! {
    /// Timed repeats of whole stages, unprofiled or not.
    baseline: super::engine::baseline::Baseline = super::engine::baseline::compute;
    /// Kernel names of all passes and their partners in the primary pass.
    kernel_matching: super::engine::kernel_matching::KernelMatching = super::engine::kernel_matching::compute;
    /// Power and clocks by device and stage.
    power: super::system::power::Power = super::system::power::compute;
    /// What matrix kernels compute.
    matmul: super::kernels::matmul::Products = super::kernels::matmul::compute;
    /// Measured peaks that GEMMs of the bundle exceed.
    beaten: Vec<super::kernels::matmul::beaten::Beaten> = super::kernels::matmul::beaten::compute;
    /// GPU operations of each stage by class and kernel.
    stage_work: Vec<super::kernels::stage_work::StageWork> = super::kernels::stage_work::compute;
    /// GEMMs by stage.
    gemm: Vec<super::kernels::matmul::stages::StageProducts> = super::kernels::gemm::compute;
    /// GEMMs of logs by size.
    gemm_log: Vec<super::kernels::gemm::LoggedGemm> = super::kernels::gemm::logged;
    /// Attention by stage.
    attention: Vec<super::kernels::matmul::stages::StageProducts> = super::kernels::attention::compute;
    /// Kernels of each pass.
    kernels: Vec<super::kernels::kernel_sums::PassKernels> = super::kernels::kernel_sums::compute;
    /// Counters of the profiled launches.
    counters: super::counters::ncu::Counters = super::counters::ncu::compute;
    /// The launches of the timeline that the profiled ones represent.
    matching: super::counters::represent::matching::Matching =
        super::counters::represent::matching::compute;
    /// Profiled launches against the timeline.
    represent: super::counters::represent::Representativeness =
        super::counters::represent::compute;
    /// Profiled launches against kernel sums of a run without a timeline.
    summed: super::counters::represent::summed::Summed =
        super::counters::represent::summed::compute;
    /// Executed operations and bytes of the stages of the timeline.
    workload: super::counters::roofline::workload::Workload =
        super::counters::roofline::workload::compute;
    /// Rooflines of the profiled kernels by pass.
    rooflines: Vec<super::counters::roofline::PassRoofline> = super::counters::roofline::compute;
    /// Bound classes of the profiled kernels by pass.
    ncu_kernels: Vec<super::counters::ncu_kernels::PassBounds> =
        super::counters::ncu_kernels::compute;
    /// Figures of the profiled kernels.
    details: super::counters::details::Details = super::counters::details::compute;
    /// Streams and kinds of operations that run at once.
    overlap: super::time::overlap::Overlaps = super::time::overlap::compute;
    /// Times of repeated stages over the run.
    drift: super::time::drift::Drift = super::time::drift::compute;
    /// Idle time by cause, launches and queue, by stage, and idle time between stages.
    idle: super::time::idle::IdleTime = super::time::idle::compute;
    /// Collectives, their matching across ranks, and stragglers.
    communication: super::communication::Communication = super::communication::compute;
    /// The critical path of one step.
    critical_path: super::time::critical_path::CriticalPath = super::time::critical_path::compute;
    /// MFU and MBU of each stage.
    utilization: super::utilization::mfu::Utilization = super::utilization::mfu::compute;
    /// FLOPs of each stage by source.
    flops: Vec<super::utilization::flops_by_source::StageFlops> = super::utilization::flops_by_source::compute;
    /// GPU work of the backward pass by the operators of the forward pass.
    backward: super::operators::backward::Backward = super::operators::backward::compute;
    /// How operators nest.
    spans: super::operators::call_tree::Spans = super::operators::call_tree::operators;
    /// Operators of PyTorch traces.
    operators: super::operators::calls::Operators = super::operators::calls::compute;
    /// Functions of Python.
    python: super::operators::python::Python = super::operators::python::compute;
    /// Stages by range and module.
    modules: super::operators::modules::Modules = super::operators::modules::compute;
    /// Memory transfers by pass and stage.
    transfers: super::memory::transfers::Transfers = super::memory::transfers::compute;
    /// Upper bounds of gains by stage.
    upper_bounds: super::time::upper_bounds::UpperBounds = super::time::upper_bounds::compute;
    /// Synchronizing calls by stage and place.
    sync: super::time::sync::Synchronization = super::time::sync::compute;
    /// GPUs and their peaks.
    environment: super::system::environment::Environment = super::system::environment::compute;
    /// States of GPUs at one moment.
    snapshot: super::system::snapshot::Snapshot = super::system::snapshot::compute;
    /// The host's side of captures without GPU work.
    host: super::system::host::HostWork = super::system::host::compute;
    /// Stages of all passes.
    stage_times: super::time::stage_times::StageTimes = super::time::stage_times::compute;
    /// Passes over time.
    timeline: super::time::timeline::Timeline = super::time::timeline::compute;
    /// Device memory: allocators, use, calls.
    allocator: super::memory::allocator::Allocator = super::memory::allocator::compute;
    /// CUDA graphs of all passes.
    graphs: super::time::graphs::Graphs = super::time::graphs::compute;
}
