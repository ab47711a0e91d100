//! Tiles and waves of matrix products that are not full.

use super::products::{self, Product, Sums};
use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "gemm-quantization",
    title: "Tiles and waves of matrix products not full",
    thresholds: &[Threshold::ratio(
        "time that they explain, of the GPU time of a stage, at least",
        LOST,
    )],
    run,
};

/// Time by tiles and waves ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.02;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |results, stage, all| -> Look {
        let columns = ["tile_efficiency", "wave_efficiency"];
        let known = |one: &Product<'_>| columns.iter().any(|id| one.row.number(id).is_some());
        match products::bound(all, true, |own| finding(results, stage, own)) {
            Look::Clear if !all.iter().any(|one| one.is_compute() && known(one)) => Look::Lacks,
            look => look,
        }
    })
}

/// The part of a product's waste that tiles and waves explain.
fn explained(one: &Product<'_>) -> f64 {
    let full = efficiency(one, "tile_efficiency") * efficiency(one, "wave_efficiency");
    match full > 0.0 {
        true => (one.roof / full - one.roof).clamp(0.0, one.lost),
        false => 0.0,
    }
}

fn efficiency(one: &Product<'_>, column: &str) -> f64 {
    one.row.number(column).unwrap_or(1.0)
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Product<'_>]) -> Option<Observation> {
    let lost: f64 = all.iter().map(explained).sum();
    let sums = Sums::of(results, stage, all);
    let worst = products::worst(all, explained)?;
    if sums.share(lost) < LOST {
        return None;
    }
    let mut statement = prose![
        "Tiles and waves that are not full explain ",
        products::time(lost),
        " of an instance of ",
        Inline::Strong(stage.label.clone()),
        ", ",
        Quantity::ratio(sums.share(lost)),
        " of its GPU time; the largest part is that of "
    ];
    statement.extend(worst.words());
    statement.extend(prose![
        ", whose tiles are ",
        Quantity::ratio(efficiency(&worst, "tile_efficiency")),
        " and whose waves are ",
        Quantity::ratio(efficiency(&worst, "wave_efficiency")),
        " full."
    ]);
    Some(Observation {
        statement,
        advice: Some(prose![
            "Choose sizes that are multiples of the tile (pad the vocabulary, round the batch in tokens), and batches whose tiles come to \
             a little less than a whole number of waves."
        ]),
        evidence: products::evidence(results, stage),
        query: products::query(stage, &worst),
        ..stage.saving(
            lost,
            "Σ time at the roofline × (1 ÷ (tiles full × waves full) − 1), no more than the time above the roofline"
        )
    })
}
