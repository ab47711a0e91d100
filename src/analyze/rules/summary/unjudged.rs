//! Checks that could not run: the absence of a finding says nothing where the data to find it is missing.

use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_document::{Inline, Quantity};
use rooflens_session::Arrange;

/// Reasons that the line names.
const SHOWN: usize = 2;

/// The number of rules without data, and what most of them lack; none if all could judge.
pub(super) fn line(
    evidence: &Evidence<'_>,
    outcomes: &[(&'static Rule, Outcome)],
) -> Option<Vec<Inline>> {
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for (_, outcome) in outcomes {
        if let Outcome::InsufficientData(why) = outcome {
            match reasons.iter_mut().find(|(reason, _)| reason == why) {
                Some((_, count)) => *count += 1,
                None => reasons.push((why, 1)),
            }
        }
    }
    let count: u64 = reasons.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return None;
    }
    reasons.arrange_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (shown, more) = reasons.split_at(reasons.len().min(SHOWN));
    let named = shown.iter().map(|(reason, count)| {
        words!(
            evidence,
            "summary.lacks",
            reason = *reason,
            count = (reasons.len() > 1).then(|| Quantity::count(*count)),
        )
    });
    let named: Vec<String> = named.collect();
    Some(say!(
        evidence,
        "summary.unjudged",
        count = Quantity::count(count),
        all = Quantity::count(outcomes.len() as u64),
        reasons = named.join(evidence.text.semicolon()),
        more = (!more.is_empty()).then(|| Quantity::count(more.len() as u64)),
    ))
}
