//! Latency-bound kernels of which registers or shared memory allow few warps.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, Profiled, WAVES};
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::counters::details::figures::{Figure, Limit};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_document::{Finding, Inline};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "low-occupancy",
    &[
        Threshold::ratio("thresholds.occupancy", OCCUPANCY),
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    outcome,
);

/// Theoretical occupancy up to which the limit is taken for the cause.
const OCCUPANCY: Ratio = Ratio(0.50);

/// Share of a stage's GPU time from which on such kernels are worth a finding.
const SHARE: Ratio = Ratio(0.05);

/// Libraries, or none, of which kernels are compiled with the program: their registers and tiles can be changed.
const OWN: [&str; 6] = ["", "Triton", "CUTLASS", "CUB / Thrust", "Kokkos", "RAJA"];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, draft).or_needs(profiled::needs(evidence))
}

/// Theoretical occupancy of a launch.
fn occupancy(kernel: &Profiled<'_>) -> Option<Ratio> {
    let percent = kernel.figures.get(Figure::Theoretical)?;
    Some(Ratio(percent / 100.0))
}

fn is_limited(kernel: &Profiled<'_>) -> bool {
    let limits = kernel.figures.limiters().unwrap_or_default();
    let is_of_block = |limit: &Limit| matches!(limit, Limit::Registers | Limit::SharedMemory);
    // Products and convolutions keep tensor cores busy with few warps on purpose.
    let multiplies = matches!(
        kernel.launch.identity.class,
        KernelClass::Gemm | KernelClass::Convolution
    );
    kernel.verdict.bound == Bound::Latency
        && !multiplies
        && limits.iter().any(is_of_block)
        && occupancy(kernel).is_some_and(|occupancy| occupancy <= OCCUPANCY)
        && kernel.waves().is_some_and(|waves| waves >= WAVES)
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, profiled: &[Profiled<'_>]) -> Option<Draft> {
    let mut few = profiled.to_vec();
    few.retain(is_limited);
    let share = profiled::share(&few);
    let largest = few.first()?;
    if share < SHARE {
        return None;
    }
    let mut saved = Ratio::ZERO;
    for kernel in &few {
        if let Some(used) = kernel.use_of_units() {
            saved += Ratio(kernel.share.0 * used.rest().0);
        }
    }
    let library = Some(largest.launch.identity.library).filter(|name| !OWN.contains(name));
    let finding = Finding {
        evidence: profiled::evidence(evidence, stage, &few),
        ..stage.saving_kernels(stage.operation_time * saved)
    };
    let arguments = arguments! {
        share = share,
        stage = Inline::strong(&stage.label),
        kernel = largest.name(),
        limit = Inline::strong(largest.figures.limiter().unwrap_or_default()),
        occupancy = occupancy(largest).unwrap_or_default(),
        known = profiled::known(evidence, stage),
        library = library,
    };
    let draft = Draft::new(finding, arguments);
    Some(match library {
        Some(_) => draft.advice("advice_library").cause_if(true),
        None => draft,
    })
}
