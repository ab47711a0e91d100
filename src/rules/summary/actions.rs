//! What to do first: the findings that could save most, one a stage.

use crate::results::Results;
use crate::stage::StageLine;
use rooflens_findings::{Catalogue, Gain, GainKind, Inline, Observation, Quantity, Severity};

/// Actions that the first page shows.
const SHOWN: usize = 3;

/// Share of its whole from which on a gain is an action, where none is a warning.
const LEAST: f64 = 0.01;

/// Measured iterations from which on a median says something.
pub(super) const ITERATIONS: f64 = 3.0;

/// A finding that could save time, and whose.
pub(super) struct Action<'a> {
    pub(super) found: &'a Observation,
    pub(super) gain: &'a Gain,
    /// Where it saves.
    pub(super) effect: Effect<'a>,
}

/// Where an action saves time.
#[derive(Clone, Copy)]
pub(super) enum Effect<'a> {
    /// In each iteration of a stage.
    Stage(&'a StageLine),
    /// In some iterations of a stage.
    Stalls(&'a StageLine),
    /// Between stages, or in the run as a whole.
    Run,
}

/// How far a bound is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confidence {
    High,
    Medium,
    Low,
}

/// The weightiest actions: warnings, or where there is none what saves [`LEAST`]. Bounds of one stage overlap, so each
/// stage has one, and each rule.
pub(super) fn of<'a>(results: &'a Results<'_>, observations: &'a [Observation]) -> Vec<Action<'a>> {
    let action = |found: &'a Observation| {
        let now = |gain: &&Gain| gain.saved_ns > 0.0 && gain.kind != GainKind::WorkAfterCpu;
        let gain = found.gain.as_ref().filter(now)?;
        Some(Action { found, gain, effect: effect(results, found, gain.kind) })
    };
    let about_run = observations.iter().filter(|one| !one.on_measurement);
    let mut found: Vec<Action<'a>> = about_run.filter_map(action).collect();
    let is_warning = |one: &Action<'_>| one.found.severity >= Severity::Warning;
    match found.iter().any(is_warning) {
        true => found.retain(is_warning),
        false => found.retain(|one| one.gain.share() >= LEAST),
    }
    found.sort_by(|a, b| b.found.weight_ns.total_cmp(&a.found.weight_ns));
    let mut actions: Vec<Action<'a>> = Vec::new();
    for one in found {
        if actions.len() < SHOWN && !actions.iter().any(|other| other.is_like(&one)) {
            actions.push(one);
        }
    }
    actions
}

fn effect<'a>(results: &'a Results<'_>, found: &Observation, kind: GainKind) -> Effect<'a> {
    let stage = results.stages.iter().find(|stage| stage.scope == found.scope);
    match (stage, kind) {
        (Some(stage), GainKind::Idle | GainKind::Work) => Effect::Stage(stage),
        (Some(stage), GainKind::Stalls) => Effect::Stalls(stage),
        _ => Effect::Run,
    }
}

impl Action<'_> {
    /// Whether it is about the same as another one.
    fn is_like(&self, other: &Action<'_>) -> bool {
        let name = |stage: &StageLine| stage.scope.stage.clone();
        self.found.id == other.found.id
            || match (self.effect, other.effect) {
                (Effect::Stage(one), Effect::Stage(other)) => name(one) == name(other),
                _ => false,
            }
    }

    /// A line about its rule, or about the cause where that is known closer: what to `do`, `if` what holds, and the `cause` that goes.
    pub(super) fn line(&self, text: &Catalogue, key: &str) -> String {
        match (&self.found.root, key) {
            (Some(root), "cause") => return root.cause.clone(),
            (Some(root), "do") => return root.action.clone(),
            _ => {}
        }
        text.line(&format!("actions.{}.{key}", self.found.id), &[])
    }

    /// What is saved of an iteration of this stage, nanoseconds.
    pub(super) fn saves_of(&self, stage: &StageLine) -> f64 {
        match self.effect {
            Effect::Stage(own) if own.key() == stage.key() => self.gain.saved_ns,
            _ => 0.0,
        }
    }

    /// How far the bound is to be trusted, and why.
    pub(super) fn confidence(&self, results: &Results<'_>) -> (Confidence, Vec<Inline>) {
        let stage = match self.effect {
            Effect::Stage(stage) | Effect::Stalls(stage) => Some(stage),
            Effect::Run => None,
        };
        let counted = stage.map_or(ITERATIONS, |stage| stage.counted);
        let count = Quantity::count(counted as u64);
        let unprofiled = stage.is_some_and(|stage| stage.unprofiled.is_some());
        if counted < ITERATIONS {
            return (Confidence::Low, say!(results, "summary.few", count = count));
        }
        let measured = matches!(self.gain.kind, GainKind::Idle | GainKind::Stalls);
        match (measured, unprofiled) {
            (true, true) => (Confidence::High, say!(results, "summary.capped", count = count)),
            (true, false) => (Confidence::Medium, say!(results, "summary.profiled", count = count)),
            (false, _) => (Confidence::Medium, say!(results, "summary.modeled")),
        }
    }
}
