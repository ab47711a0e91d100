//! The GPU is busy, but its tensor cores are not.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::time::timeline::sampled::Counter;
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "low-mfu",
    thresholds: &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.mfu", MFU),
        Threshold::ratio("thresholds.fusing", BESIDE),
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
    if !results.stages.is_empty() && !results.stages.iter().any(StageLine::is_compute) {
        return Outcome::NotApplicable("no stage is of a prefill or training kind".to_owned());
    }
    let compute = results.stages.iter().filter(|stage| stage.is_compute());
    Outcome::of_stages(
        compute.map(|stage| (stage.label.as_str(), look(results, stage))),
        "the MFU of a prefill or training stage (config.json, workload.toml, a known GPU)",
    )
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let utilization = results.utilization(stage);
    let mfu = utilization.and_then(|one| Some((one, one.kernel_time_mfu().ok()?)));
    let Some((busy, (utilization, mfu))) = results.busy_share(stage).zip(mfu) else {
        return Look::Lacks;
    };
    if mfu >= MFU {
        return Look::Clear;
    }
    if busy < BUSY {
        return Look::Moot(format!(
            "the GPU is idle for {} of its time, which comes first",
            Quantity::ratio(1.0 - busy)
        ));
    }
    Look::found(finding(results, stage, busy, mfu, utilization.measured_share()))
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    busy: f64,
    mfu: f64,
    measured: Option<f64>,
) -> Observation {
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " keeps the GPU busy for ",
        Quantity::ratio(busy),
        " of its time, but its kernels do the model's work at ",
        Quantity::ratio(mfu),
        " of the specified peak"
    ];
    let timeline = results.context.results.timeline().ok();
    if let Some(tensor) = timeline.and_then(|all| all.mean(stage.stage, Counter::TensorActive)) {
        statement.extend(prose![
            "; tensor pipes are active for ",
            Quantity::ratio(tensor),
            " of the time"
        ]);
    }
    let products = results.stage_time(stage).map_or(0.0, |time| time.share(ClassGroup::Gemm));
    if products > 0.0 {
        statement.extend(prose![
            ". Matrix products take ",
            Quantity::ratio(products),
            " of the busy time"
        ]);
    }
    statement.push(".".into());
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
    let (reachable, basis) = match measured {
        Some(share) => {
            let share_words = Quantity::ratio(share);
            let basis = format!(
                "busy time × (1 − MFU while busy ÷ {share_words}), the measured peak ÷ the specified one"
            );
            (share, basis)
        }
        None => (1.0, "busy time × (1 − MFU while busy), at the specified peak".to_owned()),
    };
    Observation {
        statement,
        advice: Some(advice),
        next: Some(prose![
            "An Nsight Compute pass over the largest kernels of the stage: tile, waves, tensor-pipe use."
        ]),
        evidence: results.time_evidence(stage),
        ..stage.saving(stage.time * busy * (1.0 - mfu / reachable).max(0.0), &basis)
    }
}
