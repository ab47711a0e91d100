//! One rank computes longer than the others, which wait for it.

use super::results::Row;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::{Metric, Unit};

pub(super) static RULE: Rule = Rule {
    id: "straggler",
    title: "Straggler",
    thresholds: &[Threshold::one("longest computing time of a rank ÷ mean, at least", IMBALANCE)],
    run,
};

/// Longest computing time of a rank ÷ mean over ranks from which on it is worth a finding.
const IMBALANCE: f64 = 1.05;

fn run(results: &Results<'_>) -> Outcome {
    let known = || results.all(ids::IMBALANCE).filter(|metric| metric.scope.stage.is_some());
    let known = || known().filter(|metric| metric.value.number().is_some());
    if known().next().is_none() {
        return Outcome::lacks("stages on several ranks: traces of all ranks in one bundle");
    }
    // The primary pass tells; another one, such as that of single ranks, if it has no ranks.
    let of_primary = known().any(|metric| line(results, metric).is_some());
    let chosen = known().filter(|metric| !of_primary || line(results, metric).is_some());
    Outcome::of(chosen.filter_map(|metric| finding(results, metric)).collect())
}

/// A stage of the primary pass that the metric is about.
fn line<'a>(results: &'a Results<'_>, metric: &Metric) -> Option<&'a StageLine> {
    let (pass, stage) = (&metric.scope.pass, &metric.scope.stage);
    results.stages.iter().find(|line| line.scope.pass == *pass && line.scope.stage == *stage)
}

fn finding(results: &Results<'_>, metric: &Metric) -> Option<Observation> {
    let imbalance = metric.value.number().filter(|value| *value >= IMBALANCE)?;
    let stage = metric.scope.stage.as_deref()?;
    let of_stage = |row: &Row<'_>| {
        row.text("stage") == stage && Some(row.text("pass")) == metric.scope.pass.as_deref()
    };
    let ranks: Vec<Row<'_>> = results.rows(ids::RANKS).filter(of_stage).collect();
    let slowest =
        ranks.iter().max_by(|a, b| a.sum("compute_ns").total_cmp(&b.sum("compute_ns")))?;
    let (most, time) = (slowest.number("compute_ns")?, slowest.number("time_ns")?);
    let least = ranks.iter().filter_map(|row| row.number("compute_ns")).fold(most, f64::min);
    let line = results.stages.iter().find(|line| {
        line.scope.pass == metric.scope.pass
            && line.scope.stage == metric.scope.stage
            && line.scope.rank.map(|rank| rank.to_string()).as_deref() == Some(slowest.text("rank"))
    });
    let basis = "the slowest rank computes as long as the fastest";
    let base = match line {
        Some(line) => line.saving(most - least, basis),
        None => Observation {
            scope: metric.scope.clone(),
            evidence: results.stages.first().map(StageLine::evidence).into_iter().collect(),
            ..Observation::default()
        },
    };
    Some(Observation {
        title: format!("{stage}, rank {}", slowest.text("rank")),
        statement: prose![
            "In ",
            Inline::Strong(stage.to_owned()),
            format!(" rank {} computes for ", slowest.text("rank")),
            Quantity::new(most, Unit::Nanoseconds),
            " of its ",
            Quantity::new(time, Unit::Nanoseconds),
            ", ",
            Quantity::new(imbalance, Unit::One),
            " times the mean of ",
            Quantity::count(ranks.len() as u64),
            " ranks; the others wait for it in their collectives."
        ],
        advice: Some(prose![
            "Compare its work first (tokens, layers, experts), then its SM clock and its host: equal work at equal clocks \
             computes equally long."
        ]),
        next: Some(prose![
            "NVML samples of all GPUs: a lower clock on one rank is a cause that no trace shows."
        ]),
        ..base
    })
}
