//! The GPU waits for memory to be allocated or freed.

use crate::stage::StageLine;
use crate::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::memory::allocator::Allocator;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_document::{Finding, Inline, Quantity};

pub(crate) static RULE: Rule = Rule::new(
    "allocator-stalls",
    &[
        Threshold::ratio("thresholds.allocator_idle", SHARE),
        Threshold::ratio("thresholds.allocator_calls", HOST),
        Threshold::ratio("thresholds.allocator_busy", BUSY),
    ],
    run,
);

/// Idle time within calls that allocate ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.01;

/// Time in such calls ÷ time of the stage's ranges on the host from which on they are worth a note.
const HOST: f64 = 0.01;

/// Busy share from which on the host may take its time: the GPU has work.
const BUSY: f64 = 0.9;

fn run(results: &Results<'_>) -> Outcome {
    let by_cause = results.per_cause(Cause::Allocator, SHARE, |stage, line, saved| {
        (stage.share(saved) >= SHARE)
            .then(|| finding(results, stage, line, saved))
            .into()
    });
    let allocator = results.context.results.allocator().ok();
    let Some(allocator) = allocator.filter(|all| !all.calls.rows.is_empty()) else {
        return by_cause;
    };
    let noted = results
        .stages
        .iter()
        .filter_map(|stage| calls(results, stage, allocator));
    match (by_cause, Outcome::of(noted.collect())) {
        (Outcome::Abstained(_) | Outcome::Clear(_), noted @ Outcome::Found(_)) => noted,
        (by_cause, _) => by_cause,
    }
}

/// Calls that take the host's time, whether or not the GPU waits for them.
fn calls(results: &Results<'_>, stage: &StageLine, allocator: &Allocator) -> Option<Finding> {
    let (number, time) = allocator.calls.counted(stage.stage, stage.process);
    let (time, host) = (time as f64, results.summary(stage)?.host * stage.counted);
    if time <= 0.0 || time < HOST * host || stage.busy_share >= BUSY {
        return None;
    }
    Some(Finding {
        statement: say!(
            results,
            "allocator_stalls.calls",
            stage = Inline::strong(&stage.label),
            count = Quantity::count(number),
            share = Quantity::ratio(time / host),
        ),
        advice: Some(say!(results, "allocator_stalls.calls_advice")),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}

fn finding(results: &Results<'_>, stage: &StageLine, line: &Line, saved: f64) -> Finding {
    let basis = words!(results, "allocator_stalls.basis");
    let idle = results.idles(stage, line, &[Cause::Allocator], saved);
    Finding {
        statement: say!(results, "allocator_stalls.statement", idle = idle),
        advice: Some(say!(results, "allocator_stalls.advice")),
        next: Some(say!(results, "allocator_stalls.next")),
        evidence: vec![line.evidence(&results.context)],
        query: results.query(stage, line, Cause::Allocator),
        ..results.saving_idle(stage, line, &[Cause::Allocator], saved, &basis)
    }
}
