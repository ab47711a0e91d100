//! The same collective on several ranks, and what its ends tell of their clocks.

use std::collections::BTreeMap;

use super::calls::{Call, Group, Member, Run};
use super::operation::Operation;
use rooflens_session::{Arrange, Ns};
use rooflens_stats::{median, median_deviation};
use rooflens_units::{Ratio, Time};

/// Positions beyond the difference in length by which two lists of collectives are shifted against each other
/// to find where they fit, and the most of them.
const SHIFTS: i64 = 2;
const MAX_SHIFT: i64 = 64;

/// How much better than the list as it stands a shifted one must fit.
const BETTER: Ratio = Ratio(2.0);

/// A collective whose ends differ by more than this, and by more than ten times the usual, is taken as
/// mismatched.
const TOLERANCE: Time = Time(1e6);
const TOLERANCE_FACTOR: Ratio = Ratio(10.0);

/// Calls that answer one another in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Channel {
    /// Of all ranks of a group.
    Collective,
    /// From one rank to another, both in the numbers of the group.
    Message { from: u32, to: u32 },
    /// Of two ranks that send and receive at once.
    Exchange(u32, u32),
}

/// One collective: its call on each rank that took part, as (member, call), by member.
pub type Match = Vec<(usize, usize)>;

/// The collectives of a run that were found on several ranks, and how the ranks' clocks differ.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    /// Collectives found on several ranks.
    pub matches: Vec<Match>,
    /// By member: what its clock shows more than the mean of all: the median over collectives of end − mean end.
    /// 0 where it takes part in none.
    pub offsets: Vec<Time>,
    /// Median and largest deviation of an end from its clock's offset; absent without collectives that join all ranks.
    pub residual: Option<(Time, Time)>,
    /// Collectives excluded because their ends lie too far apart.
    pub mismatched: usize,
}

/// Matches the collectives of all ranks.
pub(super) fn find(run: &Run) -> Matching {
    let mut matching = Matching {
        offsets: vec![Time::ZERO; run.members.len()],
        ..Matching::default()
    };
    if run.members.len() < 2 {
        return matching;
    }
    for ((_, channel), lists) in channels(run) {
        let calls = || {
            run.members
                .iter()
                .zip(&lists)
                .flat_map(|(m, list)| list.iter().map(|c| &m.calls[*c]))
        };
        let numbered =
            channel == Channel::Collective && calls().all(|call| call.sequence.is_some());
        let matches = if numbered {
            by_sequence(run, &lists)
        } else {
            by_order(&run.members, &lists)
        };
        matching.matches.extend(matches);
    }
    matching.matches.sort_unstable();
    matching.align(run);
    matching.drop_mismatched(run);
    matching.align(run);
    matching
}

/// The calls of each channel, by member.
fn channels(run: &Run) -> BTreeMap<(Group, Channel), Vec<Vec<usize>>> {
    let mut channels = BTreeMap::new();
    for (at, member) in run.members.iter().enumerate() {
        for (index, call) in member.calls.iter().enumerate() {
            let Some(channel) = member.channel(call) else {
                continue;
            };
            let lists: &mut Vec<Vec<usize>> = channels
                .entry((call.group, channel))
                .or_insert_with(|| vec![Vec::new(); run.members.len()]);
            lists[at].push(index);
        }
    }
    channels
}

/// By operation and number; of several with one number, the first with the first.
fn by_sequence(run: &Run, lists: &[Vec<usize>]) -> Vec<Match> {
    let mut by_key: BTreeMap<(u64, Operation, u32), Match> = BTreeMap::new();
    for (at, (member, list)) in run.members.iter().zip(lists).enumerate() {
        let mut seen: BTreeMap<(u64, Operation), u32> = BTreeMap::new();
        for index in list {
            let call = &member.calls[*index];
            let key = (call.sequence.unwrap_or(0), call.operation);
            let again = seen.entry(key).or_default();
            by_key
                .entry((key.0, key.1, *again))
                .or_default()
                .push((at, *index));
            *again += 1;
        }
    }
    by_key
        .into_values()
        .filter(|matched| matched.len() > 1)
        .collect()
}

/// By order within the group: each rank's list against that of the first, shifted to where the ends fit best.
fn by_order(members: &[Member], lists: &[Vec<usize>]) -> Vec<Match> {
    let Some(first) = lists.iter().position(|list| !list.is_empty()) else {
        return Vec::new();
    };
    let mut matches: Vec<Match> = lists[first]
        .iter()
        .map(|index| vec![(first, *index)])
        .collect();
    for second in first + 1..lists.len() {
        let (a, b) = (&members[first].calls, &members[second].calls);
        let shift = best_shift(a, &lists[first], b, &lists[second]);
        for (i, j) in pairs(a, &lists[first], b, &lists[second], shift) {
            matches[i].push((second, lists[second][j]));
        }
    }
    matches.retain(|matched| matched.len() > 1);
    matches
}

