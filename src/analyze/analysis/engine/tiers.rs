//! GPU time in three tiers: computing kernels, collectives, copies. A moment belongs to the first tier that runs in it.

use std::collections::BTreeMap;

use crate::engine::classify::KernelClass;
use crate::engine::facts::{Facts, OpIndex};
use crate::engine::intervals::{Interval, add, difference, measure};
use crate::engine::sweep::{Slice, append, slices};
use rooflens_session::{GpuId, Ns, PassId, Session};

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
    /// Copies and memsets.
    pub copy: Vec<Interval>,
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
    of_ops(session, facts, facts.ops_of(pass))
}

/// The tiers of some operations by GPU; the operations ascend by start.
fn of_ops(
    session: &Session,
    facts: &Facts,
    ops: impl Iterator<Item = usize>,
) -> BTreeMap<GpuId, GpuTiers> {
    let mut lists: BTreeMap<GpuId, Vec<(Interval, usize)>> = BTreeMap::new();
    for op in ops {
        let time = (facts.ops.start[op], facts.ops.end[op]);
        let kind = tier(session, facts, op) as usize;
        lists
            .entry(facts.ops.gpu[op])
            .or_default()
            .push((time, kind));
    }
    lists
        .into_iter()
        .map(|(gpu, ops)| (gpu, GpuTiers::of(slices(ops))))
        .collect()
}

impl GpuTiers {
    fn of(slices: impl Iterator<Item = Slice<3>>) -> Self {
        let mut tiers = Self::default();
        for slice in slices {
            let [compute, communication, copy] = slice.running.map(|count| count > 0);
            let lists = [
                (compute, &mut tiers.compute),
                (communication, &mut tiers.communication),
                (copy, &mut tiers.copy),
                (compute || communication, &mut tiers.kernels),
                (true, &mut tiers.busy),
            ];
            for (_, list) in lists.into_iter().filter(|(runs, _)| *runs) {
                append(list, (slice.start, slice.end));
            }
        }
        tiers
    }
}

/// The intervals of a disjoint ascending list that reach into [start, end).
pub fn within(list: &[Interval], start: Ns, end: Ns) -> &[Interval] {
    let first = list.partition_point(|interval| interval.1 <= start);
    let last = first + list[first..].partition_point(|interval| interval.0 < end);
    &list[first..last]
}

/// The length of disjoint ascending `parts` that `cover` leaves free.
pub fn exposed(parts: &[Interval], cover: &[Interval]) -> Ns {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return Ns::ZERO;
    };
    measure(&difference(parts, within(cover, first.0, last.1)))
}

/// The parts of some operations, which ascend by start, summed over GPUs. What hides communication and copies is
/// every operation of the GPU, whichever stage it belongs to.
pub fn parts(
    session: &Session,
    facts: &Facts,
    tiers: &BTreeMap<GpuId, GpuTiers>,
    ops: impl Iterator<Item = OpIndex>,
) -> Parts {
    let mut sum = Parts::default();
    for (gpu, own) in of_ops(session, facts, ops.map(|op| op as usize)) {
        let Some(all) = tiers.get(&gpu) else { continue };
        for (part, time) in [
            (&mut sum.compute, measure(&own.compute)),
            (&mut sum.communication, measure(&own.communication)),
            (
                &mut sum.communication_exposed,
                exposed(&own.communication, &all.compute),
            ),
            (&mut sum.copy, measure(&own.copy)),
            (&mut sum.copy_exposed, exposed(&own.copy, &all.kernels)),
            (&mut sum.busy, measure(&own.busy)),
        ] {
            add(part, time);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::intervals;

    #[test]
    fn exposed_is_what_the_cover_leaves_free() {
        // [0,10) and [20,40) against [5,25) and [30,32): 5 + (5 + 8).
        assert_eq!(
            exposed(
                &intervals([(0, 10), (20, 40)]),
                &intervals([(-5, -1), (5, 25), (30, 32), (50, 60)])
            ),
            Ns(18)
        );
        assert_eq!(exposed(&[], &[(Ns::ZERO, Ns(1))]), Ns::ZERO);
        assert_eq!(
            within(&intervals([(0, 5), (5, 9), (9, 12)]), Ns(5), Ns(9)),
            intervals([(5, 9)])
        );
    }
}
