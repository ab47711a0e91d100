//! Collectives run while nothing is computed.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::communication::lines::Line;
use rooflens_analysis::time::what_if::WhatIf;
use rooflens_findings::{Inline, Observation, Quantity, Severity, prose};

pub(super) static RULE: Rule = Rule {
    id: "exposed-communication",
    thresholds: &[Threshold::ratio("thresholds.exposed_collectives", SHARE)],
    run,
};

/// Exposed communication ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    let needs = "kernels of a stage one by one, collectives among them";
    results.each_stage(needs, |stage| match results.communication(stage) {
        Some(line) => finding(results, stage, line).into(),
        // What traces kernels traces collectives: there are none.
        None if results.shows_operations(stage) => Look::Clear,
        None => Look::Lacks,
    })
}

fn finding(results: &Results<'_>, stage: &StageLine, line: &Line) -> Option<Observation> {
    let exposed = line.exposed;
    if stage.share(exposed) < SHARE {
        return None;
    }
    let wait = line.wait.map(|wait| wait.min(exposed));
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " communicates for ",
        Quantity::ratio(stage.share(exposed)),
        " of its time while nothing is computed"
    ];
    if let Some(wait) = wait {
        let share = Quantity::ratio(if exposed > 0.0 { wait / exposed } else { 0.0 });
        statement.extend(prose![
            "; up to ",
            share,
            " of that it waits for the rank that comes last"
        ]);
    }
    statement.push(".".into());
    let waits = wait.is_some_and(|wait| wait > exposed / 2.0);
    let advice = match waits {
        true => {
            prose!["Give the ranks equal work before tuning the network: most of this is waiting."]
        }
        false => prose![
            "Start the collectives earlier (smaller gradient buckets), overlap them with the backward pass, or send \
             fewer bytes (accumulation, lower precision)."
        ],
    };
    let saved = results.gain(WhatIf::Communication, stage).unwrap_or(exposed);
    // Hiding a wait moves it: what equal work would bring is the straggler's finding.
    let base = match waits {
        true => Observation {
            severity: Severity::Note,
            scope: stage.scope.clone(),
            title: stage.label.clone(),
            ..Observation::default()
        },
        false => stage.saving(saved, "all collectives run beside computing kernels"),
    };
    Some(Observation {
        statement,
        advice: Some(advice),
        next: Some(prose![
            "One trace of each rank over the same steps: only they show who waits for whom."
        ]),
        evidence: vec![line.evidence(results.context.session)],
        query: stage.window.as_ref().map(|window| window.kernels("%nccl%")),
        ..base
    })
}
