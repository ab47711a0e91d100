//! Steps of training where no range marks them: from one update of the weights to the next.

use std::collections::BTreeMap;

use rooflens_schemas::StageKind;
use rooflens_schemas::ranges::DATA_LOADER;

use crate::stage_names::{is_of_user, is_update};
use crate::stages::{Draft, Window, without_recursion};
use crate::tables::StageTables;
use rooflens_session::{ProcessId, RangeId, Session, ThreadId};

/// Name of the stage.
const BETWEEN_UPDATES: &str = "train_step";

/// Updates of a thread from which on they tell its steps.
const MIN_UPDATES: usize = 3;

/// How ranges begin that PyTorch opens by itself.
const OF_PYTORCH: [&str; 5] = [
    "Optimizer.",
    DATA_LOADER,
    "DistributedDataParallel.",
    "FullyShardedDataParallel.",
    "FSDP::",
];

/// The steps, where no range of the user is there: of each process from the end of an update of the weights to that of the
/// next one, on the thread with most updates, of the optimizer that updates first.
pub(super) fn between_updates(session: &Session, own: &[RangeId]) -> Option<Draft> {
    let ranges = &session.ranges;
    let name = |id: &RangeId| session.text(ranges.name[id.index()]);
    let of_user = own.iter().filter(|id| is_of_user(session, **id));
    if of_user.clone().any(|id| !is_of_pytorch(name(id))) {
        return None;
    }
    let updates: Vec<RangeId> = of_user.filter(|id| is_update(name(id))).copied().collect();
    let mut threads: BTreeMap<(ProcessId, ThreadId), Vec<usize>> = BTreeMap::new();
    for row in without_recursion(session, updates)
        .iter()
        .map(|id| id.index())
    {
        let thread = ranges.thread[row];
        let list = threads
            .entry((session.threads.process[thread.index()], thread))
            .or_default();
        if list
            .first()
            .is_none_or(|first| ranges.name[*first] == ranges.name[row])
        {
            list.push(row);
        }
    }
    let mut busiest: BTreeMap<ProcessId, (ThreadId, Vec<usize>)> = BTreeMap::new();
    for ((process, thread), list) in threads {
        let busiest_count = busiest
            .get(&process)
            .map_or(0, |(_, busiest_count)| busiest_count.len());
        if list.len() > busiest_count.max(MIN_UPDATES - 1) {
            busiest.insert(process, (thread, list));
        }
    }
    let steps = |(thread, list): &(ThreadId, Vec<usize>)| -> Vec<Window> {
        let window = |pair: &[usize]| Window {
            range: None,
            thread: *thread,
            start: ranges.end[pair[0]],
            end: ranges.end[pair[1]],
        };
        list.windows(2).map(window).collect()
    };
    let windows: Vec<Window> = busiest.values().flat_map(steps).collect();
    let name = BETWEEN_UPDATES.to_owned();
    (!windows.is_empty()).then_some(Draft {
        name,
        kind: StageKind::TrainStep,
        windows,
        needs_work: false,
        is_warmup: false,
    })
}

/// Whether a range is one that PyTorch opens by itself.
pub(super) fn is_of_pytorch(name: &str) -> bool {
    OF_PYTORCH.iter().any(|begin| name.starts_with(begin))
}

impl StageTables {
    /// Whether a stage is the times from one update of the weights to the next.
    pub fn is_between_updates(&self, stage: usize) -> bool {
        let stage = &self.stages[stage];
        let has_range = self
            .instances_of(stage)
            .iter()
            .any(|instance| instance.range.is_some());
        stage.name == BETWEEN_UPDATES && !has_range
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::StageInstance;
    use rooflens_analysis::testing::trace;
    use rooflens_session::Ns;

    /// Updates end at 10, 20, 40 and 60; a thread of the backward pass launches, too.
    /// Next to a thread with three updates, one with four: its steps are the process's.
    #[test]
    fn the_thread_with_most_updates_tells_the_steps_of_its_process() {
        let session = trace(
            "pass torch operators
             launch 15..20 -> kernel 20..21
             range Optimizer.step#Adam.step 10..11
             range Optimizer.step#Adam.step 20..21
             range Optimizer.step#Adam.step 30..31
             thread 2
             range Optimizer.step#Adam.step 4..5
             range Optimizer.step#Adam.step 24..25
             range Optimizer.step#Adam.step 34..35
             range Optimizer.step#Adam.step 44..45",
        );
        let facts = StageTables::new(&session);
        let of = |one: &StageInstance| (one.host_start, one.host_end, one.ops.len());
        let steps: Vec<_> = facts
            .instances_of(&facts.stages[0])
            .iter()
            .map(of)
            .collect();
        assert_eq!(
            steps,
            [(Ns(5), Ns(25), 1), (Ns(25), Ns(35), 0), (Ns(35), Ns(45), 0)]
        );
    }

    #[test]
    fn steps_without_ranges_run_from_update_to_update() {
        // Launches before the first update, in the first step, twice in the second, and behind the last update.
        let session = trace(
            "pass torch operators
             launch 2..7 -> kernel 7..9
             range Optimizer.zero_grad#Adam.zero_grad 6..7
             range Optimizer.step#Adam.step 8..10
             launch 12..17 -> kernel 17..19
             range Optimizer.zero_grad#Adam.zero_grad 16..17
             range Optimizer.step#Adam.step 18..20
             range Optimizer.zero_grad#Adam.zero_grad 36..37
             range Optimizer.step#Adam.step 38..40
             launch 39..44 -> kernel 44..46
             range Optimizer.zero_grad#Adam.zero_grad 56..57
             range Optimizer.step#Adam.step 58..60
             launch 61..66 -> kernel 66..68
             thread 2
             launch 22..27 -> kernel 27..29",
        );
        let facts = StageTables::new(&session);
        assert_eq!((facts.stages.len(), facts.is_between_updates(0)), (1, true));
        let of = |one: &StageInstance| (one.host_start, one.host_end, one.ops.len());
        let steps: Vec<_> = facts
            .instances_of(&facts.stages[0])
            .iter()
            .map(of)
            .collect();
        assert_eq!(
            steps,
            [
                (Ns(10), Ns(20), 1),
                (Ns(20), Ns(40), 2),
                (Ns(40), Ns(60), 0)
            ]
        );
    }
}
