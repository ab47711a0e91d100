//! What to do first: the findings that could save most of the run.

use std::collections::BTreeMap;

use super::confidence::Confidence;
use super::{HOST, WITH_LAUNCHES, confidence, figures, joint, remedies};
use crate::evidence::Evidence;
use crate::launching;
use crate::pauses;
use crate::stage::{Key, StageLine};
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Part, Root, Severity};
use rooflens_session::Arrange;
use rooflens_units::{Count, Ratio, Time};

/// Actions that the first page shows.
const SHOWN: usize = 3;

/// Share of what a general rule finds from which on a cause explains it.
const EXPLAINS: Ratio = Ratio(0.5);

/// Share of its bound that an action must save beyond the earlier ones.
const ADDS: Ratio = Ratio(0.5);

/// Share of its whole from which on a gain is an action, where none is a warning.
const LEAST: Ratio = Ratio(0.01);

/// Share of the weight of the first stage of an action from which on another has about the same.
pub(super) const SIMILAR: Ratio = Ratio(0.5);

/// The same from which on another is named.
pub(super) const NAMED: Ratio = Ratio(0.1);

/// The rule about chains of elementwise kernels.
const CHAINS: &str = "pointwise-unfused";

/// The rules about kernels that a compiler fuses. It changes neither the layout of tensors nor the calls of a model.
const FUSED: [&str; 2] = [CHAINS, "norm-unfused"];

/// What is saved of an iteration of each stage, by part.
type StageParts = Vec<(Key, Vec<(Part, Time)>)>;

/// A finding that could save time, and whose.
#[derive(Clone)]
pub(super) struct Action<'a> {
    pub(super) finding: &'a Finding,
    pub(super) gain: &'a Gain,
    /// Where it saves.
    pub(super) effect: Effect<'a>,
    /// Time saved over the run at best, by how far that is to be trusted.
    expected: Time,
    /// What the same action saves of other stages.
    more: Vec<(&'a Finding, &'a Gain, &'a StageLine)>,
    /// What it saves of stages that the CPU bounds, once an earlier action removes the launches.
    later: Vec<(&'a Finding, &'a Gain, &'a StageLine)>,
    /// What an action on kernels of the loop saves of an iteration of each stage, by kernel.
    kernels: StageParts,
    /// Other actions that it does, too: one change of the program.
    pub(super) included: Vec<Self>,
    /// Whether a general action that includes it saves most of the same time: the figure is that of the general one.
    pub(super) is_covered: bool,
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

/// The actions that save most of the run, by how far their bounds are to be trusted: warnings, or where there is none what
/// saves [`LEAST`]. What one rule finds in several stages is one action. An action that saves little once the earlier
/// ones are taken is none.
pub(super) fn first_actions<'a>(
    evidence: &'a Evidence<'_>,
    findings: &'a [Finding],
) -> Vec<Action<'a>> {
    let mut candidates = Vec::new();
    for finding in findings {
        candidates.extend(Action::new(evidence, finding));
    }
    let has_warning = candidates.iter().any(Action::is_warning);
    let (general, specific): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|action| action.finding.is_general);
    let is_explained = |general: &Action<'_>| {
        let mut specific = specific.iter();
        specific.any(|specific: &Action<'_>| {
            (specific.is_warning() || !has_warning) && specific.explains(general)
        })
    };
    let (explained, mut candidates): (Vec<_>, Vec<_>) = general.into_iter().partition(is_explained);
    candidates.extend(specific);
    let mut joined = join(candidates);
    raise_named(&mut joined);
    let (mut actions, mut places): (Vec<Action<'a>>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut same_time, mut is_room) = (Vec::new(), true);
    // What is small now can be most of what the earlier actions leave.
    let whole = evidence.loop_time();
    let mut left = whole;
    for (place, action) in joined.into_iter().enumerate() {
        let is_worth = match has_warning {
            true if action.is_warning() => true,
            true => action.saved_of_run() >= whole * LEAST && action.is_warning_of(left),
            false => action.gain.share() >= LEAST && action.saved_of_run() >= whole * LEAST,
        };
        if !is_worth {
            continue;
        }
        if is_room
            && action.adds_to(evidence, &actions)
            && action.adds_to_kernels(evidence, &actions)
        {
            left -= action.saved_of_run();
            actions.push(action);
            places.push(place);
            is_room = actions.len() < SHOWN;
        } else if action.is_of_same_time(&actions) {
            same_time.push((place, action));
        }
    }
    // What saves the same time takes a free row, in the order of all.
    let mut shown: Vec<(usize, Action<'a>)> = places.into_iter().zip(actions).collect();
    shown.extend(same_time);
    shown.truncate(SHOWN);
    shown.arrange_by_key(|(place, _)| *place);
    let mut actions: Vec<Action<'a>> = shown.into_iter().map(|(_, action)| action).collect();
    // A general action may save much beyond the causes that explain most of it. CUDA graphs come with a compiler that fuses.
    let has_graphs = actions
        .iter()
        .any(|action| action.finding.id == launching::RULE);
    for general in join(explained) {
        // The compiler that fuses all of these fuses the elementwise chains among them.
        let first = actions.first().map(|first| first.finding.id);
        let mut others = actions.clone();
        others.retain(|action| action.finding.id != CHAINS || first == Some(CHAINS));
        let is_work = general.gain.kind == GainKind::Work && !has_graphs;
        if is_work && others.len() < SHOWN && general.adds_warning(&others, whole) {
            actions = with_general(evidence, others, general);
        }
    }
    raise_recurring(evidence, &mut actions);
    add_later(evidence, findings, &mut actions);
    join_changes(evidence, actions)
}

/// The actions with a general one, before the first specific one that it does, too. A specific one that saves little beyond
/// the general one is part of it.
fn with_general<'a>(
    evidence: &Evidence<'_>,
    mut actions: Vec<Action<'a>>,
    mut general: Action<'a>,
) -> Vec<Action<'a>> {
    let mut done = actions.iter();
    let Some(place) = done.position(|action| general.includes(action)) else {
        actions.push(general);
        return actions;
    };
    if !actions[place].adds_to(evidence, std::slice::from_ref(&general)) {
        general.include(evidence, actions.remove(place));
    }
    actions.insert(place, general);
    actions
}

