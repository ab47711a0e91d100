//! Figures of the first page: now, after each action, and what the hardware allows.

use rooflens_schemas::{StageKind, Unit};

use super::actions::{Action, Effect};
use crate::results::Results;
use crate::stage::{Key, StageLine};
use rooflens_analysis::engine::baseline::Series;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_findings::Quantity;

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
    /// At best after the first action, after the first two, and so on.
    pub(super) after: Vec<Quantity>,
    /// What the model's FLOPs and bytes need at the peaks of the GPU.
    pub(super) limit: Option<Quantity>,
}

/// The figures of the longest stages, and of a request where prefill and decode are timed without a profiler.
pub(super) fn of(results: &Results<'_>, actions: &[Action<'_>]) -> Vec<Figure> {
    let shown = shown(results);
    let mut figures: Vec<Figure> =
        shown.iter().flat_map(|stage| of_stage(results, stage, actions)).collect();
    figures.extend(request(results, &shown, actions));
    figures
}

/// The longest stages in their order; of several ranks the slowest.
fn shown<'a>(results: &'a Results<'_>) -> Vec<&'a StageLine> {
    let mut slowest: Vec<&StageLine> = Vec::new();
    for stage in &results.stages {
        match slowest.iter_mut().find(|one| one.scope.stage == stage.scope.stage) {
            Some(known) if known.reference() < stage.reference() => *known = stage,
            Some(_) => {}
            None => slowest.push(stage),
        }
    }
    let total = |stage: &StageLine| stage.reference() * stage.counted;
    let mut totals: Vec<f64> = slowest.iter().map(|stage| total(stage)).collect();
    totals.sort_by(|a, b| b.total_cmp(a));
    let least = totals.get(SHOWN - 1).copied().unwrap_or(0.0);
    slowest.retain(|stage| total(stage) >= least);
    slowest
}

fn of_stage(results: &Results<'_>, stage: &StageLine, actions: &[Action<'_>]) -> Vec<Figure> {
    let steps = stage.steps.filter(|_| stage.is_decode());
    let per = steps.unwrap_or(1.0);
    let now = stage.reference() / per;
    let after = after(now, actions, |action| action.saves_of(stage) / per);
    let unprofiled = results.unprofiled_utilization(stage);
    let utilization = unprofiled.or_else(|| results.utilization(stage));
    let limit = utilization.and_then(|one| Some(now * of_limit(one)?));
    let profiled = stage.unprofiled.is_none().then_some("");
    let label = match steps {
        Some(_) => {
            words!(results, "summary.step_time", stage = stage.label.as_str(), profiled = profiled)
        }
        None => {
            words!(results, "summary.stage_time", stage = stage.label.as_str(), profiled = profiled)
        }
    };
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let times = Figure {
        label,
        of: Some(stage.key()),
        now: time(now),
        after: after.iter().map(|ns| time(*ns)).collect(),
        limit: limit.map(time),
    };
    let tokens = utilization.and_then(|one| one.tokens_per_second().ok());
    let throughput = tokens.map(|tokens| {
        let rate = |ns: f64| Quantity::new(tokens * now / ns, Unit::TokensPerSecond);
        Figure {
            label: words!(results, "summary.throughput", stage = stage.label.as_str()),
            of: None,
            now: rate(now),
            after: after.iter().map(|ns| rate(*ns)).collect(),
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

/// The share of the time of a stage that its model needs at the peaks, measured ones where they are known.
fn of_limit(utilization: &StageUtilization) -> Option<f64> {
    let compute = utilization.of_measured().or_else(|| utilization.mfu().ok());
    let bandwidth = utilization.mbu().ok();
    compute.into_iter().chain(bandwidth).reduce(f64::max).filter(|share| *share < 1.0)
}

/// A request: prefill and then decode, as often as the un-profiled run took steps; and the first one, if that was slow.
fn request(results: &Results<'_>, shown: &[&StageLine], actions: &[Action<'_>]) -> Vec<Figure> {
    let of_kind = |kind| shown.iter().copied().find(|stage| stage.kind == kind);
    let stages = [of_kind(StageKind::Prefill), of_kind(StageKind::Decode)];
    let timed: Vec<(&StageLine, &Series)> = stages
        .iter()
        .flatten()
        .filter_map(|stage| Some((*stage, results.unprofiled_series(stage)?)))
        .collect();
    if timed.len() < stages.len() {
        return Vec::new();
    }
    let now: f64 = timed.iter().map(|(_, series)| series.statistics.median).sum();
    // The profiled loop may have another number of steps than the un-profiled one.
    let scale = |(stage, series): &(&StageLine, &Series)| {
        stage.steps.zip(series.steps).map_or(1.0, |(own, timed)| timed as f64 / own)
    };
    let saves = |action: &Action<'_>| -> f64 {
        timed.iter().map(|one| action.saves_of(one.0) * scale(one)).sum()
    };
    let after = after(now, actions, saves);
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let steps = timed.last().and_then(|(_, series)| series.steps).map(Quantity::count);
    let request = Figure {
        label: words!(results, "summary.request", steps = steps),
        of: None,
        now: time(now),
        after: after.iter().map(|ns| time(*ns)).collect(),
        limit: None,
    };
    let first: Option<f64> = timed.iter().map(|(_, series)| first_repeat(series)).sum();
    let is_cold = timed.iter().any(|(_, series)| series.repeats.iter().any(|one| one.is_cold()));
    let first = first.filter(|_| is_cold).map(|first| {
        let mut stalls = first - now;
        let then = actions.iter().zip(&after).map(|(action, after)| {
            // Stalls of another stage are not those of the first request.
            if let Effect::Stalls(stage) = action.effect
                && timed.iter().any(|(own, _)| own.key() == stage.key())
            {
                stalls = 0.0;
            }
            time(after + stalls)
        });
        Figure {
            label: words!(results, "summary.first_request"),
            of: None,
            after: then.collect(),
            now: time(first),
            limit: None,
        }
    });
    [Some(request), first].into_iter().flatten().collect()
}

/// Time of the first repeat, nanoseconds.
fn first_repeat(series: &Series) -> Option<f64> {
    let first = series.repeats.iter().find(|repeat| repeat.number == 0)?;
    Some(first.duration as f64)
}
