//! Much GPU work belongs to no stage, or was attributed by inference.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::stage_times::attribution::{PassAttribution, UNATTRIBUTED};
use rooflens_findings::{Inline, Observation, Quantity, Severity};
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
        return Outcome::lacks(&words!(results, "attribution_coverage.needs"));
    };
    let inferred = results.stages.iter().filter_map(|stage| inferred(results, stage));
    Outcome::of(outside(results, own).into_iter().chain(inferred).collect())
}

fn outside(results: &Results<'_>, own: &PassAttribution) -> Option<Observation> {
    (own.unattributed() >= UNATTRIBUTED).then(|| Observation {
        severity: Severity::Note,
        statement: say!(
            results,
            "attribution_coverage.unattributed",
            share = Quantity::ratio(own.unattributed()),
            pass = Inline::code(&results.pass),
        ),
        advice: Some(say!(results, "attribution_coverage.advice")),
        evidence: results.stages.iter().take(1).map(|stage| stage.figures.clone()).collect(),
        scope: Scope { pass: Some(results.pass.clone()), ..Scope::default() },
        ..Observation::default()
    })
}

fn inferred(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let share = results.summary(stage)?.inferred_share;
    (share >= INFERRED).then(|| Observation {
        statement: say!(
            results,
            "attribution_coverage.inferred",
            share = Quantity::ratio(share),
            stage = Inline::strong(&stage.label),
        ),
        next: Some(say!(results, "attribution_coverage.next")),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}
