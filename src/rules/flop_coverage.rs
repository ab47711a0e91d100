//! Matrix products whose sizes, and so whose FLOPs, are not known.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "flop-coverage",
    thresholds: &[
        Threshold::ratio("thresholds.known_products", KNOWN),
        Threshold::ratio("thresholds.products", PRODUCTS),
    ],
    run,
};

/// Share of the products' time with sizes below which figures made of their FLOPs leave too much out.
const KNOWN: f64 = 0.90;

/// Share of a stage's GPU time in products from which on it matters.
const PRODUCTS: f64 = 0.10;

fn run(results: &Results<'_>) -> Outcome {
    let needs = "matrix products in a stage, by kernel name";
    let look = |stage: &StageLine| match results.gemms(stage) {
        Some(gemms) => finding(results, stage, gemms).into(),
        None => Look::Lacks,
    };
    match results.each_stage(needs, look) {
        Outcome::Found(found) => Outcome::joined(found),
        other => other,
    }
}

fn finding(results: &Results<'_>, stage: &StageLine, gemms: &StageProducts) -> Option<Observation> {
    let (known, products) = (gemms.shape_coverage(), gemms.time_share());
    if known >= KNOWN || products < PRODUCTS {
        return None;
    }
    let mut statement = prose![
        "Of the time that ",
        Inline::Strong(stage.label.clone()),
        " spends in matrix products (",
        Quantity::ratio(products),
        " of its GPU time) only ",
        Quantity::ratio(known),
        " has known sizes"
    ];
    if let Some(flops) = results.flops(stage).and_then(|flops| flops.sums.coverage()) {
        statement.extend(prose![
            ", and of its GPU time ",
            Quantity::ratio(flops),
            " has known FLOPs"
        ]);
    }
    statement.push(": sums of FLOPs and what products could save leave the rest out.".into());
    Some(Observation {
        statement,
        next: Some(prose![
            "A PyTorch trace with ",
            Inline::Code("record_shapes=True".to_owned()),
            " of the same steps, or a cuBLASLt log (",
            Inline::Code("CUBLASLT_LOG_LEVEL=5".to_owned()),
            ")."
        ]),
        evidence: vec![gemms.evidence(results.context.session)],
        ..stage.note()
    })
}
