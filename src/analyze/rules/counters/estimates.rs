//! What Nsight Compute's own rules estimate to save.

use rooflens_analysis::counters::details::PassDetails;
use rooflens_analysis::counters::details::remarks::RuleSum;
use rooflens_document::{Inline, Quantity};
use rooflens_units::Ratio;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::Outcome;

/// ncu's rules about the pattern of accesses.
const PATTERNS: [&str; 4] = [
    "UncoalescedGlobalAccess",
    "UncoalescedSharedAccess",
    "SharedMemoryConflicts",
    "MemoryCacheAccessPattern",
];

/// Longest remark that is quoted, characters.
const QUOTED: usize = 160;

/// What one of ncu's rules says about a pass.
pub(super) struct Estimate<'a> {
    /// Name of the rule.
    name: &'a str,
    /// Saved time ÷ profiled time.
    share: Ratio,
    pass: &'a PassDetails,
    sum: &'a RuleSum,
}

impl<'a> Estimate<'a> {
    fn new(evidence: &Evidence<'a>, pass: &'a PassDetails, sum: &'a RuleSum) -> Option<Self> {
        Some(Self {
            name: evidence.session.text(sum.rule),
            share: pass.share(sum.saved?)?,
            pass,
            sum,
        })
    }

    /// Whether it is about the pattern of accesses.
    pub(super) fn is_on_access(&self) -> bool {
        PATTERNS.contains(&self.name)
    }

    /// The remark on the longest launch, its first sentence.
    fn remark(&self, evidence: &Evidence<'_>) -> Vec<Inline> {
        let text = evidence.session.text(self.sum.remark);
        let sentence = text.split_once(". ").map_or(text, |(sentence, _)| sentence);
        let sentence = sentence.trim_end_matches('.');
        match sentence.chars().count() {
            0 => Vec::new(),
            1..=QUOTED => say!(evidence, "profiled_rule_estimate.remark", remark = sentence),
            _ => {
                let start: String = sentence.chars().take(QUOTED).collect();
                let words = start
                    .rsplit_once(' ')
                    .map_or(start.as_str(), |(words, _)| words);
                say!(
                    evidence,
                    "profiled_rule_estimate.remark_cut",
                    remark = words
                )
            }
        }
    }

    /// The draft about the pass. Profiled durations are those of replays, so they bound no gain of the run.
    fn draft(&self, evidence: &Evidence<'_>) -> Draft {
        let pass = self.pass.pass;
        let arguments = arguments! {
            rule = Inline::strong(self.name),
            share = self.share,
            pass = Inline::code(evidence.session.pass_name(pass)),
            launches = Quantity::count(self.sum.launches),
            remark = self.remark(evidence),
        };
        Draft::new(evidence.note_on_pass(pass), arguments)
    }
}

/// The largest estimate of each pass among the rules that `is_counted` takes, if it is `least` of the profiled time.
pub(super) fn largest(
    evidence: &Evidence<'_>,
    is_counted: impl Fn(&Estimate<'_>) -> bool,
    least: Ratio,
) -> Outcome {
    let (mut has_estimates, mut drafts) = (false, Vec::new());
    for pass in evidence
        .results
        .details()
        .into_iter()
        .flat_map(|details| &details.passes)
    {
        let mut largest: Option<Estimate<'_>> = None;
        for sum in &pass.rules {
            let Some(estimate) = Estimate::new(evidence, pass, sum) else {
                continue;
            };
            has_estimates = true;
            let is_larger = largest
                .as_ref()
                .is_none_or(|most| estimate.share > most.share);
            if is_counted(&estimate) && is_larger {
                largest = Some(estimate);
            }
        }
        let largest = largest.filter(|estimate| estimate.share >= least);
        drafts.extend(largest.map(|estimate| estimate.draft(evidence)));
    }
    match has_estimates {
        true => Outcome::joined(drafts),
        false => Outcome::InsufficientData(words!(evidence, "profiled_rule_estimate.needs")),
    }
}
