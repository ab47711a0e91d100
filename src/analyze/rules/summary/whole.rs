//! What a reader waits for: a request, a step, an iteration, or the measured loop; by class of operations, now and after the
//! actions.

use std::collections::BTreeMap;

use super::actions::{Action, Effect, changes};
use super::figures::{self, Request, excluded_repeats};
use super::joint;
use crate::evidence::Evidence;
use crate::pauses;
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::time::account::NodeKind;
use rooflens_document::{GainKind, Part};
use rooflens_schemas::StageKind;
use rooflens_session::Ns;
use rooflens_units::{Count, Ratio, Time};

/// Time by class, and last idle time.
pub(super) type Classes = [Time; ClassGroup::ALL.len() + 1];

/// Place of idle time.
pub(super) const IDLE: usize = ClassGroup::ALL.len();

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Prefill, as many decode steps as the unprofiled run took, and the other stages of each request.
    Request,
    /// A training step.
    Step,
    /// One iteration of all stages, or a step of the only one.
    Iteration,
    /// All measured iterations, with the time between them.
    Loop,
}

/// What is waited for, with its stages.
pub(super) struct Whole<'a> {
    pub(super) kind: Kind,
    /// Stages of one rank, and how often each is in the whole.
    pub(super) stages: Vec<(&'a StageLine, f64)>,
    /// Decode steps of a request.
    pub(super) steps: Option<u64>,
    pub(super) now: Time,
    /// At best after the first action, the first two, and so on.
    pub(super) after: Vec<Time>,
    /// What the model's FLOPs and bytes need at the peaks of the GPU.
    pub(super) limit: Option<Time>,
    /// By class, now and after the actions.
    pub(super) bars: Vec<Classes>,
    /// The savings of stages that ran once, and of stalls of the first iteration.
    once: Time,
}

impl<'a> Whole<'a> {
    /// None without stages.
    pub(super) fn new(evidence: &'a Evidence<'_>, actions: &[Action<'_>]) -> Option<Self> {
        let shown = one_rank(evidence, |stage| {
            changes(actions).any(|action| action.saving_of(stage).is_some())
        });
        let request = Request::new(evidence, &shown);
        let is_of_request = |action: &Action<'_>| {
            let is_of_first = request
                .as_ref()
                .is_some_and(|request| request.is_of_first(action));
            matches!(action.effect, Effect::Stage(_)) || is_of_first
        };
        let is_of_iterations = changes(actions).all(is_of_request);
        let counts = shown.iter().map(|stage| stage.counted);
        let first = counts.clone().next()?;
        let is_even = counts.clone().all(|count| count == first);
        let trains = shown.iter().any(|stage| stage.kind.is_training_only());
        let mut steps = None;
        let mut of_request = Time::ZERO;
        let (kind, stages) = match request {
            Some(request) if is_of_iterations => {
                (steps, of_request) = (request.steps(), request.now);
                (Kind::Request, request.stages())
            }
            _ if is_of_iterations && is_even => {
                let kind = if trains { Kind::Step } else { Kind::Iteration };
                (kind, of_iteration(&shown))
            }
            _ => {
                let times = |stage: &&'a StageLine| (*stage, stage.counted.0);
                (Kind::Loop, shown.iter().map(times).collect())
            }
        };
        let between: Time = busy_between(evidence).into_iter().sum();
        let is_all = kind != Kind::Loop || between < evidence.loop_time() * NOTABLE;
        let limit = limit(evidence, kind, &stages).filter(|_| is_all);
        let mut whole = Self {
            kind,
            limit,
            stages,
            steps,
            now: Time::ZERO,
            after: Vec::new(),
            bars: Vec::new(),
            once: Time::ZERO,
        };
        whole.add_bars(evidence, actions, of_request)?;
        let saved = |(stage, times): &(&StageLine, f64)| joint::saved(stage, actions) * *times;
        let stages = whole.stages.iter();
        // Of a request, the only measured prefill is as later ones if an earlier one was excluded.
        let is_warm = |stage: &StageLine| {
            let series = evidence.unprofiled_series(stage);
            kind == Kind::Request
                && series.is_some_and(|series| !excluded_repeats(evidence, series).is_empty())
        };
        let single = stages.filter(|(stage, _)| stage.counted <= Count(1.0) && !is_warm(stage));
        whole.once = single.map(saved).sum();
        if kind == Kind::Loop {
            whole.once += once(evidence, actions);
        }
        whole.once = whole.once.min(whole.now - whole.best());
        Some(whole)
    }

