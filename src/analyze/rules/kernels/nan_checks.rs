//! Operators whose results are each checked for NaN, which the CPU reads.

use super::Kernels;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage_results::{NAN_CHECKS, NAN_COMPARISON, NAN_FLAG};
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
            // Of two tensors: a comparison with a number is no check.
            let is_comparison = name.contains(NAN_COMPARISON) && name.contains("BinaryFunctor");
            let is_of_check = is_comparison || name.contains(NAN_FLAG);
            is_of_check.then_some(Ratio::ONE)
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
