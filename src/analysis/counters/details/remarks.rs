//! What ncu's own rules say: the remarks of a launch, and over a pass what each rule estimates to save.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::groups::Launch;
use crate::findings::{Cell, Column, Dataset};
use crate::model::{ProfileId, ProfileRule, Session, StrId};

/// Name of the data set.
pub(super) const ID: &str = "deep_dive_rules";

/// The columns that the section shows.
pub(super) const ESSENTIALS: &[&str] =
    &["rule", "section", "launches", "time_share", "saved_ns", "saved_share", "local_percent"];

/// What one rule says in a pass.
pub(super) struct RuleSum {
    pub(super) rule: StrId,
    pub(super) section: StrId,
    /// Launches that it remarks on.
    pub(super) launches: u64,
    /// Their profiled time, seconds.
    pub(super) seconds: f64,
    /// Seconds that its global estimates come to; absent if it makes none.
    pub(super) saved: Option<f64>,
    /// Mean of its local estimates by time, percent; absent if it makes none.
    pub(super) local: Option<f64>,
    /// The remark on the longest of the launches.
    remark: StrId,
}

/// Remarks by launch that advise something: estimates first, the largest first.
pub(super) fn advice(session: &Session) -> BTreeMap<ProfileId, Vec<ProfileRule>> {
    let rules = &session.profile_rules;
    let mut by_launch = BTreeMap::<ProfileId, Vec<ProfileRule>>::new();
    for row in rules.ids().map(|id| rules.row(id)) {
        if row.speedup.is_some() || session.text(row.kind) == "OPT" {
            by_launch.entry(row.profile).or_default().push(row);
        }
    }
    for remarks in by_launch.values_mut() {
        // Equal ones keep the order of the report.
        let estimate = |row: &ProfileRule| row.speedup.unwrap_or(-1.0);
        remarks.sort_by(|a, b| estimate(b).total_cmp(&estimate(a)));
    }
    by_launch
}

/// The rules of a pass, those first that estimate to save most.
pub(super) fn sums(
    session: &Session,
    launches: &[Launch],
    advice: &BTreeMap<ProfileId, Vec<ProfileRule>>,
) -> Vec<RuleSum> {
    let mut sums = BTreeMap::<(StrId, StrId), (RuleSum, f64, f64)>::new();
    for launch in launches {
        let remarks = advice.get(&launch.counters.profile).map_or(&[][..], Vec::as_slice);
        let seconds = launch.seconds();
        let mut seen = Vec::new();
        for row in remarks {
            let key = (row.rule, row.section);
            let first = !seen.contains(&key);
            seen.push(key);
            // A rule's largest estimate for a launch counts: they come largest first.
            if first {
                add(session, sums.entry(key).or_insert_with(|| empty(row)), row, seconds);
            }
        }
    }
    let mut sums: Vec<RuleSum> = sums.into_values().map(|(sum, ..)| sum).collect();
    let name = |sum: &RuleSum| (session.text(sum.rule), session.text(sum.section));
    sums.sort_by(|a, b| {
        let saved = |sum: &RuleSum| sum.saved.unwrap_or(-1.0);
        saved(b).total_cmp(&saved(a)).then_with(|| name(a).cmp(&name(b)))
    });
    sums
}

fn empty(row: &ProfileRule) -> (RuleSum, f64, f64) {
    let sum = RuleSum {
        rule: row.rule,
        section: row.section,
        launches: 0,
        seconds: 0.0,
        saved: None,
        local: None,
        remark: row.description,
    };
    (sum, -1.0, 0.0)
}

/// Adds a launch: sum, longest duration so far, time with local estimates.
fn add(
    session: &Session,
    (sum, longest, local): &mut (RuleSum, f64, f64),
    row: &ProfileRule,
    seconds: f64,
) {
    sum.launches += 1;
    sum.seconds += seconds;
    if seconds > *longest {
        (*longest, sum.remark) = (seconds, row.description);
    }
    match (session.text(row.speedup_kind), row.speedup) {
        ("global", Some(percent)) => {
            *sum.saved.get_or_insert(0.0) += seconds * percent / 100.0;
        }
        ("local", Some(percent)) if seconds > 0.0 => {
            let so_far = sum.local.unwrap_or_default() * *local;
            *local += seconds;
            sum.local = Some((so_far + percent * seconds) / *local);
        }
        _ => {}
    }
}

/// The first sentence of a remark.
pub(super) fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

pub(super) fn dataset() -> Dataset {
    Dataset {
        id: ID,
        title: "What ncu's rules estimate, by pass and rule".to_owned(),
        columns: vec![
            Column::text("rule", "Rule"),
            Column::text("pass", "Pass"),
            Column::text("section", "Section"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("time_ns", "Time", Unit::Nanoseconds),
            Column::new("time_share", "Share", Unit::Ratio),
            Column::new("saved_ns", "Saved", Unit::Nanoseconds),
            Column::new("saved_share", "Saved share", Unit::Ratio),
            Column::new("local_percent", "Local", Unit::Percent),
            Column::text("remark", "Remark on the longest launch"),
        ],
        rows: Vec::new(),
    }
}

pub(super) fn cells(session: &Session, pass: &str, total: f64, sum: &RuleSum) -> Vec<Cell> {
    let share = |seconds: f64| (total > 0.0).then(|| seconds / total);
    vec![
        Cell::Text(session.text(sum.rule).to_owned()),
        Cell::Text(pass.to_owned()),
        Cell::Text(session.text(sum.section).to_owned()),
        Cell::Int(sum.launches as i64),
        Cell::Float(sum.seconds * 1e9),
        Cell::maybe(share(sum.seconds)),
        Cell::maybe(sum.saved.map(|saved| saved * 1e9)),
        Cell::maybe(sum.saved.and_then(share)),
        Cell::maybe(sum.local),
        Cell::Text(session.text(sum.remark).to_owned()),
    ]
}
