//! The GPU waits for code to be loaded, for the first launch of a kernel, or for a graph to be instantiated.

use crate::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_document::Finding;

pub(crate) static RULE: Rule = Rule::new(
    "first-use",
    &[Threshold::ratio("thresholds.first_use", SHARE)],
    run,
);

/// Idle time of first use ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    results.per_cause(Cause::FirstUse, SHARE, |stage, line, saved| {
        let basis = words!(results, "first_use.basis");
        let found = || Finding {
            statement: say!(
                results,
                "first_use.statement",
                idle = results.idles(stage, line, &[Cause::FirstUse], saved),
            ),
            advice: Some(say!(results, "first_use.advice")),
            evidence: vec![line.evidence(&results.context)],
            query: results.query(stage, line, Cause::FirstUse),
            ..results.saving_idle(stage, line, &[Cause::FirstUse], saved, &basis)
        };
        (stage.share(saved) >= SHARE).then(found).into()
    })
}
