//! Interval arithmetic on integer nanoseconds.

use rooflens_session::Ns;

/// A half-open interval [start, end).
pub type Interval = (Ns, Ns);

/// The union of intervals as disjoint, ascending intervals. Sorts its input.
pub fn union(intervals: &mut [Interval]) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for &(start, end) in intervals.iter() {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Total length of disjoint intervals, nanoseconds.
pub fn measure(disjoint: &[Interval]) -> Ns {
    total(disjoint.iter().map(|&(start, end)| end - start))
}

/// Sum of durations. Importers bound each time and each duration; their sum is bounded here.
pub fn total(durations: impl Iterator<Item = Ns>) -> Ns {
    durations.fold(Ns::ZERO, Ns::saturating_add)
}

/// Adds a duration to a sum, which is bounded as in [`total`].
#[inline]
pub const fn add(sum: &mut Ns, time: Ns) {
    *sum = sum.saturating_add(time);
}

/// Length of the union of intervals, nanoseconds. Sorts its input.
pub fn union_length(intervals: &mut [Interval]) -> Ns {
    measure(&union(intervals))
}

/// Length of the part of `window` that disjoint, ascending intervals cover. O(log n + intervals in it).
pub fn measure_within(disjoint: &[Interval], window: Interval) -> Ns {
    let first = disjoint.partition_point(|(_, end)| *end <= window.0);
    let inside = disjoint[first..]
        .iter()
        .take_while(|(start, _)| *start < window.1);
    total(inside.map(|&(start, end)| end.min(window.1) - start.max(window.0)))
}

/// The parts of `a` that `b` does not cover; both disjoint and ascending.
pub fn difference(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    let mut next = 0;
    for &(mut start, end) in a {
        while next < b.len() && b[next].1 <= start {
            next += 1;
        }
        let mut cover = next;
        while cover < b.len() && b[cover].0 < end {
            if b[cover].0 > start {
                left.push((start, b[cover].0));
            }
            start = start.max(b[cover].1);
            cover += 1;
        }
        if start < end {
            left.push((start, end));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_analysis::testing::intervals;

    #[test]
    fn overlap_counts_once() {
        // [0,10) and [5,15) make 15, [20,30) adds 10, [22,23) adds nothing.
        let mut times = intervals([(20, 30), (0, 10), (22, 23), (5, 15)]);
        assert_eq!(union(&mut times), intervals([(0, 15), (20, 30)]));
        assert_eq!(union_length(&mut times), Ns(25));
    }

    #[test]
    fn touching_intervals_merge_and_empty_ones_add_nothing() {
        assert_eq!(
            union(&mut intervals([(0, 5), (5, 9), (3, 3)])),
            intervals([(0, 9)])
        );
        assert_eq!(union_length(&mut []), Ns::ZERO);
    }

    #[test]
    fn a_window_cuts_intervals() {
        let times = intervals([(0, 10), (20, 30), (40, 50)]);
        assert_eq!(measure_within(&times, (Ns(5), Ns(45))), Ns(5 + 10 + 5));
        assert_eq!(measure_within(&times, (Ns(10), Ns(20))), Ns::ZERO);
        assert_eq!(measure_within(&times, (Ns(22), Ns(23))), Ns(1));
    }

    #[test]
    fn difference_is_what_is_left() {
        let left = difference(
            &intervals([(0, 10), (20, 30)]),
            &intervals([(2, 4), (8, 22), (25, 26)]),
        );
        assert_eq!(left, intervals([(0, 2), (4, 8), (22, 25), (26, 30)]));
    }

    proptest::proptest! {
        #[test]
        fn union_is_between_the_longest_and_the_sum(
            starts in proptest::collection::vec((0i64..1000, 0i64..100), 1..50)
        ) {
            let mut intervals: Vec<Interval> =
                starts.iter().map(|(start, length)| (Ns(*start), Ns(start + length))).collect();
            let sum: i64 = starts.iter().map(|(_, length)| length).sum();
            let longest = starts.iter().map(|(_, length)| *length).max().unwrap_or(0);
            let length = union_length(&mut intervals).0;
            proptest::prop_assert!(longest <= length && length <= sum);
        }
    }
}
