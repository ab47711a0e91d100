//! The GPU waits for code to be loaded, for the first launch of a kernel, or for a graph to be instantiated.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Look, Outcome, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_document::Finding;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "first-use",
    &[Threshold::ratio("thresholds.first_use", SHARE)],
    outcome,
);

/// Idle time of first use ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.01);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::FirstUse, SHARE, |stage, idle, saved| {
        if stage.share(saved) < SHARE {
            return Look::Passed;
        }
        if known::prepares_mostly(evidence, stage) {
            return Look::suppressed_by(evidence, "new-shapes");
        }
        let finding = Finding {
            query: evidence.query(stage, idle, Cause::FirstUse),
            ..evidence.saving_idle(stage, idle, &[Cause::FirstUse], saved)
        };
        let idles = evidence.idles(stage, idle, &[Cause::FirstUse], saved);
        Draft::new(finding, arguments! { idle = idles }).into()
    })
}
