//! Last waves that are not full.

use crate::counters::small_grids::WAVES;
use crate::profiled::{self, Profiled};
use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "wave-tail",
    &[
        Threshold::one("thresholds.many_waves", WAVES),
        Threshold::ratio("thresholds.empty_slots", LOST),
    ],
    run,
);

/// Σ time × empty slots ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.02;

fn run(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, finding)
}

/// Share of the stage's GPU time that goes with empty slots. Memory can be at its limit with slots left empty.
fn lost(one: &Profiled<'_>) -> Option<f64> {
    let waves = one.waves().filter(|waves| *waves >= WAVES)?;
    let by_slots = matches!(
        one.verdict.bound,
        Bound::Compute | Bound::Instruction | Bound::Latency | Bound::Balanced
    );
    by_slots.then(|| one.share * (1.0 - waves / waves.ceil()))
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Finding> {
    let of = |one: &Profiled<'_>| lost(one).unwrap_or(0.0);
    let share: f64 = all.iter().map(of).sum();
    // Of equal ones the one with more time, which comes first.
    let largest = all
        .iter()
        .reduce(|best, next| if of(next) > of(best) { next } else { best })?;
    if share < LOST {
        return None;
    }
    let waves = largest.waves().unwrap_or_default();
    Some(Finding {
        statement: say!(
            evidence,
            "wave_tail.statement",
            share = Quantity::ratio(share),
            stage = Inline::strong(&stage.label),
            kernel = largest.name(),
            waves = Quantity::new(waves, Unit::One),
            whole = Quantity::new(waves.ceil(), Unit::One),
            known = profiled::known(evidence, stage),
        ),
        advice: Some(say!(evidence, "wave_tail.advice")),
        evidence: profiled::evidence(evidence, stage, all),
        query: profiled::query(evidence, stage, largest),
        ..stage.saving_kernels(
            share * stage.operation_time,
            &words!(evidence, "wave_tail.basis"),
        )
    })
}
