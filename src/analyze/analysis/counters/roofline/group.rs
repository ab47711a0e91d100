//! Launches of one kernel with one grid and block, as one mark of a roofline.

use std::collections::BTreeMap;

use crate::Classifier;
use crate::counters::ncu::bound::{Bound, Reason, THRESHOLDS};
use crate::counters::ncu::flops::FlopCount;
use crate::counters::ncu::{KernelCounters, Level, Levels};
use rooflens_session::{Arrange, Dim3, StrId};
use rooflens_units::{Bytes, Flops, FlopsPerByte, FlopsPerSecond, Percent, Ratio, Seconds};

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
    /// Profiled time; absent if some launch has none.
    pub seconds: Option<Seconds>,
    /// Share of the pass's profiled time.
    pub share: Ratio,
    /// Operations, or why there is no number.
    pub flops: Result<Flops, &'static str>,
    /// dtype of most operations.
    pub dtype: Option<&'static str>,
    /// Bytes moved at each level; absent where some launch has no number.
    pub bytes: Levels<Bytes>,
    /// Compute throughput, mean over time.
    pub compute: Option<Percent>,
    /// ncu's memory throughput, else that of the highest level, mean over time.
    pub memory: Option<Percent>,
    /// Class of most of the time.
    pub bound: Bound,
    /// Why its longest launch of that class is in it; none where the class says it all.
    pub reason: Option<Reason>,
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
    let total: Seconds = kernels.iter().filter_map(|kernel| kernel.seconds).sum();
    let group_of = |kernels: &Vec<&KernelCounters>| group(kernels, total, rule);
    let mut groups: Vec<Group> = members.values().filter_map(group_of).collect();
    // Equal times keep the order of the keys.
    groups.arrange_by(|a, b| b.share.total_cmp(&a.share));
    groups
}

fn group(kernels: &[&KernelCounters], total: Seconds, rule: Classifier) -> Option<Group> {
    let first = kernels.first()?;
    let bytes =
        |level| -> Option<Bytes> { kernels.iter().map(|kernel| kernel.bytes.get(level)).sum() };
    let seconds: Option<Seconds> = kernels.iter().map(|kernel| kernel.seconds).sum();
    let over_time = |value: &dyn Fn(&KernelCounters) -> Option<Percent>| {
        let weighted: Option<Seconds> = kernels
            .iter()
            .map(|kernel| Some(kernel.seconds? * value(kernel)?.0))
            .sum();
        let seconds = seconds.filter(Seconds::is_positive)?;
        Some(Percent(weighted? / seconds))
    };
    let bound = main_bound(kernels, rule);
    let verdicts = kernels
        .iter()
        .map(|kernel| (kernel.seconds, THRESHOLDS.classify(rule, kernel)));
    let of_bound = verdicts.filter(|(_, verdict)| verdict.bound == bound);
    let longest = of_bound.reduce(|best, next| if next.0 > best.0 { next } else { best });
    Some(Group {
        short: first.identity.short.clone(),
        grid: first.grid,
        block: first.block,
        launches: kernels.len() as u64,
        seconds,
        share: if total.is_positive() {
            Ratio(seconds.unwrap_or_default() / total)
        } else {
            Ratio::ZERO
        },
        flops: kernels.iter().map(|kernel| counted(&kernel.flops)).sum(),
        dtype: main_dtype(kernels),
        bytes: Levels {
            dram: bytes(Level::Dram),
            l2: bytes(Level::L2),
            l1: bytes(Level::L1),
        },
        compute: over_time(&|kernel| kernel.sol.compute),
        memory: over_time(&|kernel| {
            let highest = kernel.sol.memory.highest().map(|(_, highest)| highest);
            kernel.sol.memory_throughput.or(highest)
        }),
        bound,
        reason: longest.and_then(|(_, verdict)| verdict.reason),
    })
}

fn counted(flops: &FlopCount) -> Result<Flops, &'static str> {
    match flops {
        FlopCount::Counted(_) => Ok(flops.total().unwrap_or_default()),
        FlopCount::NotCounted(reason) => Err(reason),
    }
}

fn main_dtype(kernels: &[&KernelCounters]) -> Option<&'static str> {
    let parts = kernels.iter().filter_map(|kernel| kernel.flops.main());
    let most = parts.reduce(|best, next| if next.flops > best.flops { next } else { best });
    most.map(|part| part.dtype)
}

/// The class of most of the profiled time of these launches.
pub(super) fn main_bound(kernels: &[&KernelCounters], rule: Classifier) -> Bound {
    let mut times = BTreeMap::<Bound, Seconds>::new();
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
    pub fn rate(&self) -> Option<FlopsPerSecond> {
        let seconds = self.seconds.filter(Seconds::is_positive)?;
        self.flops.ok().map(|flops| flops / seconds)
    }

    /// Operations per byte at a level.
    pub fn intensity(&self, level: Level) -> Option<FlopsPerByte> {
        let bytes = self.bytes.get(level).filter(Bytes::is_positive)?;
        self.flops.ok().map(|flops| flops / bytes)
    }

    /// The mark in a roofline of a level: operations per byte and per second, or the key of why there is none.
    pub fn mark(&self, level: Level) -> Result<(FlopsPerByte, FlopsPerSecond), &'static str> {
        if self.flops? == Flops::ZERO {
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
