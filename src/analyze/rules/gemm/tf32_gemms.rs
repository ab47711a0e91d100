//! GEMMs and convolutions in TF32: 16-bit types have twice its rate, and half the bytes of what lies between.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rates::at_rate_of;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_document::{Finding, Inline};
use rooflens_units::{Ns, Ratio};

pub(crate) static RULE: Rule = Rule::new(
    "tf32-gemms",
    &[
        Threshold::ratio("thresholds.kernel_share", SHARE),
        Threshold::ns("thresholds.mean_duration", LATENCY),
    ],
    outcome,
)
.on_kernels();

/// Time of such kernels ÷ kernel time of the pass from which on they are worth a finding.
const SHARE: Ratio = Ratio(0.10);

/// Mean duration up to which latency bounds a kernel, and neither rate nor bytes.
const LATENCY: Ns = Ns(5_000);

/// Bytes of an element in 16 bits ÷ those of one in fp32.
const HALF: Ratio = Ratio(0.5);

/// Classes of kernels that multiply.
const PRODUCTS: [KernelClass; 2] = [KernelClass::Gemm, KernelClass::Convolution];

/// Classes of kernels that move activations. Copies between memory formats go with another setting.
const MOVING: [KernelClass; 5] = [
    KernelClass::Elementwise,
    KernelClass::Normalization,
    KernelClass::Softmax,
    KernelClass::Reduction,
    KernelClass::Pooling,
];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let Some(kernels) = evidence.kernels() else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let of_classes = |classes: &[KernelClass]| {
        let identified = classes
            .iter()
            .flat_map(|class| kernels.identified(evidence.facts, *class));
        let typed = identified.filter(|(sum, identity)| {
            let is_long = sum.total.time() > LATENCY.time() * sum.count as f64;
            is_long && !identity.dtype.is_empty()
        });
        typed.collect::<Vec<_>>()
    };
    let time = |products: &[(&KernelSum, &KernelIdentity)]| {
        total(products.iter().map(|(sum, _)| sum.total))
    };
    let is_typed = |class| {
        let mut identified = kernels.identified(evidence.facts, class);
        identified.any(|(_, identity)| !identity.dtype.is_empty())
    };
    if !PRODUCTS.into_iter().any(is_typed) {
        return Outcome::INSUFFICIENT_DATA;
    }
    let mut products = of_classes(&PRODUCTS);
    let all = time(&products);
    products.retain(|(_, identity)| identity.dtype == "tf32");
    let time_of_class = |class| {
        let of_class = products
            .iter()
            .filter(|(_, identity)| identity.class == class);
        total(of_class.map(|(sum, _)| sum.total))
    };
    let gemms = time_of_class(KernelClass::Gemm);
    let of_products = time(&products);
    let share = kernels.share(of_products);
    let largest = products.iter().max_by_key(|(sum, _)| sum.total);
    let (Some((_, largest)), Some(share)) = (largest, share.filter(|share| *share >= SHARE)) else {
        return Outcome::PASSED;
    };
    let mut others = of_classes(&MOVING);
    others.retain(|(_, identity)| identity.dtype == "fp32");
    // Where most products have 16 bits already, these kernels belong to them.
    if of_products.time() < all.time() * HALF {
        others.clear();
    }
    let of_others = time(&others);
    let sums: Vec<_> = products.iter().map(|(sum, _)| *sum).collect();
    let halved: Vec<_> = others.iter().map(|(sum, _)| (*sum, HALF)).collect();
    let (finding, saved) = at_rate_of(evidence, &sums, &halved, "tf32", "bf16");
    let launches = products.iter().map(|(sum, _)| sum.count).sum();
    let subject = match (gemms > Ns::ZERO, of_products > gemms) {
        (true, true) => words!(evidence, "tf32_gemms.both"),
        (true, false) => words!(evidence, "tf32_gemms.gemms"),
        (false, _) => words!(evidence, "tf32_gemms.convolutions"),
    };
    let finding = Finding {
        title: subject.clone(),
        evidence: vec![
            evidence
                .session
                .evidence(kernels.pass, "launches", launches),
        ],
        ..finding
    };
    let arguments = arguments! {
        products = subject,
        time = of_products.time(),
        share = share,
        kernel = Inline::code(&largest.short),
        saved = saved,
        others = (of_others > Ns::ZERO).then(|| of_others.time()),
    };
    Outcome::Found(vec![Draft::new(finding, arguments)])
}
