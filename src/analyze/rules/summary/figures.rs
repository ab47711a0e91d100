//! Figures of the first page: now, after each action, and what the hardware allows.

use rooflens_schemas::StageKind;

use super::actions::{Action, Effect, changes};
use super::cold_time;
use super::conclusion;
use super::joint;
use super::tiles;
use super::whole::{self, Kind, Whole};
use crate::evidence::Evidence;
use crate::launching;
use crate::pauses;
use crate::stage::StageLine;
use rooflens_analysis::engine::baseline::{Repeat, Series};
use rooflens_analysis::engine::facts::StageInstance;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_session::{Arrange, Ns};
use rooflens_stats::Level;
use rooflens_units::{Count, Ratio, Time};

/// Stages that the first page shows.
const SHOWN: usize = 4;

/// Share of the measured loop outside of its stages from which on it is said.
const NAMED: Ratio = Ratio(0.01);

/// A figure, now and after the actions.
pub(super) struct Figure {
    /// Name, with the stage.
    pub(super) label: String,
    /// Whether it is a time that the next run shows.
    pub(super) is_time: bool,
    pub(super) now: Quantity,
    /// At best after the first action, after the first two, and so on; none where that is not known.
    pub(super) after: Vec<Option<Quantity>>,
    /// What the model's FLOPs and bytes need at the peaks of the GPU.
    pub(super) limit: Option<Quantity>,
}

