//! The GPU runs dry while the host waits for it.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_analysis::time::sync::PassSync;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "sync-bound",
    &[Threshold::ratio("thresholds.synchronizing", SHARE)],
    run,
);

/// Idle time within synchronizing calls and blocking copies ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.02;

/// In both the host waits for the GPU.
const CAUSES: [Cause; 2] = [Cause::Sync, Cause::Copy];

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::Sync, SHARE, |stage, line, sync| {
        let saved = sync + line.of_stage(Cause::Copy).unwrap_or(0.0);
        (stage.share(saved) >= SHARE)
            .then(|| finding(evidence, stage, line, saved))
            .into()
    })
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, line: &Line, saved: f64) -> Finding {
    let sync = evidence.results.sync().ok();
    let own = sync.and_then(|sync| sync.of_stage(stage.stage, stage.process));
    let (call, around) = own.and_then(|(pass, _)| longest(evidence, pass)).unzip();
    let basis = words!(evidence, "sync_bound.basis");
    let copies = line.of(Cause::Copy);
    let of_idle = copies as f64 / line.pool.causes.sum(&CAUSES).max(1) as f64;
    Finding {
        statement: say!(
            evidence,
            "sync_bound.statement",
            idle = evidence.idles(stage, line, &CAUSES, saved),
            copies = (copies > 0).then(|| Quantity::ratio(of_idle)),
            calls = own.map(|(_, own)| Quantity::new(own.calls, Unit::Count)),
            call = call,
            around = around,
        ),
        advice: Some(say!(evidence, "sync_bound.advice")),
        next: Some(say!(evidence, "sync_bound.next")),
        evidence: vec![line.evidence(&evidence.context)],
        // The SQL gives the time in synchronizing calls alone.
        query: if copies == 0 {
            evidence.query(stage, line, Cause::Sync)
        } else {
            None
        },
        ..evidence.saving_idle(stage, line, &CAUSES, saved, &basis)
    }
}

/// The call in whose gaps within stages a pass is idle longest before it returns, and where it is.
fn longest(evidence: &Evidence<'_>, pass: &PassSync) -> Option<(Inline, Option<Inline>)> {
    let session = evidence.session;
    let worst = pass
        .places
        .iter()
        .max_by_key(|place| place.sum.in_stage_calls);
    let place = worst.filter(|place| place.sum.in_stage_calls > 0)?;
    let around = place.operator_name(session).map(ToOwned::to_owned);
    let around = around.or_else(|| place.path(session)).map(Inline::Code);
    Some((Inline::code(session.text(place.call)), around))
}
