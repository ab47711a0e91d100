//! Operators whose results are each checked for NaN, which the CPU reads.

use super::Kernels;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use rooflens_document::{Finding, Inline};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "nan-checks",
    &[Threshold::count("thresholds.checks", CHECKS)],
    outcome,
);

/// Checks of an iteration from which on each operator is checked, and not a loss or a norm.
const CHECKS: u64 = 16;

/// Parts of the names of the kernels of a check: a value that is not itself is NaN, and the flags become one.
const COMPARISON: &str = "CompareEqFunctor";
const FLAG: &str = "or_kernel_cuda";

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| {
        if !stage.kind.is_training() {
            return Look::NotApplicable(words!(evidence, "nan_checks.no_training"));
        }
        let Some(work) = evidence.work(stage.key()) else {
            return Look::InsufficientData;
        };
        let kernels = |part: &str| {
            Kernels::of_stage(evidence, stage, work, |_, name| {
                name.contains(part).then_some(Ratio::ONE)
            })
        };
        let (Some(comparisons), Some(flags)) = (kernels(COMPARISON), kernels(FLAG)) else {
            return Look::Passed;
        };
        let checks = comparisons.launches.min(flags.launches);
        if work.per_instance(checks as f64) < CHECKS as f64 {
            return Look::Passed;
        }
        // The CPU waits for each flag: without checks it launches ahead.
        let time = comparisons.time + flags.time;
        let arguments = arguments! {
            stage = Inline::strong(&stage.label),
            checks = flags.per_iteration(),
            time = time,
            idle = stage.idle(),
        };
        let finding = Finding {
            parts: [comparisons.saved, flags.saved].concat(),
            ..stage.saving(time + stage.idle())
        };
        Draft::new(finding, arguments).cause_if(true).into()
    })
}
