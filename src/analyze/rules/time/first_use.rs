//! The GPU waits for code to be loaded, for the first launch of a kernel, or for a graph to be instantiated.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Lost};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::engine::platform::Vendor;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::Finding;
use rooflens_units::{Count, Ratio};

pub(crate) static RULE: Rule = Rule::new(
    "first-use",
    &[Threshold::ratio("thresholds.first_use", SHARE)],
    outcome,
);

/// Idle time of first use ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.01);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::FirstUse, SHARE, |stage, idle, saved| {
        let preparation = known::preparation(evidence, stage);
        if let Some(others) = preparation.and_then(|preparation| preparation.others) {
            return recurring(evidence, stage, idle, others);
        }
        if stage.share(saved) < SHARE {
            return Look::Passed;
        }
        if known::prepares_mostly(evidence, stage) {
            return Look::suppressed_by(evidence, "new-shapes");
        }
        let mut finding = Finding {
            query: evidence.query(stage, idle, Cause::FirstUse),
            ..evidence.saving_idle(stage, idle, &[Cause::FirstUse], saved)
        };
        let idles = evidence.idles(stage, idle, &[Cause::FirstUse], saved);
        // The only run is a cold one: what its calls take does not grow with what it has more without the profiler.
        if stage.counted <= Count(1.0)
            && let Some(gain) = &mut finding.gain
        {
            gain.saved_ns = gain.saved_ns.min(saved);
        }
        let draft = Draft::new(finding, arguments! { idle = idles });
        match evidence.platform.vendor {
            Vendor::Amd => draft
                .root("root_cause_rocm", "root_action_rocm")
                .advice("advice_rocm")
                .into(),
            _ => draft.into(),
        }
    })
}

/// What new shapes need of other kernels where cuDNN plans attention for them: that is a finding of its own.
fn recurring(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle, mut lost: Lost) -> Look {
    let is_single = lost.windows <= 1;
    if is_single || lost.idle < idle.pool.time.time() * SHARE {
        return Look::Passed;
    }
    // The host launches as before.
    lost.most = lost.idle + lost.issued;
    let loss = known::loss_of_stage(evidence, (stage, idle), lost, &known::LOADED);
    let arguments = arguments! {
        idle = loss.idle(),
        occurs = loss.occurs(evidence),
        names = loss.listed(evidence),
    };
    let draft = Draft::new(loss.finding, arguments).statement("statement_shapes");
    draft
        .advice("advice_shapes")
        .root("root_cause_shapes", "root_action_shapes")
        .into()
}
