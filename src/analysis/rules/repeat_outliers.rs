//! Single repeats that took much longer or shorter than the others, the cold first one above all.

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::analysis::stats::OUTLIER_Z;
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "repeat-outliers",
    title: "Outliers among repeats",
    thresholds: &[Threshold::one("modified z-score beyond", OUTLIER_Z)],
    run,
};

fn run(results: &Results<'_>) -> Outcome {
    if results.rows(ids::REPEATS).next().is_none() {
        return Outcome::lacks(
            "un-profiled repeats of the stages (a baseline pass with timings.json)",
        );
    }
    Outcome::of(
        results.rows(ids::REPEAT_STATISTICS).filter_map(|row| finding(results, row)).collect(),
    )
}

fn finding(results: &Results<'_>, statistics: Row<'_>) -> Option<Observation> {
    let (stage, pass) = (statistics.text("stage"), statistics.text("pass"));
    let own = |row: &Row<'_>| row.text("stage") == stage && row.text("pass") == pass;
    let outliers: Vec<Row<'_>> =
        results.rows(ids::REPEATS).filter(own).filter(|row| row.text("outlier") == "yes").collect();
    // The farthest outlier speaks for the stage; the chart shows the others.
    let far = |row: &Row<'_>| row.sum("modified_z").abs();
    let worst = outliers.iter().max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let (median, mean) = (statistics.number("median_ns")?, statistics.number("mean_ns")?);
    let (repeat, z) = (worst.number("repeat")?, worst.number("modified_z")?);
    let excess = outliers.iter().map(|row| (row.sum("duration_ns") - median).abs()).sum();
    let is_cold = repeat == 0.0 && z > 0.0;
    let scope =
        Scope { pass: Some(pass.to_owned()), stage: Some(stage.to_owned()), ..Scope::default() };
    Some(Observation {
        title: if is_cold { format!("{stage}, cold first repeat") } else { stage.to_owned() },
        severity: Severity::Note,
        weight_ns: excess,
        statement: prose![
            "Repeat ",
            Quantity::new(repeat, Unit::Count),
            " of ",
            Inline::Code(stage.to_owned()),
            " took ",
            Quantity::new(worst.sum("duration_ns"), Unit::Nanoseconds),
            ", against a median of ",
            Quantity::new(median, Unit::Nanoseconds),
            " (modified z-score ",
            Quantity::new(z, Unit::One),
            ")."
        ],
        advice: is_cold.then(|| prose![
            "The first repeat was cold: run one more as a warm-up, and quote the median, not the mean (",
            Quantity::new(mean, Unit::Nanoseconds),
            ")."
        ]),
        evidence: results.evidence(ids::STAGE_TIME, &scope),
        scope,
        ..Observation::default()
    })
}
