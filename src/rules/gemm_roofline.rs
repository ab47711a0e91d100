//! Matrix products that the rate bounds, and that take much longer than it needs.

use super::products::{self, Products, time};
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "gemm-roofline",
    thresholds: &[
        Threshold::one("thresholds.far_above_roofline", FAR),
        Threshold::ratio("thresholds.above_roofline", LOST),
    ],
    run,
};

/// Time ÷ roofline time from which on a product is far above it: large ones reach about 1.25 against specified rates.
const FAR: f64 = 1.50;

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |products| products.bound(Bound::Compute, finding))
}

fn finding(all: &Products<'_>) -> Option<Observation> {
    let far = all.only(|one| one.time >= FAR * one.roof);
    let (stage, basis) = (far.stage, far.basis());
    let worst = far.worst(|one| one.lost)?;
    if far.share(far.lost) < LOST {
        return None;
    }
    let mut statement = prose![
        "Compute-bound matrix products take ",
        time(far.time),
        " of an instance of ",
        Inline::Strong(stage.label.clone()),
        " (",
        Quantity::ratio(far.share(far.time)),
        format!(" of its GPU time), where the {basis} rate allows "),
        time(far.roof),
        ". The largest waste is "
    ];
    statement.extend(worst.words());
    statement.extend(prose![": ", time(worst.time), " against ", time(worst.roof)]);
    if let Some(waves) = worst.group.tiling.waves {
        statement.extend(prose![", ", Quantity::new(waves, Unit::One), " waves"]);
    }
    statement.push(".".into());
    if stage.scope.rank.is_some() {
        statement
            .push(" Collectives that run beside products take SMs and bandwidth from them.".into());
    }
    Some(Observation {
        statement,
        advice: Some(prose![
            "Join products of the same input (query, key and value; gate and up), raise the batch, or let ",
            Inline::Code("torch.compile(mode=\"max-autotune\")".to_owned()),
            " choose the tiles."
        ]),
        next: Some(prose![
            "An Nsight Compute pass over this kernel: tensor-pipe use, waves, warp states."
        ]),
        ..far.saving(
            &worst,
            far.lost,
            &format!("Σ time − FLOPs ÷ {basis} rate over these products"),
        )
    })
}
