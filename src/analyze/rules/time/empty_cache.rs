//! The GPU waits because the allocator gives its cache back to the driver in the loop.

use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Outcome, Rule};

pub(crate) static RULE: Rule = Rule::new(known::EMPTY_CACHE, &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    match known::empties_cache(evidence) {
        true => known::outcome(evidence, &known::EMPTIES, |loss| Some(loss.draft(evidence))),
        false => known::outcome(evidence, &[], |_| None),
    }
}
