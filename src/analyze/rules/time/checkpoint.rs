//! The GPU waits while the host writes checkpoints.

use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("checkpoint", &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    known::outcome(evidence, &[Activity::Checkpoint], |loss| {
        Some(loss.draft(evidence))
    })
}