    /// What each of the actions saves beyond those before it.
    pub(super) fn saved_by_each<'b, 'c>(
        &self,
        actions: &'b [Action<'c>],
    ) -> impl Iterator<Item = (&'b Action<'c>, Time)> {
        let before = std::iter::once(&self.now).chain(&self.after);
        let saved = before
            .zip(&self.after)
            .map(|(before, after)| *before - *after);
        actions.iter().zip(saved)
    }

    /// What actions save of its stages.
    pub(super) fn saved(&self, actions: &[Action<'_>]) -> Time {
        let mut saved = Time::ZERO;
        for (stage, times) in &self.stages {
            saved += joint::saved(stage, actions) * *times;
        }
        saved
    }

    /// Time of a training step, and how many of them the whole is.
    pub(super) fn step(&self) -> Option<(Time, f64)> {
        let (_, times) = *self.stages.first()?;
        let mut stages = self.stages.iter();
        let is_even = stages.clone().all(|(_, of_stage)| *of_stage == times);
        let trains = stages.any(|(stage, _)| stage.kind.is_training_only());
        let is_steps = matches!(self.kind, Kind::Step | Kind::Loop);
        (is_steps && is_even && trains).then(|| (self.now / times, times))
    }

    /// Time of a stage in the whole.
    pub(super) fn time_of((stage, times): &(&StageLine, f64)) -> Time {
        stage.alone() * *times
    }

    /// The stage that takes most of the time.
    pub(super) fn longest(&self) -> Option<&'a StageLine> {
        let stages = self.stages.iter();
        let longest = stages.max_by(|a, b| Self::time_of(a).total_cmp(&Self::time_of(b)));
        longest.map(|(stage, _)| *stage)
    }

    /// Actions up to the last one that saves something beyond those before it.
    pub(super) fn effective(&self) -> usize {
        let best = self.best();
        let reached = self.after.iter().position(|time| *time <= best);
        reached.map_or(0, |action| action + 1)
    }

    /// The last time, at best after all actions.
    pub(super) fn best(&self) -> Time {
        self.after.last().copied().unwrap_or(self.now)
    }

    /// How many times as fast it can be each time, where that is notable. What ran once has no typical time.
    pub(super) fn speedup(&self) -> Option<f64> {
        let best = self.best();
        let recurring = self.recurring().unwrap_or(self.now);
        let speedup = recurring.0 / best.0.max(1.0);
        (best > Time::ZERO && speedup >= LEAST_SPEEDUP).then_some(speedup)
    }

    /// The time now without what actions save once, where they save such time.
    pub(super) fn recurring(&self) -> Option<Time> {
        self.once.is_positive().then(|| self.now - self.once)
    }

    /// By how much a step is shorter than the sum of its stages, where that is notable.
    pub(super) fn overlap(&self) -> Option<Time> {
        let overlap =
            |(stage, times): &(&StageLine, f64)| (stage.reference() - stage.alone()) * *times;
        let sum: Time = self.stages.iter().map(overlap).sum();
        (self.kind == Kind::Step && sum >= self.now * NOTABLE).then_some(sum)
    }

    /// Share of the time in which the GPU runs something.
    pub(super) fn busy_share(&self, evidence: &Evidence<'_>) -> Option<Ratio> {
        if self.kind == Kind::Loop && !figures::is_modeled(evidence) {
            return loop_busy(evidence);
        }
        let now = self.bars.first()?;
        let mut busy: Time = now[..IDLE].iter().copied().sum();
        for (stage, times) in &self.stages {
            // No idle time is left of a run whose iterations take less time than the profiled kernels.
            if stage.busy > stage.alone() {
                busy -= stage.alone() * stage.reference_busy().rest() * *times;
            }
        }
        (self.now > Time::ZERO).then(|| Ratio::of(busy, self.now).min(Ratio::ONE))
    }

    fn add_bars(
        &mut self,
        evidence: &Evidence<'_>,
        actions: &[Action<'_>],
        of_request: Time,
    ) -> Option<()> {
        let stages: Time = self.stages.iter().map(Self::time_of).sum();
        let between_stages = (of_request - stages).max(Time::ZERO);
        let mut states = Vec::new();
        for (stage, _) in &self.stages {
            states.push(classes_of_stage(evidence, stage));
        }
        let is_loop = self.kind == Kind::Loop;
        let of_loop = is_loop.then(|| figures::loop_times(evidence, actions));
        let between = match is_loop {
            true => busy_between(evidence),
            false => Classes::default(),
        };
        for taken in 0..=actions.len() {
            if let Some(last) = taken.checked_sub(1) {
                for (state, (stage, _)) in states.iter_mut().zip(&self.stages) {
                    let before = joint::saved_parts(stage, &actions[..last]);
                    let now = joint::saved_parts(stage, &actions[..taken]);
                    state[IDLE] = (state[IDLE] - (now.idle - before.idle)).max(Time::ZERO);
                    let weights = weights(evidence, stage, &actions[..taken]);
                    shrink(state, &weights, now.work - before.work);
                }
            }
            let mut bar = between;
            for (state, (_, times)) in states.iter().zip(&self.stages) {
                for (sum, time) in bar.iter_mut().zip(state) {
                    *sum += *time * *times;
                }
            }
            bar[IDLE] += between_stages;
            let mut total: Time = bar.iter().copied().sum();
            if let Some(times) = &of_loop {
                // The loop has stalls and time between iterations, which typical iterations lack.
                let busy: Time = bar[..IDLE].iter().copied().sum();
                total = times.get(taken).copied().unwrap_or(total);
                bar[IDLE] = (total - busy).max(Time::ZERO);
                // Actions on the whole loop shorten what runs between stages.
                let between_stages: Time = between.iter().copied().sum();
                let gone = Ratio::of(
                    (busy - total).max(Time::ZERO),
                    between_stages.max(Time(1.0)),
                );
                for (sum, time) in bar.iter_mut().zip(between) {
                    *sum -= time * gone.min(Ratio::ONE);
                }
            }
            self.bars.push(bar);
            match taken {
                0 => self.now = total,
                _ => self.after.push(total),
            }
        }
        (self.now > Time::ZERO).then_some(())
    }
}

