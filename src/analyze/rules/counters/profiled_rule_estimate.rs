//! The rule of Nsight Compute that estimates to save most.

use rooflens_schemas::Scope;

use crate::counters::memory_access::PATTERNS;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::details::PassDetails;
use rooflens_analysis::counters::details::remarks::RuleSum;
use rooflens_document::{Finding, Inline, Quantity};

pub(crate) static RULE: Rule = Rule::new(
    "profiled-rule-estimate",
    &[Threshold::ratio("thresholds.estimate", SHARE)],
    run,
);

/// Saved time ÷ profiled time by ncu's estimate from which on it is said.
const SHARE: f64 = 0.10;

/// Longest remark that is quoted, characters.
const QUOTED: usize = 160;

/// What one of ncu's rules says about a pass.
pub(crate) struct Estimate<'a> {
    /// Name of the rule.
    pub(crate) name: &'a str,
    /// Saved time ÷ profiled time.
    pub(crate) share: f64,
    pass: &'a PassDetails,
    sum: &'a RuleSum,
}

impl<'a> Estimate<'a> {
    fn new(evidence: &Evidence<'a>, pass: &'a PassDetails, sum: &'a RuleSum) -> Option<Self> {
        let name = evidence.session.text(sum.rule);
        Some(Self {
            name,
            share: pass.share(sum.saved?)?,
            pass,
            sum,
        })
    }

    /// Name of the pass.
    pub(crate) fn pass_name(&self, evidence: &Evidence<'_>) -> Inline {
        Inline::code(evidence.session.pass_name(self.pass.pass))
    }

    /// The remark on the longest launch, its first sentence.
    pub(crate) fn remark(&self, evidence: &Evidence<'_>) -> Vec<Inline> {
        let text = evidence.session.text(self.sum.remark);
        let first = text
            .split_once(". ")
            .map_or(text, |(first, _)| first)
            .trim_end_matches('.');
        match first.chars().count() {
            0 => Vec::new(),
            1..=QUOTED => say!(evidence, "profiled_rule_estimate.remark", remark = first),
            _ => {
                let start: String = first.chars().take(QUOTED).collect();
                let whole = start
                    .rsplit_once(' ')
                    .map_or(start.as_str(), |(words, _)| words);
                say!(
                    evidence,
                    "profiled_rule_estimate.remark_cut",
                    remark = whole
                )
            }
        }
    }

    /// A finding about the pass. Profiled durations are those of replays, so they bound no gain of the run.
    pub(crate) fn note(&self, evidence: &Evidence<'_>) -> Finding {
        let name = evidence.session.pass_name(self.pass.pass).to_owned();
        Finding {
            title: name.clone(),
            evidence: evidence.profile_evidence(self.pass.pass),
            scope: Scope {
                pass: Some(name),
                ..Scope::default()
            },
            ..Finding::default()
        }
    }
}

/// The largest estimate of each pass among the rules that `which` names, if it is `least` of the profiled time.
pub(crate) fn largest<'a>(
    evidence: &Evidence<'a>,
    which: impl Fn(&Estimate<'a>) -> bool,
    least: f64,
    finding: fn(&Evidence<'_>, &Estimate<'_>) -> Finding,
) -> Outcome {
    let passes = evidence
        .results
        .details()
        .map_or(&[][..], |all| &all.passes);
    let of_pass = |pass: &'a PassDetails| -> Vec<Estimate<'a>> {
        pass.rules
            .iter()
            .filter_map(|sum| Estimate::new(evidence, pass, sum))
            .collect()
    };
    let all: Vec<Vec<Estimate<'a>>> = passes.iter().map(of_pass).collect();
    if all.iter().all(Vec::is_empty) {
        return Outcome::InsufficientData(words!(evidence, "profiled_rule_estimate.needs"));
    }
    let larger =
        |best: Estimate<'a>, next: Estimate<'a>| if next.share > best.share { next } else { best };
    let best = all
        .into_iter()
        .filter_map(|own| own.into_iter().filter(&which).reduce(larger));
    let worth = best.filter(|one| one.share >= least);
    Outcome::joined(
        evidence.text,
        worth.map(|one| finding(evidence, &one)).collect(),
    )
}

fn run(evidence: &Evidence<'_>) -> Outcome {
    largest(
        evidence,
        |one| !PATTERNS.contains(&one.name),
        SHARE,
        finding,
    )
}

fn finding(evidence: &Evidence<'_>, one: &Estimate<'_>) -> Finding {
    let statement = say!(
        evidence,
        "profiled_rule_estimate.statement",
        rule = Inline::strong(one.name),
        share = Quantity::ratio(one.share),
        pass = one.pass_name(evidence),
        launches = Quantity::count(one.sum.launches),
        remark = one.remark(evidence),
    );
    Finding {
        statement,
        ..one.note(evidence)
    }
}
