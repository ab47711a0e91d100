//! Launches of one kernel with one grid and block, as one mark of a roofline.

use std::collections::BTreeMap;

use crate::Classifier;
use crate::counters::ncu::bound::{Bound, THRESHOLDS};
use crate::counters::ncu::flops::Flops;
use crate::counters::ncu::{KernelCounters, Level, Levels};
use rooflens_session::{Arrange, Dim3, StrId};

/// The launches of one kernel, grid and block in one pass; sums over them.
#[derive(Clone, Debug)]
pub struct Group {
    /// Kernel name for people.
    pub short: String,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Launches.
    pub launches: u64,
    /// Profiled time, seconds; absent if some launch has none.
    pub seconds: Option<f64>,
    /// Share of the pass's profiled time.
    pub share: f64,
    /// Operations, or why there is no number.
    pub flops: Result<f64, &'static str>,
    /// dtype of most operations.
    pub dtype: Option<&'static str>,
    /// Bytes moved at each level; absent where some launch has no number.
    pub bytes: Levels,
    /// Compute throughput, mean over time, percent.
    pub compute: Option<f64>,
    /// Highest memory throughput, mean over time, percent.
    pub memory: Option<f64>,
    /// Class of most of the time.
    pub bound: Bound,
}

/// The groups of a pass, the longest first.
pub(super) fn groups(kernels: &[&KernelCounters], rule: Classifier) -> Vec<Group> {
    let mut members = BTreeMap::<(StrId, Dim3, Dim3), Vec<&KernelCounters>>::new();
    for kernel in kernels {
        members
            .entry((kernel.name, kernel.grid, kernel.block))
            .or_default()
            .push(kernel);
    }
    let total: f64 = kernels.iter().filter_map(|kernel| kernel.seconds).sum();
    let group_of = |kernels: &Vec<&KernelCounters>| group(kernels, total, rule);
    let mut groups: Vec<Group> = members.values().filter_map(group_of).collect();
    // Equal times keep the order of the keys.
    groups.arrange_by(|a, b| b.share.total_cmp(&a.share));
    groups
}

fn group(kernels: &[&KernelCounters], total: f64, rule: Classifier) -> Option<Group> {
    let first = kernels.first()?;
    let sum = |value: &dyn Fn(&KernelCounters) -> Option<f64>| -> Option<f64> {
        kernels.iter().map(|kernel| value(kernel)).sum()
    };
    let seconds = sum(&|kernel| kernel.seconds);
    let over_time = |value: &dyn Fn(&KernelCounters) -> Option<f64>| {
        let weighted = sum(&|kernel| Some(value(kernel)? * kernel.seconds?))?;
        seconds
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| weighted / seconds)
    };
    Some(Group {
        short: first.identity.short.clone(),
        grid: first.grid,
        block: first.block,
        launches: kernels.len() as u64,
        seconds,
        share: if total > 0.0 {
            seconds.unwrap_or_default() / total
        } else {
            0.0
        },
        flops: kernels.iter().map(|kernel| counted(&kernel.flops)).sum(),
        dtype: main_dtype(kernels),
        bytes: Levels {
            dram: sum(&|kernel| kernel.bytes.dram),
            l2: sum(&|kernel| kernel.bytes.l2),
            l1: sum(&|kernel| kernel.bytes.l1),
        },
        compute: over_time(&|kernel| kernel.sol.compute),
        memory: over_time(&|kernel| Some(kernel.sol.memory.highest()?.1)),
        bound: main_bound(kernels, rule),
    })
}

fn counted(flops: &Flops) -> Result<f64, &'static str> {
    match flops {
        Flops::Counted(_) => Ok(flops.total().unwrap_or_default()),
        Flops::NotCounted(reason) => Err(reason),
    }
}

fn main_dtype(kernels: &[&KernelCounters]) -> Option<&'static str> {
    let parts = kernels.iter().filter_map(|kernel| kernel.flops.main());
    let most = parts.reduce(|best, next| if next.flops > best.flops { next } else { best });
    most.map(|part| part.dtype)
}

/// The class of most of the profiled time of these launches.
pub(super) fn main_bound(kernels: &[&KernelCounters], rule: Classifier) -> Bound {
    let mut times = BTreeMap::<Bound, f64>::new();
    for kernel in kernels {
        let bound = THRESHOLDS.classify(rule, kernel).bound;
        *times.entry(bound).or_default() += kernel.seconds.unwrap_or_default();
    }
    let most = times
        .into_iter()
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    most.map_or(Bound::Unknown, |(bound, _)| bound)
}

impl Group {
    /// Operations per second.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
        self.flops.ok().map(|flops| flops / seconds)
    }

    /// Operations per byte at a level.
    pub fn intensity(&self, level: Level) -> Option<f64> {
        let bytes = self.bytes.get(level).filter(|bytes| *bytes > 0.0)?;
        self.flops.ok().map(|flops| flops / bytes)
    }

    /// The mark in a roofline of a level: operations per byte and per second, or the key of why there is none.
    pub fn mark(&self, level: Level) -> Result<(f64, f64), &'static str> {
        if self.flops? == 0.0 {
            return Err("roofline.unplotted.no_flops");
        }
        let rate = self.rate().ok_or("roofline.unplotted.no_duration")?;
        let intensity = self.intensity(level).ok_or(match self.bytes.get(level) {
            Some(_) => "roofline.unplotted.no_traffic",
            None => "roofline.unplotted.no_bytes",
        })?;
        Ok((intensity, rate))
    }
}
