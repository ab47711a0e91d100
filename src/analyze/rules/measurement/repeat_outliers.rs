//! Single repeats that took much longer or shorter than the others, the cold first one above all.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::pauses;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::engine::baseline::{Repeat, Series};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_stats::OUTLIER_Z;
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "repeat-outliers",
    &[
        Threshold::number("thresholds.z_score", OUTLIER_Z),
        Threshold::ratio("thresholds.outlier", FAR),
    ],
    outcome,
)
.on_measurement();

/// Distance from the median ÷ median from which on an outlier matters: many repeats of small spread have outliers that do not.
const FAR: Ratio = Ratio(0.05);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let (mut has_scores, mut drafts, mut known) = (false, Vec::new(), Vec::new());
    for series in evidence
        .results
        .baseline()
        .into_iter()
        .flat_map(|baseline| &baseline.series)
    {
        has_scores |= series.repeats.iter().any(|repeat| repeat.z.is_some());
        if let Some(before) = series.before() {
            drafts.push(settled(evidence, series, before));
            continue;
        }
        let Some(outlier) = series.worst_outlier().filter(|repeat| is_far(repeat)) else {
            continue;
        };
        let name = evidence.session.text(series.stage);
        let stage = evidence.outermost(name).filter(|_| outlier.is_cold());
        if stage.is_some_and(|stage| pauses::hold(evidence, stage)) {
            known.push(name);
        }
        drafts.push(draft(evidence, series, outlier));
    }
    if !has_scores {
        return Outcome::INSUFFICIENT_DATA;
    }
    // Where the report has others to name, the farthest is among them.
    match known.len() == drafts.len() && !known.is_empty() {
        true => {
            let stages = known.join(evidence.text.comma());
            Outcome::NotApplicable(pauses::said_of(evidence, &stages))
        }
        false => Outcome::of_drafts(drafts),
    }
}

/// Whether an outlier matters.
pub(crate) fn is_far(repeat: &Repeat) -> bool {
    repeat.distance() >= repeat.typical * FAR
}

/// That the first repeats are at another level than all others, which the figures are of.
fn settled(evidence: &Evidence<'_>, series: &Series, before: Time) -> Draft {
    let stage = evidence.session.text(series.stage);
    let slow = series.settling as u64;
    let finding = Finding {
        weight_ns: (before - series.median()).abs() * slow as f64,
        ..of_series(evidence, series, stage.to_owned())
    };
    let arguments = arguments! {
        number = Quantity::count(slow),
        stage = Inline::code(stage),
        time = before,
        median = series.median(),
        count = Quantity::count(series.statistics.n as u64),
    };
    let draft = Draft::new(finding, arguments).statement("statement_settled");
    draft.advice((!series.rises()).then_some("advice_settled"))
}

fn of_series(evidence: &Evidence<'_>, series: &Series, title: String) -> Finding {
    Finding {
        title,
        evidence: vec![series.evidence(evidence.session)],
        scope: series.scope(evidence.session),
        ..Finding::default()
    }
}

fn draft(evidence: &Evidence<'_>, series: &Series, outlier: &Repeat) -> Draft {
    let stage = evidence.session.text(series.stage);
    let title = match outlier.is_cold() {
        true => words!(evidence, "repeat_outliers.title_cold", stage = stage),
        false => stage.to_owned(),
    };
    let finding = Finding {
        weight_ns: series.excess(),
        ..of_series(evidence, series, title)
    };
    let arguments = arguments! {
        number = Quantity::count(u64::from(outlier.number)),
        stage = Inline::code(stage),
        steps = series.steps.map(Quantity::count),
        time = Quantity::ns(outlier.duration),
        median = outlier.typical,
        count = Quantity::count(outlier.alike as u64),
        z = Quantity::new(outlier.z.unwrap_or(0.0), Unit::One),
        mean = Time(series.statistics.mean),
    };
    Draft::new(finding, arguments).advice(outlier.is_cold().then_some("advice"))
}
