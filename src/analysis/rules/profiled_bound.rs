//! What most of the time of the profiled kernels is bound by.

use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Metric;

pub(super) static RULE: Rule = Rule {
    id: "profiled-bound",
    title: "What profiled kernels are bound by",
    thresholds: &[Threshold::ratio("profiled time of one bound class, at least", SHARE)],
    run,
};

/// Share of a bound class in the profiled time from which on it speaks for the pass.
const SHARE: f64 = 0.5;

fn run(results: &Results<'_>) -> Outcome {
    if results.all(ids::BOUND_SHARE).next().is_none() {
        return Outcome::lacks("kernels profiled with counters (an Nsight Compute pass)");
    }
    let speaks = |metric: &&Metric| {
        metric.scope.class.as_deref().is_some_and(|class| class != "unknown")
            && metric.scope.stage.is_none()
            && metric.value.number().is_some_and(|share| share >= SHARE)
    };
    Outcome::of(
        results
            .all(ids::BOUND_SHARE)
            .filter(speaks)
            .map(|metric| finding(results, metric))
            .collect(),
    )
}

fn finding(results: &Results<'_>, metric: &Metric) -> Observation {
    let class = metric.scope.class.clone().unwrap_or_default();
    let pass = metric.scope.pass.clone().unwrap_or_default();
    let mut statement = prose![
        Quantity::ratio(metric.value.number().unwrap_or_default()),
        " of the time profiled in pass ",
        Inline::Code(pass.clone()),
        " is ",
        Inline::Strong(class.clone())
    ];
    if let Some((reason, share)) = reason(results, &pass, &class) {
        statement.extend(prose![", of which ", Quantity::ratio(share), format!(" by: {reason}")]);
    }
    statement.push(".".into());
    Observation {
        title: pass,
        scope: metric.scope.clone(),
        statement,
        advice: advice(&class),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    }
}

/// The reason that most of a class's time has, and its share of that.
fn reason<'a>(results: &Results<'a>, pass: &str, class: &str) -> Option<(&'a str, f64)> {
    let mut reasons = std::collections::BTreeMap::<&str, f64>::new();
    let mut total = 0.0;
    let rows = results.rows(ids::PROFILED_KERNELS);
    for row in rows.filter(|row| row.text("pass") == pass && row.text("bound") == class) {
        total += row.sum("duration_ns");
        if !row.text("bound_reason").is_empty() {
            *reasons.entry(row.text("bound_reason")).or_default() += row.sum("duration_ns");
        }
    }
    let largest =
        reasons.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    largest.filter(|_| total > 0.0).map(|(reason, time)| (reason, time / total))
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
