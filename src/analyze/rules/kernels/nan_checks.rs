//! Operators whose results are each checked for NaN, which the CPU reads.

use super::Kernels;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage_results::{NAN_CHECKS, is_nan_comparison, is_nan_flag};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "nan-checks",
    &[Threshold::count("thresholds.checks", NAN_CHECKS)],
    outcome,
);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| {
        if !stage.kind.is_training() {
            return Look::NotApplicable(words!(evidence, "nan_checks.no_training"));
        }
        let Some(work) = evidence.work(stage.key()) else {
            return Look::InsufficientData;
        };
        let kernels = Kernels::of_stage(evidence, stage, work, |_, name| {
            (is_nan_comparison(name) || is_nan_flag(name)).then_some(Ratio::ONE)
        });
        let (Some(kernels), Some(checks)) = (kernels, evidence.nan_checks(stage)) else {
            return Look::Passed;
        };
        // The CPU waits for each flag: without checks it launches ahead.
        let arguments = arguments! {
            stage = Inline::strong(&stage.label),
            checks = Quantity::count(checks.round() as u64),
            time = kernels.time,
            idle = stage.idle(),
        };
        let finding = Finding {
            parts: kernels.saved,
            ..stage.saving(kernels.time + stage.idle())
        };
        Draft::new(finding, arguments).cause_if(true).into()
    })
}
