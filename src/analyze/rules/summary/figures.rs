//! Figures of the first page: now, after each action, and what the hardware allows.

use rooflens_schemas::{StageKind, Unit};

use super::actions::{Action, Effect};
use crate::evidence::Evidence;
use crate::stage::{Key, StageLine};
use crate::time::launch_bound;
use rooflens_analysis::engine::baseline::Series;
use rooflens_document::Quantity;
use rooflens_session::Arrange;

/// Stages that the first page shows.
const SHOWN: usize = 4;

/// A figure, now and after the actions.
pub(super) struct Figure {
    /// What it is, with the stage.
    pub(super) label: String,
    /// The stage whose time it is.
    pub(super) of: Option<Key>,
    /// Now.
    pub(super) now: Quantity,
    /// At best after the first action, after the first two, and so on; none where that is not known.
    pub(super) after: Vec<Option<Quantity>>,
    /// What the model's FLOPs and bytes need at the peaks of the GPU.
    pub(super) limit: Option<Quantity>,
}

/// The figures of the longest stages, and of a request where prefill and decode are timed without a profiler.
pub(super) fn of(evidence: &Evidence<'_>, actions: &[Action<'_>]) -> Vec<Figure> {
    let shown = shown(evidence, actions);
    let mut figures: Vec<Figure> = shown
        .iter()
        .flat_map(|stage| of_stage(evidence, stage, actions))
        .collect();
    figures.extend(request(evidence, &shown, actions));
    figures
}

/// The longest stages in their order; of several ranks that of an action, or else the slowest.
fn shown<'a>(evidence: &'a Evidence<'_>, actions: &[Action<'_>]) -> Vec<&'a StageLine> {
    let is_of_action = |stage: &StageLine| {
        let is = |action: &Action<'_>| matches!(action.effect, Effect::Stage(own) if own.key() == stage.key());
        actions.iter().any(is)
    };
    let rank = |stage: &StageLine| (is_of_action(stage), stage.reference());
    let mut slowest: Vec<&StageLine> = Vec::new();
    for stage in &evidence.stages {
        match slowest
            .iter_mut()
            .find(|one| one.scope.stage == stage.scope.stage)
        {
            Some(known) if rank(known) < rank(stage) => *known = stage,
            Some(_) => {}
            None => slowest.push(stage),
        }
    }
    let total = |stage: &StageLine| stage.reference() * stage.counted;
    let mut totals: Vec<f64> = slowest.iter().map(|stage| total(stage)).collect();
    totals.arrange_by(|a, b| b.total_cmp(a));
    let least = totals.get(SHOWN - 1).copied().unwrap_or(0.0);
    slowest.retain(|stage| total(stage) >= least);
    slowest
}

fn of_stage(evidence: &Evidence<'_>, stage: &StageLine, actions: &[Action<'_>]) -> Vec<Figure> {
    let steps = stage.steps.filter(|_| stage.is_decode());
    let per = steps.unwrap_or(1.0);
    let now = stage.reference() / per;
    let after = after(now, actions, |action| action.saves_of(stage) / per);
    let unprofiled = evidence.unprofiled_utilization(stage);
    let utilization = unprofiled.or_else(|| evidence.utilization(stage));
    let limit =
        utilization.and_then(|one| Some(now * one.least_share().filter(|share| *share < 1.0)?));
    let profiled = stage.unprofiled.is_none().then_some("");
    let label = match steps {
        Some(steps) => words!(
            evidence,
            "summary.step_time",
            stage = stage.label.as_str(),
            steps = profiled.map(|_| Quantity::new(steps, Unit::Count)),
            profiled = profiled,
        ),
        None => {
            words!(
                evidence,
                "summary.stage_time",
                stage = stage.label.as_str(),
                profiled = profiled
            )
        }
    };
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let times = Figure {
        label,
        of: Some(stage.key()),
        now: time(now),
        after: after.iter().map(|ns| Some(time(*ns))).collect(),
        limit: limit.map(time),
    };
    let throughput = utilization.and_then(|one| one.throughput().ok());
    let throughput = throughput.map(|(measured, unit)| {
        let rate = |ns: f64| Quantity::new(measured * now / ns, unit);
        Figure {
            label: words!(
                evidence,
                "summary.throughput",
                stage = stage.label.as_str(),
                profiled = profiled
            ),
            of: None,
            now: rate(now),
            after: after.iter().map(|ns| Some(rate(*ns))).collect(),
            limit: limit.map(rate),
        }
    });
    [Some(times), throughput].into_iter().flatten().collect()
}

/// What is left of a time after the first action, the first two, and so on, nanoseconds.
fn after(now: f64, actions: &[Action<'_>], saves: impl Fn(&Action<'_>) -> f64) -> Vec<f64> {
    let mut left = now;
    let one = |action| {
        left = (left - saves(action)).max(0.0);
        left
    };
    actions.iter().map(one).collect()
}

