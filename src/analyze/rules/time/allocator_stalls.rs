//! The GPU waits for memory to be allocated or freed.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
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

fn run(evidence: &Evidence<'_>) -> Outcome {
    let by_cause = evidence.per_cause(Cause::Allocator, SHARE, |stage, line, saved| {
        (stage.share(saved) >= SHARE)
            .then(|| finding(evidence, stage, line, saved))
            .into()
    });
    let allocator = evidence.results.allocator().ok();
    let Some(allocator) = allocator.filter(|all| !all.calls.rows.is_empty()) else {
        return by_cause;
    };
    let noted = evidence
        .stages
        .iter()
        .filter_map(|stage| calls(evidence, stage, allocator));
    match (by_cause, Outcome::of(noted.collect())) {
        (Outcome::InsufficientData(_) | Outcome::Passed(_), noted @ Outcome::Found(_)) => noted,
        (by_cause, _) => by_cause,
    }
}

/// Calls that take the host's time, whether or not the GPU waits for them.
fn calls(evidence: &Evidence<'_>, stage: &StageLine, allocator: &Allocator) -> Option<Finding> {
    let (number, time) = allocator.calls.counted(stage.stage, stage.process);
    let (time, host) = (time as f64, evidence.summary(stage)?.host * stage.counted);
    if time <= 0.0 || time < HOST * host || stage.busy_share >= BUSY {
        return None;
    }
    Some(Finding {
        statement: say!(
            evidence,
            "allocator_stalls.calls",
            stage = Inline::strong(&stage.label),
            count = Quantity::count(number),
            share = Quantity::ratio(time / host),
        ),
        advice: Some(say!(evidence, "allocator_stalls.calls_advice")),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, line: &Line, saved: f64) -> Finding {
    let basis = words!(evidence, "allocator_stalls.basis");
    let idle = evidence.idles(stage, line, &[Cause::Allocator], saved);
    Finding {
        statement: say!(evidence, "allocator_stalls.statement", idle = idle),
        advice: Some(say!(evidence, "allocator_stalls.advice")),
        next: Some(say!(evidence, "allocator_stalls.next")),
        evidence: vec![line.evidence(&evidence.context)],
        query: evidence.query(stage, line, Cause::Allocator),
        ..evidence.saving_idle(stage, line, &[Cause::Allocator], saved, &basis)
    }
}
