//! GEMMs that the rate bounds, and that take much longer than it needs.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::products::{self, Products};
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_document::{Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "gemm-roofline",
    &[
        Threshold::number("thresholds.far_above_roofline", FAR.0),
        Threshold::ratio("thresholds.above_roofline", LOST),
    ],
    outcome,
)
.on_kernels()
.general();

/// Time ÷ roofline time from which on a product is far above it: large ones reach about 1.25 against specified rates.
const FAR: Ratio = Ratio(1.50);

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: Ratio = Ratio(0.05);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| products.bound(Bound::Compute, draft))
}

fn draft(bounded: &Products<'_>) -> Option<Draft> {
    // What unaligned rows lose has a rule of its own.
    let far = bounded.only(|product| product.time >= product.roof * FAR && !product.is_unaligned());
    let (evidence, stage) = (far.evidence, far.stage);
    let worst = far.worst(|product| product.lost)?;
    if far.share(far.lost) < LOST {
        return None;
    }
    let waves = worst.group.tiling.waves;
    let arguments = arguments! {
        time = far.time,
        stage = Inline::strong(&stage.label),
        share = far.share(far.time),
        whole = far.whole(),
        basis = far.basis(),
        roof = far.roof,
        worst = worst.words(),
        worst_time = worst.time,
        worst_roof = worst.roof,
        waves = waves.map(|waves| Quantity::new(waves.0, Unit::One)),
        qkv = evidence.has_projections().then_some(""),
        gated = evidence.has_gate().then_some(""),
    };
    let draft = Draft::new(far.saving(&worst, |product| product.lost), arguments);
    Some(match stage.scope.rank {
        Some(_) => draft.also(say!(evidence, "gemm_roofline.collectives")),
        None => draft,
    })
}
