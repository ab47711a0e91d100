//! Profiled launches that last longer or shorter than those of the run.

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::{Metric, Unit};

pub(super) static RULE: Rule = Rule {
    id: "unrepresentative-profile",
    title: "Profiled launches unlike those of the run",
    thresholds: &[Threshold::ratio(
        "profiled time in launches as long as in the timeline, less than",
        SHARE,
    )],
    run,
};

/// `representative_share` below which rates and durations of a profile are not those of the run.
const SHARE: f64 = 0.50;

fn run(results: &Results<'_>) -> Outcome {
    let known = |metric: &&Metric| metric.value.number().is_some();
    if !results.all(ids::REPRESENTATIVE_SHARE).any(|metric| known(&metric)) {
        return Outcome::lacks("kernels profiled with counters beside a timeline of the workload");
    }
    let metrics = results.all(ids::REPRESENTATIVE_SHARE);
    let low = metrics.filter(|metric| metric.value.number().is_some_and(|share| share < SHARE));
    Outcome::joined(low.map(|metric| finding(results, metric)).collect())
}

fn finding(results: &Results<'_>, metric: &Metric) -> Observation {
    let pass = metric.scope.pass.clone().unwrap_or_default();
    let mut statement = prose![
        Quantity::ratio(metric.value.number().unwrap_or_default()),
        " of the time profiled in pass ",
        Inline::Code(pass.clone()),
        " is in launches that last about as long as in the timeline"
    ];
    if let Some((row, ratio)) = unlike(results, &pass) {
        statement.extend(prose![
            ". Of the others, ",
            Inline::Code(row.text("kernel").to_owned()),
            " stands for the most time (",
            Quantity::ratio(row.sum("time_share")),
            " of ",
            Inline::Strong(row.text("stage").to_owned()),
            "): its launch took ",
            Quantity::new(ratio, Unit::One),
            " times the median"
        ]);
    }
    statement.push(".".into());
    Observation {
        title: pass,
        scope: metric.scope.clone(),
        statement,
        advice: Some(prose![
            "Take instructions, bytes and occupancy from this profile; rates, throughputs and durations are those of the profiled launch alone."
        ]),
        next: Some(prose![
            "An Nsight Compute pass with ",
            Inline::Code("--clock-control none --cache-control none".to_owned()),
            " over launches in the middle of the run."
        ]),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    }
}

/// The launch unlike the timeline's that stands for most time, and by how much it is longer or shorter.
fn unlike<'a>(results: &Results<'a>, pass: &str) -> Option<(Row<'a>, f64)> {
    let verdicts = ["longer than the median", "shorter than the median"];
    let own = results.rows(ids::REPRESENTATIVENESS).filter(|row| row.text("pass") == pass);
    let mut unlike = own.filter(|row| verdicts.contains(&row.text("verdict")));
    // The data set has those first that stand for most time.
    let row = unlike.next()?;
    Some((row, row.number("ratio")?))
}
