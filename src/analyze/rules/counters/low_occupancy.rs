//! Latency-bound kernels of which registers or shared memory allow few warps.

use crate::counters::small_grids::WAVES;
use crate::profiled::{self, Profiled};
use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::details::figures::{Figure, Limit};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_document::{Finding, Inline, Quantity, Root};

pub(crate) static RULE: Rule = Rule::new(
    "low-occupancy",
    &[
        Threshold::ratio("thresholds.occupancy", OCCUPANCY),
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    run,
);

/// Theoretical occupancy up to which the limit is taken for the cause.
const OCCUPANCY: f64 = 0.50;

/// Share of a stage's GPU time from which on such kernels are worth a finding.
const SHARE: f64 = 0.05;

/// Libraries, or none, of which kernels are compiled with the program: their registers and tiles can be changed.
const OWN: [&str; 6] = ["", "Triton", "CUTLASS", "CUB / Thrust", "Kokkos", "RAJA"];

fn run(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, finding)
}

/// Theoretical occupancy of a launch.
fn occupancy(one: &Profiled<'_>) -> Option<f64> {
    one.figures
        .get(Figure::Theoretical)
        .map(|percent| percent / 100.0)
}

/// Products and convolutions keep tensor cores busy with few warps on purpose.
fn is_limited(one: &Profiled<'_>) -> bool {
    let limits = one.figures.limiters().unwrap_or_default();
    one.verdict.bound == Bound::Latency
        && !matches!(
            one.launch.identity.class,
            KernelClass::Gemm | KernelClass::Convolution
        )
        && limits
            .iter()
            .any(|limit| matches!(limit, Limit::Registers | Limit::SharedMemory))
        && occupancy(one).is_some_and(|occupancy| occupancy <= OCCUPANCY)
        && one.waves().is_some_and(|waves| waves >= WAVES)
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Option<Finding> {
    let few: Vec<Profiled<'_>> = all.iter().filter(|one| is_limited(one)).cloned().collect();
    let share = profiled::share(&few);
    let largest = few.first()?;
    let library = Some(largest.launch.identity.library).filter(|name| !OWN.contains(name));
    if share < SHARE {
        return None;
    }
    let saved: f64 = few
        .iter()
        .filter_map(|one| Some(one.share * (1.0 - one.use_of_units()?)))
        .sum();
    Some(Finding {
        statement: say!(
            evidence,
            "low_occupancy.statement",
            share = Quantity::ratio(share),
            stage = Inline::strong(&stage.label),
            kernel = largest.name(),
            limit = Inline::strong(largest.figures.limiter().unwrap_or_default()),
            occupancy = Quantity::ratio(occupancy(largest).unwrap_or_default()),
            known = profiled::known(evidence, stage),
        ),
        advice: Some(match library {
            Some(library) => say!(evidence, "low_occupancy.advice_library", library = library),
            None => say!(evidence, "low_occupancy.advice"),
        }),
        root: library.map(|library| Root {
            cause: words!(evidence, "low_occupancy.root_cause", library = library),
            action: words!(evidence, "low_occupancy.root_action", library = library),
            condition: None,
            passes: 1,
        }),
        next: Some(say!(evidence, "low_occupancy.next")),
        evidence: profiled::evidence(evidence, stage, &few),
        ..stage.saving_kernels(
            saved * stage.operation_time,
            &words!(evidence, "low_occupancy.basis"),
        )
    })
}
