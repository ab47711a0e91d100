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

/// Operations that instances may hold together in any capture, for each that there is.
const HELD: u64 = 8;

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
    let room = session.work.unwrap_or(u64::MAX).max(HELD * threads.total());
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

    /// Twenty kernels, launched between 1000 and 1200, inside of these ranges.
    fn session(ranges: impl Iterator<Item = (String, i64, i64)>, work: Option<u64>) -> Session {
        let mut events = String::new();
        for call in (1000..1200).step_by(10) {
            let (begun, ended) = (call + 5, call + 9);
            events += &format!("launch {call}..{begun} -> gemm {begun}..{ended}\n");
        }
        for (name, start, end) in ranges {
            events += &format!("range {name} {start}..{end}\n");
        }
        let mut session = trace(&events);
        session.work = work;
        session
    }

    /// Instances that hold all kernels, and why the last one holds none.
    fn held(session: &Session) -> (usize, Option<Exclusion>) {
        let instances = StageTables::new(session).instances;
        let full = instances
            .iter()
            .filter(|instance| instance.ops.len() == 20 && instance.excluded.is_none());
        (
            full.count(),
            instances.last().and_then(|instance| instance.excluded),
        )
    }

    #[test]
    fn instances_open_at_once_are_as_many_as_the_input_may_cost() {
        // 300 requests, each of which begins and ends after the one before.
        let requests = || (0..300).map(|at| ("request".to_owned(), at, 10_000 + at));
        let others = |most: usize| Some(Exclusion::Crowded(most));
        assert_eq!(held(&session(requests(), None)), (256, others(256)));
        // 64 of them hold 1280 kernels, 16 hold 320; with 8 for each kernel there is room for 160: 4 of them.
        assert_eq!(held(&session(requests(), Some(1280))), (64, others(64)));
        assert_eq!(held(&session(requests(), Some(1279))), (16, others(16)));
        assert_eq!(held(&session(requests(), Some(0))), (4, others(4)));
    }

    #[test]
    fn of_stages_that_lie_in_each_other_the_first_are_analyzed() {
        let ranges = (0..10).map(|at| (format!("s{at}"), at, 10_000 - at));
        let mut session = session(ranges, Some(0));
        let rule = |at| StageRule {
            name: format!("s{at}"),
            pattern: Some(format!("s{at}")),
            kind: None,
        };
        session.workload.stages = (0..10).map(rule).collect();
        assert_eq!(held(&session), (8, Some(Exclusion::NoRoom)));
        session.work = None;
        assert_eq!(held(&session), (10, None));
    }
}
