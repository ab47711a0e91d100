//! How far a bound is to be trusted: by how often, how evenly and in how many captures its time was measured.
//! `docs/methodology.md` states the rule.

use super::actions::{Action, Effect};
use crate::evidence::Evidence;
use crate::measurement::profiler_overhead;
use crate::measurement::repeat_outliers::is_far;
use crate::stage::StageLine;
use crate::{imbalances, pauses};
use rooflens_analysis::engine::baseline::Series;
use rooflens_document::{Gain, GainKind, Inline, Quantity};
use rooflens_stats::Statistics;
use rooflens_units::{Count, Ratio};

/// Measured iterations, or unprofiled repeats, from which on a median says something.
pub(super) const ITERATIONS: Count = Count(3.0);

/// Half of the interval of the median ÷ bound from which on the bound is not beyond doubt.
const WIDE: Ratio = Ratio(0.5);

/// Half of the interval of the median from which on no bound is beyond doubt.
const CLOSE: Ratio = Ratio(0.1);

/// Captures that show the same stalls, from which on these are beyond doubt.
const CAPTURES: usize = 3;

/// The rule about kernels that by their names do the work of an epilogue.
const EPILOGUE: &str = "gemm-epilogue";

/// How far a bound is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    /// What a bound counts for where actions are ordered by the time that they are expected to save.
    pub(super) const fn weight(self) -> f64 {
        match self {
            Self::High => 0.9,
            Self::Medium => 0.6,
            Self::Low => 0.3,
        }
    }
}

/// How far the bound of an action is to be trusted, and why; of several stages that of the first, which it is about.
pub(super) fn of_action(evidence: &Evidence<'_>, action: &Action<'_>) -> (Confidence, Vec<Inline>) {
    match action.effect {
        Effect::Stage(stage) => of_stage(evidence, action.finding.id, action.gain, stage),
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
    let count = stage.counted;
    let repeats = evidence.unprofiled_series(stage).and_then(Series::warm);
    let known = repeats.as_ref().map_or(0.0, |repeats| repeats.n as f64);
    if count.max(Count(known)) < ITERATIONS {
        return (
            Confidence::Low,
            say!(evidence, "summary.few", count = count),
        );
    }
    let times = repeats.clone().or_else(|| iterations(evidence, stage));
    let interval = times.as_ref().and_then(interval);
    let scatter = interval.map(Interval::half);
    let within = interval.map(|interval| interval.words(evidence));
    let share = gain.share();
    if let Some(interval) = interval
        && interval.half() >= share
    {
        let why = say!(
            evidence,
            "summary.scattered",
            within = interval.words(evidence)
        );
        return (Confidence::Low, why);
    }
    let is_idle = gain.kind == GainKind::Idle;
    let has_levels = evidence
        .unprofiled_series(stage)
        .is_some_and(|series| series.levels.is_some());
    let is_narrow =
        scatter.is_some_and(|scatter| scatter < (share * WIDE).min(CLOSE)) && !has_levels;
    match repeats.map(|repeats| Count(repeats.n as f64)) {
        _ if gain.kind == GainKind::Measured => (
            Confidence::High,
            say!(evidence, "summary.measured", count = count),
        ),
        Some(repeats) if is_idle => {
            let warm = profiler_overhead::only_warm(evidence, stage);
            let level = match warm.unwrap_or(count).min(repeats) >= ITERATIONS && is_narrow {
                true => Confidence::High,
                false => Confidence::Medium,
            };
            let why = say!(
                evidence,
                "summary.capped",
                count = count,
                warm = warm,
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
        // Names of the program's own kernels promise nothing.
        _ if rule == EPILOGUE && evidence.has_only_names() => {
            (Confidence::Low, say!(evidence, "summary.by_names"))
        }
        _ if rule == imbalances::RULE => (
            Confidence::Medium,
            say!(evidence, "summary.compared", count = count),
        ),
        _ => (Confidence::Medium, say!(evidence, "summary.modeled")),
    }
}

/// Whether an action is about stalls that one profiled capture has, and none of several unprofiled repeats; or that a cold
/// first iteration has, and no warm repeat.
pub(super) fn is_refuted(evidence: &Evidence<'_>, action: &Action<'_>) -> bool {
    let Effect::Stalls(stage) = action.effect else {
        return false;
    };
    let Some(series) = evidence.repeats(stage) else {
        return false;
    };
    let is_known =
        Count(series.repeats.len() as f64) >= ITERATIONS || pauses::is_cold(evidence, stage);
    captures(evidence, action, stage) == 1 && is_known
}

/// Captures that show the stalls of an action.
fn captures(evidence: &Evidence<'_>, action: &Action<'_>, stage: &StageLine) -> usize {
    let passes = action.finding.root.as_ref().map_or(1, |root| root.passes);
    // A slow repeat shows stalls in CPU code, and no others; a cold first one shows first use.
    let series = match action.finding.id {
        pauses::RULE => evidence.repeats(stage),
        _ => None,
    };
    let is_settled = series.is_some_and(|series| series.settling > 0);
    let mut outliers = series.into_iter().flat_map(Series::outliers);
    let is_slow = is_settled
        || outliers.any(|repeat| repeat.z > Some(0.0) && is_far(repeat) && !repeat.is_cold());
    passes + usize::from(is_slow)
}

/// Stalls come and go: what counts is how many captures show them.
fn of_stalls(
    evidence: &Evidence<'_>,
    action: &Action<'_>,
    stage: &StageLine,
) -> (Confidence, Vec<Inline>) {
    let captures = captures(evidence, action, stage);
    let count = stage.counted;
    let seen = Quantity::count(captures as u64);
    match (captures, evidence.unprofiled_series(stage)) {
        (CAPTURES.., _) => (
            Confidence::High,
            say!(evidence, "summary.seen", captures = seen),
        ),
        (2, _) => (
            Confidence::Medium,
            say!(evidence, "summary.seen", captures = seen),
        ),
        (_, Some(_)) => (Confidence::Low, say!(evidence, "summary.unseen")),
        _ if count < ITERATIONS => (
            Confidence::Low,
            say!(evidence, "summary.few", count = count),
        ),
        _ => (
            Confidence::Medium,
            say!(
                evidence,
                "summary.profiled",
                count = count,
                within = None::<String>
            ),
        ),
    }
}

/// Times of the measured iterations of a stage.
fn iterations(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Statistics> {
    let times = evidence.iterations(stage).into_iter();
    Statistics::of(&times.map(|time| time.0).collect::<Vec<_>>())
}

/// Times below which the bootstrap of their median is no more than their range, which covers the median in less than 95 %.
const FEW: usize = 6;

/// The 95 % interval of a median, or the range of few times, as shares of the median.
#[derive(Clone, Copy)]
struct Interval {
    low: Ratio,
    high: Ratio,
    is_range: bool,
}

impl Interval {
    /// Half of it.
    fn half(self) -> Ratio {
        Ratio((self.high.0 - self.low.0) / 2.0)
    }

    fn words(self, evidence: &Evidence<'_>) -> String {
        match self.is_range {
            true => words!(evidence, "summary.range", low = self.low, high = self.high),
            false => words!(
                evidence,
                "summary.interval",
                low = self.low,
                high = self.high
            ),
        }
    }
}

fn interval(times: &Statistics) -> Option<Interval> {
    let is_range = times.n < FEW;
    let (low, high) = match is_range {
        true => (times.min, times.max),
        false => times.median_interval?,
    };
    (times.n > 1 && times.median > 0.0).then(|| Interval {
        low: Ratio(low / times.median),
        high: Ratio(high / times.median),
        is_range,
    })
}