/// The figures of the longest stages, and of a request where prefill and decode are timed without a profiler.
pub(super) fn figures(
    evidence: &Evidence<'_>,
    actions: &[Action<'_>],
    whole: Option<&Whole<'_>>,
) -> Vec<Figure> {
    let shown = shown(evidence, actions);
    let mut figures = Vec::new();
    for stage in &shown {
        figures.extend(of_stage(evidence, stage, actions));
    }
    // A part of a step has no throughput of its own.
    if let Some(step) = whole.and_then(|whole| of_step(evidence, whole)) {
        figures.retain(|figure| figure.is_time);
        figures.insert(0, step);
    }
    figures.extend(of_requests(evidence, &shown, actions));
    figures.extend(of_loop(evidence, actions));
    figures
}

/// A training step of several stages.
fn of_step(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Figure> {
    if whole.kind != Kind::Step || whole.stages.len() < 2 {
        return None;
    }
    let is_profiled = |(stage, _): &(&StageLine, f64)| stage.unprofiled.is_none();
    let profiled = whole.stages.iter().any(is_profiled).then_some("");
    Some(Figure {
        label: words!(
            evidence,
            "summary.step",
            rank = tiles::rank_of_step(evidence, whole).map(|rank| rank.to_string()),
            profiled = profiled
        ),
        is_time: true,
        now: whole.now.into(),
        after: quantities(&whole.after),
        limit: whole.limit.map(Quantity::from),
    })
}

/// Whether an action saves more than a part of each iteration.
fn is_on_loop(actions: &[Action<'_>]) -> bool {
    let is_of_stage = |action: &Action<'_>| matches!(action.effect, Effect::Stage(_));
    !changes(actions).all(is_of_stage)
}

/// Whether the time of the loop is that of the profiled one without what the profiler adds.
pub(super) fn is_modeled(evidence: &Evidence<'_>) -> bool {
    evidence
        .stages
        .iter()
        .any(|stage| stage.unprofiled.is_some())
}

/// What the time of the loop holds that the rows of its stages do not, in words.
pub(super) fn rest_of_loop(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Option<Vec<Inline>> {
    let whole = evidence.loop_time();
    let of_loop = |stage: &&StageLine| stage.of_loop == whole;
    let in_stages: Time = evidence
        .stages
        .iter()
        .filter(of_loop)
        .map(StageLine::total)
        .sum();
    let rest = whole - in_stages;
    (is_on_loop(actions) && rest >= whole * NAMED).then(|| {
        say!(
            evidence,
            "summary.rest_of_loop",
            whole = whole,
            modeled = is_modeled(evidence).then_some(""),
            in_stages = in_stages,
            rest = rest,
        )
    })
}

/// The measured part of the run, where an action saves more than a part of each iteration.
fn of_loop(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Option<Figure> {
    if !is_on_loop(actions) {
        return None;
    }
    let times = loop_times(evidence, actions);
    Some(Figure {
        label: words!(
            evidence,
            "summary.loop",
            iterations = super::most_iterations(evidence),
            modeled = is_modeled(evidence).then_some("")
        ),
        is_time: true,
        now: times.first().copied().unwrap_or_default().into(),
        after: quantities(&times[1..]),
        limit: None,
    })
}

/// The measured loop now, after the first action, the first two, and so on.
pub(super) fn loop_times(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Vec<Time> {
    let wholes = changes(actions).filter(|action| matches!(action.effect, Effect::Run));
    let now = wholes.fold(evidence.loop_time(), |most, action| {
        most.max(action.gain.of_ns)
    });
    let after = after(now, actions, |taken| {
        let most = now - least_of_loop(evidence, taken);
        saved_of_loop(evidence, taken).min(most.max(Time::ZERO))
    });
    std::iter::once(now).chain(after).collect()
}

/// What iterations take after these actions: time between iterations and what a typical one does not take can go, and no
/// more. An unprofiled time can hold waits that the profiled one has between iterations.
fn least_of_loop(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Time {
    let first_rank = evidence.stages.iter().map(|stage| stage.scope.rank).min();
    let mut least = Time::ZERO;
    for stage in &evidence.stages {
        let is_outermost = evidence.facts.stages[stage.stage].parent.is_none();
        if is_outermost && Some(stage.scope.rank) == first_rank {
            let typical = stage.reference().min(stage.time);
            let saved = joint::saved(stage, actions);
            let overlapped = stage.reference() - stage.alone();
            for time in evidence.iterations(stage) {
                least += (time.min(typical) - overlapped - saved).max(Time::ZERO);
            }
        }
    }
    least
}

/// What actions save of all iterations, and of the time between them. What is saved of a stage holds what is saved of
/// the stages in it.
fn saved_of_loop(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Time {
    let mut saved = saved_of_stages(evidence, actions);
    for action in changes(actions) {
        if !matches!(action.effect, Effect::Stage(_)) {
            let in_stages = saved_of_stages(evidence, &[action.alone()]);
            saved += (action.gain.saved_ns - in_stages).max(Time::ZERO);
        }
    }
    saved
}

fn saved_of_stages(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Time {
    let saves = |stage: &StageLine| joint::saved(stage, actions) * stage.counted;
    let mut saved = Time::ZERO;
    for stage in &evidence.stages {
        let is_outer = |outer: &StageLine| {
            let parent = evidence.facts.stages[stage.stage].parent;
            parent == Some(outer.stage) && outer.process == stage.process
        };
        let mut outer = evidence.stages.iter().filter(|outer| is_outer(outer));
        if !outer.any(|outer| saves(outer) > Time::ZERO) {
            saved += saves(stage);
        }
    }
    saved
}

/// The longest stages in their order; of several ranks that of an action, or else the slowest.
fn shown<'a>(evidence: &'a Evidence<'_>, actions: &[Action<'_>]) -> Vec<&'a StageLine> {
    let mut slowest = whole::one_rank(evidence, |stage| {
        changes(actions).any(|action| action.saving_of(stage).is_some())
    });
    let mut totals: Vec<Time> = slowest.iter().map(|stage| stage.total()).collect();
    totals.arrange_by(|a, b| b.total_cmp(a));
    let least = totals.get(SHOWN - 1).copied().unwrap_or_default();
    slowest.retain(|stage| stage.total() >= least);
    slowest
}

fn of_stage(evidence: &Evidence<'_>, stage: &StageLine, actions: &[Action<'_>]) -> Vec<Figure> {
    let steps = stage.steps.filter(|_| stage.is_decode());
    let parts = steps.unwrap_or(Count(1.0));
    let now = stage.reference() / parts;
    let after = after(now, actions, |taken| joint::saved(stage, taken) / parts);
    let utilization = utilization(evidence, stage);
    let limit = limit(evidence, stage).map(|limit| limit / parts);
    let profiled = stage.unprofiled.is_none().then_some("");
    let levels = levels(evidence, stage);
    let name = stage.label();
    let label = match steps {
        Some(steps) => words!(
            evidence,
            "summary.step_time",
            stage = name,
            steps = profiled.map(|_| steps),
            profiled = profiled,
            levels = levels,
        ),
        None => words!(
            evidence,
            "summary.stage_time",
            stage = name,
            profiled = profiled,
            levels = levels,
        ),
    };
    let mut figures = vec![Figure {
        label,
        is_time: true,
        now: now.into(),
        after: quantities(&after),
        limit: limit.map(Quantity::from),
    }];
    if let Some((measured, unit)) =
        utilization.and_then(|utilization| utilization.throughput().ok())
    {
        let rate = |time: Time| Quantity::new(measured * now.0 / time.0, unit);
        figures.push(Figure {
            label: words!(
                evidence,
                "summary.throughput",
                stage = name,
                profiled = profiled
            ),
            is_time: false,
            now: rate(now),
            after: after.iter().map(|time| Some(rate(*time))).collect(),
            limit: limit.map(rate),
        });
    }
    figures
}

/// Utilization of a stage, without a profiler where that is known.
pub(super) fn utilization<'a>(
    evidence: &Evidence<'a>,
    stage: &StageLine,
) -> Option<&'a StageUtilization> {
    let unprofiled = evidence.unprofiled_utilization(stage);
    unprofiled.or_else(|| evidence.utilization(stage))
}

/// What the model's FLOPs and bytes of an iteration need at the peaks of the GPU.
pub(super) fn limit(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    let share = utilization(evidence, stage)?.least_share()?;
    (share < Ratio::ONE).then(|| stage.reference() * share)
}

/// The two levels of the unprofiled times of a stage, or of its steps, with their counts: the mean of both is shown. Of
/// repeats that settle, what they take before.
pub(super) fn levels(evidence: &Evidence<'_>, stage: &StageLine) -> Option<String> {
    let series = evidence.unprofiled_series(stage)?;
    let steps = series.steps.filter(|_| stage.is_decode()).unwrap_or(1);
    if let Some(before) = series.before() {
        return Some(words!(
            evidence,
            "summary.settled",
            count = Quantity::count(series.settling as u64),
            before = before / steps as f64,
        ));
    }
    let [low, high] = series.levels?;
    let time = |level: Level| Time(level.median) / steps as f64;
    Some(words!(
        evidence,
        "summary.levels",
        few = Quantity::count(low.count as u64),
        low = time(low),
        many = Quantity::count(high.count as u64),
        high = time(high),
    ))
}

fn quantities(times: &[Time]) -> Vec<Option<Quantity>> {
    times
        .iter()
        .map(|time| Some(Quantity::from(*time)))
        .collect()
}

/// What is left of a time after the first action, the first two, and so on.
fn after(now: Time, actions: &[Action<'_>], saves: impl Fn(&[Action<'_>]) -> Time) -> Vec<Time> {
    let mut after = Vec::new();
    for taken in 1..=actions.len() {
        after.push((now - saves(&actions[..taken])).max(Time::ZERO));
    }
    after
}

/// Prefill and decode, both timed without a profiler.
pub(super) struct Request<'a> {
    /// In the order of the capture; prefill and decode are among them.
    timed: Vec<Timed<'a>>,
    /// Its median time.
    pub(super) now: Time,
    /// The time of the first one, if that was slow.
    pub(super) first: Option<Time>,
}

/// A stage of a request.
#[derive(Clone, Copy)]
struct Timed<'a> {
    stage: &'a StageLine,
    series: &'a Series,
    /// Repeats of it in a request: several where each decode step is a range.
    repeats: u64,
}

