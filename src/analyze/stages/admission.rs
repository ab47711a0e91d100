//! How many instances of a stage may be open at once: each holds all operations that were launched while it was, as those of
//! requests of a server do, so ranges × operations is what analyses cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::attribution::ThreadOps;
use crate::tables::Exclusion;
use rooflens_session::{Ns, RangeId, Session, ThreadId};

/// Instances of a stage that may be open at once on a thread: the first of these numbers with which all instances hold no more
/// than the input may cost.
const MOST: [usize; 5] = [256, 64, 16, 4, 1];

/// Operations that instances may hold together in any capture: each costs about a microsecond.
const HELD_FLOOR: u64 = 1 << 19;

/// The same for each operation. Bytes of the input would not do: the analyzer and the capture program have different
/// files of one run, and must exclude the same instances.
const HELD: u64 = 64;

/// The instances of one stage, by start, that may open.
pub(super) struct Admission {
    most: usize,
    /// Ends of those that are open.
    open: BTreeMap<ThreadId, BinaryHeap<Reverse<Ns>>>,
}

impl Admission {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            open: BTreeMap::new(),
        }
    }

    /// Opens an instance, or says why it is excluded. Starts ascend.
    pub(super) fn refuse(&mut self, thread: ThreadId, (start, end): (Ns, Ns)) -> Option<Exclusion> {
        let open = self.open.entry(thread).or_default();
        while open.peek().is_some_and(|first| first.0 <= start) {
            open.pop();
        }
        if open.len() < self.most {
            open.push(Reverse(end));
            return None;
        }
        Some(match self.most {
            0 => Exclusion::NoRoom,
            most => Exclusion::Crowded(most),
        })
    }
}

/// How many instances of each stage may be open at once. One at a time may be too much where many stages lie in each other: then
/// the later ones have none.
pub(super) fn limits(session: &Session, stages: &[&[RangeId]], threads: &ThreadOps) -> Vec<usize> {
    let room = HELD_FLOOR.max(HELD * threads.total());
    let fits = |most: usize| {
        let mut left = room;
        let mut take = |stage: &&[RangeId]| {
            left.checked_sub(held(session, stage, threads, most))
                .inspect(|rest| left = *rest)
                .is_some()
        };
        stages.iter().map(&mut take).collect::<Vec<bool>>()
    };
    let whole = MOST
        .into_iter()
        .find(|most| fits(*most).iter().all(|fits| *fits));
    match whole {
        Some(most) => vec![most; stages.len()],
        None => fits(1).into_iter().map(usize::from).collect(),
    }
}

/// Operations that the instances of a stage hold together.
fn held(session: &Session, stage: &[RangeId], threads: &ThreadOps, most: usize) -> u64 {
    let mut admission = Admission::new(most);
    let of = |range: &RangeId| {
        let (ranges, row) = (&session.ranges, range.index());
        let (thread, start, end) = (ranges.thread[row], ranges.start[row], ranges.end[row]);
        let refused = admission.refuse(thread, (start, end)).is_some();
        if refused {
            0
        } else {
            threads.count(thread, start, end)
        }
    };
    stage.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use rooflens_schemas::StageRule;

    use crate::tables::{Exclusion, StageTables};
    use rooflens_analysis::testing::trace;
    use rooflens_session::Session;

    /// Kernels, launched at 1000 and every ten after it, inside of these ranges.
    fn session(kernels: usize, ranges: impl Iterator<Item = (String, i64, i64)>) -> Session {
        let mut events = String::new();
        for call in (1000..).step_by(10).take(kernels) {
            let (begun, ended) = (call + 5, call + 9);
            events += &format!("launch {call}..{begun} -> gemm {begun}..{ended}\n");
        }
        for (name, start, end) in ranges {
            events += &format!("range {name} {start}..{end}\n");
        }
        trace(&events)
    }

    /// Instances that hold all kernels, and why the last one holds none.
    fn held(session: &Session) -> (usize, Option<Exclusion>) {
        let kernels = session.launches.len();
        let instances = StageTables::new(session).instances;
        let full = instances
            .iter()
            .filter(|instance| instance.ops.len() == kernels && instance.excluded.is_none());
        let last = instances.last();
        (full.count(), last.and_then(|instance| instance.excluded))
    }

    #[test]
    fn instances_open_at_once_are_as_many_as_the_operations_allow() {
        // 300 requests, each of which begins and ends after the one before.
        let range = |name: &str, at: i64| (name.to_owned(), at, 1_000_000 + at);
        let requests = || (0..300).map(|at| range("request", 2 * at));
        let calls = (0..300).map(|at| range("call", 2 * at + 1));
        let others = |most: usize| Some(Exclusion::Crowded(most));
        assert_eq!(held(&session(20, requests())), (256, others(256)));
        // There is room for 2^19 operations: 256 requests with 2048 kernels, or 64 with one more.
        assert_eq!(held(&session(2048, requests())), (256, others(256)));
        assert_eq!(held(&session(2049, requests())), (64, others(64)));
        // From 8192 kernels on there is room for 64 times as many: 64 requests, or 16 each of two kinds.
        assert_eq!(held(&session(8200, requests())), (64, others(64)));
        let both = requests().chain(calls);
        assert_eq!(held(&session(8200, both)), (32, others(16)));
    }

    #[test]
    fn of_stages_that_lie_in_each_other_the_first_are_analyzed() {
        let stages = |count: i64| {
            let ranges = (0..count).map(|at| (format!("s{at}"), at, 1_000_000 - at));
            let mut session = session(8200, ranges);
            let rule = |at| StageRule {
                name: format!("s{at}"),
                pattern: Some(format!("s{at}")),
                kind: None,
            };
            session.workload.stages = (0..count).map(rule).collect();
            held(&session)
        };
        assert_eq!(stages(70), (64, Some(Exclusion::NoRoom)));
        assert_eq!(stages(10), (10, None));
    }
}
