//! What to do first: the findings that could save most, one a stage.

use super::confidence;
use crate::evidence::Evidence;
use crate::stage::StageLine;
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Root, Severity};
use rooflens_session::Arrange;
use rooflens_units::{Ratio, Time};

/// Actions that the first page shows.
const SHOWN: usize = 3;

/// Share of its whole from which on a gain is an action, where none is a warning.
const LEAST: Ratio = Ratio(0.01);

/// A finding that could save time, and whose.
pub(super) struct Action<'a> {
    pub(super) finding: &'a Finding,
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

/// The actions that save most: warnings, or where there is none what saves [`LEAST`]; those that shorten each iteration
/// before those that shorten some. Bounds of one stage overlap, so each stage has one; what one rule finds in several stages
/// is one action.
pub(super) fn first_actions<'a>(
    evidence: &'a Evidence<'_>,
    findings: &'a [Finding],
) -> Vec<Action<'a>> {
    let mut candidates = Vec::new();
    for finding in findings {
        candidates.extend(Action::new(evidence, finding));
    }
    candidates.arrange_by(|a, b| b.finding.weight_ns.total_cmp(&a.finding.weight_ns));
    let has_warning = candidates.iter().any(Action::is_warning);
    let is_worth = |action: &Action<'_>| match has_warning {
        true => action.is_warning(),
        false => action.gain.share() >= LEAST,
    };
    let (worth, rest): (Vec<Action<'a>>, Vec<Action<'a>>) =
        candidates.into_iter().partition(is_worth);
    let (each, some): (Vec<Action<'a>>, Vec<Action<'a>>) = worth
        .into_iter()
        .partition(|action| matches!(action.effect, Effect::Stage(_)));
    let mut actions: Vec<Action<'a>> = Vec::new();
    for action in each.into_iter().chain(some) {
        match actions.iter().position(|earlier| earlier.is_like(&action)) {
            Some(like) => actions[like].join(&action),
            None if actions.len() < SHOWN => actions.push(action),
            None => {}
        }
    }
    // Bounds of one stage overlap: what another action shortens already is left to that.
    for action in rest {
        if let Effect::Stage(stage) = action.effect
            && actions
                .iter()
                .any(|earlier| earlier.saves_of(stage) > Time::ZERO)
        {
            continue;
        }
        let mut like = actions.iter_mut();
        if let Some(like) = like.find(|earlier| earlier.finding.id == action.finding.id) {
            like.join(&action);
        }
    }
    actions
}

fn effect<'a>(evidence: &'a Evidence<'_>, finding: &Finding, kind: GainKind) -> Effect<'a> {
    let mut stages = evidence.stages.iter();
    let stage = stages.find(|stage| stage.scope == finding.scope);
    match (stage, kind) {
        (Some(stage), GainKind::Idle | GainKind::Work | GainKind::Measured) => Effect::Stage(stage),
        (Some(stage), GainKind::Stalls) => Effect::Stalls(stage),
        _ => Effect::Run,
    }
}

impl<'a> Action<'a> {
    fn new(evidence: &'a Evidence<'_>, finding: &'a Finding) -> Option<Self> {
        let gain = finding.gain.as_ref()?;
        let is_now = gain.saved_ns.is_positive() && gain.kind != GainKind::WorkAfterCpu;
        if finding.on_measurement || !is_now {
            return None;
        }
        let effect = effect(evidence, finding, gain.kind);
        let action = Self {
            finding,
            gain,
            effect,
            more: Vec::new(),
        };
        // What several runs without a profiler do not have is the profiler's.
        (!confidence::is_refuted(evidence, &action)).then_some(action)
    }

    /// What was measured in another form needs no weight.
    fn is_warning(&self) -> bool {
        self.finding.severity >= Severity::Warning || self.gain.kind == GainKind::Measured
    }

    /// Whether it is about the same as another one.
    fn is_like(&self, other: &Action<'_>) -> bool {
        let is_same_stage = match (self.effect, other.effect) {
            (Effect::Stage(a), Effect::Stage(b)) => a.scope.stage == b.scope.stage,
            _ => false,
        };
        self.finding.id == other.finding.id || is_same_stage
    }

    /// Adds what the same rule finds in another stage.
    fn join(&mut self, other: &Self) {
        let Effect::Stage(stage) = other.effect else {
            return;
        };
        let is_known = match self.effect {
            Effect::Stage(first) => first.key() == stage.key(),
            _ => false,
        } || self.more.iter().any(|(_, more)| more.key() == stage.key());
        if self.finding.id == other.finding.id && !is_known {
            self.more.push((other.gain, stage));
        }
    }

    /// What to `do`: by the cause where that is known closer, else by the rule.
    pub(super) fn what_to_do(&self, text: &'static Catalogue) -> String {
        match &self.finding.root {
            Some(root) => root.action.clone(),
            None => text.action(self.finding.id, "do").to_owned(),
        }
    }

    /// What must hold for it.
    pub(super) fn condition(&self, text: &'static Catalogue) -> String {
        match &self.finding.root {
            Some(Root {
                condition: Some(condition),
                ..
            }) => condition.clone(),
            _ => text.action(self.finding.id, "if").to_owned(),
        }
    }

    /// The cause that goes.
    pub(super) fn cause(&self, text: &'static Catalogue) -> String {
        cause(text, self.finding)
    }

    /// What is saved of an iteration of this stage.
    pub(super) fn saves_of(&self, stage: &StageLine) -> Time {
        let mut stages = self.stages();
        match stages.find(|(_, saved)| saved.key() == stage.key()) {
            Some((gain, _)) => gain.saved_ns,
            None => Time::ZERO,
        }
    }

    /// The stages of which it saves a part of each iteration, and what.
    pub(super) fn stages(&self) -> impl Iterator<Item = (&Gain, &StageLine)> {
        let first = match self.effect {
            Effect::Stage(stage) => Some((self.gain, stage)),
            _ => None,
        };
        first.into_iter().chain(self.more.iter().copied())
    }
}

/// The cause of a finding, as it is known closest.
pub(super) fn cause(text: &'static Catalogue, finding: &Finding) -> String {
    match &finding.root {
        Some(root) => root.cause.clone(),
        None => text.action(finding.id, "cause").to_owned(),
    }
}
