//! Copies run while no kernel does.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, pageable_copies};
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::time::what_if::WhatIf;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_model::CopyKind;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "exposed-copies",
    thresholds: &[Threshold::ratio("thresholds.exposed_copies", SHARE)],
    run,
};

/// Exposed copies ÷ stage time from which on they are worth a finding.
const SHARE: f64 = 0.05;

/// Kernels without copies beside them ÷ exposed copies from which on the kernels are worth hiding copies behind.
const HIDING: f64 = 0.10;

/// Exposed copies of one direction ÷ all from which on there is something for the other to run beside.
const EACH: f64 = 0.20;

fn run(results: &Results<'_>) -> Outcome {
    let needs = "operations of a stage one by one, copies among them (nsys --trace=cuda)";
    results.each_stage(needs, |stage| match results.copies(stage) {
        Some(copies) => finding(results, stage, copies).into(),
        // What traces operations traces copies: there are none.
        None if results.shows_operations(stage) => Look::Clear,
        None => Look::Lacks,
    })
}

fn finding(results: &Results<'_>, stage: &StageLine, copies: &Place) -> Option<Observation> {
    let exposed = copies.exposed(None);
    if stage.share(exposed) < SHARE {
        return None;
    }
    let kernels = kernels(results, stage, copies);
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " copies for ",
        Quantity::ratio(stage.share(exposed)),
        " of its time while no kernel runs",
        "; it moves ",
        Quantity::new(copies.bytes(None), Unit::Bytes)
    ];
    if let Some(kernels) = kernels {
        let share = Quantity::ratio(stage.share(kernels));
        statement.extend(prose![", and kernels without copies beside them run for ", share]);
    }
    statement.push(".".into());
    let saved = results.gain(WhatIf::Copies, stage).unwrap_or(exposed);
    Some(Observation {
        statement,
        advice: Some(advice(copies, kernels)),
        evidence: vec![copies.evidence(results.context.session)],
        query: stage.window.as_ref().and_then(super::sql::Window::copies),
        ..stage.saving(saved, "copies run beside kernels, and both directions at once")
    })
}

/// Time in which kernels run and could hide copies.
fn kernels(results: &Results<'_>, stage: &StageLine, copies: &Place) -> Option<f64> {
    let busy = results.busy_share(stage)? * stage.time;
    let exposed = copies.exposed(None);
    let beside = copies.time(None) - exposed;
    Some((busy - exposed - beside.max(0.0)).max(0.0))
}

/// What the figures leave to try.
fn advice(copies: &Place, kernels: Option<f64>) -> Vec<Inline> {
    let exposed = copies.exposed(None);
    let [to, from] =
        [CopyKind::HostToDevice, CopyKind::DeviceToHost].map(|kind| copies.exposed(Some(kind)));
    if to + from < exposed / 2.0 {
        return prose![
            "Most of them stay on the GPU: write results where they are needed (in place, contiguous layouts) instead of \
             copying them."
        ];
    }
    let mut text = Vec::new();
    if kernels.is_none_or(|time| time >= HIDING * exposed) {
        text.push(
            "Issue them on a stream of their own, ahead of the kernels that need them. ".into(),
        );
    }
    if to.min(from) >= EACH * exposed {
        text.push("Let both directions run at the same time, on a stream each. ".into());
    }
    if copies.pageable_share().is_none_or(|share| share >= pageable_copies::SHARE) {
        text.push("Copy from and to pinned memory. ".into());
    }
    text.push("Keep on the GPU what fits, and move fewer bytes: only that shortens the copies themselves.".into());
    text
}
