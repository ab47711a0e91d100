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

use std::ops::{Add, Mul};

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_session::KernelId;
use rooflens_units::{Bytes, BytesPerSecond, Count, Flops, FlopsPerSecond, Ratio, Time};

pub use stage::{Bound, Part, StageProjection, project};

/// A time, or another measure, that lies between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval<M = Time> {
    /// Lower bound.
    pub low: M,
    /// Estimate.
    pub mid: M,
    /// Upper bound.
    pub high: M,
}

/// What changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// New batch ÷ measured batch.
    pub batch: Ratio,
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
        self.batch != Ratio::ONE || self.dtype.is_some()
    }
}

/// Ceilings of a GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Name of the table of GPUs.
    pub name: String,
    /// Memory bandwidth.
    pub bandwidth: BytesPerSecond,
    /// Dense operations per second by dtype.
    pub rates: Vec<(String, FlopsPerSecond)>,
    /// Streaming multiprocessors.
    pub sms: Count,
    /// The ceilings are measured, at least one of them.
    pub measured: bool,
}

impl Device {
    /// Operations per second of a dtype.
    pub fn rate(&self, dtype: &str) -> Option<FlopsPerSecond> {
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
    pub flops: Flops,
    /// Bytes of weights, which do not depend on the batch.
    pub weights: Bytes,
    /// Bytes of the operands that grow with the batch: activations, keys and values.
    pub inputs: Bytes,
    /// Bytes of the output.
    pub outputs: Bytes,
    /// Type of which the GPU's rate counts.
    pub dtype: &'static str,
    /// Bytes of an element of the operands.
    pub element: Bytes,
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
    pub launches: Count,
    /// Mean time of a launch.
    pub time: Time,
    /// Blocks over those that run at a time; absent if the artifact does not tell.
    pub waves: Option<Ratio>,
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
    pub sum: Time,
    /// Operations that are launched.
    pub launches: Count,
    /// A CUDA graph launches most of them.
    pub graph: bool,
    /// Time of the host for one launch where the host sets the pace: of another stage if this one is GPU-bound.
    pub host_launch: Option<Time>,
    /// Duration of the stage on the host of the profiled run.
    pub host_range: Time,
    /// Idle time that neither launches nor kernels explain, by the label of its cause.
    pub kept: Vec<(&'static str, Time)>,
    /// Groups of launches.
    pub kernels: Vec<Kernel>,
}

impl<M: Copy> Interval<M> {
    /// A value by its lower bound, its estimate and its upper bound.
    pub const fn new(low: M, mid: M, high: M) -> Self {
        Self { low, mid, high }
    }

    /// A value that is known.
    pub const fn exact(value: M) -> Self {
        Self::new(value, value, value)
    }

    /// Sum of both.
    #[must_use]
    pub fn plus(self, more: Self) -> Self
    where
        M: Add<Output = M>,
    {
        Self {
            low: self.low + more.low,
            mid: self.mid + more.mid,
            high: self.high + more.high,
        }
    }

    /// Product of both, of values that are not negative.
    #[must_use]
    pub fn times<F>(self, factor: Interval<F>) -> Self
    where
        M: Mul<F, Output = M>,
    {
        Self {
            low: self.low * factor.low,
            mid: self.mid * factor.mid,
            high: self.high * factor.high,
        }
    }

    /// Multiplied by a factor that is not negative.
    #[must_use]
    pub fn scale<F: Copy>(self, factor: F) -> Self
    where
        M: Mul<F, Output = M>,
    {
        self.times(Interval::exact(factor))
    }
}

impl Interval {
    /// The interval of two bounds in any order, the estimate in their middle.
    pub fn between(from: Time, to: Time) -> Self {
        Self::new(from.min(to), (from + to) / 2.0, from.max(to))
    }

    /// Sum of times whose errors are independent: what they deviate from their estimates adds in squares.
    pub fn sum_of_independent(intervals: impl IntoIterator<Item = Self>) -> Self {
        let (mut mid, mut below, mut above) = (Time::ZERO, Time::ZERO, Time::ZERO);
        for interval in intervals {
            mid += interval.mid;
            below = Time(libm::hypot(below.0, (interval.mid - interval.low).0));
            above = Time(libm::hypot(above.0, (interval.high - interval.mid).0));
        }
        Self::new(mid - below, mid, mid + above)
    }

    /// The greater of both.
    #[must_use]
    pub fn max(self, bound: Self) -> Self {
        Self {
            low: self.low.max(bound.low),
            mid: self.mid.max(bound.mid),
            high: self.high.max(bound.high),
        }
    }

    /// The same with a further error of a factor either way, independent of what spreads it already: relative errors
    /// add in squares of their logarithms.
    #[must_use]
    pub fn with_error(self, factor: Ratio) -> Self {
        if self.low <= Time::ZERO {
            return Self {
                low: Time::ZERO,
                high: self.high * factor,
                ..self
            };
        }
        let below = Ratio::of(self.mid, self.low);
        let above = Ratio::of(self.high, self.mid);
        Self {
            low: self.mid / combined_error(below, factor).0,
            mid: self.mid,
            high: self.mid * combined_error(above, factor),
        }
    }
}

/// The factor of two independent errors: their logarithms add in squares.
fn combined_error(first: Ratio, second: Ratio) -> Ratio {
    Ratio(libm::exp(libm::hypot(
        libm::log(first.0),
        libm::log(second.0),
    )))
}