/// Positions that hold operations of one size that answer each other if the second list is shifted.
fn pairs(
    a: &[Call],
    list: &[usize],
    b: &[Call],
    other: &[usize],
    shift: i64,
) -> Vec<(usize, usize)> {
    let partner = |i: usize| {
        usize::try_from(i as i64 + shift)
            .ok()
            .filter(|j| *j < other.len())
    };
    let same = |(i, j): &(usize, usize)| {
        let (one, two) = (&a[list[*i]], &b[other[*j]]);
        one.operation.answers(two.operation) && one.bytes == two.bytes
    };
    (0..list.len())
        .filter_map(|i| Some((i, partner(i)?)))
        .filter(same)
        .collect()
}

/// The shift at which the ends of two lists differ by the same the whole time.
fn best_shift(a: &[Call], list: &[usize], b: &[Call], other: &[usize]) -> i64 {
    let difference = other.len() as i64 - list.len() as i64;
    let widest = (difference.abs() + SHIFTS).min(MAX_SHIFT);
    let spread = |shift: i64| {
        let ends: Vec<f64> = pairs(a, list, b, other, shift)
            .into_iter()
            .map(|(i, j)| b[other[j]].end.saturating_sub(a[list[i]].end).time().0)
            .collect();
        // Half of what could match must, or the few that remain fit by chance.
        let enough = ends.len() * 2 >= list.len().min(other.len()) && ends.len() > 2;
        let residual = median_deviation(&ends).filter(|_| enough);
        Time(residual.unwrap_or(f64::INFINITY))
    };
    let towards =
        |shift: i64| shift.signum() == difference.signum() && shift.abs() <= difference.abs();
    let between = |shift: i64| shift == 0 || towards(shift);
    let mut shifts: Vec<i64> = (-widest..=widest).collect();
    // Those that leave the fewest over come first, the smallest before the largest.
    shifts.arrange_by_key(|shift| (!between(*shift), shift.abs(), *shift));
    let mut best = (Time(f64::INFINITY), 0);
    for shift in shifts {
        let residual = spread(shift);
        if residual * BETTER < best.0 || !best.0.is_finite() && residual.is_finite() {
            best = (residual, shift);
        }
    }
    best.1
}

impl Matching {
    /// Finds the offset of each clock, and what deviates from it.
    fn align(&mut self, run: &Run) {
        let mut by_member: Vec<Vec<f64>> = vec![Vec::new(); run.members.len()];
        for matched in &self.matches {
            if joins_all(run, matched) {
                for (member, away) in from_mean(run, matched) {
                    by_member[member].push(away.0);
                }
            }
        }
        self.offsets = by_member
            .iter()
            .map(|list| Time(median(list).unwrap_or(0.0)))
            .collect();
        let deviations: Vec<f64> = by_member
            .iter()
            .zip(&self.offsets)
            .flat_map(|(list, offset)| list.iter().map(move |away| (away - offset.0).abs()))
            .collect();
        let largest = Time(deviations.iter().copied().fold(0.0, f64::max));
        self.residual = median(&deviations).map(|middle| (Time(middle), largest));
    }

    fn drop_mismatched(&mut self, run: &Run) {
        let Some((usual, _)) = self.residual else {
            return;
        };
        let limit = (usual * TOLERANCE_FACTOR).max(TOLERANCE);
        let before = self.matches.len();
        let offsets = &self.offsets;
        self.matches.retain(|matched| {
            let fits = |(member, away): (usize, Time)| (away - offsets[member]).abs() <= limit;
            !joins_all(run, matched) || from_mean(run, matched).all(fits)
        });
        self.mismatched = before - self.matches.len();
    }
}

fn joins_all(run: &Run, one: &Match) -> bool {
    one.first()
        .is_some_and(|(member, call)| run.members[*member].calls[*call].operation.joins_all())
}

