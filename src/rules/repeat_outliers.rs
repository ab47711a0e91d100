//! Single repeats that took much longer or shorter than the others, the cold first one above all.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses};
use rooflens_analysis::engine::baseline::{Repeat, Series};
use rooflens_analysis::engine::stats::OUTLIER_Z;
use rooflens_findings::{Inline, Observation, Quantity, Severity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "repeat-outliers",
    thresholds: &[Threshold::one("thresholds.z_score", OUTLIER_Z)],
    run,
};

fn run(results: &Results<'_>) -> Outcome {
    let session = results.context.session;
    let all = results.context.results.baseline().map_or(&[][..], |baseline| &baseline.series);
    if !all.iter().flat_map(|series| &series.repeats).any(|repeat| repeat.z.is_some()) {
        return Outcome::lacks(
            "three un-profiled repeats of a stage that differ (a baseline pass with timings.json)",
        );
    }
    let (mut found, mut told) = (Vec::new(), Vec::new());
    for series in all {
        let Some(outlier) = series.worst_outlier() else { continue };
        let name = session.text(series.stage);
        let stage = results.outermost(name);
        if outlier.is_cold() && stage.is_some_and(|stage| host_pauses::hold(results, stage)) {
            told.push(name);
        } else {
            found.push(finding(results, series, outlier));
        }
    }
    match found.is_empty() && !told.is_empty() {
        true => Outcome::NotApplicable(format!(
            "{}: “{}” says it",
            told.join(", "),
            results.text.rule(host_pauses::RULE.id)
        )),
        false => Outcome::of(found),
    }
}

/// A cold first repeat of a stage without a profiler, in words: for the rule that knows why.
pub(super) fn also(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let cold = || {
        let (session, name) = (results.context.session, stage.scope.stage.as_deref()?);
        let series = results.context.results.baseline().ok()?.unprofiled(session, name)?;
        let cold = series.worst_outlier().filter(|outlier| outlier.is_cold())?;
        Some(prose![
            " Without a profiler, too, the first repeat is the slow one: ",
            Quantity::ns(cold.duration),
            " against a median of ",
            Quantity::new(series.statistics.median, Unit::Nanoseconds),
            "."
        ])
    };
    cold().unwrap_or_default()
}

fn finding(results: &Results<'_>, series: &Series, outlier: &Repeat) -> Observation {
    let session = results.context.session;
    let (stage, cold) = (session.text(series.stage), outlier.is_cold());
    let advice = prose![
        "The first repeat was cold: warm up with the same shapes (batch, lengths), and quote the median",
        ", not the mean (",
        Quantity::new(series.statistics.mean, Unit::Nanoseconds),
        ")",
        "."
    ];
    Observation {
        title: if cold { format!("{stage}, cold first repeat") } else { stage.to_owned() },
        severity: Severity::Note,
        weight_ns: series.excess(),
        statement: prose![
            "Repeat ",
            Quantity::count(u64::from(outlier.number)),
            " of ",
            Inline::Code(stage.to_owned()),
            " took ",
            Quantity::ns(outlier.duration),
            ", against a median of ",
            Quantity::new(series.statistics.median, Unit::Nanoseconds),
            " (modified z-score ",
            Quantity::new(outlier.z.unwrap_or(0.0), Unit::One),
            ")."
        ],
        advice: cold.then_some(advice),
        evidence: vec![series.evidence(session)],
        scope: series.scope(session),
        ..Observation::default()
    }
}