impl Timed<'_> {
    fn time(&self) -> Time {
        self.series.typical() * self.repeats as f64
    }
}

/// Ranges of a stage on its rank in the whole run.
fn ranges(evidence: &Evidence<'_>, line: &StageLine) -> u64 {
    let facts = evidence.facts;
    let instances = facts.instances_of(&facts.stages[line.stage]).iter();
    let of_rank = instances.filter(|instance| instance.process == line.process);
    of_rank.count() as u64
}

/// Iterations of a stage for each prefill of the run; none where only some requests have it. One decode where its range
/// holds several steps.
fn per_prefill(
    evidence: &Evidence<'_>,
    prefills: u64,
    (stage, series): (&StageLine, &Series),
) -> Option<u64> {
    let is_decode = stage.kind == StageKind::Decode;
    let is_loop = |steps: f64| steps > 1.0;
    let unprofiled = series.steps.map(|steps| steps as f64);
    if is_decode && (stage.steps.map(|steps| steps.0).or(unprofiled)).is_some_and(is_loop) {
        return Some(1);
    }
    let count = ranges(evidence, stage);
    let is_of_each = count >= prefills && count.is_multiple_of(prefills);
    (is_decode || is_of_each).then(|| (count / prefills).max(1))
}

/// The unprofiled repeats of a range around all stages of each request: they hold what lies between the stages, too.
fn around<'a>(
    evidence: &'a Evidence<'_>,
    timed: &[Timed<'_>],
    requests: u64,
) -> Option<&'a Series> {
    let (facts, ranges) = (evidence.facts, &evidence.session.ranges);
    let is_around = |series: &&Series| {
        let is_of_series = |row: &usize| {
            ranges.name[*row] == series.stage && Some(ranges.pass[*row]) == evidence.primary
        };
        let rows: Vec<usize> = (0..ranges.len()).filter(is_of_series).collect();
        let holds = |instance: &StageInstance| {
            rows.iter().any(|row| {
                ranges.start[*row] < instance.host_start && instance.host_end < ranges.end[*row]
            })
        };
        let mut lines = timed.iter().map(|timed| &facts.stages[timed.stage.stage]);
        series.profiled == Some(false)
            && rows.len() as u64 == requests
            && lines.all(|stage| facts.instances_of(stage).iter().all(holds))
    };
    let baseline = evidence.results.baseline().ok()?;
    baseline.series.iter().find(is_around)
}

