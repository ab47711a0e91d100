//! Matrix products in TF32: 16-bit types have twice its rate and half its bytes.

use crate::{Evidence, Outcome, Rule, Threshold, gemm::no_tensor_cores};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::intervals::total;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "tf32-gemms",
    &[Threshold::ratio("thresholds.kernel_share", SHARE)],
    run,
);

/// Time of such GEMMs ÷ kernel time of the pass from which on they are worth a finding.
const SHARE: f64 = 0.10;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let facts = evidence.facts;
    let Some(kernels) = evidence.kernels() else {
        return Outcome::InsufficientData(words!(evidence, "tf32_gemms.needs"));
    };
    let gemms = || kernels.identified(facts, KernelClass::Gemm);
    if gemms().all(|(_, identity)| identity.dtype.is_empty()) {
        return Outcome::InsufficientData(words!(evidence, "tf32_gemms.needs"));
    }
    let own: Vec<_> = gemms()
        .filter(|(_, identity)| identity.dtype == "tf32")
        .collect();
    let time = total(own.iter().map(|(sum, _)| sum.total));
    let largest = own.iter().max_by_key(|(sum, _)| sum.total);
    let share = kernels.share(time).filter(|share| *share >= SHARE);
    let (Some((_, largest)), Some(share)) = (largest, share) else {
        return Outcome::PASSED;
    };
    let time = time as f64;
    let base = no_tensor_cores::at_rate_of(evidence, time, ("tf32", "bf16"), |saved| {
        words!(evidence, "tf32_gemms.basis", saved = saved)
    });
    let launches = own.iter().map(|(sum, _)| sum.count).sum();
    Outcome::Found(vec![Finding {
        statement: say!(
            evidence,
            "tf32_gemms.statement",
            time = Quantity::new(time, Unit::Nanoseconds),
            share = Quantity::ratio(share),
            kernel = Inline::code(&largest.short),
        ),
        advice: Some(say!(evidence, "tf32_gemms.advice")),
        next: Some(say!(evidence, "tf32_gemms.next")),
        evidence: vec![
            evidence
                .session
                .evidence(kernels.pass, "launches", launches),
        ],
        ..base
    }])
}
