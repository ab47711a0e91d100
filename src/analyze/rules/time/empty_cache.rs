//! The GPU waits because the allocator gives its cache back to the driver in the loop.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
use crate::rule::{Outcome, Rule};

pub(crate) static RULE: Rule = Rule::new(known::EMPTY_CACHE, &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    match known::empties_cache(evidence) {
        true => known::outcome(evidence, &known::EMPTIES, |loss| {
            Some(draft(evidence, loss))
        }),
        false => known::outcome(evidence, &[], |_| None),
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
