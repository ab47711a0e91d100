//! The GPU waits while Python collects garbage.

use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("garbage-collection", &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if known::clears_for_captures(evidence) {
        return known::outcome(evidence, &[], |_| None);
    }
    known::outcome(evidence, &[Activity::GarbageCollection], |loss| {
        Some(loss.draft(evidence))
    })
}
