//! Much GPU work belongs to no stage, or was attributed by inference.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::time::stage_times::attribution::{PassAttribution, UNATTRIBUTED};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Scope;
use rooflens_session::Arrange;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "attribution-coverage",
    &[
        Threshold::ratio("thresholds.unattributed", UNATTRIBUTED),
        Threshold::ratio("thresholds.inferred", INFERRED),
    ],
    outcome,
)
.on_measurement();

/// Inferred operations of a stage from which on it is said.
const INFERRED: Ratio = Ratio(0.50);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let Some(attribution) = attribution(evidence) else {
        return Outcome::INSUFFICIENT_DATA;
    };
    // Ranks of a stage run the same code: one remark for all of them.
    let mut stages: Vec<Vec<&StageLine>> = Vec::new();
    for stage in &evidence.stages {
        let of_name = |ranks: &&mut Vec<&StageLine>| ranks[0].scope.stage == stage.scope.stage;
        match stages.iter_mut().find(of_name) {
            Some(ranks) => ranks.push(stage),
            None => stages.push(vec![stage]),
        }
    }
    let mut drafts = Vec::new();
    drafts.extend(unattributed(evidence, attribution));
    for ranks in stages {
        drafts.extend(inferred(evidence, &ranks));
    }
    Outcome::of_drafts(drafts)
}

/// Attribution of the primary pass.
fn attribution<'a>(evidence: &Evidence<'a>) -> Option<&'a PassAttribution> {
    let times = evidence.results.stage_times().ok()?;
    let mut passes = times.attribution.iter();
    passes.find(|attribution| attribution.pass == times.primary)
}

fn unattributed(evidence: &Evidence<'_>, attribution: &PassAttribution) -> Option<Draft> {
    let share = attribution.unattributed();
    if share < UNATTRIBUTED {
        return None;
    }
    let first = evidence.stages.first();
    let finding = Finding {
        evidence: first
            .map(|stage| stage.figures.clone())
            .into_iter()
            .collect(),
        scope: evidence.pass_scope(),
        ..Finding::default()
    };
    let arguments = arguments! { share = share, pass = Inline::code(&evidence.pass) };
    Some(
        Draft::new(finding, arguments)
            .statement("unattributed")
            .next(None),
    )
}

/// About a stage, on all its ranks where at least one has so many.
fn inferred(evidence: &Evidence<'_>, ranks: &[&StageLine]) -> Option<Draft> {
    let mut shares: Vec<(Ratio, &StageLine)> = Vec::new();
    for stage in ranks {
        if let Some(summary) = evidence.summary(stage) {
            shares.push((summary.inferred_share, stage));
        }
    }
    shares.arrange_by(|a, b| b.0.total_cmp(&a.0));
    let ((most, stage), (least, _)) = (*shares.first()?, *shares.last()?);
    if most < INFERRED {
        return None;
    }
    let is_of_several = shares.len() > 1;
    let note = stage.note();
    let (name, scope) = match is_of_several {
        false => (stage.label(), note.scope),
        // Of no rank: it is about all of them.
        true => {
            let name = stage.scope.stage.as_deref().unwrap_or(&stage.label);
            (
                name,
                Scope {
                    rank: None,
                    gpu: None,
                    ..note.scope
                },
            )
        }
    };
    let finding = Finding {
        scope,
        evidence: shares
            .iter()
            .map(|(_, stage)| stage.figures.clone())
            .collect(),
        ..note
    };
    let (low, high) = (Quantity::from(least), Quantity::from(most));
    let arguments = arguments! {
        share = low,
        most = (low.to_string() != high.to_string()).then_some(high),
        stage = Inline::strong(name),
        ranks = is_of_several.then(|| shares.len().to_string()),
    };
    Some(
        Draft::new(finding, arguments)
            .statement("inferred")
            .advice(None),
    )
}
