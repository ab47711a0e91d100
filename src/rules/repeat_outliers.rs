//! Single repeats that took much longer or shorter than the others, the cold first one above all.

use super::results::Row;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses, ids};
use crate::analysis::engine::stats::OUTLIER_Z;
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "repeat-outliers",
    title: "Outliers among repeats",
    thresholds: &[Threshold::one("modified z-score beyond", OUTLIER_Z)],
    run,
};

/// The farthest outlier of a stage's repeats: it speaks for the stage, the chart shows the others.
struct Outlier {
    repeat: f64,
    time: f64,
    median: f64,
    z: f64,
    /// Σ distance of all outliers from the median.
    excess: f64,
}

impl Outlier {
    fn is_cold(&self) -> bool {
        self.repeat == 0.0 && self.z > 0.0
    }
}

fn run(results: &Results<'_>) -> Outcome {
    if !results.rows(ids::REPEATS).any(|row| row.number("modified_z").is_some()) {
        return Outcome::lacks(
            "three un-profiled repeats of a stage that differ (a baseline pass with timings.json)",
        );
    }
    let (mut found, mut told) = (Vec::new(), Vec::new());
    for statistics in results.rows(ids::REPEAT_STATISTICS) {
        let Some(outlier) = outlier(results, statistics) else { continue };
        let stage = results.outermost(statistics.text("stage"));
        if outlier.is_cold() && stage.is_some_and(|stage| host_pauses::hold(results, stage)) {
            told.push(statistics.text("stage"));
        } else {
            found.push(finding(results, statistics, &outlier));
        }
    }
    match found.is_empty() && !told.is_empty() {
        true => Outcome::NotApplicable(format!(
            "{}: “{}” says it",
            told.join(", "),
            host_pauses::RULE.title
        )),
        false => Outcome::of(found),
    }
}

fn outlier(results: &Results<'_>, statistics: Row<'_>) -> Option<Outlier> {
    let own = |row: &Row<'_>| {
        row.text("stage") == statistics.text("stage") && row.text("pass") == statistics.text("pass")
    };
    let outliers: Vec<Row<'_>> =
        results.rows(ids::REPEATS).filter(own).filter(|row| row.text("outlier") == "yes").collect();
    let far = |row: &Row<'_>| row.sum("modified_z").abs();
    let worst = outliers.iter().max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let median = statistics.number("median_ns")?;
    Some(Outlier {
        repeat: worst.number("repeat")?,
        time: worst.number("duration_ns")?,
        median,
        z: worst.number("modified_z")?,
        excess: outliers.iter().map(|row| (row.sum("duration_ns") - median).abs()).sum(),
    })
}

/// A cold first repeat of a stage without a profiler, in words: for the rule that knows why.
pub(super) fn also(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let own = results.rows(ids::REPEAT_STATISTICS).find(|row| {
        Some(row.text("stage")) == stage.scope.stage.as_deref() && row.text("profiled") == "no"
    });
    let cold = own.and_then(|row| outlier(results, row)).filter(Outlier::is_cold);
    cold.map_or_else(Vec::new, |cold| {
        prose![
            " Without a profiler, too, the first repeat is the slow one: ",
            Quantity::new(cold.time, Unit::Nanoseconds),
            " against a median of ",
            Quantity::new(cold.median, Unit::Nanoseconds),
            "."
        ]
    })
}

fn finding(results: &Results<'_>, statistics: Row<'_>, outlier: &Outlier) -> Observation {
    let (stage, pass) = (statistics.text("stage"), statistics.text("pass"));
    let scope =
        Scope { pass: Some(pass.to_owned()), stage: Some(stage.to_owned()), ..Scope::default() };
    let cold = outlier.is_cold();
    let mut advice = prose![
        "The first repeat was cold: warm up with the same shapes (batch, lengths), and quote the median"
    ];
    if let Some(mean) = statistics.number("mean_ns") {
        let mean = Quantity::new(mean, Unit::Nanoseconds);
        advice.extend(prose![", not the mean (", mean, ")"]);
    }
    advice.push(".".into());
    Observation {
        title: if cold { format!("{stage}, cold first repeat") } else { stage.to_owned() },
        severity: Severity::Note,
        weight_ns: outlier.excess,
        statement: prose![
            "Repeat ",
            Quantity::new(outlier.repeat, Unit::Count),
            " of ",
            Inline::Code(stage.to_owned()),
            " took ",
            Quantity::new(outlier.time, Unit::Nanoseconds),
            ", against a median of ",
            Quantity::new(outlier.median, Unit::Nanoseconds),
            " (modified z-score ",
            Quantity::new(outlier.z, Unit::One),
            ")."
        ],
        advice: cold.then_some(advice),
        evidence: results.evidence(ids::STAGE_TIME, &scope),
        scope,
        ..Observation::default()
    }
}
