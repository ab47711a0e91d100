//! Copies run while no kernel does.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, ids, pageable_copies};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "exposed-copies",
    title: "Exposed copies",
    thresholds: &[Threshold::ratio(
        "copies without kernels beside them, of the stage time, at least",
        SHARE,
    )],
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
    results.each_stage(needs, |stage| match results.number(ids::COPY_EXPOSED, &stage.scope) {
        Some(_) => finding(results, stage).into(),
        // What traces operations traces copies: there are none.
        None if results.shows_operations(stage) => Look::Clear,
        None => Look::Lacks,
    })
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let number = |id| results.number(id, &stage.scope);
    let exposed = number(ids::COPY_EXPOSED)?;
    if stage.share(exposed) < SHARE {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " copies for ",
        Quantity::ratio(stage.share(exposed)),
        " of its time while no kernel runs"
    ];
    if let Some(bytes) = number(ids::COPY_BYTES) {
        statement.extend(prose!["; it moves ", Quantity::new(bytes, Unit::Bytes)]);
    }
    if let Some(kernels) = kernels(results, stage, exposed) {
        let share = Quantity::ratio(stage.share(kernels));
        statement.extend(prose![", and kernels without copies beside them run for ", share]);
    }
    statement.push(".".into());
    let saved = results.saved(ids::BOUND_COPIES, stage).unwrap_or(exposed);
    Some(Observation {
        statement,
        advice: Some(advice(results, stage, exposed)),
        evidence: results.evidence(ids::COPY_EXPOSED, &stage.scope),
        query: stage.window.as_ref().and_then(super::sql::Window::copies),
        ..stage.saving(saved, "copies run beside kernels, and both directions at once")
    })
}

/// Time in which kernels run and could hide copies.
fn kernels(results: &Results<'_>, stage: &StageLine, exposed: f64) -> Option<f64> {
    let busy = results.number(ids::BUSY_SHARE, &stage.scope)? * stage.time;
    let beside = results.number(ids::COPY_TIME, &stage.scope).unwrap_or(exposed) - exposed;
    Some((busy - exposed - beside.max(0.0)).max(0.0))
}

/// What the figures leave to try.
fn advice(results: &Results<'_>, stage: &StageLine, exposed: f64) -> Vec<Inline> {
    let of = |direction| results.of_class(ids::COPY_EXPOSED, stage, direction).unwrap_or(0.0);
    let [to, from] = pageable_copies::DIRECTIONS.map(of);
    if to + from < exposed / 2.0 {
        return prose![
            "Most of them stay on the GPU: write results where they are needed (in place, contiguous layouts) instead of \
             copying them."
        ];
    }
    let mut text = Vec::new();
    if kernels(results, stage, exposed).is_none_or(|time| time >= HIDING * exposed) {
        text.push(
            "Issue them on a stream of their own, ahead of the kernels that need them. ".into(),
        );
    }
    if to.min(from) >= EACH * exposed {
        text.push("Let both directions run at the same time, on a stream each. ".into());
    }
    let pageable = results.number(ids::PAGEABLE_SHARE, &stage.scope);
    if pageable.is_none_or(|share| share >= pageable_copies::SHARE) {
        text.push("Copy from and to pinned memory. ".into());
    }
    text.push("Keep on the GPU what fits, and move fewer bytes: only that shortens the copies themselves.".into());
    text
}