/// Prefill and decode, both timed without a profiler.
struct Request<'a> {
    timed: Vec<(&'a StageLine, &'a Series)>,
    /// Its median time, nanoseconds.
    now: f64,
    /// The time of the first one, if that was slow, nanoseconds.
    first: Option<f64>,
}

impl<'a> Request<'a> {
    fn of(evidence: &'a Evidence<'_>, shown: &[&'a StageLine]) -> Option<Self> {
        let of_kind = |kind| shown.iter().copied().find(|stage| stage.kind == kind);
        let stages = [of_kind(StageKind::Prefill)?, of_kind(StageKind::Decode)?];
        let timed = stages.map(|stage| Some((stage, evidence.unprofiled_series(stage)?)));
        let timed: Vec<(&StageLine, &Series)> = timed.into_iter().collect::<Option<_>>()?;
        let first: Option<f64> = timed.iter().map(|(_, series)| first_repeat(series)).sum();
        let is_cold = timed
            .iter()
            .any(|(_, series)| series.repeats.iter().any(|one| one.is_cold()));
        let now = timed
            .iter()
            .map(|(_, series)| series.statistics.median)
            .sum();
        Some(Self {
            timed,
            now,
            first: first.filter(|_| is_cold),
        })
    }

    /// What an action saves of each. The profiled loop may have another number of steps than the un-profiled one.
    fn saves(&self, action: &Action<'_>) -> f64 {
        let scale = |stage: &StageLine, series: &Series| {
            stage
                .steps
                .zip(series.steps)
                .map_or(1.0, |(own, timed)| timed as f64 / own)
        };
        let saves =
            |(stage, series): &(&StageLine, &Series)| action.saves_of(stage) * scale(stage, series);
        self.timed.iter().map(saves).sum()
    }

    /// Whether an action removes what the first one has more: stalls of another stage are not its own.
    fn is_of_first(&self, action: &Action<'_>) -> bool {
        matches!(action.effect, Effect::Stalls(stage) if self.timed.iter().any(|(own, _)| own.key() == stage.key()))
    }
}

/// What an action brings, in words: of each request where there are such, or of the first; else of its own whole.
pub(super) fn effect(evidence: &Evidence<'_>, action: &Action<'_>) -> String {
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    if let Some(request) = Request::of(evidence, &shown(evidence, &[])) {
        let saves = request.saves(action);
        if saves > 0.0 {
            let share = Quantity::ratio(saves / request.now);
            return words!(
                evidence,
                "summary.effect_request",
                saved = time(saves),
                share = share
            );
        }
        if let Some(first) = request.first.filter(|_| request.is_of_first(action)) {
            let more = first - request.now;
            let share = Quantity::ratio(more / first);
            return words!(
                evidence,
                "summary.effect_first",
                saved = time(more),
                share = share
            );
        }
    }
    let gain = action.gain;
    words!(
        evidence,
        "summary.effect",
        saved = time(gain.saved_ns),
        whole = gain.of.as_str(),
        share = Quantity::ratio(gain.share()),
    )
}

/// A request: prefill and then decode, as often as the un-profiled run took steps; and the first one, if that was slow.
fn request(evidence: &Evidence<'_>, shown: &[&StageLine], actions: &[Action<'_>]) -> Vec<Figure> {
    let Some(request) = Request::of(evidence, shown) else {
        return Vec::new();
    };
    let after = after(request.now, actions, |action| request.saves(action));
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let steps = request
        .timed
        .last()
        .and_then(|(_, series)| series.steps)
        .map(Quantity::count);
    let limit: Option<f64> = request.timed.iter().map(|one| least(evidence, one)).sum();
    let each = Figure {
        label: words!(evidence, "summary.request", steps = steps),
        of: None,
        now: time(request.now),
        after: after.iter().map(|ns| Some(time(*ns))).collect(),
        limit: limit.map(time),
    };
    let first = request.first.map(|first| {
        // Whether an action before, such as fixed shapes for a graph, ends the stalls as well, nobody measured.
        let mut stalls = true;
        let then = actions.iter().zip(&after).map(|(action, after)| {
            stalls &= !request.is_of_first(action);
            (!stalls).then(|| time(*after))
        });
        // A graph is captured in the first request, and captures are not timed.
        let captures = actions
            .iter()
            .any(|action| action.found.id == launch_bound::RULE.id);
        let capture = captures.then_some("");
        let label = words!(evidence, "summary.first_request", capture = capture);
        Figure {
            label,
            of: None,
            after: then.collect(),
            now: time(first),
            limit: None,
        }
    });
    std::iter::once(each).chain(first).collect()
}

/// The least time of un-profiled repeats of a stage, nanoseconds.
fn least(evidence: &Evidence<'_>, (stage, series): &(&StageLine, &Series)) -> Option<f64> {
    let share = evidence.unprofiled_utilization(stage)?.least_share()?;
    Some(share * series.statistics.median).filter(|_| share < 1.0)
}

/// Time of the first repeat, nanoseconds.
fn first_repeat(series: &Series) -> Option<f64> {
    let first = series.repeats.iter().find(|repeat| repeat.number == 0)?;
    Some(first.duration as f64)
}
