//! The GPU is busy, but its tensor cores are not.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::chart::Color;
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "low-mfu",
    title: "Busy, but far from the peak",
    thresholds: &[
        Threshold::ratio("the GPU is busy for at least", BUSY),
        Threshold::ratio("MFU while busy, less than", MFU),
        Threshold::ratio(
            "fusing comes first if kernels other than matrix products take at least",
            BESIDE,
        ),
    ],
    run,
};

/// Busy share from which on the kernels are worth the look.
const BUSY: f64 = 0.75;

/// MFU while the GPU is busy below which a stage of large matrix products leaves something to gain.
const MFU: f64 = 0.60;

/// Share of the busy time beside matrix products from which on fusing them is the first advice.
const BESIDE: f64 = 0.25;

fn run(results: &Results<'_>) -> Outcome {
    let compute = |stage: &&StageLine| stage.is_compute();
    let mut known = results.stages.iter().filter(compute);
    if !known.any(|stage| results.number(ids::KERNEL_TIME_MFU, &stage.scope).is_some()) {
        return Outcome::lacks(
            "the MFU of a prefill or training stage (config.json, workload.toml, a known GPU)",
        );
    }
    let stages = results.stages.iter().filter(compute);
    Outcome::of(stages.filter_map(|stage| finding(results, stage)).collect())
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let number = |id| results.number(id, &stage.scope);
    let (busy, mfu) = (number(ids::BUSY_SHARE)?, number(ids::KERNEL_TIME_MFU)?);
    if busy < BUSY || mfu >= MFU {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " keeps the GPU busy for ",
        Quantity::ratio(busy),
        " of its time, but its kernels do the model's work at ",
        Quantity::ratio(mfu),
        " of the peak"
    ];
    if let Some(tensor) = number(ids::TENSOR_ACTIVE) {
        statement.extend(prose![
            "; tensor pipes are active for ",
            Quantity::ratio(tensor),
            " of the time"
        ]);
    }
    let own = results.of_stage(ids::STAGE_PARTS, stage);
    let products: f64 = own
        .filter(|row| row.text("part") == Color::Gemm.label())
        .map(|row| row.sum("busy_share"))
        .sum();
    if products > 0.0 {
        statement.extend(prose![
            ". Matrix products take ",
            Quantity::ratio(products),
            " of the busy time"
        ]);
    }
    statement.push(".".into());
    // The specified peak: what was measured was so under a power cap that short stages do not meet.
    let advice = match products {
        products if products > 0.0 && 1.0 - products >= BESIDE => prose![
            "Fuse what lies between the matrix products (",
            Inline::Code("torch.compile".to_owned()),
            ", fused norms, activations and attention): it takes time without FLOPs of the model."
        ],
        _ => prose![
            "Look at the largest matrix products: their tiles, their shapes, their precision (FP8)."
        ],
    };
    Some(Observation {
        statement,
        advice: Some(advice),
        next: Some(prose![
            "An Nsight Compute pass over the largest kernels of the stage: tile, waves, tensor-pipe use."
        ]),
        evidence: results.evidence(ids::STAGE_TIME, &stage.scope),
        ..stage.saving(
            stage.time * busy * (1.0 - mfu),
            "busy time × (1 − MFU while busy), at the specified peak",
        )
    })
}
