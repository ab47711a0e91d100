//! The GPU waits while Python collects garbage.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("garbage-collection", &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if known::clears_for_captures(evidence) {
        return known::outcome(evidence, &[], |_| None);
    }
    known::outcome(evidence, &[Activity::GarbageCollection], |loss| {
        Some(draft(evidence, loss))
    })
}

fn draft(evidence: &Evidence<'_>, loss: Loss) -> Draft {
    let arguments = arguments! {
        idle = loss.idle(),
        occurs = loss.occurs(evidence),
        names = loss.listed(evidence),
    };
    Draft::new(loss.finding, arguments)
}
