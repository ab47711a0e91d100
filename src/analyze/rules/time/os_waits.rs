//! The GPU waits while the host sleeps, or reads and writes files.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("os-waits", &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let sleeps = known::outcome(evidence, &[Activity::Sleep], |loss| {
        Some(draft(evidence, loss).cause_if(true).advice("advice_sleep"))
    });
    let files = known::outcome(evidence, &[Activity::Files], |loss| {
        Some(draft(evidence, loss))
    });
    match (sleeps, files) {
        (Outcome::Found(mut sleeps), Outcome::Found(files)) => {
            sleeps.extend(files);
            Outcome::Found(sleeps)
        }
        (sleeps @ Outcome::Found(_), _) => sleeps,
        (_, files) => files,
    }
}

fn draft(evidence: &Evidence<'_>, loss: Loss) -> Draft {
    let arguments = arguments! {
        idle = loss.idle(),
        occurs = loss.occurs(evidence),
        names = loss.listed(evidence),
    };
    Draft::new(loss.finding, arguments)
}
