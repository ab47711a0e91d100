//! Findings that are gone, new, or the same, and what became of the time that they could save.

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_document::{Finding, Gain, GainKind, Part};
use rooflens_units::{Ratio, Time};

use crate::times::StageChange;
use crate::{Analyzed, Pair};

/// Part of a bound from which on a change of it counts: what is left of a repaired fault is small.
const MOST: f64 = 0.5;

/// A finding of either capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The rule.
    pub rule: &'static str,
    /// Its title.
    pub title: String,
    /// Its stage, if it has one.
    pub stage: Option<String>,
    /// Whether each capture has it.
    pub is_there: Pair<bool>,
    /// Its number among the first actions of the report of each capture.
    pub action: Pair<Option<usize>>,
    /// What it could save at most in an iteration, where it is a bound of one.
    pub bound: Pair<Option<Time>>,
    /// What it could save at most, and the same ÷ the rest of the iteration or of the run.
    pub(crate) gain: Pair<Option<(Time, Ratio)>>,
    /// What its bound let expect, and what came of it, if it is gone or most of its bound is.
    pub outcome: Option<Outcome>,
    /// What it is about.
    pub target: Target,
}

/// The prediction of an action, and the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Time of the stage before.
    pub before: Time,
    /// Time that its bound let expect at best: that share of the time before is saved.
    pub expected: Time,
    /// Time after.
    pub got: Time,
}

/// What the gain of a finding shortens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Whether it shortens idle time.
    pub is_idle: bool,
    /// Whether it shortens copies.
    pub is_copies: bool,
    /// Classes of the kernels that it shortens; where it shortens kernels and none is here, any.
    pub classes: Vec<KernelClass>,
    /// Whether it shortens kernels.
    pub is_busy: bool,
    /// Whether it says where time goes and not why.
    pub is_general: bool,
}

/// A finding, and the capture that has it.
pub(crate) struct Found {
    finding: Finding,
    target: Target,
}

impl Change {
    fn new(before: Option<&Found>, after: Option<&Found>, times: &[StageChange]) -> Option<Self> {
        let found = before.or(after)?;
        let sides = Pair { before, after };
        let finding = &found.finding;
        let mut change = Self {
            rule: finding.id,
            title: finding.title.clone(),
            stage: finding.scope.stage.clone(),
            is_there: Pair::of(&sides, Option::is_some),
            action: Pair::of(&sides, |found| found.as_ref()?.finding.action),
            bound: Pair::of(&sides, |found| bound(&found.as_ref()?.finding)),
            gain: Pair::of(&sides, |found| {
                let gain = found.as_ref()?.finding.gain.as_ref()?;
                let rest = gain.of_ns - gain.saved_ns;
                Some((gain.saved_ns, Ratio::of(gain.saved_ns, rest)))
            }),
            outcome: None,
            target: found.target.clone(),
        };
        if change.is_done() {
            change.outcome = outcome(finding, times);
        }
        Some(change)
    }

    /// Whether it is gone, or most of its bound is.
    pub fn is_done(&self) -> bool {
        let Pair { before, after } = self.bound;
        self.is_there.before
            && match (before, after) {
                (Some(before), Some(after)) => after <= before * MOST,
                _ => is_most(self.gain.before, self.gain.after),
            }
    }

    /// Whether it is new, or most of its bound is.
    pub fn is_added(&self) -> bool {
        let Pair { before, after } = self.bound;
        self.is_there.after
            && match (before, after) {
                (Some(before), Some(after)) => before <= after * MOST,
                _ => is_most(self.gain.after, self.gain.before),
            }
    }

    /// The words of data files.
    pub fn label(&self) -> &'static str {
        match (self.is_there.before, self.is_there.after) {
            (true, false) => "gone",
            (false, true) => "new",
            _ if self.is_done() => "smaller",
            _ if self.is_added() => "larger",
            _ => "same",
        }
    }
}

