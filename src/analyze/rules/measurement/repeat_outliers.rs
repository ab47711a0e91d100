//! Single repeats that took much longer or shorter than the others, the cold first one above all.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold, time::host_pauses};
use rooflens_analysis::engine::baseline::{Repeat, Series};
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Unit;
use rooflens_stats::OUTLIER_Z;

pub(crate) static RULE: Rule = Rule::new(
    "repeat-outliers",
    &[
        Threshold::one("thresholds.z_score", OUTLIER_Z),
        Threshold::ratio("thresholds.outlier", FAR),
    ],
    run,
)
.on_measurement();

/// Distance from the median ÷ median from which on an outlier matters: many repeats of small spread have outliers that do not.
const FAR: f64 = 0.05;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let session = evidence.session;
    let all = evidence
        .results
        .baseline()
        .map_or(&[][..], |baseline| &baseline.series);
    if !all
        .iter()
        .flat_map(|series| &series.repeats)
        .any(|repeat| repeat.z.is_some())
    {
        return Outcome::InsufficientData(words!(evidence, "repeat_outliers.needs"));
    }
    let (mut found, mut told) = (Vec::new(), Vec::new());
    for series in all {
        let median = series.statistics.median;
        let is_far = |one: &&Repeat| (one.duration as f64 - median).abs() >= FAR * median;
        let Some(outlier) = series.worst_outlier().filter(is_far) else {
            continue;
        };
        let name = session.text(series.stage);
        let stage = evidence.outermost(name);
        if outlier.is_cold() && stage.is_some_and(|stage| host_pauses::hold(evidence, stage)) {
            told.push(name);
        } else {
            found.push(finding(evidence, series, outlier));
        }
    }
    match found.is_empty() && !told.is_empty() {
        true => Outcome::NotApplicable(said_by_pauses(evidence, &told.join(evidence.text.comma()))),
        false => Outcome::of(found),
    }
}

/// That the rule about pauses of the host says it of these stages.
pub(crate) fn said_by_pauses(evidence: &Evidence<'_>, stages: &str) -> String {
    let rule = evidence.text.rule(host_pauses::RULE.id);
    words!(
        evidence,
        "repeat_outliers.said_by",
        stages = stages,
        rule = rule
    )
}

/// A cold first repeat of a stage without a profiler, in words: for the rule that knows why.
pub(crate) fn also(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    let cold = || {
        let (session, name) = (evidence.session, stage.scope.stage.as_deref()?);
        let series = evidence
            .results
            .baseline()
            .ok()?
            .unprofiled(session, name)?;
        let cold = series.worst_outlier().filter(|outlier| outlier.is_cold())?;
        Some(say!(
            evidence,
            "repeat_outliers.also",
            time = Quantity::ns(cold.duration),
            median = Quantity::new(series.statistics.median, Unit::Nanoseconds),
        ))
    };
    cold().unwrap_or_default()
}

fn finding(evidence: &Evidence<'_>, series: &Series, outlier: &Repeat) -> Finding {
    let session = evidence.session;
    let stage = session.text(series.stage);
    let (title, advice) = match outlier.is_cold() {
        true => {
            let mean = Quantity::new(series.statistics.mean, Unit::Nanoseconds);
            let advice = say!(evidence, "repeat_outliers.advice", mean = mean);
            (
                words!(evidence, "repeat_outliers.title_cold", stage = stage),
                Some(advice),
            )
        }
        false => (stage.to_owned(), None),
    };
    Finding {
        title,
        severity: Severity::Note,
        weight_ns: series.excess(),
        statement: say!(
            evidence,
            "repeat_outliers.statement",
            number = Quantity::count(u64::from(outlier.number)),
            stage = Inline::code(stage),
            time = Quantity::ns(outlier.duration),
            median = Quantity::new(series.statistics.median, Unit::Nanoseconds),
            count = Quantity::count(series.repeats.len() as u64),
            z = Quantity::new(outlier.z.unwrap_or(0.0), Unit::One),
        ),
        advice,
        evidence: vec![series.evidence(session)],
        scope: series.scope(session),
        ..Finding::default()
    }
}
