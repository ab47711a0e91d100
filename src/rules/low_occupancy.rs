//! Latency-bound kernels of which registers or shared memory allow few warps.

use super::profiled::{self, Profiled};
use super::small_grids::WAVES;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "low-occupancy",
    title: "Too few warps to hide latency",
    thresholds: &[
        Threshold::ratio("theoretical occupancy, at most", OCCUPANCY),
        Threshold::ratio("share of the GPU time of a stage, at least", SHARE),
    ],
    run,
};

/// Theoretical occupancy up to which the limit is taken for the cause.
const OCCUPANCY: f64 = 0.50;

/// Share of a stage's GPU time from which on such kernels are worth a finding.
const SHARE: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    profiled::per_stage(results, finding)
}

/// Products and convolutions keep tensor cores busy with few warps on purpose.
fn is_limited(one: &Profiled<'_>) -> bool {
    let limiter = one.depth.text("limiter");
    let percent = one.depth.number("theoretical_occupancy_percent");
    one.is_bound("latency-bound")
        && !matches!(one.counters.text("class"), "gemm" | "convolution")
        && (limiter.contains("registers") || limiter.contains("shared memory"))
        && percent.is_some_and(|percent| percent <= 100.0 * OCCUPANCY)
        && one.waves().is_some_and(|waves| waves >= WAVES)
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Observation> {
    let few: Vec<Profiled<'_>> = all.iter().filter(|one| is_limited(one)).copied().collect();
    let share = profiled::share(&few);
    let largest = few.first()?;
    if share < SHARE {
        return None;
    }
    let saved: f64 =
        few.iter().filter_map(|one| Some(one.share * (1.0 - one.use_of_units()?))).sum();
    let theoretical = largest.depth.number("theoretical_occupancy_percent").unwrap_or_default();
    let mut statement = prose![
        Quantity::ratio(share),
        " of the GPU time of ",
        Inline::Strong(stage.label.clone()),
        " is in latency-bound kernels with room for few warps; the largest is ",
        Inline::Code(largest.kernel.to_owned()),
        ": ",
        Inline::Strong(largest.depth.text("limiter").to_owned()),
        " allow an occupancy of ",
        Quantity::ratio(theoretical / 100.0),
        "."
    ];
    statement.extend(profiled::known(results, stage));
    Some(Observation {
        statement,
        advice: Some(prose![
            "Bound the registers (",
            Inline::Code("__launch_bounds__".to_owned()),
            ", fewer warps or stages of a Triton kernel), or use smaller tiles; of a library's kernel, try another algorithm or version."
        ]),
        next: Some(prose![
            "An Nsight Compute pass with source counters: it names the instructions that warps wait for."
        ]),
        evidence: profiled::evidence(results, stage, &few),
        ..stage.saving(
            saved * profiled::gpu_time(results, stage),
            "Σ time × (1 − use of the unit that the kernel uses most)",
        )
    })
}
