//! The GPU waits while the host captures CUDA graphs in the loop.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
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
    known::outcome(evidence, activities, |loss| Some(draft(evidence, loss)))
}

fn draft(evidence: &Evidence<'_>, loss: Loss) -> Draft {
    let arguments = arguments! {
        idle = loss.idle(),
        occurs = loss.occurs(evidence),
        names = loss.listed(evidence),
    };
    Draft::new(loss.finding, arguments)
}
