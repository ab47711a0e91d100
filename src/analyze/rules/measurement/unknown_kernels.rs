//! Kernels whose class the rules of names do not know, and that are no code of the program.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::kernel_sums::OTHER_LIMIT;
use rooflens_document::{Finding, Inline};

pub(crate) static RULE: Rule = Rule::new(
    "unknown-kernels",
    &[Threshold::ratio("thresholds.kernel_share", OTHER_LIMIT)],
    outcome,
)
.on_kernels()
.on_measurement();

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let Some(kernels) = evidence.kernels() else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let Some(share) = kernels.share(kernels.other) else {
        return Outcome::INSUFFICIENT_DATA;
    };
    if share < OTHER_LIMIT {
        return Outcome::PASSED;
    }
    let identities = &evidence.facts.identities;
    let largest = kernels.of_class(identities, KernelClass::Other).next();
    let finding = Finding {
        evidence: vec![kernels.evidence(evidence.session)],
        scope: evidence.pass_scope(),
        ..Finding::default()
    };
    let arguments = arguments! {
        share = share,
        pass = Inline::code(&evidence.pass),
        kernel = largest.map(|sum| Inline::code(&identities[sum.kernel.index()].short)),
    };
    Outcome::Found(vec![Draft::new(finding, arguments)])
}
