//! GEMMs and convolutions that run without tensor cores although their type has them.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::practices;
use crate::rates::at_rate_of;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::kernel_sums::{KernelSum, PassKernels};
use rooflens_document::{Finding, Inline};
use rooflens_units::{Ns, Ratio};

pub(crate) static RULE: Rule = Rule::new(
    "no-tensor-cores",
    &[Threshold::ratio("thresholds.kernel_share", SHARE)],
    outcome,
)
.on_kernels();

/// Time of such kernels ÷ kernel time of the pass from which on they are worth a finding.
const SHARE: Ratio = Ratio(0.02);

/// Types of kernels and the type whose tensor rate their products could have.
const TENSOR_TYPES: [(&str, &str); 4] = [
    ("bf16", "bf16"),
    ("fp16", "fp16"),
    ("fp8", "fp8"),
    ("fp32", "tf32"),
];

/// The same before compute capability 8.0: tensor cores multiply fp16 alone.
const VOLTA_TYPES: [(&str, &str); 2] = [("fp16", "fp16"), ("fp32", "fp16")];

/// What tensor cores are for.
const CLASSES: [KernelClass; 2] = [KernelClass::Gemm, KernelClass::Convolution];

/// Kernels of these classes that multiply nothing, or vectors: memory limits them, tensor cores would not help.
const NO_PRODUCTS: [&str; 4] = ["gemv", "reduce", "im2col", "indices"];

/// Part of the names of kernels that transform the operands and outputs of a convolution by Winograd, around GEMMs. On
/// tensor cores cuDNN computes convolutions as implicit GEMMs, without transforms.
const TRANSFORM: &str = "winograd";

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if evidence.platform.has_tensor_cores() == Some(false) {
        return Outcome::NotApplicable(words!(evidence, "no_tensor_cores.no_such"));
    }
    let Some(kernels) = evidence.kernels() else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let is_told = |class: KernelClass| {
        let mut identified = kernels.identified(evidence.facts, class);
        identified.any(|(_, identity)| identity.tensor_cores.is_some())
    };
    if !CLASSES.into_iter().any(is_told) {
        return Outcome::INSUFFICIENT_DATA;
    }
    let types = match multiplies_tf32(evidence) {
        Some(false) => &VOLTA_TYPES[..],
        Some(true) | None => &TENSOR_TYPES[..],
    };
    let mut drafts = Vec::new();
    for (dtype, tensor) in types {
        // One setting lets both compute in TF32, or in 16 bits; other types have an alignment of their own.
        let together: &[&[KernelClass]] = match *dtype {
            "fp32" => &[&CLASSES],
            _ => &[&CLASSES[..1], &CLASSES[1..]],
        };
        for classes in together {
            drafts.extend(draft(evidence, kernels, classes, dtype, tensor));
        }
    }
    Outcome::of_drafts(drafts)
}

/// Whether tensor cores multiply TF32. Old exports name the GPU without its compute capability: its specification tells.
fn multiplies_tf32(evidence: &Evidence<'_>) -> Option<bool> {
    let specified = || {
        let name = gpu_name(evidence.session, evidence.primary);
        let gpu = evidence.context.gpu_spec(&name)?;
        Some(gpu.peak("tf32").is_some())
    };
    evidence.platform.has_tf32().or_else(specified)
}

fn is_slow(name: &str, identity: &KernelIdentity) -> bool {
    let name = name.to_ascii_lowercase();
    identity.tensor_cores == Some(false) && !NO_PRODUCTS.iter().any(|part| name.contains(part))
}

fn draft(
    evidence: &Evidence<'_>,
    kernels: &PassKernels,
    classes: &[KernelClass],
    dtype: &str,
    tensor: &str,
) -> Option<Draft> {
    let session = evidence.session;
    let of_classes = classes.iter();
    let of_classes = of_classes.flat_map(|class| kernels.identified(evidence.facts, *class));
    let of_type = of_classes.filter(|(_, identity)| identity.dtype == dtype);
    let (slow, others): (Vec<_>, Vec<_>) =
        of_type.partition(|(sum, identity)| is_slow(session.kernel_name(sum.kernel), identity));
    let is_transform = |sum: &KernelSum| session.kernel_name(sum.kernel).contains(TRANSFORM);
    let others = others.into_iter().map(|(sum, _)| sum);
    let transforms: Vec<_> = others.filter(|sum| is_transform(sum)).collect();
    let (_, largest) = slow.iter().max_by_key(|(sum, _)| sum.total)?;
    let time_of = |class| {
        let of_class = slow.iter().filter(|(_, identity)| identity.class == class);
        total(of_class.map(|(sum, _)| sum.total))
    };
    let [gemms, convolutions] = CLASSES.map(time_of);
    let of_transforms = total(transforms.iter().map(|sum| sum.total));
    let time = gemms + convolutions + of_transforms;
    let share = kernels.share(time)?;
    if share < SHARE {
        return None;
    }
    let sums: Vec<_> = slow.iter().map(|(sum, _)| *sum).collect();
    let gone: Vec<_> = transforms.iter().map(|sum| (*sum, Ratio::ONE)).collect();
    let (finding, saved) = at_rate_of(evidence, &sums, &gone, "fp32", tensor);
    let launches = sums.iter().chain(&transforms).map(|sum| sum.count).sum();
    let [has_gemms, has_convolutions] = [gemms > Ns::ZERO, time > gemms];
    let products = match (has_gemms, has_convolutions) {
        (true, true) => words!(evidence, "no_tensor_cores.both", dtype = dtype),
        (true, false) => words!(evidence, "no_tensor_cores.gemms", dtype = dtype),
        (false, _) => words!(evidence, "no_tensor_cores.convolutions", dtype = dtype),
    };
    let finding = Finding {
        title: products.clone(),
        evidence: vec![session.evidence(kernels.pass, "launches", launches)],
        ..finding
    };
    let arguments = arguments! {
        products = products,
        time = time.time(),
        share = share,
        transforms = (of_transforms > Ns::ZERO).then(|| of_transforms.time()),
        kernel = Inline::code(&largest.short),
        dtype = tensor,
        saved = saved,
        pytorch = evidence.platform.pytorch.then_some(""),
    };
    let stages: Vec<_> = evidence.stages.iter().collect();
    let has_tf32 = practices::tf32(evidence, &stages).is_some_and(|share| share > Ratio::ZERO);
    let lacks_tf32 = has_gemms && !has_tf32 && (dtype, tensor) == ("fp32", "tf32");
    let draft = Draft::new(finding, arguments);
    let draft = match multiplies_tf32(evidence) {
        Some(false) if dtype == "fp16" => draft
            .root("root_cause_volta", "root_action_sizes")
            .only_if("root_if_sizes"),
        Some(false) => draft
            .root("root_cause_volta", "root_action_fp16")
            .only_if("root_if_fp16"),
        _ => draft.cause_if(lacks_tf32),
    };
    Some(draft.advice(match dtype {
        "fp32" if tensor == "tf32" && has_tf32 => "advice_tf32",
        "fp32" if tensor == "fp16" => "advice_fp16",
        "fp32" if has_gemms && has_convolutions => "advice_both",
        "fp32" if has_convolutions => "advice_convolution",
        "fp32" => "advice_fp32",
        _ if has_convolutions => "advice_channels",
        _ => "advice",
    }))
}
