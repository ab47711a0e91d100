//! GEMMs whose sizes, and so whose FLOPs, are not known.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_document::{Finding, Inline};
use rooflens_sections::shapes_advice;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "flop-coverage",
    &[
        Threshold::ratio("thresholds.known_products", KNOWN),
        Threshold::ratio("thresholds.products", PRODUCTS),
    ],
    outcome,
)
.on_measurement();

/// Share of the products' time with sizes below which figures made of their FLOPs leave too much out.
const KNOWN: Ratio = Ratio(0.90);

/// Share of a stage's GPU time in products from which on it matters.
const PRODUCTS: Ratio = Ratio(0.10);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let outcome = evidence.each_stage(|stage| match evidence.gemms(stage) {
        Some(gemms) => draft(evidence, stage, gemms).into(),
        None => Look::InsufficientData,
    });
    match outcome {
        Outcome::Found(drafts) => Outcome::joined(drafts),
        outcome => outcome,
    }
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, gemms: &StageProducts) -> Option<Draft> {
    let (known, products) = (gemms.shape_coverage(), gemms.time_share());
    if known >= KNOWN || products < PRODUCTS {
        return None;
    }
    let coverage = evidence
        .flops(stage)
        .and_then(|flops| flops.sums.coverage());
    let finding = Finding {
        evidence: vec![gemms.evidence(evidence.session)],
        ..stage.note()
    };
    let has_known = known > Ratio::ZERO;
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        products = products,
        known = has_known.then_some(known),
        none = (!has_known).then_some(""),
        rest = has_known.then_some(""),
        flops = coverage.filter(|flops| *flops > Ratio::ZERO),
        advice = shapes_advice(&evidence.context, evidence.text),
    };
    Some(Draft::new(finding, arguments))
}
