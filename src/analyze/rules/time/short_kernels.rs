//! Kernels so short that launching dominates.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::launching::{self, MANY};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::sql::Window;
use crate::stage::StageLine;
use rooflens_document::{Finding, Inline};
use rooflens_session::Ns;
use rooflens_units::Time;

pub(crate) static RULE: Rule = Rule::new(
    "short-kernels",
    &[
        Threshold::ns("thresholds.mean_operation", Ns(MEAN.0 as i64)),
        Threshold::number("thresholds.operations", MANY.0),
    ],
    outcome,
)
.on_kernels();

/// Mean duration below which a kernel ends before the host has issued the next one: a launch takes the host about
/// as long.
const MEAN: Time = Time(6_000.0);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_of_kernels(|stage| look(evidence, stage))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let idle = evidence.idle(stage.key());
    let mean_kernel = idle.and_then(|idle| idle.launches.mean_kernel());
    if mean_kernel.is_none() && !evidence.shows_operations(stage) {
        return Look::InsufficientData;
    }
    let mean = mean_kernel.unwrap_or(stage.mean_operation());
    if mean >= MEAN || stage.operations < MANY {
        return Look::Passed;
    }
    // Tracing the nodes of graphs makes launches slow: the times of another pass tell.
    if stage.timed.is_none() && launching::launching(evidence, stage).is_some() {
        return Look::suppressed_by(evidence, launching::RULE);
    }
    let what = match mean_kernel {
        Some(_) => words!(evidence, "short_kernels.kernels"),
        None => words!(evidence, "short_kernels.operations"),
    };
    let (why, advice) = match evidence.replays_graphs(stage) {
        true => (words!(evidence, "short_kernels.replayed"), "advice_graph"),
        false => (words!(evidence, "short_kernels.launched"), "advice"),
    };
    let finding = Finding {
        query: stage.window.as_ref().map(Window::mean),
        ..stage.note_on_figures()
    };
    let arguments = arguments! {
        what = what,
        stage = Inline::strong(&stage.label),
        mean = mean,
        operations = stage.operations,
        why = why,
    };
    Draft::new(finding, arguments).advice(advice).into()
}
