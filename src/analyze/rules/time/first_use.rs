//! The GPU waits for code to be loaded, for the first launch of a kernel, or for a graph to be instantiated.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_document::Finding;

pub(crate) static RULE: Rule = Rule::new(
    "first-use",
    &[Threshold::ratio("thresholds.first_use", SHARE)],
    run,
);

/// Idle time of first use ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.01;

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::FirstUse, SHARE, |stage, line, saved| {
        let basis = words!(evidence, "first_use.basis");
        let found = || Finding {
            statement: say!(
                evidence,
                "first_use.statement",
                idle = evidence.idles(stage, line, &[Cause::FirstUse], saved),
            ),
            advice: Some(say!(evidence, "first_use.advice")),
            evidence: vec![line.evidence(&evidence.context)],
            query: evidence.query(stage, line, Cause::FirstUse),
            ..evidence.saving_idle(stage, line, &[Cause::FirstUse], saved, &basis)
        };
        (stage.share(saved) >= SHARE).then(found).into()
    })
}
