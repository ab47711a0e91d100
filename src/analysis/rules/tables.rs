//! The tables of findings and of rules.

use rooflens_schemas::Unit;

use super::{Outcome, Rule};
use crate::findings::observation::{CRITICAL_SHARE, WARNING_SHARE};
use crate::findings::{Cell, Column, Dataset, Inline, Method, Observation, Quantity};
use crate::prose;

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
            Cell::maybe(gain.map(crate::findings::Gain::share)),
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

/// One row a rule, in the order of the registry.
pub(super) fn rules(outcomes: &[(&Rule, Outcome)]) -> Dataset {
    let row = |(rule, outcome): &(&Rule, Outcome)| {
        let (word, reason) = match outcome {
            Outcome::Found(found) => (format!("found {}", found.len()), Cell::Missing),
            Outcome::Clear => ("clear".to_owned(), Cell::Missing),
            Outcome::Abstained(reason) => ("abstained".to_owned(), Cell::Text(reason.clone())),
        };
        vec![
            Cell::Text(rule.id.to_owned()),
            Cell::Text(rule.title.to_owned()),
            Cell::Text(word),
            reason,
            Cell::Text(thresholds(rule)),
        ]
    };
    Dataset {
        id: "rules",
        title: "Rules".to_owned(),
        columns: vec![
            Column::text("rule", "Rule"),
            Column::text("title", "Looks for"),
            Column::text("outcome", "Outcome"),
            Column::text("reason", "Needs"),
            Column::text("thresholds", "Thresholds"),
        ],
        rows: outcomes.iter().map(row).collect(),
    }
}

/// The thresholds of a rule in words.
fn thresholds(rule: &Rule) -> String {
    let one = |threshold: &super::Threshold| format!("{} {}", threshold.of, threshold.value);
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
            " on, and else a note; figures that cannot be right are critical, too. A rule abstains if the bundle lacks \
             what it needs: that is not the same as finding nothing."
        ],
    }
}
