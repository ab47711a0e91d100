//! Matrix products with few rows, which the memory bandwidth bounds.

use crate::products::{self, Products, time};
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "gemm-bandwidth",
    &[
        Threshold::ratio("thresholds.bandwidth", NEAR),
        Threshold::ratio("thresholds.above_roofline", LOST),
    ],
    run,
);

/// Share of the bandwidth from which on there is little left to gain: long copies reach about 0.9 of the specified one.
const NEAR: f64 = 0.80;

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.05;

/// Difference of the shares of bandwidth and of roofline time from which on both are said.
const DIFFERS: f64 = 0.01;

/// Waves below which few blocks are a likely cause.
const FEW_WAVES: f64 = 0.5;

fn run(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| products.bound(Bound::Memory, finding))
}

fn finding(products: &Products<'_>) -> Option<Finding> {
    let (evidence, stage, basis) = (products.evidence, products.stage, products.basis());
    let worst = products.worst(|one| one.lost)?;
    // Weights that lie in the L2 cache may be read faster than memory: each product counts up to its time.
    let at_bandwidth: f64 = products.all.iter().map(|one| one.bytes.min(one.time)).sum();
    let reached = at_bandwidth / products.time;
    // Both are said where the launch floor lifts one above the other.
    let of_roofline = (products.time - products.lost) / products.time;
    if of_roofline >= NEAR || products.share(products.lost) < LOST {
        return None;
    }
    let floor = products
        .all
        .iter()
        .filter_map(|one| Some(one.group.sum.roof?.floor))
        .max();
    let floor = floor.filter(|_| of_roofline - reached >= DIFFERS);
    let waves = worst.group.tiling.waves.filter(|waves| *waves < FEW_WAVES);
    Some(Finding {
        statement: say!(
            evidence,
            "gemm_bandwidth.statement",
            stage = Inline::strong(&stage.label),
            share = Quantity::ratio(products.share(products.time)),
            whole = products.whole(),
            reached = Quantity::ratio(reached),
            basis = basis,
            of_roofline = floor.map(|_| Quantity::ratio(of_roofline)),
            floor = floor.map(Quantity::ns),
            worst = worst.words(),
            time = time(worst.time),
            roof = time(worst.roof),
            waves = waves.map(|waves| Quantity::new(waves, Unit::One)),
        ),
        advice: Some(say!(
            evidence,
            "gemm_bandwidth.advice",
            qkv = evidence.has_projections().then_some(""),
            gated = evidence.has_gate().then_some(""),
            splits = (!worst.is_split()).then_some(""),
        )),
        next: Some(say!(evidence, "gemm_bandwidth.next")),
        ..products.saving(
            &worst,
            products.lost,
            &words!(evidence, "gemm_bandwidth.basis", basis = basis),
        )
    })
}