/// Busy share of measured iterations and of the time between them: these differ, and something can run between them.
fn loop_busy(evidence: &Evidence<'_>) -> Option<Ratio> {
    let (mut time, mut busy, mut is_of_loop) = (Ns::ZERO, Ns::ZERO, false);
    for node in &evidence.results.idle().ok()?.account.nodes {
        match node.kind {
            NodeKind::Phase(phase) => {
                is_of_loop = phase.is_measured() || phase.is_between_measured();
                time += if is_of_loop { node.time } else { Ns::ZERO };
            }
            NodeKind::Busy if is_of_loop => busy += node.time,
            _ => {}
        }
    }
    (time > Ns::ZERO).then(|| Ratio::of(busy, time))
}

/// Busy time of a GPU between measured iterations, by class.
pub(super) fn busy_between(evidence: &Evidence<'_>) -> Classes {
    let (mut classes, mut gpus, mut is_between) = (Classes::default(), 0, false);
    let Ok(idle) = evidence.results.idle() else {
        return classes;
    };
    for node in &idle.account.nodes {
        match node.kind {
            NodeKind::Gpu(_) => gpus += 1,
            NodeKind::Phase(phase) => is_between = phase.is_between_measured(),
            NodeKind::Class(class) if is_between => {
                classes[class.group() as usize] += node.time.time();
            }
            _ => {}
        }
    }
    classes.map(|time| time / f64::from(gpus.max(1)))
}

/// What all stages need at the peaks of the GPU. An optimizer has no such time: a step takes at least that of the others.
fn limit(evidence: &Evidence<'_>, kind: Kind, stages: &[(&StageLine, f64)]) -> Option<Time> {
    let (mut sum, mut is_known) = (Time::ZERO, false);
    for (stage, times) in stages {
        match figures::limit(evidence, stage) {
            Some(limit) => (sum, is_known) = (sum + limit * *times, true),
            None if kind == Kind::Step && stage.kind == StageKind::Optimizer => {}
            None => return None,
        }
    }
    is_known.then_some(sum)
}

/// Share of a step from which on the overlap of its stages is notable.
const NOTABLE: Ratio = Ratio(0.01);

