//! Much GPU work belongs to no stage, or was attributed by inference.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::time::stage_times::attribution::{PassAttribution, UNATTRIBUTED};
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Scope;
use rooflens_session::Arrange;

pub(crate) static RULE: Rule = Rule::new(
    "attribution-coverage",
    &[
        Threshold::ratio("thresholds.unattributed", UNATTRIBUTED),
        Threshold::ratio("thresholds.inferred", INFERRED),
    ],
    run,
)
.on_measurement();

/// Inferred operations of a stage from which on it is said.
const INFERRED: f64 = 0.50;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let times = evidence.results.stage_times().ok();
    let own = times.and_then(|all| all.attribution.iter().find(|own| own.pass == all.primary));
    let Some(own) = own else {
        return Outcome::lacks(&words!(evidence, "attribution_coverage.needs"));
    };
    // Ranks of a stage run the same code: one remark for all of them.
    let mut stages: Vec<Vec<&StageLine>> = Vec::new();
    for stage in &evidence.stages {
        match stages
            .iter_mut()
            .find(|own| own[0].scope.stage == stage.scope.stage)
        {
            Some(own) => own.push(stage),
            None => stages.push(vec![stage]),
        }
    }
    let inferred = stages.iter().filter_map(|ranks| inferred(evidence, ranks));
    Outcome::of(outside(evidence, own).into_iter().chain(inferred).collect())
}

fn outside(evidence: &Evidence<'_>, own: &PassAttribution) -> Option<Finding> {
    (own.unattributed() >= UNATTRIBUTED).then(|| Finding {
        severity: Severity::Note,
        statement: say!(
            evidence,
            "attribution_coverage.unattributed",
            share = Quantity::ratio(own.unattributed()),
            pass = Inline::code(&evidence.pass),
        ),
        advice: Some(say!(evidence, "attribution_coverage.advice")),
        evidence: evidence
            .stages
            .iter()
            .take(1)
            .map(|stage| stage.figures.clone())
            .collect(),
        scope: Scope {
            pass: Some(evidence.pass.clone()),
            ..Scope::default()
        },
        ..Finding::default()
    })
}

/// About a stage, on all its ranks where at least one has so many.
fn inferred(evidence: &Evidence<'_>, ranks: &[&StageLine]) -> Option<Finding> {
    let share = |stage: &&&StageLine| evidence.summary(stage).map(|own| own.inferred_share);
    let mut shares: Vec<(f64, &StageLine)> = ranks
        .iter()
        .filter_map(|stage| Some((share(&stage)?, *stage)))
        .collect();
    shares.arrange_by(|a, b| b.0.total_cmp(&a.0));
    let ((most, stage), (least, _)) = (*shares.first()?, *shares.last()?);
    let name = match shares.len() {
        1 => stage.label.as_str(),
        _ => stage.scope.stage.as_deref().unwrap_or(&stage.label),
    };
    let (low, high) = (Quantity::ratio(least), Quantity::ratio(most));
    (most >= INFERRED).then(|| Finding {
        statement: say!(
            evidence,
            "attribution_coverage.inferred",
            share = low,
            most = (low.to_string() != high.to_string()).then_some(high),
            stage = Inline::strong(name),
            ranks = (shares.len() > 1).then(|| shares.len().to_string()),
        ),
        next: Some(say!(evidence, "attribution_coverage.next")),
        scope: match shares.len() {
            1 => stage.scope.clone(),
            // Of no rank: it is about all of them.
            _ => Scope {
                rank: None,
                gpu: None,
                ..stage.scope.clone()
            },
        },
        evidence: shares
            .iter()
            .map(|(_, stage)| stage.figures.clone())
            .collect(),
        ..stage.note()
    })
}
