//! Kernels whose class the rules of names do not know, and that are no code of the program.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::kernel_sums::OTHER_LIMIT;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Scope;

pub(crate) static RULE: Rule = Rule::new(
    "unknown-kernels",
    &[Threshold::ratio("thresholds.kernel_share", OTHER_LIMIT)],
    run,
)
.on_measurement();

fn run(evidence: &Evidence<'_>) -> Outcome {
    let known = evidence
        .kernels()
        .and_then(|kernels| Some((kernels, kernels.share(kernels.other)?)));
    let Some((kernels, share)) = known else {
        return Outcome::InsufficientData(words!(evidence, "unknown_kernels.needs"));
    };
    if share < OTHER_LIMIT {
        return Outcome::PASSED;
    }
    let identities = &evidence.facts.identities;
    let largest = kernels.of_class(identities, KernelClass::Other).next();
    Outcome::Found(vec![Finding {
        statement: say!(
            evidence,
            "unknown_kernels.statement",
            share = Quantity::ratio(share),
            pass = Inline::code(&evidence.pass),
            kernel = largest.map(|one| Inline::code(&identities[one.kernel.index()].short)),
        ),
        evidence: vec![kernels.evidence(evidence.session)],
        scope: Scope {
            pass: Some(evidence.pass.clone()),
            ..Scope::default()
        },
        ..Finding::default()
    }])
}
