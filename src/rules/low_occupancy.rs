//! Latency-bound kernels of which registers or shared memory allow few warps.

use super::profiled::{self, Profiled};
use super::small_grids::WAVES;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::counters::details::figures::{Figure, Limit};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "low-occupancy",
    thresholds: &[
        Threshold::ratio("thresholds.occupancy", OCCUPANCY),
        Threshold::ratio("thresholds.gpu_share", SHARE),
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

/// Theoretical occupancy of a launch.
fn occupancy(one: &Profiled<'_>) -> Option<f64> {
    one.figures.get(Figure::Theoretical).map(|percent| percent / 100.0)
}

/// Products and convolutions keep tensor cores busy with few warps on purpose.
fn is_limited(one: &Profiled<'_>) -> bool {
    let limits = one.figures.limiters().unwrap_or_default();
    one.verdict.bound == Bound::Latency
        && !matches!(one.launch.identity.class, KernelClass::Gemm | KernelClass::Convolution)
        && limits.iter().any(|limit| matches!(limit, Limit::Registers | Limit::SharedMemory))
        && occupancy(one).is_some_and(|occupancy| occupancy <= OCCUPANCY)
        && one.waves().is_some_and(|waves| waves >= WAVES)
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Observation> {
    let few: Vec<Profiled<'_>> = all.iter().filter(|one| is_limited(one)).cloned().collect();
    let share = profiled::share(&few);
    let largest = few.first()?;
    if share < SHARE {
        return None;
    }
    let saved: f64 =
        few.iter().filter_map(|one| Some(one.share * (1.0 - one.use_of_units()?))).sum();
    let mut statement = prose![
        Quantity::ratio(share),
        " of the GPU time of ",
        Inline::Strong(stage.label.clone()),
        " is in latency-bound kernels with room for few warps; the largest is ",
        largest.name(),
        ": ",
        Inline::Strong(largest.figures.limiter().unwrap_or_default()),
        " allow an occupancy of ",
        Quantity::ratio(occupancy(largest).unwrap_or_default()),
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
            saved * results.gpu_time(stage),
            "Σ time × (1 − use of the unit that the kernel uses most)",
        )
    })
}
