//! Kernels so short that launching dominates.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, launch_bound};
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "short-kernels",
    thresholds: &[
        Threshold::ns("thresholds.mean_operation", MEAN as i64),
        Threshold::one("thresholds.operations", MANY),
    ],
    run,
};

/// Mean duration below which a kernel ends before the host has issued the next one: a launch takes the host about
/// as long.
const MEAN: f64 = 6_000.0;

/// Operations of an instance below which it does not matter.
const MANY: f64 = 100.0;

fn run(results: &Results<'_>) -> Outcome {
    results.each_stage("GPU operations with times, not whole CUDA graphs", |stage| {
        look(results, stage)
    })
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let kernels = results.idle(stage.key()).and_then(|line| line.launches.mean_kernel());
    if kernels.is_none() && !results.shows_operations(stage) {
        return Look::Lacks;
    }
    let operations = stage.operations;
    let mean = kernels.unwrap_or(stage.operation_time / operations.max(1.0));
    if mean >= MEAN || operations < MANY {
        return Look::Clear;
    }
    if launch_bound::launching(results, stage).is_some() {
        return Look::said_by(results, &launch_bound::RULE);
    }
    let what = if kernels.is_some() { "kernels" } else { "GPU operations" };
    Look::found(finding(results, stage, what, mean))
}

fn finding(results: &Results<'_>, stage: &StageLine, what: &str, mean: f64) -> Observation {
    let mut statement = prose![
        format!("The {what} of "),
        Inline::Strong(stage.label.clone()),
        " last ",
        Quantity::new(mean, Unit::Nanoseconds),
        " on average, and an instance has ",
        Quantity::new(stage.operations, Unit::Count),
        " operations"
    ];
    let advice = if results.replays_graphs(stage) {
        statement.push(
            ". A CUDA graph replays them, so launching is paid for; what remains is that each starts, fills and drains the \
             GPU by itself."
                .into(),
        );
        prose![
            "Fuse elementwise work into its neighbours (",
            Inline::Code("torch.compile".to_owned()),
            ") and capture the fused kernels; raise the batch: kernels grow, their number does not."
        ]
    } else {
        statement.push(
            ": launching one by one takes the host about as long as running them takes the GPU."
                .into(),
        );
        prose![
            "Fuse elementwise work into its neighbours, raise the batch, and replay the rest as a CUDA graph."
        ]
    };
    Observation {
        statement,
        advice: Some(advice),
        evidence: vec![stage.figures.clone()],
        query: stage.window.as_ref().map(super::sql::Window::mean),
        ..stage.note()
    }
}
