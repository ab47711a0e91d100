//! GPU work of spans: what each issues itself, what is issued within it, and the sums over spans of one key.

use rooflens_session::Ns;
use std::hash::Hash;
use std::ops::AddAssign;

use rustc_hash::FxHashMap;

use super::facts::{OpSource, Ops};
use super::nesting::{Nesting, Span};

/// GPU work that was issued somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Sum of the durations of GPU operations, nanoseconds.
    pub device: Ns,
    /// Device time of the backward pass that belongs to operators there, nanoseconds.
    pub backward: Ns,
    /// GPU operations.
    pub operations: u32,
    /// Kernels among them.
    pub launches: u32,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.device = self.device.saturating_add(other.device);
        self.backward = self.backward.saturating_add(other.backward);
        self.operations = self.operations.saturating_add(other.operations);
        self.launches = self.launches.saturating_add(other.launches);
    }
}

impl Work {
    /// One GPU operation.
    pub fn of(ops: &Ops, op: usize) -> Self {
        let launches = u32::from(matches!(ops.source[op], OpSource::Launch(_)));
        Self {
            device: duration(ops.start[op], ops.end[op]),
            backward: Ns::ZERO,
            operations: 1,
            launches,
        }
    }

    /// What each span issues itself: an operation is of the innermost span around the start of its CUDA call.
    pub fn issued(ops: &Ops, nesting: &Nesting) -> Vec<Self> {
        let mut work = vec![Self::default(); nesting.parent.len()];
        for (op, call) in ops.api_call.iter().enumerate() {
            if let Some(span) = call.and_then(|call| nesting.of_call[call.index()]) {
                work[span as usize] += Self::of(ops, op);
            }
        }
        work
    }
}

/// What spans of one key add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of spans.
    pub calls: u64,
    /// Host time, a span within another of its key counted once, nanoseconds.
    pub host_total: Ns,
    /// Host time outside of spans and CUDA calls within, nanoseconds.
    pub host_self: Ns,
    /// Host time in CUDA calls that the spans make themselves, nanoseconds.
    pub host_cuda: Ns,
    /// GPU work that the spans issue themselves.
    pub own: Work,
    /// GPU work that is issued within, a span within another of its key counted once.
    pub within: Work,
}

impl Sum {
    /// Adds the host time that a span spends itself.
    pub fn add_self(&mut self, nesting: &Nesting, span: usize) {
        self.host_self = self.host_self.saturating_add(nesting.own[span]);
        self.host_cuda = self.host_cuda.saturating_add(nesting.calls[span]);
    }
}

/// Spans by key.
pub struct Groups<K> {
    /// Keys with their sums, in the order of their first spans.
    pub sums: Vec<(K, Sum)>,
    /// The place of each span's sum; [`NO_GROUP`] for spans without key.
    pub of: Vec<u32>,
}

/// Of spans that are in no sum.
pub const NO_GROUP: u32 = u32::MAX;

impl<K: Copy + Eq + Hash> Groups<K> {
    /// Groups spans by their keys, which are given in the order of the spans.
    pub fn new(keys: impl Iterator<Item = Option<K>>) -> Self {
        let mut index: FxHashMap<K, u32> = FxHashMap::default();
        let mut sums = Vec::new();
        let mut last = (None, NO_GROUP);
        let group = |key: Option<K>| {
            let Some(own) = key else { return NO_GROUP };
            // Neighbours often have the same key.
            if last.0 != key {
                let group = index.entry(own).or_insert_with(|| {
                    sums.push((own, Sum::default()));
                    // Fewer than 2^32, as spans.
                    (sums.len() - 1) as u32
                });
                last = (key, *group);
            }
            last.1
        };
        let of = keys.map(group).collect();
        Self { sums, of }
    }

    /// Adds what each span does itself; `work` is that of the spans before it is rolled up.
    pub fn add_own(&mut self, nesting: &Nesting, work: &[Work]) {
        for (span, group) in self.of.iter().enumerate() {
            let Some((_, sum)) = self.sums.get_mut(*group as usize) else {
                continue;
            };
            sum.calls += 1;
            sum.add_self(nesting, span);
            sum.own += work[span];
        }
    }

