//! One rank computes longer than the others, which wait for it.

use super::results::Row;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::analysis::communication::speed::BY_CLOCK;
use crate::analysis::communication::straggler::IMBALANCE;
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::{Metric, Unit};

pub(super) static RULE: Rule = Rule {
    id: "straggler",
    title: "Straggler",
    thresholds: &[
        Threshold::one("longest computing time of a rank ÷ mean, at least", IMBALANCE),
        Threshold::ratio(
            "part of its kernels' slowdown that a lower clock accounts for, at least",
            BY_CLOCK,
        ),
    ],
    run,
};

fn run(results: &Results<'_>) -> Outcome {
    let known = || results.all(ids::IMBALANCE).filter(|metric| metric.scope.stage.is_some());
    let known = || known().filter(|metric| metric.value.number().is_some());
    if known().next().is_none() && results.is_alone() {
        return Outcome::NotApplicable("one rank, and no collective in its timeline".to_owned());
    }
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
    let fastest =
        ranks.iter().min_by(|a, b| a.sum("compute_ns").total_cmp(&b.sum("compute_ns")))?;
    let by_clock = by_clock(slowest, fastest);
    let (advice, next) = words(by_clock.is_some());
    let mut statement = prose![
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
    ];
    statement.extend(by_clock.into_iter().flatten());
    Some(Observation {
        title: format!("{stage}, rank {}", slowest.text("rank")),
        statement,
        advice: Some(advice),
        next,
        ..base
    })
}

/// That the rank does the same work at a lower clock, with the figures.
fn by_clock(slowest: &Row<'_>, fastest: &Row<'_>) -> Option<Vec<Inline>> {
    let share = slowest.number("by_clock").filter(|share| *share >= BY_CLOCK)?;
    let hertz =
        |row: &Row<'_>| row.number("sm_clock_hz").map(|clock| Quantity::new(clock, Unit::Hertz));
    let mut text = prose![
        " It runs the same kernels, but they take ",
        Quantity::new(slowest.number("slowdown")?, Unit::One),
        " times as long, at an SM clock of ",
        hertz(slowest)?,
        " on average, where the fastest rank has ",
        hertz(fastest)?,
        ": the clock accounts for ",
        Quantity::ratio(share),
        " of it."
    ];
    if let Some(samples) = slowest.number("clock_limit_share") {
        let reason = Inline::Code(slowest.text("clock_limit").to_owned());
        text.extend(prose![
            " ",
            reason,
            " was set in ",
            Quantity::ratio(samples),
            " of its samples."
        ]);
    }
    Some(text)
}

/// Advice, and what to capture next.
fn words(by_clock: bool) -> (Vec<Inline>, Option<Vec<Inline>>) {
    if by_clock {
        let advice = prose![
            "Look at what lowers the clock of this GPU (power limit, heat, a worse board), or give it less work: \
             tuning its kernels or its host would not help."
        ];
        return (advice, None);
    }
    let advice = prose![
        "Compare its work first (tokens, layers, experts), then its SM clock and its host: equal work at equal clocks \
         computes equally long."
    ];
    let next = prose![
        "NVML samples of all GPUs: a lower clock on one rank is a cause that no trace shows."
    ];
    (advice, Some(next))
}
