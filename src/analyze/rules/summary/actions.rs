//! What to do first: the findings that could save most, one a stage.

use super::confidence;
use crate::evidence::Evidence;
use crate::stage::StageLine;
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Root, Severity};
use rooflens_session::Arrange;

/// Actions that the first page shows.
const SHOWN: usize = 3;

/// Share of its whole from which on a gain is an action, where none is a warning.
const LEAST: f64 = 0.01;

/// A finding that could save time, and whose.
pub(super) struct Action<'a> {
    pub(super) found: &'a Finding,
    pub(super) gain: &'a Gain,
    /// Where it saves.
    pub(super) effect: Effect<'a>,
    /// What the same action saves of other stages.
    more: Vec<(&'a Gain, &'a StageLine)>,
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

/// The weightiest actions: warnings, or where there is none what saves [`LEAST`]; those that shorten each iteration before
/// those that shorten some. Bounds of one stage overlap, so each stage has one; what one rule finds in several stages is one
/// action.
pub(super) fn of<'a>(evidence: &'a Evidence<'_>, observations: &'a [Finding]) -> Vec<Action<'a>> {
    let action = |found: &'a Finding| {
        let now = |gain: &&Gain| gain.saved_ns > 0.0 && gain.kind != GainKind::WorkAfterCpu;
        let gain = found.gain.as_ref().filter(now)?;
        let effect = effect(evidence, found, gain.kind);
        let action = Action {
            found,
            gain,
            effect,
            more: Vec::new(),
        };
        // What several runs without a profiler do not have is the profiler's.
        (!confidence::is_refuted(evidence, &action)).then_some(action)
    };
    let about_run = observations.iter().filter(|one| !one.on_measurement);
    let mut found: Vec<Action<'a>> = about_run.filter_map(action).collect();
    found.arrange_by(|a, b| b.found.weight_ns.total_cmp(&a.found.weight_ns));
    // What was measured in another form needs no weight.
    let is_warning = |one: &Action<'_>| {
        one.found.severity >= Severity::Warning || one.gain.kind == GainKind::Measured
    };
    let warned = found.iter().any(is_warning);
    let is_worth = |one: &Action<'_>| match warned {
        true => is_warning(one),
        false => one.gain.share() >= LEAST,
    };
    let (worth, rest): (Vec<Action<'a>>, Vec<Action<'a>>) = found.into_iter().partition(is_worth);
    let (each, some): (Vec<Action<'a>>, Vec<Action<'a>>) = worth
        .into_iter()
        .partition(|one| matches!(one.effect, Effect::Stage(_)));
    let mut actions: Vec<Action<'a>> = Vec::new();
    for one in each.into_iter().chain(some) {
        match actions.iter().position(|other| other.is_like(&one)) {
            Some(like) => actions[like].join(&one),
            None if actions.len() < SHOWN => actions.push(one),
            None => {}
        }
    }
    // Bounds of one stage overlap: what another action shortens already is left to that.
    for one in rest {
        let taken = |stage: &StageLine| actions.iter().any(|other| other.saves_of(stage) > 0.0);
        if matches!(one.effect, Effect::Stage(stage) if taken(stage)) {
            continue;
        }
        if let Some(like) = actions
            .iter_mut()
            .find(|other| other.found.id == one.found.id)
        {
            like.join(&one);
        }
    }
    actions
}

fn effect<'a>(evidence: &'a Evidence<'_>, found: &Finding, kind: GainKind) -> Effect<'a> {
    let stage = evidence
        .stages
        .iter()
        .find(|stage| stage.scope == found.scope);
    match (stage, kind) {
        (Some(stage), GainKind::Idle | GainKind::Work | GainKind::Measured) => Effect::Stage(stage),
        (Some(stage), GainKind::Stalls) => Effect::Stalls(stage),
        _ => Effect::Run,
    }
}

/// The cause that a rule finds.
pub(super) fn cause(text: &'static Catalogue, rule: &str) -> String {
    text.action(rule, "cause").to_owned()
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

    /// Adds what the same rule finds in another stage.
    fn join(&mut self, other: &Self) {
        let Effect::Stage(stage) = other.effect else {
            return;
        };
        let known = |own: &StageLine| own.key() == stage.key();
        let is_own = matches!(self.effect, Effect::Stage(own) if known(own));
        if self.found.id == other.found.id && !is_own && !self.more.iter().any(|one| known(one.1)) {
            self.more.push((other.gain, stage));
        }
    }

    /// A line about its rule, or about the cause where that is known closer: what to `do`, `if` what holds, and the `cause` that goes.
    pub(super) fn line(&self, text: &'static Catalogue, key: &str) -> String {
        match (&self.found.root, key) {
            (Some(root), "cause") => return root.cause.clone(),
            (Some(root), "do") => return root.action.clone(),
            (
                Some(Root {
                    condition: Some(condition),
                    ..
                }),
                "if",
            ) => return condition.clone(),
            _ => {}
        }
        text.action(self.found.id, key).to_owned()
    }

    /// What is saved of an iteration of this stage, nanoseconds.
    pub(super) fn saves_of(&self, stage: &StageLine) -> f64 {
        self.stages()
            .find(|(_, own)| own.key() == stage.key())
            .map_or(0.0, |(gain, _)| gain.saved_ns)
    }

    /// The stages of which it saves a part of each iteration, and what.
    pub(super) fn stages(&self) -> impl Iterator<Item = (&Gain, &StageLine)> {
        let own = match self.effect {
            Effect::Stage(own) => Some((self.gain, own)),
            _ => None,
        };
        own.into_iter().chain(self.more.iter().copied())
    }
}
