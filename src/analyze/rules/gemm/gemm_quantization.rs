//! Tiles and waves of matrix products that are not full.

use crate::products::{self, Products};
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_document::{Finding, Inline, Quantity};

pub(crate) static RULE: Rule = Rule::new(
    "gemm-quantization",
    &[Threshold::ratio("thresholds.explained", LOST)],
    run,
);

/// Time by tiles and waves ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.02;

fn run(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| {
        let mut is_known = false;
        let look = products.bound(Bound::Compute, |own| {
            is_known = own
                .all
                .iter()
                .any(|one| one.group.tiling.tile_efficiency.is_some());
            finding(own)
        });
        if is_known || !matches!(look, Look::Passed) {
            look
        } else {
            Look::InsufficientData
        }
    })
}

fn finding(products: &Products<'_>) -> Option<Finding> {
    let lost: f64 = products.all.iter().map(|one| one.quantization).sum();
    let worst = products.worst(|one| one.quantization)?;
    let (evidence, tiling) = (products.evidence, worst.group.tiling);
    if products.share(lost) < LOST {
        return None;
    }
    Some(Finding {
        statement: say!(
            evidence,
            "gemm_quantization.statement",
            lost = products::time(lost),
            stage = Inline::strong(&products.stage.label),
            share = Quantity::ratio(products.share(lost)),
            whole = products.whole(),
            worst = worst.words(),
            tiles = Quantity::ratio(tiling.tile_efficiency.unwrap_or(1.0)),
            waves = Quantity::ratio(tiling.wave_efficiency().unwrap_or(1.0)),
        ),
        advice: Some(match worst.is_round() {
            true => say!(evidence, "gemm_quantization.advice_tile"),
            false => say!(evidence, "gemm_quantization.advice"),
        }),
        ..products.saving(&worst, lost, &words!(evidence, "gemm_quantization.basis"))
    })
}
