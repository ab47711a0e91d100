//! Kernels whose blocks fill a small part of the GPU.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, Profiled, SMALL, SMALL_GRIDS, WAVES};
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    SMALL_GRIDS,
    &[
        Threshold::number("thresholds.few_waves", WAVES.0),
        Threshold::ratio("thresholds.gpu_share", SMALL),
    ],
    outcome,
);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, draft).or_needs(profiled::needs(evidence))
}

/// The part of the GPU that a kernel fills: of the block slots, or of the unit that it uses most.
fn full(kernel: &Profiled<'_>) -> Ratio {
    let slots = kernel.waves().unwrap_or(Ratio::ONE);
    let used = kernel.use_of_units().unwrap_or(Ratio::ZERO);
    slots.max(used).min(Ratio::ONE)
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, profiled: &[Profiled<'_>]) -> Option<Draft> {
    let small = profiled::small(profiled);
    let share = profiled::share(&small);
    let largest = small.first()?;
    if share < SMALL {
        return None;
    }
    let mut empty = Ratio::ZERO;
    for kernel in &small {
        empty += Ratio(kernel.share.0 * full(kernel).rest().0);
    }
    let finding = Finding {
        evidence: profiled::evidence(evidence, stage, &small),
        query: profiled::query(evidence, stage, largest),
        ..stage.saving_kernels(stage.operation_time * empty)
    };
    let arguments = arguments! {
        share = share,
        stage = Inline::strong(&stage.label),
        kernel = largest.name(),
        part = largest.share,
        waves = Quantity::new(largest.waves().unwrap_or_default().0, Unit::One),
        known = profiled::known(evidence, stage),
    };
    Some(Draft::new(finding, arguments))
}
