//! The rule of Nsight Compute that estimates to save most.

use std::collections::BTreeMap;

use rooflens_schemas::Scope;

use super::memory_access::PATTERNS;
use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "profiled-rule-estimate",
    title: "What ncu's rules estimate",
    thresholds: &[Threshold::ratio("estimate, of the profiled time of a pass, at least", SHARE)],
    run,
};

/// Saved time ÷ profiled time by ncu's estimate from which on it is said.
const SHARE: f64 = 0.10;

/// Longest remark that is quoted, characters.
const QUOTED: usize = 160;

/// What one of ncu's rules says about a pass.
pub(super) struct Estimate<'a> {
    pub(super) rule: &'a str,
    pub(super) pass: &'a str,
    /// Saved time ÷ profiled time.
    pub(super) share: f64,
    row: Row<'a>,
}

impl Estimate<'_> {
    /// The remark on the longest launch, its first sentence.
    pub(super) fn remark(&self) -> Vec<Inline> {
        let text = self.row.text("remark");
        let first = text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.');
        match first.chars().count() {
            0 => Vec::new(),
            1..=QUOTED => prose![format!(" On the longest launch it says: “{first}.”")],
            _ => {
                let start: String = first.chars().take(QUOTED).collect();
                let whole = start.rsplit_once(' ').map_or(start.as_str(), |(words, _)| words);
                prose![format!(" On the longest launch it says: “{whole} …”")]
            }
        }
    }

    /// A finding about the pass. Profiled durations are those of replays, so they bound no gain of the run.
    pub(super) fn note(&self, results: &Results<'_>) -> Observation {
        let scope = Scope { pass: Some(self.pass.to_owned()), ..Scope::default() };
        Observation {
            title: self.pass.to_owned(),
            evidence: results.evidence(ids::PROFILED_TIME, &scope),
            scope,
            ..Observation::default()
        }
    }
}

/// The largest estimate of each pass among the rules that `which` names, if it is `least` of the profiled time.
pub(super) fn largest<'a>(
    results: &Results<'a>,
    which: impl Fn(&Estimate<'a>) -> bool,
    least: f64,
    finding: fn(&Results<'_>, &Estimate<'_>) -> Observation,
) -> Outcome {
    let mut by_pass = BTreeMap::<&str, Option<Estimate<'a>>>::new();
    for row in results.rows(ids::DEEP_DIVE_RULES) {
        let best = by_pass.entry(row.text("pass")).or_default();
        let Some(share) = row.number("saved_share") else { continue };
        let one = Estimate { rule: row.text("rule"), pass: row.text("pass"), share, row };
        if which(&one) && best.as_ref().is_none_or(|best| share > best.share) {
            *best = Some(one);
        }
    }
    if !results.rows(ids::DEEP_DIVE_RULES).any(|row| row.number("saved_share").is_some()) {
        return Outcome::lacks(
            "estimates of ncu's rules: an Nsight Compute report or its details page (--page details)",
        );
    }
    let worth = by_pass.into_values().flatten().filter(|one| one.share >= least);
    Outcome::joined(worth.map(|one| finding(results, &one)).collect())
}

fn run(results: &Results<'_>) -> Outcome {
    largest(results, |one| !PATTERNS.contains(&one.rule), SHARE, finding)
}

fn finding(results: &Results<'_>, one: &Estimate<'_>) -> Observation {
    let mut statement = prose![
        "Of ncu's rules ",
        Inline::Strong(one.rule.to_owned()),
        " estimates most: to save ",
        Quantity::ratio(one.share),
        " of the time profiled in pass ",
        Inline::Code(one.pass.to_owned()),
        ", with remarks on ",
        Quantity::count(one.row.sum("launches") as u64),
        " launches."
    ];
    statement.extend(one.remark());
    Observation { statement, ..one.note(results) }
}
