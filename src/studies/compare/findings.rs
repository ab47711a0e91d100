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
    fn new(
        finding: &Finding,
        is_there: Pair<bool>,
        bound: Pair<Option<Time>>,
        achieved: Option<Time>,
    ) -> Self {
        Self {
            rule: finding.id,
            title: finding.title.clone(),
            stage: finding.scope.stage.clone(),
            is_there,
            bound,
            achieved,
        }
    }

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
    let findings = Pair::of(sides, findings);
    let Pair { before, mut after }: Pair<Vec<&Finding>> = findings;
    let mut changes = Vec::new();
    for before in before {
        let same = after.iter().position(|other| is_same(before, other));
        let same = same.map(|index| after.remove(index));
        let bounds = Pair {
            before: bound(before),
            after: same.and_then(bound),
        };
        let achieved = match same {
            Some(_) => None,
            None => achieved(before, times),
        };
        let is_there = Pair {
            before: true,
            after: same.is_some(),
        };
        changes.push(Change::new(before, is_there, bounds, achieved));
    }
    for new in after {
        let bounds = Pair {
            before: None,
            after: bound(new),
        };
        let is_there = Pair {
            before: false,
            after: true,
        };
        changes.push(Change::new(new, is_there, bounds, None));
    }
    changes
}

/// The findings of a side, those of several captures once.
fn findings<'a>(side: &Side<'a>) -> Vec<&'a Finding> {
    let mut findings: Vec<&Finding> = Vec::new();
    for finding in side.captures.iter().flat_map(|capture| capture.findings) {
        if could_save(finding) && !findings.iter().any(|known| is_same(known, finding)) {
            findings.push(finding);
        }
    }
    findings
}

fn is_same(finding: &Finding, other: &Finding) -> bool {
    (other.id, &other.scope.stage) == (finding.id, &finding.scope.stage)
}

/// By how much the stage of a finding became shorter. A step of a decode loop is not the iteration that bounds are of.
fn achieved(finding: &Finding, times: &[StageChange]) -> Option<Time> {
    let mut times = times.iter();
    let stage = times.find(|time| Some(&time.stage) == finding.scope.stage.as_ref());
    let stage = stage.filter(|stage| !stage.per_step)?;
    Some(stage.median.before - stage.median.after)
}

/// Findings that could save time: others say where it goes, or how far the measurement carries.
fn could_save(finding: &Finding) -> bool {
    !finding.on_measurement && finding.gain.is_some()
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