/// Factor from which on a whole is called faster.
const LEAST_SPEEDUP: f64 = 1.05;

/// Each stage once, all of one rank as far as it has them: of the rank with most stages of actions, of several the
/// slowest. Stages of different ranks make no step.
pub(super) fn one_rank<'a>(
    evidence: &'a Evidence<'_>,
    is_of_action: impl Fn(&StageLine) -> bool,
) -> Vec<&'a StageLine> {
    let mut ranks = BTreeMap::<Option<u32>, (usize, Time)>::new();
    for stage in &evidence.stages {
        let (stages, time) = ranks.entry(stage.scope.rank).or_default();
        *stages += usize::from(is_of_action(stage));
        *time += stage.total();
    }
    let order = |stage: &StageLine| ranks[&stage.scope.rank];
    let mut stages: Vec<&StageLine> = Vec::new();
    for stage in &evidence.stages {
        let mut earlier = stages.iter_mut();
        match earlier.find(|earlier| earlier.scope.stage == stage.scope.stage) {
            Some(earlier) if order(earlier) < order(stage) => *earlier = stage,
            Some(_) => {}
            None => stages.push(stage),
        }
    }
    stages
}

/// What actions save of stalls of the first iteration.
pub(super) fn once(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Time {
    let in_first = changes(actions).filter(|change| match change.effect {
        Effect::Stalls(stage) => pauses::are_in_first(evidence, stage),
        _ => false,
    });
    in_first.map(|change| change.gain.saved_ns).sum()
}

/// Each stage once; of a single decode loop, a step.
fn of_iteration<'a>(stages: &[&'a StageLine]) -> Vec<(&'a StageLine, f64)> {
    let steps = match stages {
        [stage] if stage.is_decode() => stage.steps,
        _ => None,
    };
    let times = steps.map_or(1.0, |steps| 1.0 / steps.0);
    stages.iter().map(|stage| (*stage, times)).collect()
}

/// An iteration of a stage by class.
pub(super) fn classes_of_stage(evidence: &Evidence<'_>, stage: &StageLine) -> Classes {
    let mut classes = Classes::default();
    classes[IDLE] = stage.idle();
    let parts = evidence.stage_time(stage.kernels).map(|time| time.parts());
    let parts = parts.unwrap_or_default();
    let sum: Time = parts.iter().map(|(_, time)| *time).sum();
    if sum == Time::ZERO {
        classes[ClassGroup::Other as usize] = stage.work();
    }
    for (group, time) in parts {
        classes[group as usize] = stage.work() * Ratio::of(time, sum);
    }
    classes
}

