//! Tiles and waves of GEMMs that are not full.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::products::{self, Product, Products};
use crate::rule::{Look, Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_document::Inline;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "gemm-quantization",
    &[Threshold::ratio("thresholds.explained", LOST)],
    outcome,
)
.on_kernels();

/// Time by tiles and waves ÷ GPU time of the stage from which on it is worth a finding.
const LOST: Ratio = Ratio(0.02);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| {
        let mut is_known = false;
        let look = products.bound(Bound::Compute, |bounded| {
            for product in &bounded.products {
                is_known |= product.group.tiling.tile_efficiency.is_some();
            }
            draft(bounded)
        });
        if is_known || !matches!(look, Look::Passed) {
            look
        } else {
            Look::InsufficientData
        }
    })
}

fn draft(products: &Products<'_>) -> Option<Draft> {
    let quantization = |product: &Product<'_>| product.quantization;
    let lost = products.products.iter().map(quantization).sum();
    let worst = products.worst(quantization)?;
    let share = products.share(lost);
    if share < LOST {
        return None;
    }
    let tiling = worst.group.tiling;
    let arguments = arguments! {
        lost = lost,
        stage = Inline::strong(&products.stage.label),
        share = share,
        whole = products.whole(),
        worst = worst.words(),
        tiles = tiling.tile_efficiency.unwrap_or(Ratio::ONE),
        waves = tiling.wave_efficiency().unwrap_or(Ratio::ONE),
    };
    let advice = if worst.is_round() {
        "advice_tile"
    } else {
        "advice"
    };
    let finding = products.saving(&worst, quantization);
    Some(Draft::new(finding, arguments).advice(advice))
}
