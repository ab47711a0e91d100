//! GEMMs of a decode stage on far more rows than its sequences have tokens, such as keys and values of cross-attention that
//! each token computes again.
//!
//! GEMMs on a token per sequence read all weights once, which memory in use bounds. Sizes are not known from names, so that
//! long kernels alone count: a GEMM on few rows that takes so long reads a weight of hundreds of megabytes.

use std::collections::BTreeSet;

use super::{Kernels, THRESHOLD};
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_document::{Inline, Quantity};
use rooflens_session::{KernelId, Ns};
use rooflens_units::{Bytes, Count, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "decode-rows",
    &[
        THRESHOLD,
        Threshold::number("thresholds.beyond_memory", BEYOND),
    ],
    outcome,
)
.on_kernels();

/// Time of such GEMMs per token ÷ time in which all memory in use is read from which on they cannot be reading weights alone.
const BEYOND: f64 = 4.0;

/// Mean duration from which on a GEMM counts.
const LONG: Ns = Ns(50_000);

/// Sequences up to which GEMMs on a token of each are bound by bytes.
const SEQUENCES: u64 = 64;

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let name = gpu_name(evidence.session, evidence.primary);
    let gpu = evidence.context.gpu_spec(&name);
    let used = evidence.results.allocator().ok();
    let used = used.and_then(|memory| memory.used.iter().map(|used| used.bytes).max());
    let sequences = evidence.session.workload.batch;
    let (Some(gpu), Some(used), Some(sequences)) = (gpu, used, sequences) else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let reading = Time(Bytes(used as f64).0 / gpu.memory_bandwidth.0 * 1e9);
    evidence.each_of_kernels(|stage| look(evidence, stage, reading, sequences))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine, reading: Time, sequences: u64) -> Look {
    let Some(work) = evidence.work(stage.key()) else {
        return Look::InsufficientData;
    };
    let calls = &evidence.session.model_calls;
    let mut of_stage = evidence.model_calls(stage).into_iter().flatten();
    let has_tokens = of_stage.any(|row| calls.tokens[row] > Some(1));
    let is_of_images = work.time(KernelClass::Convolution) > work.time(KernelClass::Gemm);
    if !stage.is_decode() || sequences > SEQUENCES || has_tokens || is_of_images {
        return Look::NotApplicable(words!(evidence, "decode_rows.no_decode"));
    }
    let is_long = |(kernel, launches, time): &&(KernelId, u64, Ns)| {
        let identity = &evidence.facts.identities[kernel.index()];
        identity.class == KernelClass::Gemm && time.time() >= LONG.time() * *launches as f64
    };
    let long = work.kernels.iter().filter(is_long);
    let long: BTreeSet<&str> = long
        .map(|(kernel, ..)| evidence.session.kernel_name(*kernel))
        .collect();
    let kernels = Kernels::of_stage(evidence, stage, work, |_, name| {
        long.contains(name).then_some(Ratio::ONE)
    });
    let Some(kernels) = kernels else {
        return Look::Passed;
    };
    let per_token = kernels.time / stage.steps.unwrap_or(Count(1.0));
    if per_token < reading * BEYOND {
        return Look::Passed;
    }
    kernels.look(stage, |kernels| {
        arguments! {
            stage = Inline::strong(&stage.label),
            kernel = kernels.name(),
            kernels = kernels.per_iteration(),
            time = kernels.time,
            share = kernels.share(),
            factor = Quantity::count((per_token / reading).round() as u64),
            sequences = Quantity::count(sequences),
        }
    })
}
