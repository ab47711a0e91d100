//! Batches of sequences whose lengths are not known: a part of their tokens may be padding.
//!
//! No profile holds these lengths, so the rule finds nothing by itself. It says of which stages the question is open.

use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule};
use crate::stage::StageLine;

pub(crate) static RULE: Rule = Rule::new("padding", &[], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| match computes_batches(evidence, stage) {
        true => Look::InsufficientData,
        false => Look::NotApplicable(words!(evidence, "padding.no_batch")),
    })
}

/// Whether the calls of the model in a stage compute several sequences of more than a token.
fn computes_batches(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let calls = &evidence.session.model_calls;
    let mut rows = evidence.model_calls(stage).into_iter().flatten();
    rows.any(|row| {
        let is_many = |size: Option<u64>| size.is_some_and(|size| size > 1);
        is_many(calls.batch[row]) && is_many(calls.tokens[row])
    })
}
