//! Collectives run while nothing is computed.

use crate::sql::Window;
use crate::stage::StageLine;
use crate::time::stage_busy::ALL;
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::communication::lines::Line;
use rooflens_analysis::time::upper_bounds::Overhead;
use rooflens_document::{Finding, Inline, Quantity, Severity};

pub(crate) static RULE: Rule = Rule::new(
    "exposed-communication",
    &[Threshold::ratio("thresholds.exposed_collectives", SHARE)],
    run,
);

/// Exposed communication ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.05;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let needs = &words!(evidence, "exposed_communication.needs");
    evidence.each_stage(needs, |stage| match evidence.communication(stage) {
        Some(line) => finding(evidence, stage, line).into(),
        // What traces kernels traces collectives: there are none.
        None if evidence.shows_operations(stage) => Look::Passed,
        None => Look::InsufficientData,
    })
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> Option<Finding> {
    let exposed = line.exposed;
    if stage.share(exposed) < SHARE {
        return None;
    }
    let wait = line.wait.map(|wait| wait.min(exposed));
    let of_exposed = wait.map(|wait| if exposed > 0.0 { wait / exposed } else { 0.0 });
    let statement = say!(
        evidence,
        "exposed_communication.statement",
        stage = Inline::strong(&stage.label),
        share = Quantity::ratio(stage.share(exposed)),
        wait = of_exposed.filter(|part| *part < ALL).map(Quantity::ratio),
        all = of_exposed.filter(|part| *part >= ALL).map(|_| ""),
    );
    let waits = wait.is_some_and(|wait| wait > exposed / 2.0);
    let advice = match waits {
        true => say!(evidence, "exposed_communication.advice_wait"),
        false => {
            let wraps = |names: &[&str]| wraps(evidence, names).then_some("");
            say!(
                evidence,
                "exposed_communication.advice",
                ddp = wraps(&["DistributedDataParallel"]),
                fsdp = wraps(&["FullyShardedDataParallel", "FSDP"]),
            )
        }
    };
    let saved = evidence
        .gain(Overhead::Communication, stage)
        .unwrap_or(exposed);
    // Hiding a wait moves it: what equal work would bring is the straggler's finding.
    let base = match waits {
        true => Finding {
            severity: Severity::Note,
            scope: stage.scope.clone(),
            title: stage.label.clone(),
            ..Finding::default()
        },
        false => stage.saving(saved, &words!(evidence, "exposed_communication.basis")),
    };
    Some(Finding {
        statement,
        advice: Some(advice),
        next: Some(say!(evidence, "exposed_communication.next")),
        evidence: vec![line.evidence(evidence.session)],
        query: stage.window.as_ref().map(Window::exposed),
        ..base
    })
}

/// Whether ranges or operators of the bundle name such a wrapper.
fn wraps(evidence: &Evidence<'_>, names: &[&str]) -> bool {
    let session = evidence.session;
    let all = session.ranges.name.iter().chain(&session.operators.name);
    let distinct: std::collections::BTreeSet<_> = all.collect();
    distinct
        .into_iter()
        .any(|id| names.iter().any(|name| session.text(*id).contains(name)))
}
