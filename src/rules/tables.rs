//! The tables of findings and of rules.

use rooflens_schemas::Unit;

use super::{Outcome, Rule, Threshold};
use rooflens_findings::observation::{CRITICAL_SHARE, WARNING_SHARE};
use rooflens_findings::{
    Catalogue, Cell, Column, Dataset, Inline, Method, Observation, Quantity, prose,
};

/// One row a finding, in the order of their weight.
pub(super) fn findings(observations: &[Observation]) -> Dataset {
    let text = |text: &Option<String>| text.clone().map_or(Cell::Missing, Cell::Name);
    let words = |inlines: &[Inline]| match inlines {
        [] => Cell::Missing,
        inlines => Cell::Text(inlines.iter().map(plain).collect()),
    };
    let row = |one: &Observation| {
        let gain = one.gain.as_ref();
        vec![
            Cell::Text(one.title.clone()),
            Cell::Text(one.id.to_owned()),
            Cell::Text(one.severity.label().to_owned()),
            text(&one.scope.pass),
            text(&one.scope.stage),
            one.scope.rank.map_or(Cell::Missing, |rank| Cell::Int(i64::from(rank))),
            Cell::maybe(gain.map(|gain| gain.saved_ns)),
            Cell::maybe(gain.map(|gain| gain.of_ns)),
            Cell::maybe(gain.map(rooflens_findings::Gain::share)),
            Cell::Float(one.weight_ns),
            words(&one.statement),
            words(one.advice.as_deref().unwrap_or_default()),
        ]
    };
    Dataset {
        id: "findings",
        title: "Findings".to_owned(),
        columns: vec![
            Column::text("finding", "Finding"),
            Column::text("rule", "Rule"),
            Column::text("severity", "Severity"),
            Column::text("pass", "Pass"),
            Column::text("stage", "Stage"),
            Column::new("rank", "Rank", Unit::Count),
            Column::new("saved_ns", "Saves at most", Unit::Nanoseconds),
            Column::new("of_ns", "Of", Unit::Nanoseconds),
            Column::new("share", "Share", Unit::Ratio),
            Column::new("weight_ns", "Over the run", Unit::Nanoseconds),
            Column::text("statement", "Statement"),
            Column::text("advice", "Advice"),
        ],
        rows: observations.iter().map(row).collect(),
    }
}

/// What came of the rules at a glance: one row an outcome and reason, what was found first.
pub(super) fn outcomes(text: &'static Catalogue, outcomes: &[(&Rule, Outcome)]) -> Dataset {
    let mut rows: Vec<(usize, String, Vec<String>)> = Vec::new();
    for (rule, outcome) in outcomes {
        let (title, said) = match outcome {
            Outcome::Found(found) if found.len() > 1 => {
                (format!("{} ({})", text.rule(rule.id), found.len()), String::new())
            }
            Outcome::Clear(unseen) if !unseen.is_empty() => {
                (format!("{} (not seen: {unseen})", text.rule(rule.id)), String::new())
            }
            Outcome::Found(_) | Outcome::Clear(_) => (text.rule(rule.id).to_owned(), String::new()),
            Outcome::NotApplicable(why) | Outcome::Abstained(why) => {
                (text.rule(rule.id).to_owned(), why.clone())
            }
        };
        let rank = rank(outcome);
        match rows.iter_mut().find(|(own, why, _)| (*own, why) == (rank, &said)) {
            Some((_, _, titles)) => titles.push(title),
            None => rows.push((rank, said, vec![title])),
        }
    }
    rows.sort_by_key(|(rank, _, _)| *rank);
    let row = |(rank, why, titles): (usize, String, Vec<String>)| {
        let why = Some(why).filter(|why| !why.is_empty());
        vec![
            Cell::Text(OUTCOMES[rank].to_owned()),
            Cell::Text(titles.join("; ")),
            why.map_or(Cell::Missing, Cell::Text),
        ]
    };
    Dataset {
        id: "rule_outcomes",
        title: "What came of the rules".to_owned(),
        columns: vec![
            Column::text("outcome", "Outcome"),
            Column::text("rules", "Rules"),
            Column::text("why", "Why, or what is missing"),
        ],
        rows: rows.into_iter().map(row).collect(),
    }
}

/// The words for outcomes, in the order of the tables.
const OUTCOMES: [&str; 4] = ["found", "clear", "not applicable", "abstained"];

fn rank(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Found(_) => 0,
        Outcome::Clear(_) => 1,
        Outcome::NotApplicable(_) => 2,
        Outcome::Abstained(_) => 3,
    }
}

/// One row a rule by outcome, in the order of the registry.
pub(super) fn rules(text: &'static Catalogue, outcomes: &[(&Rule, Outcome)]) -> Dataset {
    let row = |(rule, outcome): &&(&Rule, Outcome)| {
        let word = OUTCOMES[rank(outcome)];
        let (word, reason) = match outcome {
            Outcome::Found(found) => (format!("{word} {}", found.len()), String::new()),
            Outcome::Clear(unseen) if unseen.is_empty() => (word.to_owned(), String::new()),
            Outcome::Clear(unseen) => (word.to_owned(), format!("not seen: {unseen}")),
            Outcome::NotApplicable(why) | Outcome::Abstained(why) => (word.to_owned(), why.clone()),
        };
        vec![
            Cell::Text(rule.id.to_owned()),
            Cell::Text(text.rule(rule.id).to_owned()),
            Cell::Text(word),
            if reason.is_empty() { Cell::Missing } else { Cell::Text(reason) },
            Cell::Text(thresholds(text, rule)),
        ]
    };
    let mut sorted: Vec<&(&Rule, Outcome)> = outcomes.iter().collect();
    sorted.sort_by_key(|(_, outcome)| rank(outcome));
    Dataset {
        id: "rules",
        title: "Rules".to_owned(),
        columns: vec![
            Column::text("rule", "Rule"),
            Column::text("title", "Looks for"),
            Column::text("outcome", "Outcome"),
            Column::text("reason", "Why, or what is missing"),
            Column::text("thresholds", "Thresholds"),
        ],
        rows: sorted.iter().map(row).collect(),
    }
}

/// The thresholds of a rule in words.
fn thresholds(text: &Catalogue, rule: &Rule) -> String {
    let one = |one: &Threshold| format!("{} {}", text.line(one.key, &[]), one.value);
    rule.thresholds.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A piece of a sentence as text.
fn plain(inline: &Inline) -> String {
    match inline {
        Inline::Text(text) | Inline::Code(text) | Inline::Strong(text) => text.clone(),
        Inline::Quantity(quantity) => quantity.to_string(),
    }
}

pub(super) fn method() -> Method {
    Method {
        title: "Findings".to_owned(),
        text: prose![
            "Rules read the metrics of this report and compare them with fixed thresholds, which the data set ",
            Inline::Code("rules".to_owned()),
            " lists. What a finding saves at most is a bound: the time that would go if its cause vanished and nothing \
             else changed. Bounds of several findings overlap and must not be added. Weight is that bound times the \
             counted instances of the stage. A finding is critical from ",
            Quantity::ratio(CRITICAL_SHARE),
            " of the time of all stages on, a warning from ",
            Quantity::ratio(WARNING_SHARE),
            " on, and else a note; figures that cannot be right are critical, too. A rule is clear if it looked and found \
             nothing, and not applicable if there is nothing that it could be about or another finding says it better; it abstains if the \
             bundle lacks what it needs: that is not the same as finding nothing."
        ],
    }
}
