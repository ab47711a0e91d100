//! Matrix products with few rows, which the memory bandwidth bounds.

use super::products::{self, Products, time};
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "gemm-bandwidth",
    thresholds: &[
        Threshold::ratio("thresholds.bandwidth", NEAR),
        Threshold::ratio("thresholds.above_roofline", LOST),
    ],
    run,
};

/// Share of the bandwidth from which on there is little left to gain: long copies reach about 0.9 of the specified one.
const NEAR: f64 = 0.80;

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.05;

/// Waves below which few blocks are a likely cause.
const FEW_WAVES: f64 = 0.5;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |products| products.bound(Bound::Memory, finding))
}

fn finding(products: &Products<'_>) -> Option<Observation> {
    let (stage, basis) = (products.stage, products.basis());
    let worst = products.worst(|one| one.lost)?;
    // Weights that lie in the L2 cache may be read faster than memory: each product counts up to its time.
    let reached = (products.time - products.lost) / products.time;
    if reached >= NEAR || products.share(products.lost) < LOST {
        return None;
    }
    let waves = worst.group.tiling.waves.filter(|waves| *waves < FEW_WAVES);
    let mut statement = prose![
        "Matrix products of ",
        Inline::Strong(stage.label.clone()),
        " that memory should bound (",
        Quantity::ratio(products.share(products.time)),
        " of its GPU time) read and write at ",
        Quantity::ratio(reached),
        format!(" of the {basis} memory bandwidth. The largest waste is ")
    ];
    statement.extend(worst.words());
    statement.extend(prose![
        ": ",
        time(worst.time),
        " an instance, where its bytes need ",
        time(worst.roof)
    ]);
    if let Some(waves) = waves {
        statement.extend(prose![
            ", and its blocks fill ",
            Quantity::new(waves, Unit::One),
            " waves"
        ]);
    }
    statement.push(".".into());
    Some(Observation {
        statement,
        advice: Some(prose![
            "Join products of the same input (query, key and value; gate and up) into one with more columns, split K further, or use \
             kernels made for few rows; a larger batch reads the same weights for more tokens, quantized weights are fewer bytes."
        ]),
        next: Some(prose![
            "An Nsight Compute pass over this kernel with ",
            Inline::Code("--cache-control none".to_owned()),
            ": DRAM throughput, waves, warp states."
        ]),
        ..products.saving(
            &worst,
            products.lost,
            &format!("Σ time − bytes ÷ {basis} bandwidth over these products, operands and result moved once"),
        )
    })
}
