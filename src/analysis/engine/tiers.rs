//! GPU time in three tiers: computing kernels, collectives, copies. A moment belongs to the first tier that runs in it.

use std::collections::BTreeMap;

use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::facts::{Facts, OpIndex};
use crate::analysis::engine::intervals::{Interval, difference, measure, union};
use crate::model::{GpuId, Ns, PassId, Session};

/// What kind of time an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Kernels that compute, and whole CUDA graphs.
    Compute,
    /// Collectives and peer communication.
    Communication,
    /// Copies and memsets.
    Copy,
}

/// When each tier of one GPU runs, as disjoint ascending intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuTiers {
    /// Computing kernels.
    pub compute: Vec<Interval>,
    /// Collectives.
    pub communication: Vec<Interval>,
    /// Computing kernels and collectives.
    pub kernels: Vec<Interval>,
    /// All operations.
    pub busy: Vec<Interval>,
}

/// Lengths of the parts of a window of time on one GPU or several, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Union of the computing kernels.
    pub compute: Ns,
    /// Union of the collectives.
    pub communication: Ns,
    /// The part of it in which no kernel of the GPU computes.
    pub communication_exposed: Ns,
    /// Union of the copies.
    pub copy: Ns,
    /// The part of it in which no kernel of the GPU runs.
    pub copy_exposed: Ns,
    /// Union of all of them.
    pub busy: Ns,
}

impl Tier {
    /// The tier of operations of a class.
    pub const fn of(class: KernelClass) -> Self {
        match class {
            KernelClass::Communication => Self::Communication,
            KernelClass::Copy => Self::Copy,
            _ => Self::Compute,
        }
    }
}

/// The tier of an operation.
pub fn tier(session: &Session, facts: &Facts, op: usize) -> Tier {
    Tier::of(facts.class(session, op))
}

/// The tiers of each GPU of a pass.
pub fn by_gpu(session: &Session, facts: &Facts, pass: PassId) -> BTreeMap<GpuId, GpuTiers> {
    let mut lists: BTreeMap<GpuId, [Vec<Interval>; 3]> = BTreeMap::new();
    for op in facts.ops_of(pass) {
        let list = lists.entry(facts.ops.gpu[op]).or_default();
        list[tier(session, facts, op) as usize].push((facts.ops.start[op], facts.ops.end[op]));
    }
    let tiers = |[mut compute, mut communication, mut copies]: [Vec<Interval>; 3]| {
        let (compute, communication) = (union(&mut compute), union(&mut communication));
        let kernels = union(&mut [&compute[..], &communication[..]].concat());
        let busy = union(&mut [&kernels[..], &union(&mut copies)[..]].concat());
        GpuTiers { compute, communication, kernels, busy }
    };
    lists.into_iter().map(|(gpu, lists)| (gpu, tiers(lists))).collect()
}

/// The intervals of a disjoint ascending list that reach into [start, end).
pub fn within(list: &[Interval], start: Ns, end: Ns) -> &[Interval] {
    let first = list.partition_point(|interval| interval.1 <= start);
    let last = first + list[first..].partition_point(|interval| interval.0 < end);
    &list[first..last]
}

/// The length of disjoint ascending `parts` that `cover` leaves free.
pub fn exposed(parts: &[Interval], cover: &[Interval]) -> Ns {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return 0 };
    measure(&difference(parts, within(cover, first.0, last.1)))
}

/// The parts of some operations, summed over GPUs. What hides communication and copies is every operation of
/// the GPU, whichever stage it belongs to.
pub fn parts(
    session: &Session,
    facts: &Facts,
    tiers: &BTreeMap<GpuId, GpuTiers>,
    ops: impl Iterator<Item = OpIndex>,
) -> Parts {
    let mut lists: BTreeMap<GpuId, [Vec<Interval>; 3]> = BTreeMap::new();
    for op in ops.map(|op| op as usize) {
        let list = lists.entry(facts.ops.gpu[op]).or_default();
        list[tier(session, facts, op) as usize].push((facts.ops.start[op], facts.ops.end[op]));
    }
    let mut sum = Parts::default();
    for (gpu, [mut compute, mut communication, mut copies]) in lists {
        let Some(gpu) = tiers.get(&gpu) else { continue };
        let (communication, copies) = (union(&mut communication), union(&mut copies));
        let compute = union(&mut compute);
        sum.compute = sum.compute.saturating_add(measure(&compute));
        sum.communication = sum.communication.saturating_add(measure(&communication));
        sum.communication_exposed =
            sum.communication_exposed.saturating_add(exposed(&communication, &gpu.compute));
        sum.copy = sum.copy.saturating_add(measure(&copies));
        sum.copy_exposed = sum.copy_exposed.saturating_add(exposed(&copies, &gpu.kernels));
        sum.busy = sum
            .busy
            .saturating_add(measure(&union(&mut [compute, communication, copies].concat())));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_is_what_the_cover_leaves_free() {
        // [0,10) and [20,40) against [5,25) and [30,32): 5 + (5 + 8).
        assert_eq!(exposed(&[(0, 10), (20, 40)], &[(-5, -1), (5, 25), (30, 32), (50, 60)]), 18);
        assert_eq!(exposed(&[], &[(0, 1)]), 0);
        assert_eq!(within(&[(0, 5), (5, 9), (9, 12)], 5, 9), [(5, 9)]);
    }
}