impl<'a> Request<'a> {
    pub(super) fn new(evidence: &'a Evidence<'_>, shown: &[&'a StageLine]) -> Option<Self> {
        let of_kind = |kind| shown.iter().copied().find(|stage| stage.kind == kind);
        let prefill = of_kind(StageKind::Prefill)?;
        let decode = of_kind(StageKind::Decode)?;
        let prefills = ranges(evidence, prefill).max(1);
        let mut timed = Vec::new();
        for stage in shown.iter().copied() {
            let series = evidence.unprofiled_series(stage);
            let repeats =
                series.and_then(|series| per_prefill(evidence, prefills, (stage, series)));
            match series.zip(repeats) {
                Some((series, repeats)) => timed.push(Timed {
                    stage,
                    series,
                    repeats,
                }),
                None if [prefill.key(), decode.key()].contains(&stage.key()) => return None,
                None => {}
            }
        }
        let (mut now, mut first, mut is_cold) = (Time::ZERO, Some(Time::ZERO), false);
        for timed in &timed {
            let series = timed.series;
            now += timed.time();
            let excluded = excluded_repeats(evidence, series);
            let repeats = series.repeats.iter().map(|repeat| repeat.duration);
            let recorded = excluded.iter().copied().chain(repeats);
            let has_first = !excluded.is_empty() || first_repeat(series).is_some();
            let early = has_first.then(|| {
                let early = recorded.take(timed.repeats as usize);
                early.map(|time| time.time() - series.typical()).sum()
            });
            first = match (first, early) {
                (Some(first), Some(early)) => Some(first + timed.time() + early),
                _ => None,
            };
            is_cold |= !excluded.is_empty() || series.repeats.iter().any(|repeat| repeat.is_cold());
        }
        if let Some(series) = around(evidence, &timed, prefills) {
            now = now.max(series.typical());
            let excluded = excluded_repeats(evidence, series).first();
            first = excluded
                .map(|time| time.time())
                .or_else(|| first_repeat(series));
            is_cold = excluded.is_some() || series.repeats.iter().any(Repeat::is_cold);
        }
        Some(Self {
            timed,
            now,
            first: first.filter(|_| is_cold),
        })
    }

    /// What actions save of each. The profiled loop may have another number of steps than the unprofiled one.
    fn saves(&self, actions: &[Action<'_>]) -> Time {
        let mut saved = Time::ZERO;
        for (stage, times) in self.stages() {
            saved += joint::saved(stage, actions) * times;
        }
        saved
    }

    /// Its stages, and how many iterations of each it is.
    pub(super) fn stages(&self) -> Vec<(&'a StageLine, f64)> {
        let times = |timed: Timed<'a>| match (timed.stage.steps, timed.series.steps) {
            (Some(steps), Some(unprofiled)) => {
                let loops = unprofiled as f64 / steps.0;
                (timed.stage, loops * timed.repeats as f64)
            }
            _ => (timed.stage, timed.repeats as f64),
        };
        self.timed.iter().copied().map(times).collect()
    }

    /// Decode steps of it.
    pub(super) fn steps(&self) -> Option<u64> {
        let mut stages = self.timed.iter();
        let decode = stages.find(|timed| timed.stage.kind == StageKind::Decode)?;
        let of_range = decode.series.steps;
        let is_counted = of_range.is_some() || decode.repeats > 1;
        is_counted.then(|| of_range.unwrap_or(1) * decode.repeats)
    }

    /// Whether an action removes what the first one has more: stalls of another stage are not its own.
    pub(super) fn is_of_first(&self, action: &Action<'_>) -> bool {
        let Effect::Stalls(stalled) = action.effect else {
            return false;
        };
        self.timed
            .iter()
            .any(|timed| timed.stage.key() == stalled.key())
    }

    /// Whether the action, or another that it does, too, removes that.
    fn is_of_first_by_any(&self, action: &Action<'_>) -> bool {
        action.changes().any(|change| self.is_of_first(change))
    }
}

/// What the first request takes beyond later ones ÷ their time from which on it is named.
const COLD: Ratio = Ratio(0.05);

/// What the first request takes beyond later ones, in words, where no action is about that; with the cause of stalls, if it
/// is known.
pub(super) fn cold_request(
    evidence: &Evidence<'_>,
    findings: &[Finding],
    actions: &[Action<'_>],
) -> Option<Vec<Inline>> {
    let request = Request::new(evidence, &shown(evidence, &[]))?;
    let first = request.first?;
    let more = first - request.now;
    let is_short = more < request.now * COLD;
    let is_only = request
        .timed
        .iter()
        .any(|timed| cold_time(evidence, timed.stage).is_some());
    if is_short || is_only || changes(actions).any(|action| request.is_of_first(action)) {
        return None;
    }
    let mut stalls = findings.iter().filter(|finding| finding.id == pauses::RULE);
    let root = stalls.find_map(|finding| finding.root.as_ref());
    Some(say!(
        evidence,
        "summary.cold_request",
        first = first,
        more = more,
        cause = root.map(|root| root.cause.as_str()),
    ))
}

/// What an action brings, in words: of each request or step where there are such, or of the first request; else of its
/// own whole.
pub(super) fn effect(
    evidence: &Evidence<'_>,
    whole: Option<&Whole<'_>>,
    action: &Action<'_>,
) -> String {
    if let Some(request) = Request::new(evidence, &shown(evidence, &[])) {
        let saved = request.saves(std::slice::from_ref(action));
        if saved > Time::ZERO {
            let share = Ratio::of(saved, request.now);
            let key = match action.is_once() {
                true => "summary.effect_once",
                false => "summary.effect_request",
            };
            let arguments = arguments! { saved = saved, share = share };
            return evidence.text.line(key, &arguments);
        }
        if let Some(first) = request.first
            && request.is_of_first(action)
        {
            let more = first - request.now;
            let share = Ratio::of(more, first);
            return words!(
                evidence,
                "summary.effect_first",
                saved = more,
                share = share
            );
        }
    }
    let step = whole.and_then(Whole::step);
    let step = step.filter(|_| !matches!(action.effect, Effect::Run));
    if let Some((step, times)) = step {
        let saved = whole.map_or(Time::ZERO, |whole| {
            whole.saved(std::slice::from_ref(action))
        });
        if saved.is_positive() {
            return words!(
                evidence,
                "summary.effect_step",
                saved = saved / times,
                share = Ratio::of(saved / times, step),
            );
        }
    }
    let gain = action.gain;
    let (mut of, mut of_ns) = (gain.of.as_str(), gain.of_ns);
    let of_run = joint_of_run(evidence, action);
    let saved = match (action.effect, of_run) {
        (Effect::Stage(stage), None) => {
            joint::saved(stage, std::slice::from_ref(action)).min(gain.saved_ns)
        }
        (_, None) => gain.saved_ns,
        (_, Some(of_run)) => {
            // A whole of the changes: that of a stage has no time between iterations.
            let mut changes = action.changes();
            let run = changes.find(|change| !matches!(change.effect, Effect::Stage(_)));
            (of, of_ns) = run.map_or((of, of_ns), |run| (&run.gain.of, run.gain.of_ns));
            of_run
        }
    };
    let share = Ratio::of(saved, of_ns);
    let headline = whole.map(|whole| (whole, of_headline(evidence, whole, action)));
    let headline = headline.filter(|(_, part)| (part.0 - share.0).abs() >= SAME.0);
    let once = whole::once(evidence, std::slice::from_ref(action));
    words!(
        evidence,
        "summary.effect",
        once = once.is_positive().then_some(once),
        saved = saved,
        whole = of,
        share = share,
        part = headline.map(|(_, part)| part),
        headline = headline.map(|(whole, _)| conclusion::name_of(evidence, whole)),
    )
}

/// What an action on the run and those that its code does, too, save of it together.
pub(super) fn joint_of_run(evidence: &Evidence<'_>, action: &Action<'_>) -> Option<Time> {
    let is_joint = !action.included.is_empty() && is_on_loop(std::slice::from_ref(action));
    match loop_times(evidence, std::slice::from_ref(action)).as_slice() {
        [now, after] if is_joint => Some(*now - *after),
        _ => None,
    }
}

/// Difference of shares that does not show.
const SAME: Ratio = Ratio(0.001);

/// Share of the time that the page shows first that an action saves.
fn of_headline(evidence: &Evidence<'_>, whole: &Whole<'_>, action: &Action<'_>) -> Ratio {
    let alone = std::slice::from_ref(action);
    match (whole.kind, loop_times(evidence, alone).as_slice()) {
        (Kind::Loop, &[now, after]) => Ratio::of(now - after, now),
        _ => Ratio::of(whole.saved(alone), whole.now),
    }
}

/// Whether an action on each iteration saves more than one on some of them: of each request, or else of the run.
pub(super) fn recurs(evidence: &Evidence<'_>, action: &Action<'_>, once: &Action<'_>) -> bool {
    let (Effect::Stage(_), Effect::Stalls(_)) = (action.effect, once.effect) else {
        return false;
    };
    match Request::new(evidence, &shown(evidence, &[])) {
        Some(request) if request.first.is_some() && request.is_of_first(once) => {
            let saved = request.saves(std::slice::from_ref(action));
            Severity::of_share(Ratio::of(saved, request.now)) >= Severity::Warning
        }
        _ => action.saved_of_run() > once.saved_of_run(),
    }
}

/// What the last of these actions saves of each request because of earlier ones: kernels of a stage that the CPU bounds.
pub(super) fn more_of_request(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Option<String> {
    let (last, earlier) = actions.split_last()?;
    let request = Request::new(evidence, &shown(evidence, &[]))?;
    let added = request.saves(actions) - request.saves(earlier);
    let more = added - request.saves(std::slice::from_ref(last));
    let first = earlier.iter().position(|action| last.has_later(action))?;
    more.is_positive().then(|| {
        words!(
            evidence,
            "summary.more_of_request",
            saved = more,
            number = Quantity::count(first as u64 + 1),
        )
    })
}

/// What the last of these actions saves beyond the earlier ones, where these save a part of it as well.
pub(super) fn beyond(
    evidence: &Evidence<'_>,
    whole: Option<&Whole<'_>>,
    actions: &[Action<'_>],
) -> Option<String> {
    let (last, earlier) = actions.split_last()?;
    let whole = whole?;
    let (_, times) = whole.step().unwrap_or((whole.now, 1.0));
    let alone = whole.saved(std::slice::from_ref(last));
    let added = whole.saved(actions) - whole.saved(earlier);
    let count = earlier.len() as u64;
    (added < alone * BEYOND).then(|| {
        words!(
            evidence,
            "summary.beyond",
            added = added.max(Time::ZERO) / times,
            one = (count == 1).then_some(""),
            last = (count > 1).then(|| Quantity::count(count)),
            included = (added < alone * MOSTLY).then_some(""),
        )
    })
}

/// Part of its saving below which an action overlaps with earlier ones.
const BEYOND: Ratio = Ratio(0.95);

/// The same, below which the earlier actions do most of it.
const MOSTLY: Ratio = Ratio(0.5);

/// A request, with as many decode steps as the unprofiled run took; and the first one, if that was slow.
fn of_requests(
    evidence: &Evidence<'_>,
    shown: &[&StageLine],
    actions: &[Action<'_>],
) -> Vec<Figure> {
    let Some(request) = Request::new(evidence, shown) else {
        return Vec::new();
    };
    let after = after(request.now, actions, |taken| request.saves(taken));
    let steps = request.steps().map(Quantity::count);
    let limits = request.timed.iter().map(|timed| least(evidence, timed));
    let mut figures = vec![Figure {
        label: words!(evidence, "summary.request", steps = steps),
        is_time: true,
        now: request.now.into(),
        after: quantities(&after),
        limit: limits.sum::<Option<Time>>().map(Quantity::from),
    }];
    if let Some(first) = request.first {
        // A graph is captured in the first request, and captures are not timed.
        let captures = actions
            .iter()
            .any(|action| action.finding.id == launching::RULE);
        let capture = captures.then_some("");
        figures.push(Figure {
            label: words!(evidence, "summary.first_request", capture = capture),
            is_time: true,
            now: first.into(),
            after: after_stalls(&request, actions, &after),
            limit: None,
        });
    }
    figures
}

/// Whether an action before, such as fixed shapes for a graph, ends the stalls as well, nobody measured.
fn after_stalls(
    request: &Request<'_>,
    actions: &[Action<'_>],
    after: &[Time],
) -> Vec<Option<Quantity>> {
    let (mut has_stalls, mut first) = (true, Vec::new());
    for (action, time) in actions.iter().zip(after) {
        has_stalls &= !request.is_of_first_by_any(action);
        first.push((!has_stalls).then(|| Quantity::from(*time)));
    }
    first
}

/// The least time of unprofiled repeats of a stage.
fn least(evidence: &Evidence<'_>, timed: &Timed<'_>) -> Option<Time> {
    let share = evidence
        .unprofiled_utilization(timed.stage)?
        .least_share()?;
    (share < Ratio::ONE).then_some(timed.time() * share)
}

/// Repeats before the first one of a series, which the capture program excluded.
pub(super) fn excluded_repeats<'a>(evidence: &'a Evidence<'_>, series: &Series) -> &'a [Ns] {
    let mut excluded = evidence.session.excluded_repeats.iter();
    let of_series = excluded
        .find(|(artifact, stage, _)| (*artifact, *stage) == (series.artifact, series.stage));
    of_series.map_or(&[], |(.., times)| times)
}

/// Time of the first repeat.
fn first_repeat(series: &Series) -> Option<Time> {
    let mut repeats = series.repeats.iter();
    let first = repeats.find(|repeat| repeat.number == 0)?;
    Some(first.duration.time())
}