/// The classes that the last of these actions is about in a stage, each with its part of the saving as far as that is known.
fn weights(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    actions: &[Action<'_>],
) -> BTreeMap<usize, Time> {
    let mut weights = BTreeMap::new();
    for change in actions.last().into_iter().flat_map(Action::changes) {
        for (class, weight) in weights_of(evidence, stage, change, actions) {
            *weights.entry(class).or_default() += weight;
        }
    }
    weights
}

/// The same of one of the changes that an action is.
fn weights_of(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    action: &Action<'_>,
    actions: &[Action<'_>],
) -> BTreeMap<usize, Time> {
    let mut weights = BTreeMap::new();
    let saving = action.saving_with(stage, actions);
    let of_finding = saving.map_or(&[][..], |(finding, _)| &finding.parts);
    for (part, saved) in action.saved_kernels(stage).iter().chain(of_finding) {
        match part {
            Part::Kernel(row) => {
                let identity = evidence.facts.identities.get(*row as usize);
                let group = identity.map_or(ClassGroup::Other, |identity| identity.class.group());
                *weights.entry(group as usize).or_default() += *saved;
            }
            Part::Copies => *weights.entry(ClassGroup::Copy as usize).or_default() += *saved,
            Part::Communication => {
                *weights
                    .entry(ClassGroup::Communication as usize)
                    .or_default() += *saved;
            }
            // Which kernels these are is known by kind only.
            Part::Group(_) => {
                for group in classes_of_group(action.finding.id) {
                    *weights.entry(*group as usize).or_default() += *saved;
                }
            }
        }
    }
    let is_work = saving.is_some_and(|(_, gain)| gain.kind != GainKind::Idle);
    let is_sync = action.finding.id == "sync-bound";
    if weights.is_empty() && (is_work || is_sync) {
        let groups = match action.finding.id {
            // A loop of waits issues short operations again in each turn.
            "sync-bound" => &[ClassGroup::Elementwise, ClassGroup::Copy, ClassGroup::Other][..],
            // The slowest rank computes for less time, and communicates as before.
            "straggler" => &COMPUTING[..],
            "low-mfu" => &OTHERS[..],
            _ => &ClassGroup::ALL[..],
        };
        for group in groups {
            weights.insert(*group as usize, stage.work());
        }
    }
    weights
}

/// What computes.
const COMPUTING: [ClassGroup; 6] = [
    ClassGroup::Gemm,
    ClassGroup::Attention,
    ClassGroup::Elementwise,
    ClassGroup::Normalization,
    ClassGroup::Copy,
    ClassGroup::Other,
];

/// What is neither a GEMM nor attention nor communication.
const OTHERS: [ClassGroup; 3] = [
    ClassGroup::Elementwise,
    ClassGroup::Copy,
    ClassGroup::Normalization,
];

/// The classes of the kernels of a group, by the rule that finds it.
fn classes_of_group(rule: &str) -> &'static [ClassGroup] {
    match rule {
        "dense-embeddings" => &[ClassGroup::Elementwise, ClassGroup::Copy],
        "layout-conversions" | "transposed-copies" | "repeated-tensors" | "dtype-casts" => {
            &[ClassGroup::Copy]
        }
        "gemm-epilogue" | "pointwise-unfused" | "summed-products" | "optimizer-loop"
        | "row-additions" => &[ClassGroup::Elementwise, ClassGroup::Other],
        // Kernels of the class compute a whole normalization or softmax.
        "norm-unfused" => &[ClassGroup::Elementwise, ClassGroup::Copy],
        "gemm-loop" => &[ClassGroup::Gemm],
        "attention-math"
        | "repeated-calls"
        | "constant-calls"
        | "recomputed-activations"
        | "unused-gradients"
        | "expert-loop"
        | "gathered-rows"
        | "unread-logits"
        | "fp64-operators" => &ClassGroup::ALL,
        _ => &OTHERS,
    }
}

/// Takes `saved` off these classes, by weight as far as they have it, then off the others.
fn shrink(state: &mut Classes, weights: &BTreeMap<usize, Time>, saved: Time) {
    let mut left = saved.max(Time::ZERO);
    let has = |state: &Classes, class: usize| match weights.get(&class) {
        Some(weight) => state[class].min(*weight),
        None => Time::ZERO,
    };
    let known: Time = (0..IDLE).map(|class| has(state, class)).sum();
    if known > Time::ZERO {
        let share = Ratio::of(left.min(known), known);
        for class in 0..IDLE {
            let taken = has(state, class) * share;
            state[class] -= taken;
            left -= taken;
        }
    }
    let rest: Time = state[..IDLE].iter().copied().sum();
    if left > Time::ZERO && rest > Time::ZERO {
        let share = Ratio::of(left.min(rest), rest);
        for time in &mut state[..IDLE] {
            *time -= *time * share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(gemm: f64, elementwise: f64, copy: f64) -> Classes {
        let mut classes = Classes::default();
        classes[ClassGroup::Gemm as usize] = Time(gemm);
        classes[ClassGroup::Elementwise as usize] = Time(elementwise);
        classes[ClassGroup::Copy as usize] = Time(copy);
        classes
    }

    /// 10 of 60 + 20 come off the two classes as 60 : 20, and GEMMs stay. 90 are 80 of these and 10 of the GEMMs.
    #[test]
    fn a_saving_shrinks_what_it_is_about() {
        let weights = BTreeMap::from([
            (ClassGroup::Elementwise as usize, Time(100.0)),
            (ClassGroup::Copy as usize, Time(100.0)),
        ]);
        let mut state = classes(100.0, 60.0, 20.0);
        shrink(&mut state, &weights, Time(10.0));
        assert_eq!(state, classes(100.0, 52.5, 17.5));
        let mut state = classes(100.0, 60.0, 20.0);
        shrink(&mut state, &weights, Time(90.0));
        assert_eq!(state, classes(90.0, 0.0, 0.0));
    }
}
