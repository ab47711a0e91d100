//! Kernels so short that launching dominates.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "short-kernels",
    title: "Short kernels",
    thresholds: &[
        Threshold::ns("mean GPU operation, less than", MEAN as i64),
        Threshold::one("at least this many operations", MANY),
    ],
    run,
};

/// Mean duration below which a kernel ends before the host has issued the next one: a launch takes the host about
/// as long.
const MEAN: f64 = 6_000.0;

/// Operations of an instance below which it does not matter.
const MANY: f64 = 100.0;

fn run(results: &Results<'_>) -> Outcome {
    results.per_stage(ids::OPERATIONS, "GPU operations with times", finding)
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let number = |id| results.number(id, &stage.scope);
    let (operations, sum) = (number(ids::OPERATIONS)?, number(ids::OPERATION_TIME_SUM)?);
    let kernels = number(ids::MEAN_KERNEL_TIME);
    let mean = kernels.unwrap_or(sum / operations.max(1.0));
    // Where the stage is launch-bound, that finding says so already.
    let said = super::launch_bound::launching(results, stage).is_some();
    if mean >= MEAN || operations < MANY || said {
        return None;
    }
    let what = if kernels.is_some() { "kernels" } else { "GPU operations" };
    Some(Observation {
        statement: prose![
            format!("The {what} of "),
            Inline::Strong(stage.label.clone()),
            " last ",
            Quantity::new(mean, Unit::Nanoseconds),
            " on average, ",
            Quantity::new(operations, Unit::Count),
            " operations an instance: launching one by one takes the host as long as running them takes the GPU."
        ],
        advice: Some(prose![
            "Fuse elementwise work into its neighbours, raise the batch, and replay the rest as a CUDA graph."
        ]),
        evidence: results.evidence(ids::OPERATIONS, &stage.scope),
        query: stage.window.as_ref().map(super::sql::Window::mean),
        ..stage.note()
    })
}
