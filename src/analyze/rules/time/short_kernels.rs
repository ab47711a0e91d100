//! Kernels so short that launching dominates.

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold, time::launch_bound};
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

fn run(evidence: &Evidence<'_>) -> Outcome {
    let needs = &words!(evidence, "short_kernels.needs");
    evidence.each_of_kernels(needs, |stage| look(evidence, stage))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let kernels = evidence
        .idle(stage.key())
        .and_then(|line| line.launches.mean_kernel());
    if kernels.is_none() && !evidence.shows_operations(stage) {
        return Look::InsufficientData;
    }
    let operations = stage.operations;
    let mean = kernels.unwrap_or(stage.operation_time / operations.max(1.0));
    if mean >= MEAN || operations < MANY {
        return Look::Passed;
    }
    if launch_bound::launching(evidence, stage).is_some() {
        return Look::said_by(evidence, &launch_bound::RULE);
    }
    let what = match kernels {
        Some(_) => words!(evidence, "short_kernels.kernels"),
        None => words!(evidence, "short_kernels.operations"),
    };
    Look::found(finding(evidence, stage, what, mean))
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, what: String, mean: f64) -> Finding {
    let (why, advice) = match evidence.replays_graphs(stage) {
        true => (
            words!(evidence, "short_kernels.replayed"),
            say!(evidence, "short_kernels.advice_graph"),
        ),
        false => (
            words!(evidence, "short_kernels.launched"),
            say!(evidence, "short_kernels.advice"),
        ),
    };
    Finding {
        statement: say!(
            evidence,
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
