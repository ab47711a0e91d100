//! Kernels whose blocks fill a small part of the GPU.

use super::profiled::{self, Profiled};
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "small-grids",
    thresholds: &[
        Threshold::one("thresholds.few_waves", WAVES),
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    run,
};

/// Waves below which a grid leaves most of the block slots empty. Grids between this and one wave are the tail's.
pub(super) const WAVES: f64 = 0.5;

/// Share of a stage's GPU time from which on such kernels are worth a finding.
const SHARE: f64 = 0.10;

/// The part of the GPU that a kernel fills: of the block slots, or of the unit that it uses most.
fn full(one: &Profiled<'_>) -> f64 {
    one.waves().unwrap_or(1.0).max(one.use_of_units().unwrap_or(0.0)).min(1.0)
}

fn run(results: &Results<'_>) -> Outcome {
    profiled::per_stage(results, finding)
}

/// Whether it holds for a stage.
pub(super) fn holds(results: &Results<'_>, stage: &StageLine) -> bool {
    profiled::share(&small(&profiled::of_stage(results, stage))) >= SHARE
}

fn small<'a>(all: &[Profiled<'a>]) -> Vec<Profiled<'a>> {
    let is_small = |one: &&Profiled<'_>| {
        one.verdict.bound == Bound::Latency && one.waves().is_some_and(|waves| waves < WAVES)
    };
    all.iter().filter(is_small).cloned().collect()
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Observation> {
    let small = small(all);
    let share = profiled::share(&small);
    let largest = small.first()?;
    if share < SHARE {
        return None;
    }
    let empty: f64 = small.iter().map(|one| one.share * (1.0 - full(one))).sum();
    let mut statement = prose![
        "At least ",
        Quantity::ratio(share),
        " of the GPU time of ",
        Inline::Strong(stage.label.clone()),
        " is in latency-bound kernels whose blocks fill less than half of the slots of the GPU; the largest is ",
        largest.name(),
        " (",
        Quantity::ratio(largest.share),
        ", ",
        Quantity::new(largest.waves().unwrap_or_default(), Unit::One),
        " waves)."
    ];
    statement.extend(profiled::known(results, stage));
    Some(Observation {
        statement,
        advice: Some(prose![
            "Give each launch more work: fuse such kernels with their neighbours, raise the batch, split reductions and products \
             with few rows over more blocks. CUDA graphs close the gaps between them and leave their time as it is."
        ]),
        next: Some(prose![
            "The same stage with a larger batch, or compiled: grids must grow, or kernels become fewer."
        ]),
        evidence: profiled::evidence(results, stage, &small),
        query: profiled::query(results, stage, largest),
        ..stage.saving(
            empty * results.gpu_time(stage),
            "Σ time × (1 − waves, or the use of the unit that the kernel uses most where that is more), as if other blocks filled the empty slots"
        )
    })
}
