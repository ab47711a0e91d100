//! Launches of one kernel with one grid and block, as one mark of a roofline.

use std::collections::BTreeMap;

use crate::analysis::Classifier;
use crate::analysis::counters::ncu::bound::{Bound, THRESHOLDS};
use crate::analysis::counters::ncu::flops::Flops;
use crate::analysis::counters::ncu::{KernelCounters, Level, Levels};
use crate::findings::chart::Point;
use crate::model::{Dim3, Session, StrId};

/// The launches of one kernel, grid and block in one pass; sums over them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Kernel name for people.
    pub(super) short: String,
    /// Blocks in the grid.
    pub(super) grid: Dim3,
    /// Threads in a block.
    pub(super) block: Dim3,
    /// Launches.
    pub(super) launches: u64,
    /// Profiled time, seconds; absent if some launch has none.
    pub(super) seconds: Option<f64>,
    /// Share of the pass's profiled time.
    pub(super) share: f64,
    /// Operations, or why there is no number.
    pub(super) flops: Result<f64, &'static str>,
    /// dtype of most operations.
    pub(super) dtype: Option<&'static str>,
    /// Bytes moved at each level; absent where some launch has no number.
    pub(super) bytes: Levels,
    /// Compute throughput, mean over time, percent.
    pub(super) compute: Option<f64>,
    /// Highest memory throughput, mean over time, percent.
    pub(super) memory: Option<f64>,
    /// Class of most of the time.
    pub(super) bound: Bound,
}

type Key = (StrId, [u32; 3], [u32; 3]);

/// The groups of a pass, the longest first.
pub(super) fn groups(
    session: &Session,
    kernels: &[KernelCounters],
    rule: Classifier,
) -> Vec<Group> {
    let mut members = BTreeMap::<Key, Vec<&KernelCounters>>::new();
    for kernel in kernels {
        let profile = session.kernel_profiles.row(kernel.profile);
        let extent = |e: Dim3| [e.x, e.y, e.z];
        let key = (profile.name, extent(profile.grid), extent(profile.block));
        members.entry(key).or_default().push(kernel);
    }
    let total: f64 = kernels.iter().filter_map(|kernel| kernel.seconds).sum();
    let one =
        |(key, kernels): (Key, Vec<&KernelCounters>)| (key, group(&key, &kernels, total, rule));
    let mut groups: Vec<(Key, Group)> = members.into_iter().map(one).collect();
    // Equal times keep the order of the keys.
    groups.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    groups.into_iter().map(|(_, group)| group).collect()
}

fn group(key: &Key, kernels: &[&KernelCounters], total: f64, rule: Classifier) -> Group {
    let sum = |value: &dyn Fn(&KernelCounters) -> Option<f64>| -> Option<f64> {
        kernels.iter().map(|kernel| value(kernel)).sum()
    };
    let seconds = sum(&|kernel| kernel.seconds);
    let over_time = |value: &dyn Fn(&KernelCounters) -> Option<f64>| {
        let weighted = sum(&|kernel| Some(value(kernel)? * kernel.seconds?))?;
        seconds.filter(|seconds| *seconds > 0.0).map(|seconds| weighted / seconds)
    };
    let extent = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
    Group {
        short: kernels.first().map_or_else(String::new, |kernel| kernel.identity.short.clone()),
        grid: extent(key.1),
        block: extent(key.2),
        launches: kernels.len() as u64,
        seconds,
        share: if total > 0.0 { seconds.unwrap_or_default() / total } else { 0.0 },
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
    }
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

fn main_bound(kernels: &[&KernelCounters], rule: Classifier) -> Bound {
    let mut times = BTreeMap::<Bound, f64>::new();
    for kernel in kernels {
        let bound = THRESHOLDS.classify(rule, kernel).bound;
        *times.entry(bound).or_default() += kernel.seconds.unwrap_or_default();
    }
    let most = times.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    most.map_or(Bound::Unknown, |(bound, _)| bound)
}

impl Group {
    /// Operations per second.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
        self.flops.ok().map(|flops| flops / seconds)
    }

    /// Operations per byte at a level.
    pub(super) fn intensity(&self, level: Level) -> Option<f64> {
        let bytes = self.bytes.get(level).filter(|bytes| *bytes > 0.0)?;
        self.flops.ok().map(|flops| flops / bytes)
    }

    /// The mark in a roofline of a level, or why there is none.
    pub(super) fn point(&self, level: Level) -> Result<Point, &'static str> {
        if self.flops? == 0.0 {
            return Err("no floating-point operation was counted");
        }
        let y = self.rate().ok_or("no duration")?;
        let x = self.intensity(level).ok_or(match self.bytes.get(level) {
            Some(_) => "no byte was moved at this level",
            None => "bytes were not counted at this level",
        })?;
        Ok(self.mark(x, y))
    }

    /// The mark in the plot of speed-of-light figures.
    pub(super) fn sol_point(&self) -> Option<Point> {
        Some(self.mark(self.memory?.min(100.0), self.compute?.min(100.0)))
    }

    fn mark(&self, x: f64, y: f64) -> Point {
        Point { label: self.short.clone(), x, y, weight: self.share, color: self.bound.color() }
    }
}
