//! The GPU runs dry while the host waits for it.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_analysis::time::sync::PassSync;
use rooflens_document::{Finding, Inline};
use rooflens_units::{Ns, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "sync-bound",
    &[Threshold::ratio("thresholds.synchronizing", SHARE)],
    outcome,
);

/// Idle time within synchronizing calls and blocking copies ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.02);

/// In both the host waits for the GPU.
const CAUSES: [Cause; 2] = [Cause::Sync, Cause::Copy];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::Sync, SHARE, |stage, idle, sync| {
        let saved = sync + idle.of_stage(Cause::Copy).unwrap_or_default();
        let is_large = stage.share(saved) >= SHARE;
        is_large.then(|| draft(evidence, stage, idle, saved)).into()
    })
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle, saved: Time) -> Draft {
    let sync = evidence.results.sync().ok();
    let of_stage = sync.and_then(|sync| sync.of_stage(stage.stage, stage.process));
    let (call, around) = of_stage
        .and_then(|(pass, _)| longest(evidence, pass))
        .unzip();
    let copies = idle.of(Cause::Copy);
    let of_idle = Ratio(copies.time() / idle.pool.causes.sum(&CAUSES).max(Ns(1)).time());
    // The SQL gives the time in synchronizing calls alone.
    let query = match copies {
        Ns(0) => evidence.query(stage, idle, Cause::Sync),
        _ => None,
    };
    let finding = Finding {
        query,
        ..evidence.saving_idle(stage, idle, &CAUSES, saved)
    };
    let arguments = arguments! {
        idle = evidence.idles(stage, idle, &CAUSES, saved),
        copies = (copies > Ns::ZERO).then_some(of_idle),
        calls = of_stage.map(|(_, sync)| sync.calls),
        call = call,
        around = around.flatten(),
    };
    Draft::new(finding, arguments)
}

/// The call in whose gaps within stages a pass is idle longest before it returns, and where it is.
fn longest(evidence: &Evidence<'_>, pass: &PassSync) -> Option<(Inline, Option<Inline>)> {
    let session = evidence.session;
    let place = pass
        .places
        .iter()
        .max_by_key(|place| place.sum.in_stage_calls)?;
    if place.sum.in_stage_calls <= Ns::ZERO {
        return None;
    }
    let around = match place.operator_name(session) {
        Some(operator) => Some(operator.to_owned()),
        None => place.path(session),
    };
    Some((
        Inline::code(session.text(place.call)),
        around.map(Inline::Code),
    ))
}
