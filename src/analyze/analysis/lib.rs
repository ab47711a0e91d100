//! Results from tables: pure functions without I/O, clock or environment.
//!
//! This file is the index of the crate: the modules by group, each group with its design, and the results in the order
//! of their computation. A result adds one line to both lists. A group uses only the groups before it.

#![forbid(unsafe_code)]

#[macro_use]
pub mod results;

mod context;
#[doc(hidden)]
#[allow(clippy::unwrap_used)]
pub mod testing;

pub use context::{Classifier, Context, Options};
pub use engine::facts::Facts;
pub use results::{Known, Missing};

/// What several analyses share: operations with their stages, classes, statistics, interval arithmetic.
///
/// Several results need the same derived tables: operations with stages, ranks, medians of instances. This group
/// computes each of them in one place.
///
/// A moment with several operations belongs to one of them, so that parts add up to busy time. The sum of durations was
/// rejected as busy time, because it counts overlap twice. Passes are joined by name and never by time, because each
/// profiler disturbs the run differently.
pub mod engine {
    pub mod align;
    pub mod baseline;
    pub mod command;
    pub mod facts;
    pub mod kernel_names;
    pub mod measured_peaks;
    pub mod moments;
    pub mod nesting;
    pub mod platform;
    mod ranks;
    pub mod segments;
    pub mod sm_clock;
    pub mod spans;
    pub mod stage_stats;
    pub mod sweep;
    pub mod tiers;

    pub use rooflens_stages::{attribution, classify, intervals, repeats, stage_names, stages};
}

/// Kernels of the timeline: sums, names, GEMMs, attention, FLOPs by operator.
///
/// A timeline has names, grids and times of kernels, but no sizes of GEMMs. Sizes come from operators or logs, through
/// the same stage of the pass that recorded them.
///
/// Joining passes by time was rejected: profilers disturb runs in different ways. If several positions fit, they must
/// agree; otherwise the kernel has no sizes. A GEMM faster than its roofline has no headroom, and never a negative one.
pub mod kernels {
    pub mod attention;
    pub mod gemm;
    pub mod kernel_matching;
    pub mod kernel_sums;
    pub mod matmul;
    pub mod operator_flops;
    pub mod stage_work;
}

/// Operators, modules and Python functions of the PyTorch profiler.
///
/// The CPU enters operators, modules and Python functions; the GPU works later. A GPU operation belongs to the
/// innermost span around the start of the CUDA call that issued it.
///
/// The position of GPU work in time was rejected as the criterion, because launches are asynchronous. Without links
/// from work to calls, device times of callers are unknown, not 0. Spans of equal folded path are one node, so that
/// layers of a model add up.
pub mod operators {
    pub mod backward;
    pub mod call_tree;
    pub mod calls;
    pub mod chains;
    pub mod first_calls;
    pub mod modules;
    mod pass_work;
    pub mod python;

    pub use pass_work::PassWork;
}

/// Memory transfers and the allocator.
///
/// Transfers matter as far as no kernel hides them, and the allocator matters at its peak. Sums of bytes alone show
/// neither.
///
/// Values that an artifact does not state are missing, never 0.
pub mod memory {
    pub mod allocator;
    pub mod transfers;
}

/// Environment, clocks, power.
///
/// Facts of a machine and samples of its GPUs explain times, and they are not times themselves. Samples have UTC times,
/// and a pass has a clock with its own zero.
///
/// A sample belongs to a stage only if the pass states its UTC origin and the sample falls within the projection.
/// Otherwise the figures cover the sampled period, and the report says so.
pub mod system {
    pub mod environment;
    pub mod host;
    pub mod power;
    pub mod snapshot;
}

/// Kernels profiled by Nsight Compute: bounds, rooflines, details, representativeness.
///
/// Nsight Compute replays a kernel under its own clock and cache control. Its durations weight counters, and they never
/// time the workload.
///
/// A launch of the timeline takes counters from profiled launches of the same kernel, grid and block. Scaling by blocks
/// is the last resort. It was rejected for GEMMs, attention and convolutions, because their grid does not contain their
/// depth. A launch without a partner has no counters, and a launch without counted FLOPs is never drawn at 0.
pub mod counters {
    pub mod details;
    pub mod limits;
    pub mod ncu;
    pub mod ncu_kernels;
    pub mod represent;
    pub mod roofline;
}

/// Work against peaks: MFU, MBU, FLOPs by source.
///
/// Utilization divides counted work by a peak and a time, and each of the three may be unknown. A figure without its
/// input is unavailable, with the reason.
///
/// Guessing the peak of a GPU without an entry was rejected. A figure above 100 % is an error of the input (peak, shape
/// or window), so it is no number. FLOPs of several sources stay side by side.
pub mod utilization {
    pub mod flops_by_source;
    pub mod mfu;
    mod unavailable;

    pub use unavailable::Unavailable;
}

pub mod communication;

/// Where the time of stages goes.
///
/// A stage ends on the GPU later than its range closes on the CPU, because launches are asynchronous. The time of a
/// stage is therefore the projection of its GPU operations. The CPU range was rejected as the stage time.
///
/// Busy time, gaps and other work add up to the projection, to the nanosecond. Each nanosecond of a gap has one cause.
/// Upper bounds of gains overlap, so they are sorted and never added up.
pub mod time {
    pub mod account;
    pub mod critical_path;
    pub mod drift;
    pub mod graphs;
    pub mod idle;
    pub mod overlap;
    pub mod stage_times;
    pub mod sync;
    pub mod timeline;
    pub mod upper_bounds;
}

