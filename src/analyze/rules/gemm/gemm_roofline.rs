//! Matrix products that the rate bounds, and that take much longer than it needs.

use crate::products::{self, Products, time};
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "gemm-roofline",
    &[
        Threshold::one("thresholds.far_above_roofline", FAR),
        Threshold::ratio("thresholds.above_roofline", LOST),
    ],
    run,
);

/// Time ÷ roofline time from which on a product is far above it: large ones reach about 1.25 against specified rates.
const FAR: f64 = 1.50;

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.05;

fn run(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| products.bound(Bound::Compute, finding))
}

fn finding(all: &Products<'_>) -> Option<Finding> {
    let far = all.only(|one| one.time >= FAR * one.roof);
    let (evidence, stage, basis) = (far.evidence, far.stage, far.basis());
    let worst = far.worst(|one| one.lost)?;
    if far.share(far.lost) < LOST {
        return None;
    }
    let mut statement = say!(
        evidence,
        "gemm_roofline.statement",
        time = time(far.time),
        stage = Inline::strong(&stage.label),
        share = Quantity::ratio(far.share(far.time)),
        whole = far.whole(),
        basis = basis,
        roof = time(far.roof),
        worst = worst.words(),
        worst_time = time(worst.time),
        worst_roof = time(worst.roof),
        waves = worst
            .group
            .tiling
            .waves
            .map(|waves| Quantity::new(waves, Unit::One)),
    );
    if stage.scope.rank.is_some() {
        statement.extend(say!(evidence, "gemm_roofline.collectives"));
    }
    Some(Finding {
        statement,
        advice: Some(say!(
            evidence,
            "gemm_roofline.advice",
            qkv = evidence.has_projections().then_some(""),
            gated = evidence.has_gate().then_some(""),
        )),
        next: Some(say!(evidence, "gemm_roofline.next")),
        ..far.saving(
            &worst,
            far.lost,
            &words!(evidence, "gemm_roofline.basis", basis = basis),
        )
    })
}
