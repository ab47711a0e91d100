//! How long ranks wait for each other in collectives, and which rank is last.

use rustc_hash::FxHashMap;

use super::calls::{Call, Run};
use super::matching::{Match, Matching};
use super::messages;
use crate::engine::facts::OpIndex;
use rooflens_session::Ns;

/// A collective on one rank: the time that the last rank to come needed, and what this one needed more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Time beyond the transfer, nanoseconds.
    pub wait: Ns,
    /// Time on the last rank to come, nanoseconds.
    pub transfer: Ns,
}

/// Wait and transfer of each matched collective and message, by operation.
pub(super) fn by_op(run: &Run, matching: &Matching) -> FxHashMap<OpIndex, Wait> {
    let mut waits = FxHashMap::default();
    for matched in &matching.matches {
        let transfer = calls(run, matched)
            .map(|(_, call)| call.duration())
            .min()
            .unwrap_or(Ns::ZERO);
        for (_, call) in calls(run, matched) {
            waits.insert(
                call.op,
                Wait {
                    wait: call.duration() - transfer,
                    transfer,
                },
            );
        }
    }
    for message in messages::all(run, matching) {
        waits.insert(message.sent.op, message.sender);
        waits.insert(message.received.op, message.receiver);
    }
    waits
}

/// In how many collectives of all ranks, messages aside, each member came last, that is, was the shortest: among those
/// for whose calls `counts` holds.
pub(super) fn last_arrivals(
    run: &Run,
    matching: &Matching,
    counts: impl Fn(&Call) -> bool,
) -> Vec<u64> {
    let mut last = vec![0; run.members.len()];
    let whole = matching
        .matches
        .iter()
        .filter(|matched| matched.len() == run.members.len());
    let counts = |call: &Call| !call.operation.is_message() && counts(call);
    for matched in whole.filter(|matched| calls(run, matched).all(|(_, call)| counts(call))) {
        let mut durations: Vec<(Ns, usize)> = calls(run, matched)
            .map(|(member, call)| (call.duration(), member))
            .collect();
        durations.sort_unstable();
        if let [(shortest, member), (next, _), ..] = durations[..]
            && shortest < next
        {
            last[member] += 1;
        }
    }
    last
}

fn calls<'a>(run: &'a Run, one: &'a Match) -> impl Iterator<Item = (usize, &'a Call)> {
    one.iter()
        .map(|(member, call)| (*member, &run.members[*member].calls[*call]))
}

#[cfg(test)]
mod tests {
    use super::super::matching::find;
    use super::super::matching::tests::{member, run_of};
    use super::*;

    #[test]
    fn the_shortest_call_is_the_transfer_and_the_rest_of_the_others_is_wait() {
        let mut a = member(0, &[(Ns::ZERO, Ns(100)), (Ns(200), Ns(300))]);
        let mut b = member(1, &[(Ns(70), Ns(100)), (Ns(190), Ns(300))]);
        for (at, call) in a.calls.iter_mut().chain(&mut b.calls).enumerate() {
            call.op = at as u32;
        }
        let run = run_of(vec![a, b]);
        let matching = find(&run);
        let waits = by_op(&run, &matching);
        let of = |op: u32| (waits[&op].wait, waits[&op].transfer);
        assert_eq!(
            [of(0), of(2), of(1), of(3)],
            [
                (Ns(70), Ns(30)),
                (Ns::ZERO, Ns(30)),
                (Ns::ZERO, Ns(100)),
                (Ns(10), Ns(100))
            ]
        );
        assert_eq!(last_arrivals(&run, &matching, |_| true), [1, 1]);
    }
}
