//! What runs at once on a GPU: one sweep over the starts and ends of its operations.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::ops::Range;

use crate::engine::facts::{Facts, OpIndex};
use crate::engine::intervals::{Interval, total};
use crate::engine::tiers::{Tier, tier};
use rooflens_session::{GpuId, Ns, Session};

/// A stretch of time in which the same operations run, at least one; of `N` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice<const N: usize> {
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds; after the start.
    pub end: Ns,
    /// How many operations of each kind run.
    pub running: [u32; N],
}

impl<const N: usize> Slice<N> {
    /// The first kind of which an operation runs.
    pub fn first(&self) -> usize {
        self.running
            .iter()
            .position(|count| *count > 0)
            .unwrap_or(N)
    }

    /// Operations that run.
    pub fn operations(&self) -> u32 {
        self.running.iter().sum()
    }
}

/// The slices of operations, each with the number of its kind, below `N`. They ascend by start; those without a
/// duration count for nothing. O(n log k) where k run at once.
pub fn slices<const N: usize>(
    ops: impl IntoIterator<Item = (Interval, usize)>,
) -> impl Iterator<Item = Slice<N>> {
    Slices {
        starts: ops.into_iter().peekable(),
        ends: BinaryHeap::new(),
        running: [0; N],
        at: Ns::ZERO,
    }
}

struct Slices<I: Iterator, const N: usize> {
    starts: Peekable<I>,
    /// End and kind of what runs.
    ends: BinaryHeap<Reverse<(Ns, usize)>>,
    running: [u32; N],
    at: Ns,
}

impl<I: Iterator<Item = (Interval, usize)>, const N: usize> Iterator for Slices<I, N> {
    type Item = Slice<N>;

    fn next(&mut self) -> Option<Slice<N>> {
        loop {
            while let Some(Reverse((end, kind))) = self.ends.peek().copied()
                && end <= self.at
            {
                self.running[kind] -= 1;
                self.ends.pop();
            }
            if self.ends.is_empty() {
                self.at = self.starts.peek()?.0.0;
            }
            let begin = self.at;
            while let Some(((_, end), kind)) = self.starts.next_if(|(time, _)| time.0 <= begin) {
                if end > begin {
                    self.running[kind] += 1;
                    self.ends.push(Reverse((end, kind)));
                }
            }
            let Some(Reverse((end, _))) = self.ends.peek().copied() else {
                continue;
            };
            self.at = self.starts.peek().map_or(end, |(time, _)| time.0.min(end));
            return Some(Slice {
                start: begin,
                end: self.at,
                running: self.running,
            });
        }
    }
}

/// Adds a stretch to disjoint intervals that end before it, or where it starts.
pub fn append(intervals: &mut Vec<Interval>, (start, end): Interval) {
    match intervals.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => intervals.push((start, end)),
    }
}

/// How long something holds, nanoseconds.
pub fn length<const N: usize>(
    slices: impl Iterator<Item = Slice<N>>,
    holds: impl Fn(&Slice<N>) -> bool,
) -> Ns {
    total(
        slices
            .filter(|slice| holds(slice))
            .map(|slice| slice.end - slice.start),
    )
}

/// A time without any operation on a GPU, between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// GPU.
    pub gpu: GpuId,
    /// End of the last operation before it.
    pub start: Ns,
    /// Start of the operation that ends it.
    pub end: Ns,
    /// That operation; of several, the first in [`Facts::ops`].
    pub op: OpIndex,
    /// A collective ends where it begins.
    pub after_collective: bool,
}

/// The gaps of all GPUs between operations, whatever stage they belong to, by operation that ends them. Linear.
pub fn gaps(session: &Session, facts: &Facts, rows: Range<usize>) -> impl Iterator<Item = Gap> {
    let ops = &facts.ops;
    // Until when each GPU ran something, and whether a collective ends there.
    let mut lasts: Vec<Option<(Ns, bool)>> = vec![None; session.gpus.len()];
    rows.filter_map(move |row| {
        let (start, end, gpu) = (ops.start[row], ops.end[row], ops.gpu[row]);
        let collective = tier(session, facts, row) == Tier::Communication;
        let last = lasts[gpu.index()].get_or_insert((start, false));
        let gap = (start > last.0).then_some(Gap {
            gpu,
            start: last.0,
            end: start,
            op: row as OpIndex,
            after_collective: last.1,
        });
        if end > last.0 {
            *last = (end, collective);
        } else if end == last.0 {
            last.1 |= collective;
        }
        gap
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slices_end_where_something_begins_or_ends() {
        // [0, 10) and [10, 12) of kind 0, [4, 6) of kind 1, one without a duration, a gap from 12 to 20.
        let ops = [
            ((0, 10), 0),
            ((4, 6), 1),
            ((5, 5), 1),
            ((10, 12), 0),
            ((20, 21), 1),
        ]
        .map(|((start, end), kind)| ((Ns(start), Ns(end)), kind));
        let found: Vec<Slice<2>> = slices(ops).collect();
        let slice = |start, end, running| Slice {
            start: Ns(start),
            end: Ns(end),
            running,
        };
        let expected = [
            slice(0, 4, [1, 0]),
            slice(4, 5, [1, 1]),
            slice(5, 6, [1, 1]),
            slice(6, 10, [1, 0]),
            slice(10, 12, [1, 0]),
            slice(20, 21, [0, 1]),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            (found[1].first(), found[5].first(), found[1].operations()),
            (0, 1, 2)
        );
        let mut busy = Vec::new();
        found
            .iter()
            .for_each(|slice| append(&mut busy, (slice.start, slice.end)));
        assert_eq!(busy, [(Ns::ZERO, Ns(12)), (Ns(20), Ns(21))]);
        assert_eq!(
            length(slices::<2>(ops), |slice| slice.running[1] == 0),
            Ns(10)
        );
        assert_eq!(slices::<1>([((Ns(3), Ns(3)), 0)]).count(), 0);
    }

    proptest! {
        /// Against a count of what runs in each nanosecond.
        #[test]
        fn each_nanosecond_is_in_the_slice_of_what_runs_in_it(
            mut ops in prop::collection::vec((0i64..60, 0i64..20, 0usize..3), 0..30)
        ) {
            ops.sort_unstable();
            let mut expected = vec![[0u32; 3]; 80];
            for (start, length, kind) in &ops {
                for time in *start..start + length {
                    expected[time as usize][*kind] += 1;
                }
            }
            let mut found = vec![[0u32; 3]; 80];
            let mut last = Ns::MIN;
            for slice in slices(ops.iter().map(|op| ((Ns(op.0), Ns(op.0 + op.1)), op.2))) {
                prop_assert!(last <= slice.start && slice.start < slice.end);
                last = slice.end;
                found[slice.start.0 as usize..slice.end.0 as usize].fill(slice.running);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
