//! GEMMs in TF32: 16-bit types have twice its rate and half its bytes.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rates::at_rate_of;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::intervals::total;
use rooflens_document::{Finding, Inline};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "tf32-gemms",
    &[Threshold::ratio("thresholds.kernel_share", SHARE)],
    outcome,
)
.on_kernels();

/// Time of such GEMMs ÷ kernel time of the pass from which on they are worth a finding.
const SHARE: Ratio = Ratio(0.10);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let Some(kernels) = evidence.kernels() else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let mut gemms: Vec<_> = kernels
        .identified(evidence.facts, KernelClass::Gemm)
        .collect();
    gemms.retain(|(_, identity)| !identity.dtype.is_empty());
    if gemms.is_empty() {
        return Outcome::INSUFFICIENT_DATA;
    }
    gemms.retain(|(_, identity)| identity.dtype == "tf32");
    let time = total(gemms.iter().map(|(sum, _)| sum.total));
    let share = kernels.share(time);
    let (Some((_, largest)), Some(share)) = (gemms.iter().max_by_key(|(sum, _)| sum.total), share)
    else {
        return Outcome::PASSED;
    };
    if share < SHARE {
        return Outcome::PASSED;
    }
    let time = time.time();
    let sums: Vec<_> = gemms.iter().map(|(sum, _)| *sum).collect();
    let (finding, saved) = at_rate_of(evidence, &sums, &[], "tf32", "bf16");
    let launches = gemms.iter().map(|(sum, _)| sum.count).sum();
    let finding = Finding {
        evidence: vec![
            evidence
                .session
                .evidence(kernels.pass, "launches", launches),
        ],
        ..finding
    };
    let kernel = Inline::code(&largest.short);
    let arguments = arguments! { time = time, share = share, kernel = kernel, saved = saved };
    Outcome::Found(vec![Draft::new(finding, arguments)])
}
