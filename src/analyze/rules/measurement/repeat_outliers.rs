//! Single repeats that took much longer or shorter than the others, the cold first one above all.

use crate::stage::StageLine;
use crate::{Outcome, Results, Rule, Threshold, time::host_pauses};
use rooflens_analysis::engine::baseline::{Repeat, Series};
use rooflens_analysis::engine::stats::OUTLIER_Z;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Unit;

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

fn run(results: &Results<'_>) -> Outcome {
    let session = results.context.session;
    let all = results
        .context
        .results
        .baseline()
        .map_or(&[][..], |baseline| &baseline.series);
    if !all
        .iter()
        .flat_map(|series| &series.repeats)
        .any(|repeat| repeat.z.is_some())
    {
        return Outcome::Abstained(words!(results, "repeat_outliers.needs"));
    }
    let (mut found, mut told) = (Vec::new(), Vec::new());
    for series in all {
        let median = series.statistics.median;
        let is_far = |one: &&Repeat| (one.duration as f64 - median).abs() >= FAR * median;
        let Some(outlier) = series.worst_outlier().filter(is_far) else {
            continue;
        };
        let name = session.text(series.stage);
        let stage = results.outermost(name);
        if outlier.is_cold() && stage.is_some_and(|stage| host_pauses::hold(results, stage)) {
            told.push(name);
        } else {
            found.push(finding(results, series, outlier));
        }
    }
    match found.is_empty() && !told.is_empty() {
        true => Outcome::NotApplicable(said_by_pauses(results, &told.join(results.text.comma()))),
        false => Outcome::of(found),
    }
}

/// That the rule about pauses of the host says it of these stages.
pub(crate) fn said_by_pauses(results: &Results<'_>, stages: &str) -> String {
    let rule = results.text.rule(host_pauses::RULE.id);
    words!(
        results,
        "repeat_outliers.said_by",
        stages = stages,
        rule = rule
    )
}

/// A cold first repeat of a stage without a profiler, in words: for the rule that knows why.
pub(crate) fn also(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let cold = || {
        let (session, name) = (results.context.session, stage.scope.stage.as_deref()?);
        let series = results
            .context
            .results
            .baseline()
            .ok()?
            .unprofiled(session, name)?;
        let cold = series.worst_outlier().filter(|outlier| outlier.is_cold())?;
        Some(say!(
            results,
            "repeat_outliers.also",
            time = Quantity::ns(cold.duration),
            median = Quantity::new(series.statistics.median, Unit::Nanoseconds),
        ))
    };
    cold().unwrap_or_default()
}

fn finding(results: &Results<'_>, series: &Series, outlier: &Repeat) -> Finding {
    let session = results.context.session;
    let stage = session.text(series.stage);
    let (title, advice) = match outlier.is_cold() {
        true => {
            let mean = Quantity::new(series.statistics.mean, Unit::Nanoseconds);
            let advice = say!(results, "repeat_outliers.advice", mean = mean);
            (
                words!(results, "repeat_outliers.title_cold", stage = stage),
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
            results,
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
