//! The GPU waits while the host captures CUDA graphs in the loop.

use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("graph-capture", &[known::THRESHOLD], outcome);

/// What `torch.cuda.graph` does before it captures.
const CLEARS: [Activity; 3] = [
    Activity::GraphCapture,
    Activity::EmptyCache,
    Activity::GarbageCollection,
];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let activities = match known::clears_for_captures(evidence) {
        true => &CLEARS[..],
        false => &CLEARS[..1],
    };
    known::outcome(evidence, activities, |loss| Some(loss.draft(evidence)))
}