/// Actions that an earlier one does, too, are part of that one.
fn join_changes<'a>(evidence: &Evidence<'_>, actions: Vec<Action<'a>>) -> Vec<Action<'a>> {
    let mut joined: Vec<Action<'a>> = Vec::new();
    for action in actions {
        let mut earlier = joined.iter_mut();
        match earlier.find(|earlier| remedies::does(evidence, earlier, &action)) {
            Some(earlier) => earlier.include(evidence, action),
            None => joined.push(action),
        }
    }
    joined
}

/// The actions, each with those that its code does, too.
pub(super) fn changes<'s, 'a>(actions: &'s [Action<'a>]) -> impl Iterator<Item = &'s Action<'a>> {
    actions.iter().flat_map(Action::changes)
}

/// What one rule finds in several stages as one action, the one that is expected to save most first.
fn join(mut candidates: Vec<Action<'_>>) -> Vec<Action<'_>> {
    let by_time = |a: &Action<'_>, b: &Action<'_>| b.expected.total_cmp(&a.expected);
    candidates.arrange_by(by_time);
    let mut joined: Vec<Action<'_>> = Vec::new();
    for action in candidates {
        match joined.iter().position(|first| first.is_like(&action)) {
            Some(first) => joined[first].join(&action),
            None => joined.push(action),
        }
    }
    joined.arrange_by(by_time);
    joined
}

/// Adds to actions on kernels what they save of stages that the CPU bounds: that counts after an action on launches.
fn add_later<'a>(evidence: &'a Evidence<'_>, findings: &'a [Finding], actions: &mut [Action<'a>]) {
    for finding in findings {
        let stage = evidence
            .stages
            .iter()
            .find(|stage| stage.scope == finding.scope);
        let (Some(stage), Some(gain)) = (stage, &finding.gain) else {
            continue;
        };
        let launching = actions.iter().position(|action| action.launches(stage));
        let Some(launching) = launching.filter(|_| gain.kind == GainKind::WorkAfterCpu) else {
            continue;
        };
        for action in &mut actions[launching + 1..] {
            if action.finding.id == finding.id && action.saving_of(stage).is_none() {
                action.later.push((finding, gain, stage));
            }
        }
    }
}

/// Puts idle time with a named cause before such time without one that is less than twice as long: what to repair is known.
fn raise_named(actions: &mut [Action<'_>]) {
    for last in 1..actions.len() {
        for at in (1..=last).rev() {
            let (general, named) = (&actions[at - 1], &actions[at]);
            let is_raised = general.finding.is_general
                && !named.finding.is_general
                && named.gain.kind != GainKind::Work
                && named.is_trusted()
                && named.saved_of_run() >= general.saved_of_run() * EXPLAINS;
            if !is_raised {
                break;
            }
            actions.swap(at - 1, at);
        }
    }
}

/// Puts an action on each iteration before one on some of them that saves less.
fn raise_recurring(evidence: &Evidence<'_>, actions: &mut [Action<'_>]) {
    for last in 1..actions.len() {
        for at in (1..=last).rev() {
            if !figures::recurs(evidence, &actions[at], &actions[at - 1]) {
                break;
            }
            actions.swap(at - 1, at);
        }
    }
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

/// What is saved of an iteration of each stage if this is saved of kernels of the loop.
fn saved_kernels(evidence: &Evidence<'_>, loop_parts: &[(Part, Time)]) -> StageParts {
    let times = evidence.limiting_kernels();
    let mut of_stages = Vec::new();
    for stage in evidence.stages.iter().filter(|stage| !stage.is_host_bound) {
        let Some(work) = evidence.work(stage.kernels) else {
            continue;
        };
        let mut parts = Vec::new();
        for (kernel, _, time) in &work.kernels {
            let part = Part::Kernel(kernel.0);
            let saved = loop_parts.iter().find(|(saved, _)| *saved == part);
            if let (Some((_, saved)), Some(whole)) = (saved, times.get(kernel)) {
                let share = Ratio::of(*saved, *whole);
                parts.push((part, work.per_instance(time.time()) * share));
            }
        }
        of_stages.push((stage.key(), parts));
    }
    of_stages
}

impl<'a> Action<'a> {
    /// Whether it is about what a process does once, in a stage that ran once.
    pub(super) fn is_once(&self) -> bool {
        matches!(self.effect, Effect::Stage(stage) if stage.counted <= Count(1.0))
            && self.finding.id == "first-use"
    }

    pub(super) fn new(evidence: &'a Evidence<'_>, finding: &'a Finding) -> Option<Self> {
        let gain = finding.gain.as_ref()?;
        let is_now = gain.saved_ns.is_positive() && gain.kind != GainKind::WorkAfterCpu;
        if finding.on_measurement || !is_now {
            return None;
        }
        let effect = effect(evidence, finding, gain.kind);
        let mut action = Self {
            finding,
            gain,
            effect,
            expected: Time::ZERO,
            more: Vec::new(),
            later: Vec::new(),
            kernels: Vec::new(),
            included: Vec::new(),
            is_covered: false,
        };
        if let Effect::Run = effect
            && !finding.parts.is_empty()
        {
            action.kernels = saved_kernels(evidence, &finding.parts);
        }
        // What several runs without a profiler do not have is the profiler's.
        if confidence::is_refuted(evidence, &action) {
            return None;
        }
        let (confidence, _) = confidence::of_action(evidence, &action);
        action.expected = finding.weight_ns * confidence.weight();
        Some(action)
    }

    /// Whether it is what this finding, one of those that actions were made of, says to do.
    pub(super) fn is_of(&self, finding: &Finding) -> bool {
        self.changes().any(|action| {
            let more = action.more.iter().map(|(more, ..)| *more);
            more.chain([action.finding])
                .any(|known| std::ptr::eq(known, finding))
        })
    }

    /// Makes another action a part of this one.
    fn include(&mut self, evidence: &Evidence<'_>, mut other: Self) {
        other.is_covered = self.finding.is_general && !other.adds_to(evidence, &[self.alone()]);
        let included = std::mem::take(&mut other.included);
        self.included.push(other);
        self.included.extend(included);
    }

    /// The action without those that its code does, too.
    pub(super) fn alone(&self) -> Self {
        Self {
            included: Vec::new(),
            ..self.clone()
        }
    }

    /// The action, and the later ones that its code does, too.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.included)
    }

    /// Whether it names the cause of most of what a general rule finds in the same stage: of the same kind of time, or of
    /// more than the kernels take, which is the time to launch them, too.
    fn explains(&self, general: &Self) -> bool {
        let is_same_time = match self.effect {
            Effect::Stage(stage) => {
                self.gain.kind == general.gain.kind || self.gain.saved_ns > stage.busy
            }
            _ => true,
        };
        self.finding.scope == general.finding.scope
            && is_same_time
            && self.finding.weight_ns >= general.finding.weight_ns * EXPLAINS
    }

    /// Whether it saves at least [`ADDS`] of its bound once the earlier ones are taken.
    pub(super) fn adds_to(&self, evidence: &Evidence<'_>, earlier: &[Self]) -> bool {
        let Effect::Stage(stage) = self.effect else {
            return true;
        };
        let is_replayed = earlier.iter().any(|action| action.launches(stage));
        let goes = WITH_LAUNCHES.contains(&self.finding.id)
            && (self.finding.id != HOST || !launching::leaves_host_code(evidence, stage));
        if goes && is_replayed {
            return false;
        }
        let mut with = earlier.to_vec();
        with.push(self.clone());
        let added = joint::saved(stage, &with) - joint::saved(stage, earlier);
        added >= self.gain.saved_ns * ADDS
    }

    /// Whether what it saves of its stages beyond the earlier ones is a warning by itself.
    fn adds_warning(&self, earlier: &[Self], whole: Time) -> bool {
        let mut with = earlier.to_vec();
        with.push(self.clone());
        let mut added = Time::ZERO;
        for (.., stage) in self.stages() {
            added += (joint::saved(stage, &with) - joint::saved(stage, earlier)) * stage.counted;
        }
        whole.is_positive() && Severity::of_share(Ratio::of(added, whole)) >= Severity::Warning
    }

    /// Whether a general action does a specific one, too, and saves more: readers take the first action first.
    fn includes(&self, specific: &Self) -> bool {
        FUSED.contains(&specific.finding.id)
            && specific.finding.scope.stage == self.finding.scope.stage
            && specific.expected < self.expected
    }

    /// The same of an action on kernels of the loop, over all stages.
    fn adds_to_kernels(&self, evidence: &Evidence<'_>, earlier: &[Self]) -> bool {
        if self.kernels.is_empty() {
            return true;
        }
        let mut with = earlier.to_vec();
        with.push(self.clone());
        let (mut added, mut alone) = (Time::ZERO, Time::ZERO);
        for stage in &evidence.stages {
            let of_stage = joint::saved(stage, &with) - joint::saved(stage, earlier);
            added += of_stage * stage.counted;
            alone += joint::saved(stage, std::slice::from_ref(self)) * stage.counted;
        }
        added >= alone * ADDS
    }

    /// Whether it names another cause of the time that an earlier action saves in its stage: where many launches wait for
    /// results, the waits and the launches are wrong.
    fn is_of_same_time(&self, earlier: &[Self]) -> bool {
        let Effect::Stage(stage) = self.effect else {
            return false;
        };
        let is_of_launches = |finding: &Finding| {
            let kernels: Time = finding.parts.iter().map(|(_, saved)| *saved).sum();
            self.gain.saved_ns - kernels >= self.gain.saved_ns * ADDS
        };
        let saves_same = |action: &Self| {
            let saved = action.saving_of(stage).map(|(_, gain)| gain.saved_ns);
            action.finding.id != self.finding.id
                && saved.is_some_and(|saved| saved >= self.gain.saved_ns * ADDS)
        };
        !self.finding.is_general
            && self.is_trusted()
            && matches!(self.finding.parts[..], [(Part::Group(_), _)])
            && is_of_launches(self.finding)
            && earlier.iter().any(saves_same)
    }

    /// Whether its bound is more than a number within the scatter, or of few iterations.
    fn is_trusted(&self) -> bool {
        self.expected >= self.finding.weight_ns * Confidence::Medium.weight()
    }

    /// What was measured in another form needs no weight.
    fn is_warning(&self) -> bool {
        self.finding.severity >= Severity::Warning || self.gain.kind == GainKind::Measured
    }

    /// Whether it is a warning, measured by what is left of the loop.
    fn is_warning_of(&self, left: Time) -> bool {
        let share = Ratio::of(self.saved_of_run(), left);
        left > Time::ZERO && self.is_trusted() && Severity::of_share(share) >= Severity::Warning
    }

    /// Whether the same rule finds it in another stage, and does not advise another thing under another condition.
    fn is_like(&self, other: &Self) -> bool {
        let root = |action: &Self| action.finding.root.as_ref();
        let is_same_change = match (root(self), root(other)) {
            (Some(a), Some(b)) => a.action == b.action || a.condition == b.condition,
            _ => true,
        };
        let are_stages = matches!(
            (self.effect, other.effect),
            (Effect::Stage(_), Effect::Stage(_))
        );
        self.finding.id == other.finding.id
            && is_same_change
            && are_stages
            && self.is_of_other_stage(other)
    }

    /// Whether neither is about a stage of the other.
    fn is_of_other_stage(&self, other: &Self) -> bool {
        let Effect::Stage(stage) = other.effect else {
            return true;
        };
        self.stages().all(|(.., known)| known.key() != stage.key())
    }

    /// Whether it saves a part of each iteration of the stage of another action.
    pub(super) fn changes_stage_of(&self, other: &Self) -> bool {
        match other.effect {
            Effect::Stage(stage) | Effect::Stalls(stage) => self.saving_of(stage).is_some(),
            Effect::Run => false,
        }
    }

    /// Adds what the same rule finds in another stage.
    fn join(&mut self, other: &Self) {
        if let Effect::Stage(stage) = other.effect {
            self.expected += other.expected;
            self.more.push((other.finding, other.gain, stage));
        }
    }

    /// The rules of what its code does, too, and of findings that are the same.
    pub(super) fn other_rules(&self) -> Vec<&'static str> {
        let included = self.included.iter().map(|change| change.finding.id);
        let also = self.changes().flat_map(|change| &change.finding.also);
        included.chain(also.copied()).collect()
    }

    /// What to `do`: by the cause where that is known closer, else by the rule.
    pub(super) fn what_to_do(&self, text: &'static Catalogue) -> String {
        match &self.finding.root {
            Some(root) => root.action.clone(),
            None => text.action(self.finding.id, "do").to_owned(),
        }
    }

    /// What must hold for it, and for what its code does, too.
    pub(super) fn condition(&self, text: &'static Catalogue) -> String {
        let included = self.included.iter();
        // The condition of other changes for stalls, such as another library, is none of this one.
        let included = included.filter(|change| !matches!(change.effect, Effect::Stalls(_)));
        let mut conditions = std::iter::once(self)
            .chain(included)
            .map(|change| change.own_condition(text));
        let first = conditions.next().unwrap_or_default();
        conditions.fold(first, |first, second| {
            let arguments = arguments! { first = first, second = second };
            text.line("summary.conditions", &arguments)
        })
    }

    fn own_condition(&self, text: &'static Catalogue) -> String {
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

    /// What it saves of the run, in all its stages; ranks run at once, so of several the most.
    pub(super) fn saved_of_run(&self) -> Time {
        let mut of_ranks = BTreeMap::<Option<u32>, Time>::new();
        for action in self.changes() {
            let more = action.more.iter().map(|(finding, ..)| *finding);
            for finding in more.chain([action.finding]) {
                *of_ranks.entry(finding.scope.rank).or_default() += finding.weight_ns;
            }
        }
        let of_all = of_ranks.remove(&None).unwrap_or_default();
        of_all + of_ranks.into_values().fold(Time::ZERO, Time::max)
    }

    /// Other stages of at least this part of the weight of the first; of ranks one, that of the first where it has the stage.
    pub(super) fn others(
        &self,
        part: Ratio,
    ) -> impl Iterator<Item = (&'a StageLine, &'a Gain)> + use<'a> {
        let least = self.finding.weight_ns * part;
        let scope = &self.finding.scope;
        let mut others: Vec<(&'a StageLine, &'a Gain)> = Vec::new();
        for (finding, gain, stage) in &self.more {
            if finding.weight_ns < least || stage.scope.stage == scope.stage {
                continue;
            }
            let mut known = others.iter_mut();
            match known.find(|(known, _)| known.scope.stage == stage.scope.stage) {
                Some(known) if stage.scope.rank == scope.rank => *known = (*stage, *gain),
                Some(_) => {}
                None => others.push((*stage, *gain)),
            }
        }
        others.into_iter()
    }

    /// What it found in this stage.
    pub(super) fn finding_of(&self, stage: &StageLine) -> Option<&'a Finding> {
        self.saving_of(stage).map(|(finding, _)| finding)
    }

    /// What it saves of an iteration of this stage by kernel, if it is on kernels of the loop.
    pub(super) fn saved_kernels(&self, stage: &StageLine) -> &[(Part, Time)] {
        let mut kernels = self.kernels.iter();
        let saved = kernels.find(|(key, _)| *key == stage.key());
        saved.map_or(&[], |(_, saved)| saved)
    }

    /// What it found in this stage, and what that saves of an iteration.
    pub(super) fn saving_of(&self, stage: &StageLine) -> Option<(&'a Finding, &'a Gain)> {
        let mut stages = self.stages();
        let (finding, gain, _) = stages.find(|(.., saved)| saved.key() == stage.key())?;
        Some((finding, gain))
    }

    /// Whether it removes the launches of a stage.
    pub(super) fn launches(&self, stage: &StageLine) -> bool {
        self.finding.id == launching::RULE && self.finding_of(stage).is_some()
    }

    /// Whether it saves more of a stage once this action removes the launches.
    pub(super) fn has_later(&self, launching: &Self) -> bool {
        self.later
            .iter()
            .any(|(.., stage)| launching.launches(stage))
    }

    /// What it saves of an iteration of this stage together with `others`.
    pub(super) fn saving_with(
        &self,
        stage: &StageLine,
        others: &[Self],
    ) -> Option<(&'a Finding, &'a Gain)> {
        let now = self.saving_of(stage);
        now.or_else(|| {
            let mut later = self.later.iter();
            let (finding, gain, _) = later.find(|(.., known)| known.key() == stage.key())?;
            let is_launched = others.iter().any(|other| other.launches(stage));
            is_launched.then_some((*finding, *gain))
        })
    }

    /// The stages of which it saves a part of each iteration, and what.
    pub(super) fn stages(&self) -> impl Iterator<Item = (&'a Finding, &'a Gain, &'a StageLine)> {
        let first = match self.effect {
            Effect::Stage(stage) => Some((self.finding, self.gain, stage)),
            _ => None,
        };
        first.into_iter().chain(self.more.iter().copied())
    }
}

