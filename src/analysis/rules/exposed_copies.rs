//! Copies run while no kernel does.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
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

fn run(results: &Results<'_>) -> Outcome {
    results.per_stage(
        ids::COPY_EXPOSED,
        "a stage with copies, in a timeline with CUDA memory operations (nsys --trace=cuda)",
        finding,
    )
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
    statement.push(".".into());
    let saved = results.saved(ids::BOUND_COPIES, stage).unwrap_or(exposed);
    Some(Observation {
        statement,
        advice: Some(prose![
            "Issue the copies on a stream of their own, ahead of the kernels that need them, from pinned memory; \
             keep on the GPU what fits."
        ]),
        evidence: results.evidence(ids::COPY_EXPOSED, &stage.scope),
        query: stage.window.as_ref().and_then(super::sql::Window::copies),
        ..stage.saving(saved, "all copies run beside kernels")
    })
}
