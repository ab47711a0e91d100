//! Matrix products whose sizes, and so whose FLOPs, are not known.

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_sections::shapes_advice;

pub(crate) static RULE: Rule = Rule::new(
    "flop-coverage",
    &[
        Threshold::ratio("thresholds.known_products", KNOWN),
        Threshold::ratio("thresholds.products", PRODUCTS),
    ],
    run,
)
.on_measurement();

/// Share of the products' time with sizes below which figures made of their FLOPs leave too much out.
const KNOWN: f64 = 0.90;

/// Share of a stage's GPU time in products from which on it matters.
const PRODUCTS: f64 = 0.10;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let needs = &words!(evidence, "flop_coverage.needs");
    let look = |stage: &StageLine| match evidence.gemms(stage) {
        Some(gemms) => finding(evidence, stage, gemms).into(),
        None => Look::InsufficientData,
    };
    match evidence.each_stage(needs, look) {
        Outcome::Found(found) => Outcome::joined(evidence.text, found),
        other => other,
    }
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, gemms: &StageProducts) -> Option<Finding> {
    let (known, products) = (gemms.shape_coverage(), gemms.time_share());
    if known >= KNOWN || products < PRODUCTS {
        return None;
    }
    let flops = evidence
        .flops(stage)
        .and_then(|flops| flops.sums.coverage());
    Some(Finding {
        statement: say!(
            evidence,
            "flop_coverage.statement",
            stage = Inline::strong(&stage.label),
            products = Quantity::ratio(products),
            known = (known > 0.0).then(|| Quantity::ratio(known)),
            none = (known <= 0.0).then_some(""),
            rest = (known > 0.0).then_some(""),
            flops = flops.filter(|flops| *flops > 0.0).map(Quantity::ratio),
        ),
        next: Some(say!(
            evidence,
            "flop_coverage.next",
            advice = shapes_advice(&evidence.context, evidence.text),
        )),
        evidence: vec![gemms.evidence(evidence.session)],
        ..stage.note()
    })
}
