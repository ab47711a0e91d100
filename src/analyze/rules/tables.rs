//! The tables of findings and of rules.

use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_document::finding::{CRITICAL_SHARE, WARNING_SHARE};
use rooflens_document::{Catalogue, Dataset, Finding, Gain, Inline, Method, Table};
use rooflens_session::Arrange;
use rooflens_units::Time;

/// A rule and its outcome.
type Judged = (&'static Rule, Outcome);

fn words(inlines: &[Inline]) -> Option<String> {
    (!inlines.is_empty()).then(|| inlines.iter().map(Inline::plain).collect())
}

fn saved(finding: &Finding) -> Option<Time> {
    Some(finding.gain.as_ref()?.saved_ns)
}

fn whole(finding: &Finding) -> Option<Time> {
    Some(finding.gain.as_ref()?.of_ns)
}

/// One row a finding, in the order of their weight.
pub(crate) fn findings(evidence: &Evidence<'_>, findings: &[Finding]) -> Dataset {
    Table::new(evidence.text, "findings")
        .text("finding", |finding: &Finding| finding.title.clone())
        .text("rule", |finding| finding.id)
        .text("severity", |finding| finding.severity.label())
        .name("pass", |finding| finding.scope.pass.clone())
        .name("stage", |finding| finding.scope.stage.clone())
        .count("rank", |finding| finding.scope.rank)
        .time("saved_ns", saved)
        .time("of_ns", whole)
        .share("share", |finding| finding.gain.as_ref().map(Gain::share))
        .time("weight_ns", |finding| finding.weight_ns)
        .text("statement", |finding| words(&finding.statement))
        .text("advice", |finding| {
            words(finding.advice.as_deref().unwrap_or_default())
        })
        .rows(findings)
}

/// Rules of one outcome.
struct OutcomeRow {
    /// Place of the outcome in [`OUTCOMES`].
    rank: usize,
    why: Option<String>,
    titles: Vec<String>,
}

/// Outcomes of the rules at a glance: one row an outcome and reason, what was found first.
pub(crate) fn outcomes(evidence: &Evidence<'_>, outcomes: &[Judged]) -> Dataset {
    let mut rows: Vec<OutcomeRow> = Vec::new();
    for (rule, outcome) in outcomes {
        let title = evidence.text.rule(rule.id);
        let (title, why) = match (outcome, reason(evidence, outcome)) {
            (Outcome::Found(found), _) if found.len() > 1 => {
                (format!("{title} ({})", found.len()), None)
            }
            (Outcome::Passed(_), Some(without_data)) => (format!("{title} ({without_data})"), None),
            (_, why) => (title.to_owned(), why),
        };
        let rank = rank(outcome);
        match rows
            .iter_mut()
            .find(|row| row.rank == rank && row.why == why)
        {
            Some(row) => row.titles.push(title),
            None => rows.push(OutcomeRow {
                rank,
                why,
                titles: vec![title],
            }),
        }
    }
    rows.arrange_by_key(|row| row.rank);
    Table::new(evidence.text, "rule_outcomes")
        .text("outcome", |row: &OutcomeRow| OUTCOMES[row.rank])
        .text("rules", |row| row.titles.join(evidence.text.semicolon()))
        .text("why", |row| row.why.clone())
        .rows(&rows)
}

/// The words for outcomes, in the order of the tables.
const OUTCOMES: [&str; 4] = ["found", "clear", "not applicable", "abstained"];

fn rank(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Found(_) => 0,
        Outcome::Passed(_) => 1,
        Outcome::NotApplicable(_) => 2,
        Outcome::InsufficientData(_) => 3,
    }
}

/// Why, or what is missing.
fn reason(evidence: &Evidence<'_>, outcome: &Outcome) -> Option<String> {
    let reason = match outcome {
        Outcome::Passed(without_data) if !without_data.is_empty() => {
            words!(
                evidence,
                "findings.not_seen",
                stages = without_data.as_str()
            )
        }
        Outcome::Found(_) | Outcome::Passed(_) => String::new(),
        Outcome::NotApplicable(why) | Outcome::InsufficientData(why) => why.clone(),
    };
    Some(reason).filter(|reason| !reason.is_empty())
}

fn outcome_words((_, outcome): &Judged) -> String {
    match outcome {
        Outcome::Found(found) => format!("{} {}", OUTCOMES[0], found.len()),
        silent => OUTCOMES[rank(silent)].to_owned(),
    }
}

/// One row a rule by outcome, in the order of the registry.
pub(crate) fn rules(evidence: &Evidence<'_>, outcomes: &[Judged]) -> Dataset {
    let mut sorted: Vec<&Judged> = outcomes.iter().collect();
    sorted.arrange_by_key(|(_, outcome)| rank(outcome));
    Table::new(evidence.text, "rules")
        .text("rule", |(rule, _): &Judged| rule.id)
        .text("title", |(rule, _)| evidence.text.rule(rule.id))
        .text("outcome", outcome_words)
        .text("reason", |(_, outcome)| reason(evidence, outcome))
        .text("thresholds", |(rule, _)| thresholds(evidence.text, rule))
        .rows(sorted)
}

/// The thresholds of a rule in words.
fn thresholds(text: &'static Catalogue, rule: &Rule) -> String {
    let mut words = Vec::new();
    for threshold in rule.thresholds {
        words.push(format!(
            "{} {}",
            text.line(threshold.key, &[]),
            threshold.value
        ));
    }
    words.join(text.semicolon())
}

pub(crate) fn method(evidence: &Evidence<'_>) -> Method {
    method!(
        evidence,
        "findings",
        critical = CRITICAL_SHARE,
        warning = WARNING_SHARE,
    )
}
