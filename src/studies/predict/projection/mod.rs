//! What a measured workload would take on another GPU, with another batch or dtype, or in CUDA graphs.
//!
//! [`measure::stages`] takes what a bundle holds (kernel times by group, sizes of GEMMs and attention, unprofiled
//! stage times, idle time by cause); [`project`] is a pure function of it and of a [`Change`]; [`show`] makes the pages.
//!
//! All times are nanoseconds per unit: a decode step where the stage has steps, else the stage. A stage takes
//!
//! ```text
//! T = max(GPU, host) + kept idle
//! GPU  = Σ kernels · overlap + gap · launches
//! host = launches at the host's measured rate; nothing if a CUDA graph launches them
//! ```
//!
//! The roofline of a kernel is b = max(FLOPs ÷ rate, bytes ÷ bandwidth). Its time t above the roofline is explained by
//! one of two hypotheses, which bound the prediction (Williams, Waterman, Patterson: Roofline, CACM 2009, for b):
//! *efficiency kept*, t′ = f + (t − f) · b′ ÷ b with f the shortest kernel, and *overhead kept*, t′ = t − b + b′.
//! Kernels without known sizes are bounded by how many waves of blocks they fill ([`kernel`]).

mod kernel;
pub mod measure;
pub mod show;
mod stage;
#[cfg(test)]
mod tests;

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_session::KernelId;

pub use stage::{Bound, Part, StageProjection, project};

/// A value that lies between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Estimate.
    pub mid: f64,
    /// Upper bound.
    pub high: f64,
}

/// What changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// New batch ÷ measured batch.
    pub batch: f64,
    /// New type of the operands of linear layers.
    pub dtype: Option<String>,
    /// Stages other than prefill are launched as CUDA graphs.
    pub graphs: bool,
    /// The GPU that was measured.
    pub from: Device,
    /// The GPU that is asked about.
    pub to: Device,
}

impl Change {
    /// Whether the GPU is another one.
    pub fn is_other_device(&self) -> bool {
        self.from.name != self.to.name
    }

    /// Whether kernels compute other sizes or types, so that libraries choose other kernels.
    pub fn is_other_work(&self) -> bool {
        self.batch != 1.0 || self.dtype.is_some()
    }
}

/// Ceilings of a GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Name of the table of GPUs.
    pub name: String,
    /// Memory bandwidth, bytes per second.
    pub bandwidth: f64,
    /// Dense operations per second by dtype.
    pub rates: Vec<(String, f64)>,
    /// Streaming multiprocessors.
    pub sms: f64,
    /// The ceilings are measured, at least one of them.
    pub measured: bool,
}

impl Device {
    /// Operations per second of a dtype.
    pub fn rate(&self, dtype: &str) -> Option<f64> {
        self.rates
            .iter()
            .find(|(name, _)| name == dtype)
            .map(|(_, rate)| *rate)
    }
}

/// Work of one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations.
    pub flops: f64,
    /// Bytes of weights, which do not depend on the batch.
    pub weights: f64,
    /// Bytes of the operands that grow with the batch: activations, keys and values.
    pub inputs: f64,
    /// Bytes of the output.
    pub outputs: f64,
    /// Type of which the GPU's rate counts.
    pub dtype: &'static str,
    /// Bytes of an element of the operands.
    pub element: f64,
    /// A product with weights, which another dtype changes.
    pub linear: bool,
}

/// Launches of one kernel with one grid that compute the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The kernel; absent for copies and whole graphs.
    pub kernel: Option<KernelId>,
    /// What it does.
    pub class: KernelClass,
    /// Launches per unit.
    pub launches: f64,
    /// Mean time of a launch.
    pub time: f64,
    /// Blocks over those that run at a time; absent if the artifact does not tell.
    pub waves: Option<f64>,
    /// The grid grows with the batch: a thread an element, or a block a row.
    pub grid_grows: bool,
    /// What a launch computes, if its sizes are known.
    pub work: Option<Work>,
}

/// A stage as it was measured.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Name, with the rank where several processes ran.
    pub name: String,
    /// Times are per decode step.
    pub per_step: bool,
    /// Graphs apply: not a prefill, of which the sizes change from call to call.
    pub static_shapes: bool,
    /// Time of a unit: first quartile, median and third quartile of the repeats.
    pub time: Interval,
    /// The time was taken while a profiler ran.
    pub profiled: bool,
    /// Union of kernel times: the same of the instances.
    pub busy: Interval,
    /// Σ of the kernel times, at least `busy`.
    pub sum: f64,
    /// Operations that are launched.
    pub launches: f64,
    /// A CUDA graph launches most of them.
    pub graph: bool,
    /// Time of the host for one launch where the host sets the pace: of another stage if this one is GPU-bound.
    pub host_launch: Option<f64>,
    /// Duration of the stage on the host of the profiled run.
    pub host_range: f64,
    /// Idle time that neither launches nor kernels explain, by the label of its cause.
    pub kept: Vec<(&'static str, f64)>,
    /// Groups of launches.
    pub kernels: Vec<Kernel>,
}

impl Interval {
    /// A value that is known.
    pub const fn exact(value: f64) -> Self {
        Self {
            low: value,
            mid: value,
            high: value,
        }
    }

    /// The interval of two bounds in any order, the estimate in their middle.
    pub fn between(from: f64, to: f64) -> Self {
        Self {
            low: from.min(to),
            mid: (from + to) / 2.0,
            high: from.max(to),
        }
    }

    /// Both bounds and the estimate by a function that grows with each argument.
    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            low: f(self.low, other.low),
            mid: f(self.mid, other.mid),
            high: f(self.high, other.high),
        }
    }

    /// Sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    /// Product of both, of values that are not negative.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    /// Sum of values whose errors are independent: what they deviate from their estimates adds in squares.
    pub fn sum_of_independent(intervals: impl IntoIterator<Item = Self>) -> Self {
        let (mut mid, mut below, mut above) = (0.0, 0.0, 0.0);
        for interval in intervals {
            mid += interval.mid;
            below = libm::hypot(below, interval.mid - interval.low);
            above = libm::hypot(above, interval.high - interval.mid);
        }
        Self {
            low: mid - below,
            mid,
            high: mid + above,
        }
    }

    /// The greater of both.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.zip(other, f64::max)
    }

    /// Multiplied by a factor that is not negative.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        self.times(Self::exact(factor))
    }

    /// The same with a further error of a factor either way, independent of what spreads it already: relative errors
    /// add in squares of their logarithms.
    #[must_use]
    pub fn with_error(self, factor: f64) -> Self {
        if self.low <= 0.0 {
            return Self {
                low: 0.0,
                high: self.high * factor,
                ..self
            };
        }
        let combined = |ratio: f64| libm::exp(libm::hypot(libm::log(ratio), libm::log(factor)));
        Self {
            low: self.mid / combined(self.mid / self.low),
            mid: self.mid,
            high: self.mid * combined(self.high / self.mid),
        }
    }
}
