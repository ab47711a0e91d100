//! What bounds most of the GPU time of a stage, as far as counters tell.

use std::collections::BTreeMap;

use super::profiled::{self, Profiled};
use super::results::Row;
use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, ids, small_grids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Metric;

pub(super) static RULE: Rule = Rule {
    id: "profiled-bound",
    title: "What kernels are bound by",
    thresholds: &[
        Threshold::ratio("one bound class, of the GPU time with counters, at least", SHARE),
        Threshold::ratio(
            "GPU time with counters, of that of the stage, at least",
            profiled::ENOUGH,
        ),
    ],
    run,
};

/// Share of a bound class in the time with counters from which on it speaks for it.
const SHARE: f64 = 0.5;

/// The row of time without counters.
const NOT_PROFILED: &str = "not profiled";

fn run(results: &Results<'_>) -> Outcome {
    if results.all(ids::BOUND_SHARE).next().is_none() {
        return Outcome::lacks("kernels profiled with counters (an Nsight Compute pass)");
    }
    if results.rows(ids::WORKLOAD_BOUNDS).next().is_none() {
        let found = results.all(ids::BOUND_SHARE).filter(|metric| speaks(metric));
        return Outcome::of(found.map(of_pass).collect());
    }
    let needs = "counters of launches that stand for a quarter of a stage's GPU time, and kernels in the timeline one by one";
    results.each_stage(needs, |stage| look(results, stage))
}

/// Without a timeline only the profiled time itself can be weighed.
fn speaks(metric: &Metric) -> bool {
    metric.scope.class.as_deref().is_some_and(|class| class != "unknown")
        && metric.scope.stage.is_none()
        && metric.value.number().is_some_and(|share| share >= SHARE)
}

fn of_pass(metric: &Metric) -> Observation {
    let class = metric.scope.class.clone().unwrap_or_default();
    let pass = metric.scope.pass.clone().unwrap_or_default();
    Observation {
        title: pass.clone(),
        scope: metric.scope.clone(),
        statement: prose![
            Quantity::ratio(metric.value.number().unwrap_or_default()),
            " of the time profiled in pass ",
            Inline::Code(pass),
            " is ",
            Inline::Strong(class.clone()),
            ". Without a timeline it is not known what part of the run that is."
        ],
        advice: advice(&class),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    }
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let own = results.rows(ids::WORKLOAD_BOUNDS).filter(|row| row.text("stage") == stage.label);
    let mut shares: Vec<(&str, f64)> = own
        .filter(|row: &Row<'_>| row.sum("share") > 0.0)
        .map(|row| (row.text("bound"), row.sum("share")))
        .filter(|(bound, _)| *bound != NOT_PROFILED)
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let covered: f64 = shares.iter().map(|(_, share)| share).sum();
    let Some((class, share)) = shares.first().filter(|_| covered >= profiled::ENOUGH) else {
        return Look::Lacks;
    };
    if *class == "unknown" || *share < SHARE * covered {
        return Look::Clear;
    }
    if *class == "latency-bound" && small_grids::holds(results, stage) {
        return Look::said_by(&small_grids::RULE);
    }
    Look::found(finding(results, stage, &shares, covered))
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    shares: &[(&str, f64)],
    covered: f64,
) -> Observation {
    let class = shares.first().map_or("", |(class, _)| *class);
    let profiled = profiled::of_stage(results, stage);
    let mut statement = prose!["Of the GPU time of ", Inline::Strong(stage.label.clone())];
    for (number, (bound, share)) in shares.iter().take(3).enumerate() {
        statement.extend(prose![
            if number == 0 { " " } else { ", " },
            Quantity::ratio(*share),
            if number == 0 { " is " } else { " " },
            Inline::Strong((*bound).to_owned())
        ]);
    }
    statement.push("; counters are of launches that stand for ".into());
    statement.extend(prose![Quantity::ratio(covered), " of it."]);
    if let Some((reason, share)) = reason(&profiled, class) {
        statement.extend(prose![
            format!(" What is {class} is so for "),
            Quantity::ratio(share),
            format!(" of its time by: {reason}.")
        ]);
    }
    Observation {
        statement,
        advice: advice(class),
        evidence: profiled::evidence(results, stage, &profiled),
        ..stage.note()
    }
}

/// The reason that most of a class's time has, and its share of that.
fn reason<'a>(profiled: &[Profiled<'a>], class: &str) -> Option<(&'a str, f64)> {
    let own = || profiled.iter().filter(|one| one.is_bound(class));
    let mut reasons = BTreeMap::<&str, f64>::new();
    for one in own() {
        let reason = one.counters.text("bound_reason");
        if !reason.is_empty() {
            *reasons.entry(reason).or_default() += one.share;
        }
    }
    let total: f64 = own().map(|one| one.share).sum();
    let largest =
        reasons.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    largest.filter(|_| total > 0.0).map(|(reason, share)| (reason, share / total))
}

fn advice(class: &str) -> Option<Vec<Inline>> {
    Some(match class {
        "latency-bound" => prose![
            "Give each launch more work (larger batch, fused kernels): neither units nor memory are busy."
        ],
        "compute-bound" => {
            prose!["A lower precision or fewer operations help; more bandwidth does not."]
        }
        "balanced" => return None,
        _ => prose!["Move fewer bytes: fuse, quantize, reuse what caches hold."],
    })
}