/// The rule about waits for results.
const SYNCHRONIZING: &str = "sync-bound";

/// Characters of a cause that a title has room for.
const TITLE: usize = 80;

/// The cause that a rule finds, in general: short enough for a title.
pub(super) fn short_cause(evidence: &Evidence<'_>, action: &Action<'_>) -> String {
    let finding = action.finding;
    if let ("between-stages" | "exposed-copies" | "os-waits", Some(root)) =
        (finding.id, &finding.root)
    {
        return root.cause.clone();
    }
    if let (pauses::RULE | SYNCHRONIZING, Some(root)) = (finding.id, &finding.root)
        && root.cause.chars().count() <= TITLE
    {
        return root.cause.clone();
    }
    if let (pauses::RULE, Effect::Stalls(stage)) = (finding.id, action.effect)
        && pauses::are_in_first(evidence, stage)
    {
        return words!(evidence, "host_pauses.cause_first");
    }
    let stage = finding.scope.stage.as_deref();
    match (finding.id, stage) {
        ("low-mfu", Some(stage)) if finding.root.is_some() => words!(
            evidence,
            "summary.short_mfu",
            share = action.gain.share(),
            stage = stage,
        ),
        (rule, _) => evidence.text.action(rule, "cause").to_owned(),
    }
}

/// The cause of a finding, as it is known closest.
pub(super) fn cause(text: &'static Catalogue, finding: &Finding) -> String {
    match &finding.root {
        Some(root) => root.cause.clone(),
        None => text.action(finding.id, "cause").to_owned(),
    }
}
