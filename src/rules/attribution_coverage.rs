//! Much GPU work belongs to no stage, or was attributed by inference.

use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "attribution-coverage",
    title: "Attribution to stages",
    thresholds: &[
        Threshold::ratio("GPU time from the first stage on in no stage, at least", OUTSIDE),
        Threshold::ratio("operations of a stage attributed by inference, at least", INFERRED),
    ],
    run,
};

/// GPU time of the primary pass from its first stage on, outside of all stages, from which on the stages do not tell the run.
const OUTSIDE: f64 = crate::analysis::time::stage_times::attribution::UNATTRIBUTED;

/// Inferred operations of a stage from which on it is said.
const INFERRED: f64 = 0.50;

fn run(results: &Results<'_>) -> Outcome {
    let scope = Scope { pass: Some(results.pass.clone()), ..Scope::default() };
    let Some(inside) = results.number(ids::ATTRIBUTED_SHARE, &scope) else {
        return Outcome::lacks("GPU operations and ranges of one pass");
    };
    let mut found = Vec::new();
    if 1.0 - inside >= OUTSIDE {
        found.push(Observation {
            severity: Severity::Note,
            statement: prose![
                Quantity::ratio(1.0 - inside),
                " of the GPU time of pass ",
                Inline::Code(results.pass.clone()),
                " from its first stage on belongs to no stage: figures of stages leave it out."
            ],
            advice: Some(prose![
                "Push ranges around the remaining phases, or name them in ",
                Inline::Code("workload.toml".to_owned()),
                "."
            ]),
            evidence: results.evidence(
                ids::STAGE_TIME,
                &results.stages.first().map(|stage| stage.scope.clone()).unwrap_or_default(),
            ),
            scope,
            ..Observation::default()
        });
    }
    for stage in &results.stages {
        let inferred = results.number(ids::INFERRED_SHARE, &stage.scope).unwrap_or(0.0);
        if inferred >= INFERRED {
            found.push(Observation {
                statement: prose![
                    Quantity::ratio(inferred),
                    " of the operations of ",
                    Inline::Strong(stage.label.clone()),
                    " were issued by a thread without ranges and lent the range of the one other thread that had one open."
                ],
                next: Some(prose![
                    "Ranges on the issuing thread itself (",
                    Inline::Code("torch.autograd.profiler.emit_nvtx()".to_owned()),
                    ") leave nothing to infer."
                ]),
                evidence: results.evidence(ids::INFERRED_SHARE, &stage.scope),
                ..stage.note()
            });
        }
    }
    Outcome::of(found)
}
