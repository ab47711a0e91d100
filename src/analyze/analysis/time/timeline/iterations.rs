//! Iterations whose every operation a reader can look at.

use std::cmp::Reverse;

use super::bins::Window;
use crate::Context;
use crate::engine::facts::{OpIndex, StageInstance};
use crate::engine::stage_stats::Summary;
use crate::engine::stages::WHOLE_CAPTURE;
use rooflens_session::{ApiCallId, PassId};

/// Operations and calls of all iterations together: 150 kB of an HTML file.
const MAX_EVENTS: usize = 24_000;

/// The iteration of a stage whose shares of idle time are nearest to the medians, on all GPUs of its process.
pub struct Iteration {
    /// The stage.
    pub summary: Summary,
    /// Number of the iteration among those of the stage and process, from 0.
    pub ordinal: u32,
    /// From its first operation to the end of its last one.
    pub window: Window,
    /// Its process's operations in the window, by start.
    pub operations: Vec<OpIndex>,
    /// Outermost CUDA calls of the process in the window, and those that launched its operations, by start.
    pub calls: Vec<ApiCallId>,
}

/// Iterations of the stages of the run, as many as there is room for: parts before the wholes that consist of them, and
/// of these those with the most time first.
pub(super) fn find(context: &Context<'_>) -> Vec<Iteration> {
    let facts = context.facts;
    let is_parent = |stage: usize| facts.stages.iter().any(|child| child.parent == Some(stage));
    let named = |line: &&Summary| line.stage(facts).name != WHOLE_CAPTURE;
    let mut lines: Vec<&Summary> = facts.run_summaries().filter(named).collect();
    let total = |line: &Summary| line.time * line.counted as f64;
    lines.sort_by(|a, b| {
        let parts_first = is_parent(a.stage).cmp(&is_parent(b.stage));
        parts_first
            .then(total(b).total_cmp(&total(a)))
            .then(a.stage.cmp(&b.stage))
    });
    let mut room = MAX_EVENTS;
    let mut iterations = Vec::new();
    for line in lines {
        let Some(iteration) = of(context, line) else {
            continue;
        };
        let events = iteration.operations.len() + iteration.calls.len();
        if events > 0 && events <= room {
            room -= events;
            iterations.push(iteration);
        }
    }
    iterations
}

fn of(context: &Context<'_>, summary: &Summary) -> Option<Iteration> {
    let idle = context.results.idle().ok()?;
    let instance = idle.nearest(context.facts, summary.stage, summary.process)?;
    let (start, end) = instance.projection?;
    let window = Window { start, end };
    let operations = operations(
        context,
        summary.stage(context.facts).pass,
        instance,
        &window,
    );
    let calls = calls(context, instance, &window, &operations);
    let (summary, ordinal) = (summary.clone(), instance.ordinal);
    Some(Iteration {
        summary,
        ordinal,
        window,
        operations,
        calls,
    })
}

fn operations(
    context: &Context<'_>,
    pass: PassId,
    instance: &StageInstance,
    window: &Window,
) -> Vec<OpIndex> {
    let ops = &context.facts.ops;
    let of_process = |row: &usize| ops.process[*row] == instance.process;
    let runs = |row: &usize| window.clip(ops.start[*row], ops.end[*row]).is_some();
    let operations = context.facts.ops_of(pass).filter(of_process).filter(runs);
    let mut operations: Vec<OpIndex> = operations.map(|row| row as OpIndex).collect();
    operations.sort_by_key(|row| {
        (
            ops.start[*row as usize],
            Reverse(ops.end[*row as usize]),
            *row,
        )
    });
    operations
}

fn calls(
    context: &Context<'_>,
    instance: &StageInstance,
    window: &Window,
    operations: &[OpIndex],
) -> Vec<ApiCallId> {
    let calls = &context.session.api_calls;
    let in_window = |row: &usize| {
        let is_counted = calls.process[*row] == instance.process && !calls.nested[*row];
        is_counted && window.clip(calls.start[*row], calls.end[*row]).is_some()
    };
    let mut launches: Vec<ApiCallId> = (0..calls.len())
        .filter(in_window)
        .map(|row| ApiCallId(row as u32))
        .collect();
    let launching = |row: &OpIndex| context.facts.ops.api_call[*row as usize];
    launches.extend(operations.iter().filter_map(launching));
    launches.sort_by_key(|call| (calls.start[call.index()], *call));
    launches.dedup();
    launches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{trace, with_results};
    use rooflens_session::{Ns, Session};

    /// Two steps of two kernels, each of which starts 5 ns after its launch and 3 ns after the call returned.
    fn session() -> Session {
        trace(
            "range step 100..150
             launch 105..107 -> k 110..114
             launch 115..117 -> k 120..124
             range step 200..250
             launch 205..207 -> k 210..214
             launch 215..217 -> k 220..224",
        )
    }

    #[test]
    fn an_iteration_has_its_operations_and_the_calls_that_launched_them() {
        let session = session();
        with_results(&session, |context| {
            let found = find(context);
            let [iteration] = found.as_slice() else {
                panic!("{} iterations", found.len())
            };
            let at = 100 * (1 + i64::from(iteration.ordinal));
            assert_eq!(
                iteration.window,
                Window {
                    start: Ns(at + 10),
                    end: Ns(at + 24)
                }
            );
            assert_eq!(iteration.operations.len(), 2);
            // The first call returned before the first kernel began: it is there since it launched it.
            let start = |call: &ApiCallId| session.api_calls.start[call.index()];
            let starts: Vec<Ns> = iteration.calls.iter().map(start).collect();
            assert_eq!(starts, [Ns(at + 5), Ns(at + 15)]);
        });
    }
}
