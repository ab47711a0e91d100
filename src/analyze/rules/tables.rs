//! The tables of findings and of rules.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_document::finding::{CRITICAL_SHARE, WARNING_SHARE};
use rooflens_document::{Catalogue, Dataset, Finding, Gain, Inline, Method, Quantity, Table};
use rooflens_session::Arrange;

/// A rule, and what came of it.
type Judged = (&'static Rule, Outcome);

/// One row a finding, in the order of their weight.
pub(crate) fn findings(evidence: &Evidence<'_>, observations: &[Finding]) -> Dataset {
    let words = |inlines: &[Inline]| -> Option<String> {
        (!inlines.is_empty()).then(|| inlines.iter().map(Inline::plain).collect())
    };
    Table::new(evidence.text, "findings")
        .text("finding", |one: &Finding| one.title.clone())
        .text("rule", |one| one.id)
        .text("severity", |one| one.severity.label())
        .name("pass", |one| one.scope.pass.clone())
        .name("stage", |one| one.scope.stage.clone())
        .count("rank", |one| one.scope.rank)
        .time("saved_ns", |one| {
            one.gain.as_ref().map(|gain| gain.saved_ns)
        })
        .time("of_ns", |one| one.gain.as_ref().map(|gain| gain.of_ns))
        .share("share", |one| one.gain.as_ref().map(Gain::share))
        .time("weight_ns", |one| one.weight_ns)
        .text("statement", |one| words(&one.statement))
        .text("advice", |one| {
            words(one.advice.as_deref().unwrap_or_default())
        })
        .rows(observations)
}

/// Rank of an outcome, why, and the rules of which it came.
type Row = (usize, Option<String>, Vec<String>);

/// What came of the rules at a glance: one row an outcome and reason, what was found first.
pub(crate) fn outcomes(evidence: &Evidence<'_>, outcomes: &[Judged]) -> Dataset {
    let mut rows: Vec<Row> = Vec::new();
    for (rule, outcome) in outcomes {
        let title = evidence.text.rule(rule.id);
        let (title, why) = match (outcome, reason(evidence, outcome)) {
            (Outcome::Found(found), _) if found.len() > 1 => {
                (format!("{title} ({})", found.len()), None)
            }
            (Outcome::Passed(_), Some(unseen)) => (format!("{title} ({unseen})"), None),
            (_, why) => (title.to_owned(), why),
        };
        let rank = rank(outcome);
        match rows
            .iter_mut()
            .find(|(own, known, _)| *own == rank && *known == why)
        {
            Some((_, _, titles)) => titles.push(title),
            None => rows.push((rank, why, vec![title])),
        }
    }
    rows.arrange_by_key(|(rank, _, _)| *rank);
    Table::new(evidence.text, "rule_outcomes")
        .text("outcome", |(rank, _, _): &Row| OUTCOMES[*rank])
        .text("rules", |(_, _, titles)| {
            titles.join(evidence.text.semicolon())
        })
        .text("why", |(_, why, _)| why.clone())
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
        Outcome::Passed(unseen) if !unseen.is_empty() => {
            words!(evidence, "findings.not_seen", stages = unseen.as_str())
        }
        Outcome::Found(_) | Outcome::Passed(_) => String::new(),
        Outcome::NotApplicable(why) | Outcome::InsufficientData(why) => why.clone(),
    };
    Some(reason).filter(|reason| !reason.is_empty())
}

/// One row a rule by outcome, in the order of the registry.
pub(crate) fn rules(evidence: &Evidence<'_>, outcomes: &[Judged]) -> Dataset {
    let mut sorted: Vec<&Judged> = outcomes.iter().collect();
    sorted.arrange_by_key(|(_, outcome)| rank(outcome));
    Table::new(evidence.text, "rules")
        .text("rule", |(rule, _): &Judged| rule.id)
        .text("title", |(rule, _)| evidence.text.rule(rule.id))
        .text("outcome", |(_, outcome)| match outcome {
            Outcome::Found(found) => format!("{} {}", OUTCOMES[0], found.len()),
            other => OUTCOMES[rank(other)].to_owned(),
        })
        .text("reason", |(_, outcome)| reason(evidence, outcome))
        .text("thresholds", |(rule, _)| thresholds(evidence.text, rule))
        .rows(sorted)
}

/// The thresholds of a rule in words.
fn thresholds(text: &'static Catalogue, rule: &Rule) -> String {
    let one = |one: &Threshold| format!("{} {}", text.line(one.key, &[]), one.value);
    rule.thresholds
        .iter()
        .map(one)
        .collect::<Vec<_>>()
        .join(text.semicolon())
}

pub(crate) fn method(evidence: &Evidence<'_>) -> Method {
    method!(
        evidence,
        "findings",
        critical = Quantity::ratio(CRITICAL_SHARE),
        warning = Quantity::ratio(WARNING_SHARE),
    )
}
