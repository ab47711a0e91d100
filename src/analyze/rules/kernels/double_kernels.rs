//! Kernels that move and compute FP64, by their names.

use super::{Kernels, SHARE, THRESHOLD};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rates;
use crate::rule::{Look, Outcome, Rule};
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::operators::chains::ChainKind;
use rooflens_document::Inline;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new("double-kernels", &[THRESHOLD], outcome).on_kernels();

/// FP32 has half of the bytes, and at most half of the time of what moves them.
const HALF: Ratio = Ratio(0.5);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let at_rate = |dtype| rates::saved(evidence, dtype, "tf32");
    let vector = at_rate("fp64").unwrap_or(HALF);
    let tensor = at_rate("fp64_tensor").unwrap_or(vector);
    // Names of cuBLAS and CUTLASS have the operation of the tensor cores.
    let has_tensor_cores = |name: &str| name.contains("tensor");
    let saved = |identity: &KernelIdentity, name: &str| {
        let part = match identity.class {
            KernelClass::Gemm | KernelClass::Convolution if has_tensor_cores(name) => tensor,
            KernelClass::Gemm | KernelClass::Convolution => vector,
            _ => HALF,
        };
        (identity.dtype == "fp64").then_some(part)
    };
    let chains = evidence.results.chains().ok();
    evidence.each_of_kernels(|stage| {
        let Some(work) = evidence.work(stage.key()) else {
            return Look::InsufficientData;
        };
        let place = chains.and_then(|chains| evidence.place(chains, stage));
        if place.is_some_and(|place| place.group(ChainKind::Fp64).is_some()) {
            return Look::suppressed_by(evidence, "fp64-operators");
        }
        let kernels = Kernels::of_stage(evidence, stage, work, saved);
        let Some(kernels) = kernels.filter(|kernels| kernels.share() >= SHARE) else {
            return Look::Passed;
        };
        let arguments = arguments! {
            stage = Inline::strong(&stage.label),
            kernel = kernels.name(),
            kernels = kernels.per_iteration(),
            time = kernels.time,
            share = kernels.share(),
            saved = vector,
            tensor = tensor,
        };
        Draft::new(kernels.finding(stage), arguments)
            .cause_if(true)
            .into()
    })
}
