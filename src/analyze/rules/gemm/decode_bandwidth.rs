//! Decode against the memory bandwidth.

use crate::stage::StageLine;
use crate::time::stage_busy::BUSY;
use crate::{Evidence, Look, Outcome, Rule, Threshold};
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

fn run(evidence: &Evidence<'_>) -> Outcome {
    if !evidence.stages.is_empty() && !evidence.stages.iter().any(StageLine::is_decode) {
        return Outcome::NotApplicable(words!(evidence, "decode_bandwidth.no_decode"));
    }
    let decode = evidence.stages.iter().filter(|stage| stage.is_decode());
    Outcome::of_stages(
        decode.map(|stage| {
            (
                stage.label.as_str(),
                evidence.look_at_kernels(stage, |stage| look(evidence, stage)),
            )
        }),
        &words!(evidence, "decode_bandwidth.needs"),
    )
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let mbu = |one: Option<&StageUtilization>| one.and_then(|one| one.mbu().ok());
    let Some(profiled) = mbu(evidence.utilization(stage)) else {
        return Look::InsufficientData;
    };
    let busy = stage.busy_share;
    let unprofiled = mbu(evidence.unprofiled_utilization(stage)).unwrap_or(profiled);
    let (figures, mbu) = (vec![stage.figures.clone()], profiled);
    if mbu.max(unprofiled) >= NEAR {
        return Look::found(Finding {
            statement: say!(
                evidence,
                "decode_bandwidth.near",
                stage = Inline::strong(&stage.label),
                mbu = Quantity::ratio(mbu.max(unprofiled)),
            ),
            advice: Some(say!(evidence, "decode_bandwidth.near_advice")),
            evidence: figures,
            ..stage.note()
        });
    }
    if busy < BUSY {
        let idle = Quantity::ratio(1.0 - busy);
        return Look::Suppressed(words!(evidence, "decode_bandwidth.idle", idle = idle));
    }
    Look::found(Finding {
        statement: say!(
            evidence,
            "decode_bandwidth.statement",
            stage = Inline::strong(&stage.label),
            busy = Quantity::ratio(busy),
            mbu = Quantity::ratio(mbu),
        ),
        advice: Some(say!(evidence, "decode_bandwidth.advice")),
        next: Some(say!(evidence, "decode_bandwidth.next")),
        evidence: figures,
        ..stage.saving_kernels(
            stage.time * (busy - mbu).max(0.0),
            &words!(evidence, "decode_bandwidth.basis"),
        )
    })
}
