//! The GPU waits while the host compiles code in the loop.

use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("compilation", &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    known::outcome(evidence, &[Activity::Compilation], |loss| {
        Some(loss.draft(evidence))
    })
}
