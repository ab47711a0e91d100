//! Last waves that are not full.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, Profiled, WAVES};
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "wave-tail",
    &[
        Threshold::number("thresholds.many_waves", WAVES.0),
        Threshold::ratio("thresholds.empty_slots", LOST),
    ],
    outcome,
);

/// Σ time × empty slots ÷ GPU time of the stage from which on it is worth a finding.
const LOST: Ratio = Ratio(0.02);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, draft).or_needs(profiled::needs(evidence))
}

/// Share of the stage's GPU time that goes with empty slots. Memory can be at its limit with slots left empty.
fn lost(kernel: &Profiled<'_>) -> Ratio {
    let by_slots = matches!(
        kernel.verdict.bound,
        Bound::Compute | Bound::Instruction | Bound::Latency | Bound::Balanced
    );
    match kernel.waves() {
        Some(waves) if by_slots && waves >= WAVES => kernel.share * (waves / waves.0.ceil()).rest(),
        _ => Ratio::ZERO,
    }
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, profiled: &[Profiled<'_>]) -> Option<Draft> {
    let mut share = Ratio::ZERO;
    let mut largest = profiled.first()?;
    for kernel in profiled {
        share += lost(kernel);
        // Of equal ones the one with more time, which comes first.
        if lost(kernel) > lost(largest) {
            largest = kernel;
        }
    }
    if share < LOST {
        return None;
    }
    let waves = largest.waves().unwrap_or_default().0;
    let finding = Finding {
        evidence: profiled::evidence(evidence, stage, profiled),
        query: profiled::query(evidence, stage, largest),
        ..stage.saving_kernels(stage.operation_time * share)
    };
    let arguments = arguments! {
        share = share,
        stage = Inline::strong(&stage.label),
        kernel = largest.name(),
        waves = Quantity::new(waves, Unit::One),
        whole = Quantity::new(waves.ceil(), Unit::One),
        known = profiled::known(evidence, stage),
    };
    Some(Draft::new(finding, arguments))
}
