//! Much GPU work belongs to no stage, or was attributed by inference.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::stage_times::attribution::{PassAttribution, UNATTRIBUTED};
use rooflens_findings::{Inline, Observation, Quantity, Severity, prose};
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "attribution-coverage",
    thresholds: &[
        Threshold::ratio("thresholds.unattributed", UNATTRIBUTED),
        Threshold::ratio("thresholds.inferred", INFERRED),
    ],
    run,
};

/// Inferred operations of a stage from which on it is said.
const INFERRED: f64 = 0.50;

fn run(results: &Results<'_>) -> Outcome {
    let times = results.context.results.stage_times().ok();
    let own = times.and_then(|all| all.attribution.iter().find(|own| own.pass == all.primary));
    let Some(own) = own else {
        return Outcome::lacks("GPU operations and ranges of one pass");
    };
    let inferred = results.stages.iter().filter_map(|stage| inferred(results, stage));
    Outcome::of(outside(results, own).into_iter().chain(inferred).collect())
}

fn outside(results: &Results<'_>, own: &PassAttribution) -> Option<Observation> {
    (own.unattributed() >= UNATTRIBUTED).then(|| Observation {
        severity: Severity::Note,
        statement: prose![
            Quantity::ratio(own.unattributed()),
            " of the GPU time of pass ",
            Inline::Code(results.pass.clone()),
            " from its first stage on belongs to no stage: figures of stages leave it out."
        ],
        advice: Some(prose![
            "Push ranges around the remaining phases, or name them in ",
            Inline::Code("workload.toml".to_owned()),
            "."
        ]),
        evidence: results.stages.iter().take(1).map(|stage| stage.figures.clone()).collect(),
        scope: Scope { pass: Some(results.pass.clone()), ..Scope::default() },
        ..Observation::default()
    })
}

fn inferred(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let share = results.summary(stage)?.inferred_share;
    (share >= INFERRED).then(|| Observation {
        statement: prose![
            Quantity::ratio(share),
            " of the operations of ",
            Inline::Strong(stage.label.clone()),
            " were issued by a thread without ranges and lent the range of the one other thread that had one open."
        ],
        next: Some(prose![
            "Ranges on the issuing thread itself (",
            Inline::Code("torch.autograd.profiler.emit_nvtx()".to_owned()),
            ") leave nothing to infer."
        ]),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}
