//! A repeated stage gets slower or faster over the run.

use crate::stage::{Nested, StageLine};
use crate::{
    Evidence, Outcome, Rule, Threshold, measurement::repeat_outliers::said_by_pauses,
    time::host_pauses,
};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::time::drift::{Direction, LEAST_FOR_TREND, Series, Subject, TREND_Z};
use rooflens_document::{Finding, Inline, Quantity, Severity};

pub(crate) static RULE: Rule = Rule::new(
    "uneven-pace",
    &[
        Threshold::ratio("thresholds.drift", DRIFT),
        Threshold::one("thresholds.trend", TREND_Z),
    ],
    run,
)
.on_measurement();

/// Relative change of the last instances against the first from which on it is worth a finding.
const DRIFT: f64 = 0.05;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let all: Vec<(&Series, &Summary)> = of_stages(evidence).collect();
    if !all.iter().any(|(series, _)| series.change().is_ok()) {
        return Outcome::InsufficientData(lacks(evidence, &all));
    }
    let drifting = all
        .iter()
        .filter_map(|(series, stage)| Some((*series, name(evidence, stage), drift(series)?)));
    let drifting: Vec<(&Series, &str, f64)> = drifting.collect();
    let told = |name: &str, drift: f64| {
        let stage = evidence.outermost(name);
        drift < 0.0 && stage.is_some_and(|stage| host_pauses::hold(evidence, stage))
    };
    let own = drifting
        .iter()
        .filter(|(_, name, drift)| !told(name, *drift));
    let found: Vec<Finding> = own
        .map(|(series, name, drift)| finding(evidence, series, name, *drift))
        .collect();
    match (found.is_empty(), drifting.first()) {
        (true, Some((_, name, _))) => Outcome::NotApplicable(said_by_pauses(evidence, name)),
        _ => Outcome::of(found),
    }
}

/// The sequences of stages.
fn of_stages<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = (&'a Series, &'a Summary)> {
    let all = evidence
        .results
        .drift()
        .map_or(&[][..], |drift| &drift.series);
    all.iter().filter_map(|series| match &series.subject {
        Subject::Stage(summary) => Some((series, summary)),
        Subject::Range(_) => None,
    })
}

fn name<'a>(evidence: &Evidence<'a>, summary: &Summary) -> &'a str {
    &summary.stage(evidence.facts).name
}

/// What the sequences are too short for.
fn lacks(evidence: &Evidence<'_>, all: &[(&Series, &Summary)]) -> String {
    let reason = |(series, stage): &(&Series, &Summary)| {
        Some((name(evidence, stage).to_owned(), series.change().err()?))
    };
    let (stage, reason) = all.iter().find_map(reason).unzip();
    let least = LEAST_FOR_TREND.to_string();
    words!(
        evidence,
        "uneven_pace.needs",
        least = least,
        stage = stage,
        reason = reason
    )
}

/// The change of a stage's time, if it is a trend.
fn drift(series: &Series) -> Option<f64> {
    let drift = series.change().ok()?.drift;
    let is_trend = series.direction() != Some(Direction::Neither);
    (drift.abs() >= DRIFT && is_trend).then_some(drift)
}

/// That a stage or its steps get faster, in words: for the rule that knows why.
pub(crate) fn also(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    let is_own = |summary: &Summary| {
        let mut keys = stage.nested.iter().map(Nested::key).chain([stage.key()]);
        keys.any(|key| key == (summary.stage, summary.process))
    };
    let own = of_stages(evidence).filter(|(_, summary)| is_own(summary));
    let mut faster = own.filter_map(|(series, summary)| {
        Some((summary, drift(series).filter(|drift| *drift < 0.0)?))
    });
    faster.next().map_or_else(Vec::new, |(summary, drift)| {
        let stage = Inline::strong(name(evidence, summary));
        say!(
            evidence,
            "uneven_pace.also",
            stage = stage,
            drift = Quantity::ratio(-drift)
        )
    })
}

fn finding(evidence: &Evidence<'_>, series: &Series, stage: &str, drift: f64) -> Finding {
    let (name, change) = (Inline::strong(stage), Quantity::ratio(drift.abs()));
    let (severity, statement, advice) = match drift > 0.0 {
        true => (
            Severity::Warning,
            say!(evidence, "uneven_pace.longer", stage = name, drift = change),
            say!(evidence, "uneven_pace.advice_longer"),
        ),
        false => (
            Severity::Note,
            say!(
                evidence,
                "uneven_pace.shorter",
                stage = name,
                drift = change
            ),
            say!(evidence, "uneven_pace.advice_shorter"),
        ),
    };
    Finding {
        title: stage.to_owned(),
        severity,
        scope: series.scope(&evidence.context).unwrap_or_default(),
        statement,
        advice: Some(advice),
        evidence: vec![series.evidence(&evidence.context)],
        ..Finding::default()
    }
}
