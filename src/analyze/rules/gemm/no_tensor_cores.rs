//! Matrix products and convolutions that run without tensor cores although their type has them.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::kernel_sums::{KernelSum, PassKernels};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::{Scope, Unit};

pub(crate) static RULE: Rule = Rule::new(
    "no-tensor-cores",
    &[Threshold::ratio("thresholds.kernel_share", SHARE)],
    run,
);

/// Time of such kernels ÷ kernel time of the pass from which on they are worth a finding.
const SHARE: f64 = 0.02;

/// Types of kernels and the type whose tensor rate their products could have.
const TENSOR_TYPES: [(&str, &str); 4] = [
    ("bf16", "bf16"),
    ("fp16", "fp16"),
    ("fp8", "fp8"),
    ("fp32", "tf32"),
];

/// The same before compute capability 8.0: tensor cores multiply fp16 alone.
const VOLTA_TYPES: [(&str, &str); 2] = [("fp16", "fp16"), ("fp32", "fp16")];

fn run(evidence: &Evidence<'_>) -> Outcome {
    if evidence.platform.has_tensor_cores() == Some(false) {
        return Outcome::NotApplicable(words!(evidence, "no_tensor_cores.no_such"));
    }
    let facts = evidence.facts;
    let is_told = |class: KernelClass, kernels: &&PassKernels| {
        let mut all = kernels.identified(facts, class);
        all.any(|(_, identity)| identity.tensor_cores.is_some())
    };
    let kernels = evidence
        .kernels()
        .filter(|kernels| CLASSES.into_iter().any(|class| is_told(class, kernels)));
    let Some(kernels) = kernels else {
        return Outcome::InsufficientData(words!(evidence, "no_tensor_cores.needs"));
    };
    let types = match evidence.platform.has_tf32() {
        Some(false) => &VOLTA_TYPES[..],
        Some(true) | None => &TENSOR_TYPES[..],
    };
    let of_class = |class| types.iter().map(move |types| (class, *types));
    let found = CLASSES.into_iter().flat_map(of_class);
    Outcome::of(
        found
            .filter_map(|(class, types)| finding(evidence, kernels, class, types))
            .collect(),
    )
}

/// What tensor cores are for.
const CLASSES: [KernelClass; 2] = [KernelClass::Gemm, KernelClass::Convolution];

/// Kernels of these classes that multiply nothing, or vectors: memory limits them, tensor cores would not help.
const NO_PRODUCTS: [&str; 4] = ["gemv", "reduce", "im2col", "indices"];

fn is_slow(name: &str, identity: &KernelIdentity) -> bool {
    let name = name.to_ascii_lowercase();
    identity.tensor_cores == Some(false) && !NO_PRODUCTS.iter().any(|part| name.contains(part))
}

fn finding(
    evidence: &Evidence<'_>,
    kernels: &PassKernels,
    class: KernelClass,
    (dtype, tensor): (&str, &str),
) -> Option<Finding> {
    let context = evidence.context;
    let is_convolution = class == KernelClass::Convolution;
    let slow = |(sum, identity): &(&KernelSum, &KernelIdentity)| {
        identity.dtype == dtype && is_slow(context.session.kernel_name(sum.kernel), identity)
    };
    let slow: Vec<_> = kernels
        .identified(context.facts, class)
        .filter(slow)
        .collect();
    let (_, largest) = slow.iter().max_by_key(|(sum, _)| sum.total)?;
    let time = total(slow.iter().map(|(sum, _)| sum.total));
    let share = kernels.share(time).filter(|share| *share >= SHARE)?;
    let time = time as f64;
    let base = at_rate_of(evidence, time, ("fp32", tensor), |saved| {
        words!(
            evidence,
            "no_tensor_cores.basis",
            dtype = tensor,
            saved = saved
        )
    });
    let launches = slow.iter().map(|(sum, _)| sum.count).sum();
    Some(Finding {
        title: match is_convolution {
            true => words!(evidence, "no_tensor_cores.convolutions", dtype = dtype),
            false => words!(evidence, "no_tensor_cores.gemms", dtype = dtype),
        },
        statement: say!(
            evidence,
            "no_tensor_cores.statement",
            gemms = (!is_convolution).then(|| Inline::strong(dtype)),
            convolutions = is_convolution.then(|| Inline::strong(dtype)),
            time = Quantity::new(time, Unit::Nanoseconds),
            share = Quantity::ratio(share),
            kernel = Inline::code(&largest.short),
        ),
        advice: Some(match dtype {
            "fp32" if tensor == "fp16" => say!(evidence, "no_tensor_cores.advice_fp16"),
            "fp32" if is_convolution => say!(evidence, "no_tensor_cores.advice_convolution"),
            "fp32" => say!(evidence, "no_tensor_cores.advice_fp32"),
            _ if is_convolution => say!(evidence, "no_tensor_cores.advice_channels"),
            _ => say!(evidence, "no_tensor_cores.advice"),
        }),
        next: Some(say!(evidence, "no_tensor_cores.next")),
        evidence: vec![context.session.evidence(kernels.pass, "launches", launches)],
        ..base
    })
}

/// A finding about kernels that take so long at the rate of one type and could run at that of another; `basis` words the part
/// of their time that is saved then. Without both rates there is no gain.
pub(crate) fn at_rate_of(
    evidence: &Evidence<'_>,
    time: f64,
    (slow, fast): (&str, &str),
    basis: impl FnOnce(Quantity) -> String,
) -> Finding {
    match rate(evidence, slow)
        .zip(rate(evidence, fast))
        .map(|(slow, fast)| 1.0 - slow / fast)
    {
        Some(saved) => evidence.saving(time * saved, &basis(Quantity::ratio(saved))),
        None => Finding {
            scope: Scope {
                pass: Some(evidence.pass.clone()),
                ..Scope::default()
            },
            ..Finding::default()
        },
    }
}

/// The specified dense rate of a type.
fn rate(evidence: &Evidence<'_>, dtype: &str) -> Option<f64> {
    let context = evidence.context;
    let gpu = context.gpu_spec(&gpu_name(context.session, evidence.primary))?;
    gpu.peak(dtype)
        .map(|peak| peak.dense.0)
        .filter(|rate| *rate > 0.0)
}