results! {
    /// Timed repeats of whole stages, unprofiled or not.
    baseline: engine::baseline::Baseline = engine::baseline::compute;
    /// Runs of the whole command, unprofiled or not.
    command: engine::command::Command = engine::command::compute;
    /// Kernel names of all passes and their partners in the primary pass.
    kernel_matching: kernels::kernel_matching::KernelMatching = kernels::kernel_matching::compute;
    /// Power and clocks by device and stage.
    power: system::power::Power = system::power::compute;
    /// What matrix kernels compute.
    matmul: kernels::matmul::Products = kernels::matmul::compute;
    /// Measured peaks that GEMMs of the bundle exceed.
    beaten: Vec<kernels::matmul::beaten::Beaten> = kernels::matmul::beaten::compute;
    /// GPU operations of each stage by class and kernel.
    stage_work: Vec<kernels::stage_work::StageWork> = kernels::stage_work::compute;
    /// GEMMs by stage.
    gemm: Vec<kernels::matmul::stages::StageProducts> = kernels::gemm::compute;
    /// GEMMs that loops launch, by stage.
    repeated_gemms: Vec<kernels::gemm::repeated::RepeatedGemms> = kernels::gemm::repeated::compute;
    /// GEMMs of logs by size.
    gemm_log: Vec<kernels::gemm::LoggedGemm> = kernels::gemm::logged;
    /// Attention by stage.
    attention: Vec<kernels::matmul::stages::StageProducts> = kernels::attention::compute;
    /// Kernels of each pass.
    kernels: Vec<kernels::kernel_sums::PassKernels> = kernels::kernel_sums::compute;
    /// Counters of the profiled launches.
    counters: counters::ncu::Counters = counters::ncu::compute;
    /// The launches of the timeline that the profiled ones represent.
    matching: counters::represent::matching::Matching = counters::represent::matching::compute;
    /// Profiled launches against the timeline.
    represent: counters::represent::Representativeness = counters::represent::compute;
    /// Profiled launches against kernel sums of a run without a timeline.
    summed: counters::represent::summed::Summed = counters::represent::summed::compute;
    /// Executed operations and bytes of the stages of the timeline.
    workload: counters::roofline::workload::Workload = counters::roofline::workload::compute;
    /// Rooflines of the profiled kernels by pass.
    rooflines: Vec<counters::roofline::PassRoofline> = counters::roofline::compute;
    /// Bound classes of the profiled kernels by pass.
    ncu_kernels: Vec<counters::ncu_kernels::PassBounds> = counters::ncu_kernels::compute;
    /// Figures of the profiled kernels.
    details: counters::details::Details = counters::details::compute;
    /// The least time of the kernels of each stage, and their faults.
    limits: counters::limits::Limits = counters::limits::compute;
    /// Streams and kinds of operations that run at once.
    overlap: time::overlap::Overlaps = time::overlap::compute;
    /// Times of repeated stages over the run.
    drift: time::drift::Drift = time::drift::compute;
    /// Idle time by cause, launches and queue, by stage, and idle time between stages.
    idle: time::idle::IdleTime = time::idle::compute;
    /// Collectives, their matching across ranks, and stragglers.
    communication: communication::Communication = communication::compute;
    /// The critical path of one step.
    critical_path: time::critical_path::CriticalPath = time::critical_path::compute;
    /// MFU and MBU of each stage.
    utilization: utilization::mfu::Utilization = utilization::mfu::compute;
    /// FLOPs of each stage by source.
    flops: Vec<utilization::flops_by_source::StageFlops> = utilization::flops_by_source::compute;
    /// GPU work of the backward pass by the operators of the forward pass.
    backward: operators::backward::Backward = operators::backward::compute;
    /// How operators nest.
    spans: operators::call_tree::Spans = operators::call_tree::operators;
    /// Operators of PyTorch traces.
    operators: operators::calls::Operators = operators::calls::compute;
    /// Kernels that waste time together.
    chains: operators::chains::Chains = operators::chains::compute;
    /// Functions of Python.
    python: operators::python::Python = operators::python::compute;
    /// Stages by range and module.
    modules: operators::modules::Modules = operators::modules::compute;
    /// Memory transfers by pass and stage.
    transfers: memory::transfers::Transfers = memory::transfers::compute;
    /// Upper bounds of gains by stage.
    upper_bounds: time::upper_bounds::UpperBounds = time::upper_bounds::compute;
    /// Synchronizing calls by stage and place.
    sync: time::sync::Synchronization = time::sync::compute;
    /// GPUs and their peaks.
    environment: system::environment::Environment = system::environment::compute;
    /// States of GPUs at one moment.
    snapshot: system::snapshot::Snapshot = system::snapshot::compute;
    /// The host's side of captures without GPU work.
    host: system::host::HostWork = system::host::compute;
    /// Stages of all passes.
    stage_times: time::stage_times::StageTimes = time::stage_times::compute;
    /// Passes over time.
    timeline: time::timeline::Timeline = time::timeline::compute;
    /// Device memory: allocators, use, calls.
    allocator: memory::allocator::Allocator = memory::allocator::compute;
    /// CUDA graphs of all passes.
    graphs: time::graphs::Graphs = time::graphs::compute;
}
