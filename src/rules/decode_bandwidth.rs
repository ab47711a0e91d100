//! Decode against the memory bandwidth.

use super::stage::StageLine;
use super::stage_busy::BUSY;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "decode-bandwidth",
    thresholds: &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.near_bandwidth", NEAR),
    ],
    run,
};

/// MBU from which on decode is at the bandwidth for practical purposes.
const NEAR: f64 = 0.60;

fn run(results: &Results<'_>) -> Outcome {
    if !results.stages.is_empty() && !results.stages.iter().any(StageLine::is_decode) {
        return Outcome::NotApplicable("no stage is of a decode kind".to_owned());
    }
    let decode = results.stages.iter().filter(|stage| stage.is_decode());
    Outcome::of_stages(
        decode.map(|stage| (stage.label.as_str(), look(results, stage))),
        "the MBU of a decode stage (config.json, workload.toml, a known GPU)",
    )
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let mbu = |one: Option<&StageUtilization>| one.and_then(|one| one.mbu().ok());
    let profiled = results.busy_share(stage).zip(mbu(results.utilization(stage)));
    let Some((busy, profiled)) = profiled else { return Look::Lacks };
    let unprofiled = mbu(results.unprofiled_utilization(stage)).unwrap_or(profiled);
    let (evidence, mbu) = (results.time_evidence(stage), profiled);
    if mbu.max(unprofiled) >= NEAR {
        return Look::found(Observation {
            statement: prose![
                Inline::Strong(stage.label.clone()),
                " reads weights and cache at ",
                Quantity::ratio(mbu.max(unprofiled)),
                " of the memory bandwidth: it is memory-bound and near the limit."
            ],
            advice: Some(prose![
                "Only fewer bytes a token help: quantized weights or cache, speculative decoding, or a larger batch, which \
                 reads the same weights for more tokens."
            ]),
            evidence,
            ..stage.note()
        });
    }
    if busy < BUSY {
        return Look::Moot(format!(
            "the GPU is idle for {} of its time, which comes first",
            Quantity::ratio(1.0 - busy)
        ));
    }
    Look::found(Observation {
        statement: prose![
            Inline::Strong(stage.label.clone()),
            " keeps the GPU busy for ",
            Quantity::ratio(busy),
            " of its time, but what it must read takes only ",
            Quantity::ratio(mbu),
            " of the bandwidth: its kernels are slower than memory."
        ],
        advice: Some(prose![
            "Look at the kernels with the most time: attention without split over the cache, matrix products with few rows, \
             layout copies."
        ]),
        next: Some(prose!["An Nsight Compute pass over one step: DRAM throughput of each kernel."]),
        evidence,
        ..stage.saving(
            stage.time * (busy - mbu).max(0.0),
            "busy time − time of the bytes at the specified bandwidth",
        )
    })
}
