//! Findings that are gone, new, or the same, and what became of the time that they could save.

use rooflens_document::{Finding, GainKind};
use rooflens_units::Time;

use crate::times::StageChange;
use crate::{Pair, Side};

/// A finding of either capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The rule.
    pub rule: &'static str,
    /// Its title.
    pub title: String,
    /// Its stage, if it has one.
    pub stage: Option<String>,
    /// Whether each capture has it.
    pub is_there: Pair<bool>,
    /// What it could save at most in an iteration, where it is a bound of one.
    pub bound: Pair<Option<Time>>,
    /// By how much the stage became shorter, if the finding is gone.
    pub achieved: Option<Time>,
}

impl Change {
    /// The words of data files.
    pub const fn label(&self) -> &'static str {
        match (self.is_there.before, self.is_there.after) {
            (true, false) => "gone",
            (false, true) => "new",
            _ => "same",
        }
    }
}

/// The findings of both captures in the order of the first one, then those that are new.
pub(crate) fn changes(sides: &Pair<Side<'_>>, times: &[StageChange]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut matched = vec![false; sides.after.findings.len()];
    for before in sides
        .before
        .findings
        .iter()
        .filter(|finding| could_save(finding))
    {
        let mut candidates = sides.after.findings.iter().enumerate();
        let same = candidates.find(|(index, after)| {
            !matched[*index] && after.id == before.id && after.scope.stage == before.scope.stage
        });
        if let Some((index, _)) = same {
            matched[index] = true;
        }
        let after = same.map(|(_, after)| after);
        let mut change = change(before, after.is_some());
        change.bound.after = after.and_then(bound);
        let stage = times
            .iter()
            .find(|time| Some(&time.stage) == before.scope.stage.as_ref());
        // A step of a decode loop is not the iteration that bounds are of.
        let stage = stage.filter(|stage| after.is_none() && !stage.per_step);
        change.achieved = stage.map(|stage| stage.median.before - stage.median.after);
        changes.push(change);
    }
    for (index, after) in sides.after.findings.iter().enumerate() {
        if !matched[index] && could_save(after) {
            let change = change(after, true);
            changes.push(Change {
                is_there: Pair {
                    before: false,
                    after: true,
                },
                bound: Pair {
                    before: None,
                    after: change.bound.before,
                },
                ..change
            });
        }
    }
    changes
}

/// Findings that could save time: others say where it goes, or how far the measurement carries.
fn could_save(finding: &Finding) -> bool {
    !finding.on_measurement && finding.gain.is_some()
}

fn change(finding: &Finding, is_after: bool) -> Change {
    Change {
        rule: finding.id,
        title: finding.title.clone(),
        stage: finding.scope.stage.clone(),
        is_there: Pair {
            before: true,
            after: is_after,
        },
        bound: Pair {
            before: bound(finding),
            after: None,
        },
        achieved: None,
    }
}

/// What a finding could save in an iteration of its stage.
fn bound(finding: &Finding) -> Option<Time> {
    let gain = finding.gain.as_ref()?;
    let is_of_iteration = matches!(
        gain.kind,
        GainKind::Idle | GainKind::Work | GainKind::Measured
    );
    is_of_iteration.then_some(gain.saved_ns)
}
