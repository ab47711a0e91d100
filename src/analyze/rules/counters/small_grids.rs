//! Kernels whose blocks fill a small part of the GPU.

use crate::profiled::{self, Profiled};
use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "small-grids",
    &[
        Threshold::one("thresholds.few_waves", WAVES),
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    run,
);

/// Waves below which a grid leaves most of the block slots empty. Grids between this and one wave are the tail's.
pub(crate) const WAVES: f64 = 0.5;

/// Share of a stage's GPU time from which on such kernels are worth a finding.
const SHARE: f64 = 0.10;

/// The part of the GPU that a kernel fills: of the block slots, or of the unit that it uses most.
fn full(one: &Profiled<'_>) -> f64 {
    one.waves()
        .unwrap_or(1.0)
        .max(one.use_of_units().unwrap_or(0.0))
        .min(1.0)
}

fn run(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, finding)
}

/// Whether it holds for a stage.
pub(crate) fn holds(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    profiled::share(&small(&profiled::of_stage(evidence, stage))) >= SHARE
}

fn small<'a>(all: &[Profiled<'a>]) -> Vec<Profiled<'a>> {
    let is_small = |one: &&Profiled<'_>| {
        one.verdict.bound == Bound::Latency && one.waves().is_some_and(|waves| waves < WAVES)
    };
    all.iter().filter(is_small).cloned().collect()
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Finding> {
    let small = small(all);
    let share = profiled::share(&small);
    let largest = small.first()?;
    if share < SHARE {
        return None;
    }
    let empty: f64 = small.iter().map(|one| one.share * (1.0 - full(one))).sum();
    Some(Finding {
        statement: say!(
            evidence,
            "small_grids.statement",
            share = Quantity::ratio(share),
            stage = Inline::strong(&stage.label),
            kernel = largest.name(),
            part = Quantity::ratio(largest.share),
            waves = Quantity::new(largest.waves().unwrap_or_default(), Unit::One),
            known = profiled::known(evidence, stage),
        ),
        advice: Some(say!(evidence, "small_grids.advice")),
        next: Some(say!(evidence, "small_grids.next")),
        evidence: profiled::evidence(evidence, stage, &small),
        query: profiled::query(evidence, stage, largest),
        ..stage.saving_kernels(
            empty * stage.operation_time,
            &words!(evidence, "small_grids.basis"),
        )
    })
}
