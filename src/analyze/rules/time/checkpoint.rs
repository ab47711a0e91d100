//! The GPU waits while the host writes checkpoints.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("checkpoint", &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    known::outcome(evidence, &[Activity::Checkpoint], |loss| {
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
