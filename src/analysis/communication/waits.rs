//! How long ranks wait for each other in collectives, and who is waited for.

use rustc_hash::FxHashMap;

use super::calls::{Call, Run};
use super::matching::{Match, Matching};
use super::messages;
use crate::analysis::engine::facts::OpIndex;
use crate::model::Ns;

/// Collectives that a straggler is told from at least.
const MIN_COLLECTIVES: u64 = 8;

/// Chance with which equal ranks would come last so often, over all ranks, below which one is a straggler.
const CHANCE: f64 = 1e-3;

/// A collective on one rank: the time that the last rank to come needed, and what this one needed more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) wait: Ns,
    pub(super) transfer: Ns,
}

/// The rank that comes last again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Straggler {
    /// Member of the run.
    pub(super) member: usize,
    /// Collectives in which it came last.
    pub(super) last: u64,
    /// Collectives in which one rank came last.
    pub(super) of: u64,
    /// Chance of that if ranks came last at random.
    pub(super) chance: f64,
}

/// Wait and transfer of each matched collective and message, by operation.
pub(super) fn by_op(run: &Run, matching: &Matching) -> FxHashMap<OpIndex, Wait> {
    let mut waits = FxHashMap::default();
    for one in &matching.matches {
        let transfer = calls(run, one).map(|(_, call)| call.duration()).min().unwrap_or(0);
        for (_, call) in calls(run, one) {
            waits.insert(call.op, Wait { wait: call.duration() - transfer, transfer });
        }
    }
    for message in messages::all(run, matching) {
        waits.insert(message.sent.op, message.sender);
        waits.insert(message.received.op, message.receiver);
    }
    waits
}

/// In how many of the collectives, messages aside, for which `counts` holds each member came last, that is, was the shortest in
/// it, among those that all ranks took part in.
pub(super) fn last_arrivals(
    run: &Run,
    matching: &Matching,
    counts: &dyn Fn(&Call) -> bool,
) -> Vec<u64> {
    let mut last = vec![0; run.members.len()];
    let whole = matching.matches.iter().filter(|one| one.len() == run.members.len());
    let counts = |call: &Call| !call.operation.is_message() && counts(call);
    for one in whole.filter(|one| calls(run, one).all(|(_, call)| counts(call))) {
        let mut durations: Vec<(Ns, usize)> =
            calls(run, one).map(|(member, call)| (call.duration(), member)).collect();
        durations.sort_unstable();
        if let [(shortest, member), (next, _), ..] = durations[..]
            && shortest < next
        {
            last[member] += 1;
        }
    }
    last
}

/// The rank that came last more often than chance explains.
pub(super) fn straggler(last: &[u64]) -> Option<Straggler> {
    let of: u64 = last.iter().sum();
    let (member, most) =
        last.iter().copied().enumerate().max_by_key(|(at, n)| (*n, std::cmp::Reverse(*at)))?;
    let chance = (last.len() as f64 * upper_tail(of, most, 1.0 / last.len() as f64)).min(1.0);
    let found = Straggler { member, last: most, of, chance };
    (of >= MIN_COLLECTIVES && chance < CHANCE).then_some(found)
}

/// P(X ≥ k) of a binomial distribution.
fn upper_tail(n: u64, k: u64, p: f64) -> f64 {
    let ln_factorial = |n: u64| libm::lgamma(n as f64 + 1.0);
    let term = |i: u64| {
        let ln = ln_factorial(n) - ln_factorial(i) - ln_factorial(n - i)
            + i as f64 * libm::log(p)
            + (n - i) as f64 * libm::log(1.0 - p);
        libm::exp(ln)
    };
    if p >= 1.0 { 1.0 } else { (k..=n).map(term).sum() }
}

fn calls<'a>(run: &'a Run, one: &'a Match) -> impl Iterator<Item = (usize, &'a Call)> {
    one.iter().map(|(member, call)| (*member, &run.members[*member].calls[*call]))
}

#[cfg(test)]
mod tests {
    use super::super::matching::find;
    use super::super::matching::tests::{member, run_of};
    use super::*;

    #[test]
    fn the_shortest_call_is_the_transfer_and_the_rest_of_the_others_is_wait() {
        let mut a = member(0, &[(0, 100), (200, 300)]);
        let mut b = member(1, &[(70, 100), (190, 300)]);
        for (at, call) in a.calls.iter_mut().chain(&mut b.calls).enumerate() {
            call.op = at as u32;
        }
        let run = run_of(vec![a, b]);
        let matching = find(&run);
        let waits = by_op(&run, &matching);
        let of = |op: u32| (waits[&op].wait, waits[&op].transfer);
        assert_eq!([of(0), of(2), of(1), of(3)], [(70, 30), (0, 30), (0, 100), (10, 100)]);
        assert_eq!(last_arrivals(&run, &matching, &|_| true), [1, 1]);
    }

    #[test]
    fn a_straggler_comes_last_more_often_than_chance_explains() {
        // P(X ≥ 8 of 8) = 2⁻⁸, twice that for two ranks: 0.0078, not below 0.001; of 12: 2 · 2⁻¹².
        assert_eq!(straggler(&[0, 8]), None);
        let found = straggler(&[0, 12]).expect("12 of 12");
        assert_eq!((found.member, found.last, found.of), (1, 12, 12));
        assert!((found.chance - 2.0 / 4096.0).abs() < 1e-12);
        assert_eq!(straggler(&[30, 33]), None);
        assert_eq!(straggler(&[]), None);
    }
}
