//! Kernels so short that launching dominates.

use crate::stage::StageLine;
use crate::{Look, Outcome, Results, Rule, Threshold, time::launch_bound};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "short-kernels",
    &[
        Threshold::ns("thresholds.mean_operation", MEAN as i64),
        Threshold::one("thresholds.operations", MANY),
    ],
    run,
);

/// Mean duration below which a kernel ends before the host has issued the next one: a launch takes the host about
/// as long.
const MEAN: f64 = 6_000.0;

/// Operations of an instance below which it does not matter.
pub(crate) const MANY: f64 = 100.0;

fn run(results: &Results<'_>) -> Outcome {
    let needs = &words!(results, "short_kernels.needs");
    results.each_of_kernels(needs, |stage| look(results, stage))
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let kernels = results
        .idle(stage.key())
        .and_then(|line| line.launches.mean_kernel());
    if kernels.is_none() && !results.shows_operations(stage) {
        return Look::InsufficientData;
    }
    let operations = stage.operations;
    let mean = kernels.unwrap_or(stage.operation_time / operations.max(1.0));
    if mean >= MEAN || operations < MANY {
        return Look::Passed;
    }
    if launch_bound::launching(results, stage).is_some() {
        return Look::said_by(results, &launch_bound::RULE);
    }
    let what = match kernels {
        Some(_) => words!(results, "short_kernels.kernels"),
        None => words!(results, "short_kernels.operations"),
    };
    Look::found(finding(results, stage, what, mean))
}

fn finding(results: &Results<'_>, stage: &StageLine, what: String, mean: f64) -> Finding {
    let (why, advice) = match results.replays_graphs(stage) {
        true => (
            words!(results, "short_kernels.replayed"),
            say!(results, "short_kernels.advice_graph"),
        ),
        false => (
            words!(results, "short_kernels.launched"),
            say!(results, "short_kernels.advice"),
        ),
    };
    Finding {
        statement: say!(
            results,
            "short_kernels.statement",
            what = what,
            stage = Inline::strong(&stage.label),
            mean = Quantity::new(mean, Unit::Nanoseconds),
            operations = Quantity::new(stage.operations, Unit::Count),
            why = why,
        ),
        advice: Some(advice),
        evidence: vec![stage.figures.clone()],
        query: stage.window.as_ref().map(crate::sql::Window::mean),
        ..stage.note()
    }
}
