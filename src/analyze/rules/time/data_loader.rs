//! The GPU waits for the next batch of PyTorch's data loader.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::time::idle::Activity;

pub(crate) static RULE: Rule = Rule::new("data-loader", &[known::THRESHOLD], outcome);

/// Part of the name of the loader that prepares batches in the process of the loop.
const SINGLE: &str = "_SingleProcess";

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    known::outcome(evidence, &[Activity::DataLoader], |loss| {
        let name = loss.names.first().map(|name| evidence.session.text(*name));
        let is_single = name.is_some_and(|name| name.contains(SINGLE));
        let arguments = arguments! {
            idle = loss.idle(),
            occurs = loss.occurs(evidence),
            names = loss.listed(evidence),
        };
        let draft = Draft::new(loss.finding, arguments);
        Some(match is_single {
            true => draft.advice("advice_single").cause_if(true),
            false => draft,
        })
    })
}
