//! Last waves that are not full.

use super::profiled::{self, Profiled};
use super::small_grids::WAVES;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "wave-tail",
    thresholds: &[
        Threshold::one("thresholds.many_waves", WAVES),
        Threshold::ratio("thresholds.empty_slots", LOST),
    ],
    run,
};

/// Σ time × empty slots ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.02;

fn run(results: &Results<'_>) -> Outcome {
    profiled::per_stage(results, finding)
}

/// Share of the stage's GPU time that goes with empty slots. Memory can be at its limit with slots left empty.
fn lost(one: &Profiled<'_>) -> Option<f64> {
    let waves = one.waves().filter(|waves| *waves >= WAVES)?;
    let by_slots = matches!(one.verdict.bound, Bound::Compute | Bound::Latency | Bound::Balanced);
    by_slots.then(|| one.share * (1.0 - waves / waves.ceil()))
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Observation> {
    let of = |one: &Profiled<'_>| lost(one).unwrap_or(0.0);
    let share: f64 = all.iter().map(of).sum();
    // Of equal ones the one with more time, which comes first.
    let largest = all.iter().reduce(|best, next| if of(next) > of(best) { next } else { best })?;
    if share < LOST {
        return None;
    }
    let waves = largest.waves().unwrap_or_default();
    let mut statement = prose![
        "Block slots that stay empty in the last wave cost up to ",
        Quantity::ratio(share),
        " of the GPU time of ",
        Inline::Strong(stage.label.clone()),
        "; the largest part is that of ",
        largest.name(),
        ": ",
        Quantity::new(waves, Unit::One),
        " waves take the time of ",
        Quantity::new(waves.ceil(), Unit::One),
        "."
    ];
    statement.extend(profiled::known(results, stage));
    Some(Observation {
        statement,
        advice: Some(prose![
            "Choose tile, block or batch so that the blocks come to a little less than a whole number of waves; persistent or stream-K \
             kernels have no last wave."
        ]),
        evidence: profiled::evidence(results, stage, all),
        query: profiled::query(results, stage, largest),
        ..stage.saving(
            share * results.gpu_time(stage),
            "Σ time × (1 − waves ÷ ⌈waves⌉), as if all blocks took the same time",
        )
    })
}