    /// Adds what is done within each span that is not `recursive`; `work` is rolled up.
    pub fn add_within(&mut self, spans: &[Span], recursive: &[bool], work: &[Work]) {
        for (span, group) in self
            .of
            .iter()
            .enumerate()
            .filter(|(span, _)| !recursive[*span])
        {
            let Some((_, sum)) = self.sums.get_mut(*group as usize) else {
                continue;
            };
            sum.host_total = sum.host_total.saturating_add(spans[span].duration());
            sum.within += work[span];
        }
    }
}

/// Adds each value to that of the span around it; `innermost_first` gives each span before the one around it.
pub fn roll_up<T: Copy + AddAssign>(
    innermost_first: impl Iterator<Item = (usize, Option<u32>)>,
    values: &mut [T],
) {
    for (span, parent) in innermost_first {
        if let Some(parent) = parent {
            let inner = values[span];
            values[parent as usize] += inner;
        }
    }
}

fn duration(start: Ns, end: Ns) -> Ns {
    end.saturating_sub(start).max(Ns::ZERO)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use rooflens_session::{ApiCalls, ThreadId};

    /// The span around another by the definition: the last that begins before it and lasts beyond its start.
    fn parent(spans: &[Span], span: usize) -> Option<usize> {
        let key = |at: usize| (spans[at].start, std::cmp::Reverse(spans[at].end), at);
        let around = |at: &usize| {
            let (one, own) = (&spans[*at], &spans[span]);
            one.thread == own.thread && key(*at) < key(span) && one.end > own.start
        };
        (0..spans.len()).filter(around).max_by_key(|at| key(*at))
    }

    /// All that is issued in a span, by descent.
    fn within(parents: &[Option<usize>], work: &[Work], span: usize) -> Work {
        let mut sum = work[span];
        for inner in (0..work.len()).filter(|inner| parents[*inner] == Some(span)) {
            sum += within(parents, work, inner);
        }
        sum
    }

    fn has_key_around(parents: &[Option<usize>], keys: &[Option<u8>], span: usize) -> bool {
        let around = std::iter::successors(parents[span], |at| parents[*at]);
        around.into_iter().any(|at| keys[at] == keys[span])
    }

    proptest! {
        #[test]
        fn sums_are_those_of_a_descent_that_counts_recursion_once(
            rows in vec((0u32..2, 0i64..40, 0i64..20, proptest::option::of(0u8..3), 0i64..9), 0..24),
        ) {
            let span = |(thread, start, time, ..): &(u32, i64, i64, Option<u8>, i64)| Span {
                thread: ThreadId(*thread), start: Ns(*start), end: Ns(start + time),
            };
            let spans: Vec<Span> = rows.iter().map(span).collect();
            let keys: Vec<Option<u8>> = rows.iter().map(|row| row.3).collect();
            let one = |device: Ns| Work { device, backward: device * 2, operations: 1, launches: 1 };
            let own: Vec<Work> = rows.iter().map(|row| one(Ns(row.4))).collect();

            let nesting = Nesting::new(&spans, &ApiCalls::default());
            let mut groups = Groups::new(keys.iter().copied());
            let mut work = own.clone();
            groups.add_own(&nesting, &work);
            roll_up(nesting.innermost_first(), &mut work);
            let recursive = nesting.recursive(&groups.of);
            groups.add_within(&spans, &recursive, &work);

            let parents: Vec<_> = (0..spans.len()).map(|span| parent(&spans, span)).collect();
            for (key, found) in &groups.sums {
                let mut sum = Sum::default();
                for at in (0..spans.len()).filter(|at| keys[*at] == Some(*key)) {
                    sum.calls += 1;
                    sum.own += own[at];
                    sum.host_self += nesting.own[at];
                    if !has_key_around(&parents, &keys, at) {
                        sum.host_total += spans[at].end - spans[at].start;
                        sum.within += within(&parents, &own, at);
                    }
                }
                prop_assert_eq!(found, &sum);
            }
            let calls: u64 = groups.sums.iter().map(|(_, sum)| sum.calls).sum();
            prop_assert_eq!(calls as usize, keys.iter().flatten().count());
        }
    }
}