/// By how much each rank's end lies behind the mean of all ends.
fn from_mean<'a>(run: &'a Run, one: &'a Match) -> impl Iterator<Item = (usize, Time)> + 'a {
    let end = |(member, call): &(usize, usize)| run.members[*member].calls[*call].end;
    let base: Ns = one.first().map_or(Ns::ZERO, end);
    let sum: Time = one
        .iter()
        .map(|call| end(call).saturating_sub(base).time())
        .sum();
    let mean = sum / one.len().max(1) as f64;
    one.iter()
        .map(move |call| (call.0, end(call).saturating_sub(base).time() - mean))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::calls::{Call, Group, Member, Run};
    use super::*;
    use crate::testing::intervals;
    use rooflens_session::{GpuId, KernelId, PassId, ProcessId};

    /// A rank's all-reduces from (start, end) on stream 17.
    pub(crate) fn member(rank: u32, times: &[(Ns, Ns)]) -> Member {
        let call = |(start, end): &(Ns, Ns)| Call {
            op: 0,
            start: *start,
            end: *end,
            kernel: KernelId(0),
            operation: Operation::AllReduce,
            group: Group::Stream(17),
            bytes: None,
            size: None,
            sequence: None,
            rank: None,
            peer: None,
        };
        Member {
            pass: PassId(0),
            process: ProcessId(rank),
            gpu: GpuId(rank),
            rank,
            calls: times.iter().map(call).collect(),
        }
    }

    pub(crate) fn run_of(members: Vec<Member>) -> Run {
        Run {
            name: "nsys".to_owned(),
            members,
            one_clock: true,
        }
    }

    #[test]
    fn a_rank_that_began_earlier_is_shifted_and_its_clock_found() {
        // Irregular ends; rank 1 saw one more before, and its clock shows 1000 more.
        let ends = [100, 230, 310, 480, 530, 690].map(Ns);
        let a: Vec<_> = ends.iter().map(|end| (*end - Ns(20), *end)).collect();
        let b: Vec<_> = [Ns(30)]
            .iter()
            .chain(&ends)
            .map(|end| (*end + Ns(990), *end + Ns(1000)))
            .collect();
        let found = find(&run_of(vec![member(0, &a), member(1, &b)]));
        let expected: Vec<Match> = (0..6).map(|at| vec![(0, at), (1, at + 1)]).collect();
        assert_eq!(found.matches, expected);
        // Mean of the ends: 500 between the two clocks.
        assert_eq!(found.offsets, [Time(-500.0), Time(500.0)]);
        assert_eq!(found.residual, Some((Time::ZERO, Time::ZERO)));
    }

    #[test]
    fn numbers_of_the_group_come_before_order() {
        let times = intervals([(0, 10), (20, 30), (40, 50)]);
        let mut members = vec![member(0, &times), member(1, &times)];
        for (at, call) in members[0].calls.iter_mut().enumerate() {
            call.sequence = Some(at as u64);
        }
        for (call, number) in members[1].calls.iter_mut().zip([1, 2, 9]) {
            call.sequence = Some(number);
        }
        let found = find(&run_of(members));
        assert_eq!(found.matches, [vec![(0, 1), (1, 0)], vec![(0, 2), (1, 1)]]);
    }

    #[test]
    fn messages_are_matched_with_what_the_other_end_receives() {
        // Rank 0 sends three to rank 1, which received two before and sends one back meanwhile.
        let mut a = member(0, &intervals([(0, 50), (100, 150), (170, 180), (200, 290)]));
        let mut b = member(
            1,
            &intervals([(1, 5), (6, 8), (45, 50), (140, 150), (171, 180), (285, 290)]),
        );
        for (call, operation) in a.calls.iter_mut().zip("ssrs".chars()) {
            let operation = if operation == 's' {
                Operation::Send
            } else {
                Operation::Receive
            };
            (call.operation, call.peer) = (operation, Some(1));
        }
        for (call, operation) in b.calls.iter_mut().zip("rrrrsr".chars()) {
            let operation = if operation == 's' {
                Operation::Send
            } else {
                Operation::Receive
            };
            (call.operation, call.peer) = (operation, Some(0));
        }
        let found = find(&run_of(vec![a.clone(), b.clone()]));
        let expected: Vec<Match> = [(0, 2), (1, 3), (2, 4), (3, 5)]
            .map(|(i, j)| vec![(0, i), (1, j)])
            .into();
        assert_eq!(found.matches, expected);
        // Without the other end nothing is matched.
        b.calls.iter_mut().for_each(|call| call.peer = None);
        assert!(find(&run_of(vec![a, b])).matches.is_empty());
    }

    #[test]
    fn what_ends_milliseconds_apart_is_no_match() {
        let ms = Ns(1_000_000);
        let a: Vec<_> = (0..8)
            .map(|at| (ms * 100 * at, ms * 100 * at + ms))
            .collect();
        let mut b = a.clone();
        b[3].1 += ms * 5;
        let found = find(&run_of(vec![member(0, &a), member(1, &b)]));
        assert_eq!((found.matches.len(), found.mismatched), (7, 1));
    }
}
