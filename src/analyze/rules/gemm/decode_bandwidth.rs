//! Decode against the memory bandwidth.

use crate::stage::StageLine;
use crate::time::stage_busy::BUSY;
use crate::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline, Quantity};

pub(crate) static RULE: Rule = Rule::new(
    "decode-bandwidth",
    &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.near_bandwidth", NEAR),
    ],
    run,
);

/// MBU from which on decode is at the bandwidth for practical purposes.
const NEAR: f64 = 0.60;

fn run(results: &Results<'_>) -> Outcome {
    if !results.stages.is_empty() && !results.stages.iter().any(StageLine::is_decode) {
        return Outcome::NotApplicable(words!(results, "decode_bandwidth.no_decode"));
    }
    let decode = results.stages.iter().filter(|stage| stage.is_decode());
    Outcome::of_stages(
        decode.map(|stage| {
            (
                stage.label.as_str(),
                results.look_at_kernels(stage, |stage| look(results, stage)),
            )
        }),
        &words!(results, "decode_bandwidth.needs"),
    )
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let mbu = |one: Option<&StageUtilization>| one.and_then(|one| one.mbu().ok());
    let Some(profiled) = mbu(results.utilization(stage)) else {
        return Look::InsufficientData;
    };
    let busy = stage.busy_share;
    let unprofiled = mbu(results.unprofiled_utilization(stage)).unwrap_or(profiled);
    let (evidence, mbu) = (vec![stage.figures.clone()], profiled);
    if mbu.max(unprofiled) >= NEAR {
        return Look::found(Finding {
            statement: say!(
                results,
                "decode_bandwidth.near",
                stage = Inline::strong(&stage.label),
                mbu = Quantity::ratio(mbu.max(unprofiled)),
            ),
            advice: Some(say!(results, "decode_bandwidth.near_advice")),
            evidence,
            ..stage.note()
        });
    }
    if busy < BUSY {
        let idle = Quantity::ratio(1.0 - busy);
        return Look::Suppressed(words!(results, "decode_bandwidth.idle", idle = idle));
    }
    Look::found(Finding {
        statement: say!(
            results,
            "decode_bandwidth.statement",
            stage = Inline::strong(&stage.label),
            busy = Quantity::ratio(busy),
            mbu = Quantity::ratio(mbu),
        ),
        advice: Some(say!(results, "decode_bandwidth.advice")),
        next: Some(say!(results, "decode_bandwidth.next")),
        evidence,
        ..stage.saving_kernels(
            stage.time * (busy - mbu).max(0.0),
            &words!(results, "decode_bandwidth.basis"),
        )
    })
}
