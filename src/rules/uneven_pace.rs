//! A repeated stage gets slower or faster over the run.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses, ids};
use crate::analysis::time::drift::TREND_Z;
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Metric, MetricValue};

pub(super) static RULE: Rule = Rule {
    id: "uneven-pace",
    title: "Uneven pace",
    thresholds: &[
        Threshold::ratio("change of a stage's time over the run, at least", DRIFT),
        Threshold::one("statistic of the trend, where there is one, beyond", TREND_Z),
    ],
    run,
};

/// Relative change of the last instances against the first from which on it is worth a finding.
const DRIFT: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    if !results.all(ids::PACE_DRIFT).any(|metric| metric.value.number().is_some()) {
        return Outcome::Abstained(lacks(results));
    }
    let drifting: Vec<(&Metric, f64)> =
        results.all(ids::PACE_DRIFT).filter_map(|metric| drift(results, metric)).collect();
    let told = |metric: &Metric, drift: f64| {
        let stage = metric.scope.stage.as_deref().and_then(|stage| results.outermost(stage));
        drift < 0.0 && stage.is_some_and(|stage| host_pauses::hold(results, stage))
    };
    let own = drifting.iter().filter(|(metric, drift)| !told(metric, *drift));
    let found: Vec<Observation> = own.map(|(metric, drift)| finding(metric, *drift)).collect();
    match (found.is_empty(), drifting.first()) {
        (true, Some((metric, _))) => Outcome::NotApplicable(format!(
            "{}: “{}” says it",
            metric.scope.stage.as_deref().unwrap_or_default(),
            host_pauses::RULE.title
        )),
        _ => Outcome::of(found),
    }
}

/// What the sequences are too short for.
fn lacks(results: &Results<'_>) -> String {
    let reason = results.all(ids::PACE_DRIFT).find_map(|metric| match &metric.value {
        MetricValue::Unavailable { reason } => {
            Some(format!(" ({}: {reason})", metric.scope.stage.as_deref().unwrap_or_default()))
        }
        _ => None,
    });
    format!("8 counted instances of a stage in one pass{}", reason.unwrap_or_default())
}

/// The change of a stage's time, if it is a trend.
fn drift<'a>(results: &Results<'_>, metric: &'a Metric) -> Option<(&'a Metric, f64)> {
    let drift = metric.value.number().filter(|drift| drift.abs() >= DRIFT)?;
    let z = results.number(ids::PACE_TREND_Z, &metric.scope);
    z.is_none_or(|z| z.abs() >= TREND_Z).then_some((metric, drift))
}

/// That a stage or its steps get faster, in words: for the rule that knows why.
pub(super) fn also(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let is_own = |metric: &Metric| {
        let nested = stage.nested.iter().map(|one| &one.scope);
        std::iter::once(&stage.scope).chain(nested).any(|scope| *scope == metric.scope)
    };
    let own = results.all(ids::PACE_DRIFT).filter(|metric| is_own(metric));
    let mut faster =
        own.filter_map(|metric| drift(results, metric)).filter(|(_, drift)| *drift < 0.0);
    faster.next().map_or_else(Vec::new, |(metric, drift)| {
        prose![
            " It fits that ",
            Inline::Strong(metric.scope.stage.clone().unwrap_or_default()),
            " gets shorter by ",
            Quantity::ratio(-drift),
            " over the run."
        ]
    })
}

fn finding(metric: &Metric, drift: f64) -> Observation {
    let stage = metric.scope.stage.clone().unwrap_or_default();
    let slower = drift > 0.0;
    let advice = match slower {
        true => prose![
            "Growing caches make decode steps longer, which is no fault; else look for falling clocks, fragmented memory and \
             growing host work."
        ],
        false => prose![
            "The first instances are the slow ones: warm up with the same shapes (batch, lengths) before measuring, not only \
             for longer; a new shape may be prepared on first use."
        ],
    };
    Observation {
        title: stage.clone(),
        severity: if slower { Severity::Warning } else { Severity::Note },
        scope: metric.scope.clone(),
        statement: prose![
            Inline::Strong(stage),
            if slower { " gets longer by " } else { " gets shorter by " },
            Quantity::ratio(drift.abs()),
            " from the first third of its instances to the last: a median hides this."
        ],
        advice: Some(advice),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    }
}
