//! Matrix products that the rate bounds, and that take much longer than it needs.

use super::products::{self, Product, Sums, time};
use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "gemm-roofline",
    title: "Matrix products far above the roofline",
    thresholds: &[
        Threshold::one("time ÷ time at the roofline, at least", FAR),
        Threshold::ratio("time above the roofline, of the GPU time of a stage, at least", LOST),
    ],
    run,
};

/// Time ÷ roofline time from which on a product is far above it: large ones reach about 1.25 against specified rates.
const FAR: f64 = 1.50;

/// Time beyond the roofline ÷ GPU time of the stage from which on it is worth a finding.
const LOST: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |results, stage, all| -> Look {
        products::bound(all, true, |own| finding(results, stage, own))
    })
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Product<'_>]) -> Option<Observation> {
    let is_far = |one: &&Product<'_>| one.time >= FAR * one.roof;
    let far: Vec<Product<'_>> = all.iter().filter(is_far).copied().collect();
    let basis = products::basis(&far);
    let sums = Sums::of(results, stage, &far);
    let worst = products::worst(&far, |one| one.lost)?;
    if sums.share(sums.lost) < LOST {
        return None;
    }
    let mut statement = prose![
        "Compute-bound matrix products take ",
        time(sums.time),
        " of an instance of ",
        Inline::Strong(stage.label.clone()),
        " (",
        Quantity::ratio(sums.share(sums.time)),
        format!(" of its GPU time), where the {basis} rate allows "),
        time(sums.roof),
        ". The largest waste is "
    ];
    statement.extend(worst.words());
    statement.extend(prose![": ", time(worst.time), " against ", time(worst.roof)]);
    if let Some(waves) = worst.row.number("waves") {
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
        evidence: products::evidence(results, stage),
        query: products::query(stage, &worst),
        ..stage.saving(sums.lost, &format!("Σ time − FLOPs ÷ {basis} rate over these products"))
    })
}
