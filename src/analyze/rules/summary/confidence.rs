//! How far a bound is to be trusted: by how often, how evenly and in how many captures its time was measured.
//! `docs/methodology.md` states the rule.

use super::actions::{Action, Effect};
use crate::evidence::Evidence;
use crate::stage::StageLine;
use crate::{communication::straggler, time::host_pauses};
use rooflens_analysis::engine::baseline::Series;
use rooflens_document::{Gain, GainKind, Inline, Quantity};
use rooflens_stats::Statistics;

/// Measured iterations, or unprofiled repeats, from which on a median says something.
pub(super) const ITERATIONS: usize = 3;

/// Scatter ÷ bound from which on the bound is not beyond doubt.
const WIDE: f64 = 0.5;

/// Captures that show the same stalls, from which on these are beyond doubt.
const CAPTURES: usize = 3;

/// How far a bound is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    Low,
    Medium,
    High,
}

/// How far the bound of an action is to be trusted, and why; of several stages that of the least.
pub(super) fn of(evidence: &Evidence<'_>, action: &Action<'_>) -> (Confidence, Vec<Inline>) {
    match action.effect {
        Effect::Stage(_) => {
            let all = action
                .stages()
                .map(|(gain, stage)| of_stage(evidence, action.found.id, gain, stage));
            all.min_by_key(|(level, _)| *level)
                .unwrap_or((Confidence::Low, Vec::new()))
        }
        Effect::Stalls(stage) => of_stalls(evidence, action, stage),
        Effect::Run => (Confidence::Medium, say!(evidence, "summary.modeled")),
    }
}

fn of_stage(
    evidence: &Evidence<'_>,
    rule: &str,
    gain: &Gain,
    stage: &StageLine,
) -> (Confidence, Vec<Inline>) {
    let counted = stage.counted as usize;
    let count = Quantity::count(counted as u64);
    if counted < ITERATIONS {
        return (
            Confidence::Low,
            say!(evidence, "summary.few", count = count),
        );
    }
    let repeats = evidence.unprofiled_series(stage).and_then(warm);
    let times = repeats.clone().or_else(|| iterations(evidence, stage));
    let scatter = times.as_ref().and_then(scatter);
    let within = scatter.map(Quantity::ratio);
    if let Some(within) = scatter.filter(|scatter| *scatter >= gain.share()) {
        let within = Quantity::ratio(within);
        return (
            Confidence::Low,
            say!(evidence, "summary.scattered", within = within),
        );
    }
    let is_idle = gain.kind == GainKind::Idle;
    let is_narrow = scatter.is_some_and(|scatter| scatter < WIDE * gain.share());
    match repeats.map(|repeats| repeats.n) {
        _ if gain.kind == GainKind::Measured => (
            Confidence::High,
            say!(evidence, "summary.measured", count = count),
        ),
        Some(repeats) if is_idle => {
            let level = match repeats >= ITERATIONS && is_narrow {
                true => Confidence::High,
                false => Confidence::Medium,
            };
            let repeats = Quantity::count(repeats as u64);
            let why = say!(
                evidence,
                "summary.capped",
                count = count,
                repeats = repeats,
                within = within
            );
            (level, why)
        }
        None if is_idle => {
            let level = match scatter.is_none() || is_narrow {
                true => Confidence::Medium,
                false => Confidence::Low,
            };
            (
                level,
                say!(evidence, "summary.profiled", count = count, within = within),
            )
        }
        _ if rule == straggler::RULE.id => (
            Confidence::Medium,
            say!(evidence, "summary.compared", count = count),
        ),
        _ => (Confidence::Medium, say!(evidence, "summary.modeled")),
    }
}

/// Whether an action is about stalls that one profiled capture has, and none of several unprofiled repeats.
pub(super) fn is_refuted(evidence: &Evidence<'_>, action: &Action<'_>) -> bool {
    let Effect::Stalls(stage) = action.effect else {
        return false;
    };
    let series = evidence.unprofiled_series(stage);
    captures(evidence, action, stage) == 1
        && series.is_some_and(|series| series.repeats.len() >= ITERATIONS)
}

/// Captures that show the stalls of an action.
fn captures(evidence: &Evidence<'_>, action: &Action<'_>, stage: &StageLine) -> usize {
    // A slow repeat shows stalls in CPU code, and no others.
    let is_slow = action.found.id == host_pauses::RULE.id
        && evidence
            .unprofiled_series(stage)
            .is_some_and(|series| series.outliers().any(|one| one.z > Some(0.0)));
    action.found.root.as_ref().map_or(1, |root| root.passes) + usize::from(is_slow)
}

/// Stalls come and go: what counts is how many captures show them.
fn of_stalls(
    evidence: &Evidence<'_>,
    action: &Action<'_>,
    stage: &StageLine,
) -> (Confidence, Vec<Inline>) {
    let captures = captures(evidence, action, stage);
    let count = Quantity::count(stage.counted as u64);
    let seen = || {
        let captures = Quantity::count(captures as u64);
        say!(evidence, "summary.seen", captures = captures)
    };
    match (captures, evidence.unprofiled_series(stage)) {
        (CAPTURES.., _) => (Confidence::High, seen()),
        (2, _) => (Confidence::Medium, seen()),
        (_, Some(_)) => (Confidence::Low, say!(evidence, "summary.unseen")),
        _ if (stage.counted as usize) < ITERATIONS => (
            Confidence::Low,
            say!(evidence, "summary.few", count = count),
        ),
        _ => (
            Confidence::Medium,
            say!(
                evidence,
                "summary.profiled",
                count = count,
                within = None::<Quantity>
            ),
        ),
    }
}

/// Unprofiled repeats without a cold first one.
fn warm(series: &Series) -> Option<Statistics> {
    let warm = series.repeats.iter().filter(|one| !one.is_cold());
    Statistics::of(&warm.map(|one| one.duration as f64).collect::<Vec<_>>())
}

/// Times of the measured iterations of a stage.
fn iterations(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Statistics> {
    let all = evidence.summary(stage)?.counted_instances(evidence.facts);
    Statistics::of(
        &all.filter_map(|one| Some(one.time()? as f64))
            .collect::<Vec<_>>(),
    )
}

/// Half the 95 % interval of the median ÷ median.
fn scatter(times: &Statistics) -> Option<f64> {
    let (low, high) = times.median_interval?;
    (times.median > 0.0).then(|| (high - low) / 2.0 / times.median)
}
