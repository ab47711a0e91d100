//! A repeated stage gets slower or faster over the run.

use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::Metric;

pub(super) static RULE: Rule = Rule {
    id: "uneven-pace",
    title: "Uneven pace",
    thresholds: &[
        Threshold::ratio("change of a stage's time over the run, at least", DRIFT),
        Threshold::one("statistic of the trend, where there is one, beyond", TREND),
    ],
    run,
};

/// Relative change of the last instances against the first from which on it is worth a finding.
const DRIFT: f64 = 0.05;

/// Mann–Kendall statistic beyond which a trend is no chance, at 1 %.
const TREND: f64 = 2.58;

fn run(results: &Results<'_>) -> Outcome {
    let known = || results.all(ids::PACE_DRIFT).filter(|metric| metric.value.number().is_some());
    if known().next().is_none() {
        return Outcome::lacks("a stage with several instances in one pass");
    }
    let drifts = |metric: &&Metric| {
        let z = results.number(ids::PACE_TREND_Z, &metric.scope);
        metric.value.number().is_some_and(|drift| drift.abs() >= DRIFT)
            && z.is_none_or(|z| z.abs() >= TREND)
    };
    Outcome::of(known().filter(drifts).map(finding).collect())
}

fn finding(metric: &Metric) -> Observation {
    let drift = metric.value.number().unwrap_or_default();
    let stage = metric.scope.stage.clone().unwrap_or_default();
    let slower = drift > 0.0;
    let advice = match slower {
        true => prose![
            "Growing caches make decode steps longer, which is no fault; else look for falling clocks, fragmented memory and \
             growing host work."
        ],
        false => prose![
            "Warm up longer before measuring: the first instances are slower than what follows."
        ],
    };
    Observation {
        title: stage.clone(),
        severity: if slower { Severity::Warning } else { Severity::Note },
        scope: metric.scope.clone(),
        statement: prose![
            Inline::Strong(stage),
            " gets ",
            if slower { "slower" } else { "faster" },
            " by ",
            Quantity::ratio(drift.abs()),
            " from the first instances to the last: a median hides this."
        ],
        advice: Some(advice),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    }
}
