//! Tiles and waves of matrix products that are not full.

use super::products::{self, Products};
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "gemm-quantization",
    thresholds: &[Threshold::ratio("thresholds.explained", LOST)],
    run,
};

/// Time by tiles and waves ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.02;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |products| {
        let mut is_known = false;
        let look = products.bound(Bound::Compute, |own| {
            is_known = own.all.iter().any(|one| one.group.tiling.tile_efficiency.is_some());
            finding(own)
        });
        if is_known || !matches!(look, Look::Clear) { look } else { Look::Lacks }
    })
}

fn finding(products: &Products<'_>) -> Option<Observation> {
    let lost: f64 = products.all.iter().map(|one| one.quantization).sum();
    let worst = products.worst(|one| one.quantization)?;
    let (stage, tiling) = (products.stage, worst.group.tiling);
    if products.share(lost) < LOST {
        return None;
    }
    let mut statement = prose![
        "Tiles and waves that are not full explain ",
        products::time(lost),
        " of an instance of ",
        Inline::Strong(stage.label.clone()),
        ", ",
        Quantity::ratio(products.share(lost)),
        " of its GPU time; the largest part is that of "
    ];
    statement.extend(worst.words());
    statement.extend(prose![
        ", whose tiles are ",
        Quantity::ratio(tiling.tile_efficiency.unwrap_or(1.0)),
        " and whose waves are ",
        Quantity::ratio(tiling.wave_efficiency().unwrap_or(1.0)),
        " full."
    ]);
    Some(Observation {
        statement,
        advice: Some(prose![
            "Choose sizes that are multiples of the tile (pad the vocabulary, round the batch in tokens), and batches whose tiles come to \
             a little less than a whole number of waves."
        ]),
        ..products.saving(
            &worst,
            lost,
            "Σ time at the roofline × (1 ÷ (tiles full × waves full) − 1), no more than the time above the roofline"
        )
    })
}