/// Whether most of a gain is on one side only. Time is longer in a longer run, and its quotient larger where the rest of
/// the run became shorter: both must be.
fn is_most(gain: Option<(Time, Ratio)>, other: Option<(Time, Ratio)>) -> bool {
    match (gain, other) {
        (Some((time, quotient)), Some((other_time, other_quotient))) => {
            other_time <= time * MOST && other_quotient.0 <= quotient.0 * MOST
        }
        (_, other) => other.is_none(),
    }
}

/// The findings of both captures in the order of the first one, then those that are new.
pub(crate) fn changes(findings: Pair<Vec<Found>>, times: &[StageChange]) -> Vec<Change> {
    let Pair { before, mut after } = findings;
    let mut changes = Vec::new();
    for before in &before {
        let same = after
            .iter()
            .position(|other| is_same(&before.finding, &other.finding));
        let same = same.map(|index| after.remove(index));
        changes.extend(Change::new(Some(before), same.as_ref(), times));
    }
    for new in &after {
        changes.extend(Change::new(None, Some(new), times));
    }
    changes
}

/// Adds the findings of a capture that no capture before it has.
pub(crate) fn add(findings: &mut Vec<Found>, capture: &Analyzed<'_>) {
    for finding in capture.findings {
        let mut known = findings.iter();
        let is_known = known.any(|known| is_same(&known.finding, finding));
        if could_save(finding) && !is_known {
            findings.push(Found {
                finding: finding.clone(),
                target: target(capture, finding),
            });
        }
    }
}

/// What the gain of a finding shortens: idle time, kernels, copies, or several of them.
fn target(capture: &Analyzed<'_>, finding: &Finding) -> Target {
    let mut target = Target {
        is_general: finding.is_general,
        ..Target::default()
    };
    let Some(gain) = &finding.gain else {
        return target;
    };
    let is_work = matches!(gain.kind, GainKind::Work | GainKind::WorkAfterCpu);
    let of_parts: Time = finding.parts.iter().map(|(_, saved)| *saved).sum();
    // A group of kernels that is launched less often saves idle time, too.
    target.is_idle = match finding.parts.is_empty() {
        true => !is_work,
        false => gain.saved_ns > of_parts,
    };
    target.is_busy = is_work && finding.parts.is_empty();
    for (part, _) in &finding.parts {
        match part {
            Part::Kernel(row) => {
                let class = capture.context.facts.identities[*row as usize].class;
                if !target.classes.contains(&class) {
                    target.classes.push(class);
                }
                target.is_busy = true;
            }
            Part::Group(_) | Part::Communication => target.is_busy = true,
            Part::Copies => target.is_copies = true,
        }
    }
    target
}

fn is_same(finding: &Finding, other: &Finding) -> bool {
    (other.id, &other.scope.stage) == (finding.id, &finding.scope.stage)
}

/// What the bound of a finding let expect of its stage, and what came of it. Its share of an iteration holds for a step.
fn outcome(finding: &Finding, times: &[StageChange]) -> Option<Outcome> {
    let gain = finding.gain.as_ref().filter(|gain| is_of_iteration(gain))?;
    let mut times = times.iter();
    let stage = times.find(|time| Some(&time.stage) == finding.scope.stage.as_ref())?;
    let Pair { before, after } = stage.median;
    Some(Outcome {
        before,
        expected: before * (1.0 - gain.share().0),
        got: after,
    })
}

/// Findings that could save time: others say where it goes, or how far the measurement carries.
fn could_save(finding: &Finding) -> bool {
    !finding.on_measurement && finding.gain.is_some()
}

/// What a finding could save in an iteration of its stage.
fn bound(finding: &Finding) -> Option<Time> {
    let gain = finding.gain.as_ref()?;
    is_of_iteration(gain).then_some(gain.saved_ns)
}

fn is_of_iteration(gain: &Gain) -> bool {
    matches!(
        gain.kind,
        GainKind::Idle | GainKind::Work | GainKind::Measured
    )
}
