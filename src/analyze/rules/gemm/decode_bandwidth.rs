//! Decode against the memory bandwidth.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::{BUSY, StageLine};
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "decode-bandwidth",
    &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.near_bandwidth", NEAR),
    ],
    outcome,
)
.on_kernels();

/// MBU from which on decode is at the bandwidth for practical purposes.
const NEAR: Ratio = Ratio(0.60);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if !evidence.stages.is_empty() && !evidence.stages.iter().any(StageLine::is_decode) {
        return Outcome::NotApplicable(words!(evidence, "decode_bandwidth.no_decode"));
    }
    let decode = evidence.stages.iter().filter(|stage| stage.is_decode());
    Outcome::of_stages(decode.map(|stage| {
        let look = evidence.look_at_kernels(stage, |stage| look(evidence, stage));
        (stage.label(), look)
    }))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let Some(profiled) = evidence.utilization(stage).and_then(mbu) else {
        return Look::InsufficientData;
    };
    let busy = stage.busy_share;
    let unprofiled = evidence.unprofiled_utilization(stage).and_then(mbu);
    let best = profiled.max(unprofiled.unwrap_or(profiled));
    let figures = stage.note_on_figures();
    if best >= NEAR {
        let arguments = arguments! { stage = Inline::strong(&stage.label), mbu = best };
        let draft = Draft::new(figures, arguments).statement("near");
        return draft.advice("near_advice").next(None).into();
    }
    if stage.reference_busy() < BUSY {
        let idle = stage.reference_busy().rest();
        return Look::Suppressed(words!(evidence, "decode_bandwidth.idle", idle = idle));
    }
    let saved = stage.time * (busy - profiled).max(Ratio::ZERO);
    let finding = Finding {
        evidence: figures.evidence,
        ..stage.saving_kernels(saved)
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        busy = busy,
        mbu = profiled,
    };
    Draft::new(finding, arguments).into()
}

fn mbu(utilization: &StageUtilization) -> Option<Ratio> {
    utilization.mbu().ok()
}
