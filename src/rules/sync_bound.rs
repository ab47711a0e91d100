//! The GPU runs dry because the host waited for it.

use rooflens_schemas::{Evidence, Unit};

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::sync::{PassSync, StageSync};
use rooflens_findings::{Inline, Observation, Quantity};

pub(super) static RULE: Rule = Rule {
    id: "sync-bound",
    thresholds: &[Threshold::ratio("thresholds.synchronizing", SHARE)],
    run,
};

/// Idle time by synchronizing calls ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.02;

fn run(results: &Results<'_>) -> Outcome {
    let sync = results.context.results.sync().ok();
    let Some(sync) = sync.filter(|sync| sync.passes.iter().any(|pass| !pass.stages.is_empty()))
    else {
        return results.per_cause(Cause::Sync, |stage, line, idle| {
            let evidence = line.evidence(&results.context);
            finding(results, stage, idle, evidence, None).into()
        });
    };
    // All of the gap that a call leaves, where that is known: without the call there is none.
    results.each_stage(&words!(results, "findings.needs_idle"), |stage| {
        let Some((pass, own)) = sync.of_stage(stage.stage, stage.process) else {
            return Look::Lacks;
        };
        let evidence = pass.evidence(results.context.session);
        finding(results, stage, own.idle, evidence, Some((pass, own))).into()
    })
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    saved: f64,
    evidence: Evidence,
    calls: Option<(&PassSync, &StageSync)>,
) -> Option<Observation> {
    if stage.share(saved) < SHARE {
        return None;
    }
    let (call, around) = calls.and_then(|(pass, _)| costliest(results, pass)).unzip();
    let window = stage.window.as_ref();
    Some(Observation {
        statement: say!(
            results,
            "sync_bound.statement",
            stage = Inline::strong(&stage.label),
            share = Quantity::ratio(stage.share(saved)),
            calls = calls.map(|(_, own)| Quantity::new(own.calls, Unit::Count)),
            call = call,
            around = around,
        ),
        advice: Some(say!(results, "sync_bound.advice")),
        next: Some(say!(results, "sync_bound.next")),
        evidence: vec![evidence],
        query: window.map(|window| window.calls(&["cuda%Synchronize%", "cudaMemcpy%"])),
        ..stage.saving_idle(saved, &words!(results, "sync_bound.basis"))
    })
}

/// The call of a pass that costs most in stages, and where it is.
fn costliest(results: &Results<'_>, pass: &PassSync) -> Option<(Inline, Option<Inline>)> {
    let session = results.context.session;
    let worst = pass.places.iter().max_by_key(|place| place.sum.in_stage);
    let place = worst.filter(|place| place.sum.in_stage > 0)?;
    let around = place.operator_name(session).map(ToOwned::to_owned);
    let around = around.or_else(|| place.path(session)).map(Inline::Code);
    Some((Inline::code(session.text(place.call)), around))
}
