//! GEMMs with few rows, which the memory bandwidth bounds.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::products::{self, Products};
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_document::{Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "gemm-bandwidth",
    &[
        Threshold::ratio("thresholds.bandwidth", NEAR),
        Threshold::ratio("thresholds.above_roofline", LOST),
    ],
    outcome,
)
.on_kernels()
.general();

/// Share of the bandwidth from which on there is little left to gain: long copies reach about 0.9 of the specified one.
const NEAR: Ratio = Ratio(0.80);

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: Ratio = Ratio(0.05);

/// Difference of the shares of bandwidth and of roofline time from which on both are said.
const DIFFERS: Ratio = Ratio(0.01);

/// Waves below which few blocks are a likely cause.
const FEW_WAVES: Ratio = Ratio(0.5);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| products.bound(Bound::Memory, draft))
}

fn draft(products: &Products<'_>) -> Option<Draft> {
    let evidence = products.evidence;
    let worst = products.worst(|product| product.lost)?;
    // Weights that lie in the L2 cache may be read faster than memory: each product counts up to its time.
    let bandwidth_times = products
        .products
        .iter()
        .map(|product| product.at_bandwidth.min(product.time));
    let reached = Ratio::of(bandwidth_times.sum::<Time>(), products.time);
    let of_roofline = Ratio::of(products.time - products.lost, products.time);
    if of_roofline >= NEAR || products.share(products.lost) < LOST {
        return None;
    }
    // Both are said where the launch floor lifts one above the other.
    let roofs = products
        .products
        .iter()
        .filter_map(|product| product.group.sum.roof);
    let floor = roofs.map(|roof| roof.floor).max();
    let floor = floor.filter(|_| of_roofline - reached >= DIFFERS);
    let waves = worst.group.tiling.waves.filter(|waves| *waves < FEW_WAVES);
    let arguments = arguments! {
        stage = Inline::strong(&products.stage.label),
        share = products.share(products.time),
        whole = products.whole(),
        reached = reached,
        basis = products.basis(),
        of_roofline = floor.map(|_| of_roofline),
        floor = floor.map(Quantity::ns),
        worst = worst.words(),
        time = worst.time,
        roof = worst.roof,
        waves = waves.map(|waves| Quantity::new(waves.0, Unit::One)),
        qkv = evidence.has_projections().then_some(""),
        gated = evidence.has_gate().then_some(""),
        splits = (!worst.is_split()).then_some(""),
    };
    Some(Draft::new(
        products.saving(&worst, |product| product.lost),
        arguments,
    ))
}
