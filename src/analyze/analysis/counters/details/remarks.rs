//! What ncu's own rules say: the remarks of a launch, and over a pass what each rule estimates to save.

use std::collections::BTreeMap;

use super::groups::Launch;
use rooflens_session::{Arrange, ProfileId, ProfileRule, Session, StrId};
use rooflens_units::{Percent, Seconds};

/// What one rule says in a pass.
pub struct RuleSum {
    /// The rule.
    pub rule: StrId,
    /// ncu’s section that it is of.
    pub section: StrId,
    /// Launches that it remarks on.
    pub launches: u64,
    /// Their profiled time.
    pub seconds: Seconds,
    /// Time that its global estimates come to; absent if it makes none.
    pub saved: Option<Seconds>,
    /// Mean of its local estimates by time; absent if it makes none.
    pub local: Option<Percent>,
    /// The remark on the longest of the launches.
    pub remark: StrId,
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
        let estimate = |row: &ProfileRule| row.speedup.unwrap_or(Percent(-1.0));
        remarks.arrange_by(|a, b| estimate(b).total_cmp(&estimate(a)));
    }
    by_launch
}

/// The rules of a pass, those first that estimate to save most.
pub(super) fn sums(
    session: &Session,
    launches: &[&Launch],
    advice: &BTreeMap<ProfileId, Vec<ProfileRule>>,
) -> Vec<RuleSum> {
    let mut sums = BTreeMap::<(StrId, StrId), (RuleSum, Seconds, Seconds)>::new();
    for launch in launches {
        let remarks = advice.get(&launch.profile).map_or(&[][..], Vec::as_slice);
        let seconds = launch.seconds;
        let mut seen = Vec::new();
        for row in remarks {
            let key = (row.rule, row.section);
            let first = !seen.contains(&key);
            seen.push(key);
            // A rule's largest estimate for a launch counts: they come largest first.
            if first {
                add(
                    session,
                    sums.entry(key).or_insert_with(|| empty(row)),
                    row,
                    seconds,
                );
            }
        }
    }
    let mut sums: Vec<RuleSum> = sums.into_values().map(|(sum, ..)| sum).collect();
    let name = |sum: &RuleSum| (session.text(sum.rule), session.text(sum.section));
    sums.arrange_by(|a, b| {
        let saved = |sum: &RuleSum| sum.saved.unwrap_or(Seconds(-1.0));
        saved(b)
            .total_cmp(&saved(a))
            .then_with(|| name(a).cmp(&name(b)))
    });
    sums
}

fn empty(row: &ProfileRule) -> (RuleSum, Seconds, Seconds) {
    let sum = RuleSum {
        rule: row.rule,
        section: row.section,
        launches: 0,
        seconds: Seconds::ZERO,
        saved: None,
        local: None,
        remark: row.description,
    };
    (sum, Seconds(-1.0), Seconds::ZERO)
}

/// Adds a launch: sum, longest duration so far, time with local estimates.
fn add(
    session: &Session,
    (sum, longest, local): &mut (RuleSum, Seconds, Seconds),
    row: &ProfileRule,
    seconds: Seconds,
) {
    sum.launches += 1;
    sum.seconds += seconds;
    if seconds > *longest {
        (*longest, sum.remark) = (seconds, row.description);
    }
    match (session.text(row.speedup_kind), row.speedup) {
        ("global", Some(percent)) => {
            *sum.saved.get_or_insert(Seconds::ZERO) += seconds * percent.0 / 100.0;
        }
        ("local", Some(percent)) if seconds.is_positive() => {
            let so_far = sum.local.unwrap_or_default().0 * local.0;
            *local += seconds;
            sum.local = Some(Percent((so_far + percent.0 * seconds.0) / local.0));
        }
        _ => {}
    }
}
