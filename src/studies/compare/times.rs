//! Whether stages take another time: unprofiled repeats where both captures have some, else profiled iterations.

use rooflens_analysis::engine::baseline::{Repeat, Series};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_schemas::StageKind;
use rooflens_stats::{Shift, false_discovery_rates, median};
use rooflens_units::{Ratio, Time};
use serde::{Deserialize, Serialize};

use crate::{Analyzed, Pair};

/// Confidence of the intervals, and the rate of false discoveries from which on a difference counts.
pub const CONFIDENCE: Ratio = Ratio(0.99);

/// The time of a stage in both captures.
#[derive(Clone, Debug, PartialEq)]
pub struct StageChange {
    /// Stage, with the rank where several processes ran.
    pub stage: String,
    /// Whether the times are of single steps, of which an iteration has several.
    pub per_step: bool,
    /// Whether a profiler ran.
    pub profiled: bool,
    /// Times.
    pub samples: Pair<usize>,
    /// Their medians.
    pub median: Pair<Time>,
    /// The factor of the times, second ÷ first.
    pub shift: Option<Shift>,
    /// Rate of false discoveries over all stages.
    pub rate: Option<f64>,
    /// What this means.
    pub verdict: Verdict,
}

/// What two samples of times say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Shorter.
    Better,
    /// Longer.
    Worse,
    /// The interval excludes an effect that counts.
    Same,
    /// None of these.
    CannotTell,
}

impl Verdict {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::CannotTell => "cannot tell",
        }
    }
}

impl StageChange {
    /// The factor of the times: that of the samples, or that of the medians.
    pub fn ratio(&self) -> Ratio {
        match self.shift {
            Some(shift) => shift.ratio,
            None => Ratio::of(self.median.after, self.median.before),
        }
    }
}

/// The times of the stages that both sides have.
pub(crate) fn changes(stages: Pair<&[StageTimes]>, least: Ratio) -> Vec<StageChange> {
    let mut changes = Vec::new();
    for before in stages.before {
        if let Some(after) = stages.after.iter().find(|after| before.is_like(after)) {
            changes.extend(change(before, after));
        }
    }
    let p_values: Vec<f64> = changes
        .iter()
        .filter_map(|change| Some(change.shift?.p))
        .collect();
    let mut rates = false_discovery_rates(&p_values).into_iter();
    for change in &mut changes {
        if let Some(shift) = change.shift {
            change.rate = rates.next();
            change.verdict = verdict(&shift, change.rate, least);
        }
    }
    changes
}

/// The times of one stage, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTimes {
    /// Stage, with the rank where several processes ran.
    pub name: String,
    /// Whether the times are of single steps, of which an iteration has several.
    pub per_step: bool,
    /// Unprofiled repeats without a cold first one.
    pub unprofiled: Vec<f64>,
    /// Counted iterations of the timeline.
    pub profiled: Vec<f64>,
}

impl StageTimes {
    /// Whether its times are of the same work.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.per_step) == (&other.name, other.per_step)
    }
}

/// Adds the times of a capture: those of several captures are one sample.
pub(crate) fn add_capture(stages: &mut Vec<StageTimes>, capture: &Analyzed<'_>) {
    for times in of_capture(capture) {
        add(stages, times);
    }
}

/// Adds times of a stage.
pub(crate) fn add(stages: &mut Vec<StageTimes>, times: StageTimes) {
    match stages.iter_mut().find(|stage| stage.is_like(&times)) {
        Some(stage) => {
            stage.unprofiled.extend(times.unprofiled);
            stage.profiled.extend(times.profiled);
        }
        None => stages.push(times),
    }
}

fn of_capture(capture: &Analyzed<'_>) -> Vec<StageTimes> {
    let (session, facts) = (capture.context.session, capture.context.facts);
    let baseline = capture.context.results.baseline().ok();
    let mut stages: Vec<StageTimes> = Vec::new();
    for summary in facts.run_summaries() {
        let per_step = summary.kind(facts) == StageKind::Decode;
        let name = summary.label(session, facts);
        let series = baseline.and_then(|baseline| {
            let is_alone = summary.scope(session, facts).rank.is_none();
            let series = baseline.unprofiled(session, &summary.stage(facts).name);
            series.filter(|_| is_alone)
        });
        stages.push(StageTimes {
            name,
            per_step,
            unprofiled: series.map_or_else(Vec::new, |series| repeats(series, per_step)),
            profiled: iterations(capture, summary, per_step),
        });
    }
    let timed = baseline.map_or(&[][..], |baseline| &baseline.series);
    for series in timed.iter().filter(|series| series.profiled == Some(false)) {
        let name = session.text(series.stage);
        if stages.iter().all(|stage| stage.name != name) {
            stages.push(StageTimes {
                name: name.to_owned(),
                per_step: false,
                unprofiled: repeats(series, false),
                profiled: Vec::new(),
            });
        }
    }
    stages
}

/// Unprofiled times without a cold first one.
fn repeats(series: &Series, per_step: bool) -> Vec<f64> {
    let warm = series.repeats.iter().filter(|repeat| !repeat.is_cold());
    let time = |repeat: &Repeat| match per_step {
        true => repeat.per_step(),
        false => Some(repeat.duration.time()),
    };
    warm.filter_map(time).map(|time| time.0).collect()
}

/// Times of the counted iterations of the timeline.
fn iterations(capture: &Analyzed<'_>, summary: &Summary, per_step: bool) -> Vec<f64> {
    let mut times = Vec::new();
    for instance in summary.counted_instances(capture.context.facts) {
        let steps = match per_step {
            true => instance.steps,
            false => Some(1),
        };
        let time = instance.time().zip(steps.filter(|steps| *steps > 0));
        times.extend(time.map(|(time, steps)| time.time().0 / steps as f64));
    }
    times
}

fn change(before: &StageTimes, after: &StageTimes) -> Option<StageChange> {
    let profiled = before.unprofiled.is_empty() || after.unprofiled.is_empty();
    let [first, second] = [before, after].map(|times| match profiled {
        true => &times.profiled,
        false => &times.unprofiled,
    });
    Some(StageChange {
        stage: before.name.clone(),
        per_step: before.per_step,
        profiled,
        samples: Pair {
            before: first.len(),
            after: second.len(),
        },
        median: Pair {
            before: Time(median(first)?),
            after: Time(median(second)?),
        },
        shift: Shift::of(first, second, CONFIDENCE),
        rate: None,
        verdict: Verdict::CannotTell,
    })
}

/// The verdict on a factor: it counts if it is no chance, and at least `least` away from 1.
fn verdict(shift: &Shift, rate: Option<f64>, least: Ratio) -> Verdict {
    let is_chance = rate.is_none_or(|rate| rate > 1.0 - CONFIDENCE.0);
    match of_interval(shift.ratio, shift.interval, least) {
        Verdict::Better | Verdict::Worse if is_chance => Verdict::CannotTell,
        verdict => verdict,
    }
}

/// The verdict on a factor of times by its interval.
pub(crate) fn of_interval(ratio: Ratio, interval: Option<(Ratio, Ratio)>, least: Ratio) -> Verdict {
    let Some((low, high)) = interval else {
        return Verdict::CannotTell;
    };
    let (faster, slower) = (Ratio(1.0 / (1.0 + least.0)), Ratio(1.0 + least.0));
    if low >= faster && high <= slower {
        Verdict::Same
    } else if high < Ratio::ONE && ratio <= faster {
        Verdict::Better
    } else if low > Ratio::ONE && ratio >= slower {
        Verdict::Worse
    } else {
        Verdict::CannotTell
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shift(low: f64, ratio: f64, high: f64) -> Shift {
        Shift {
            ratio: Ratio(ratio),
            interval: Some((Ratio(low), Ratio(high))),
            p: 0.001,
        }
    }

    #[test]
    fn a_difference_must_be_no_chance_and_large_enough() {
        let least = Ratio(0.01);
        let verdict = |shift: &Shift, rate| verdict(shift, Some(rate), least);
        assert_eq!(verdict(&shift(1.02, 1.03, 1.04), 0.001), Verdict::Worse);
        assert_eq!(verdict(&shift(0.5, 0.6, 0.7), 0.001), Verdict::Better);
        assert_eq!(verdict(&shift(0.5, 0.6, 0.7), 0.02), Verdict::CannotTell);
        assert_eq!(
            verdict(&shift(0.98, 1.03, 1.08), 0.001),
            Verdict::CannotTell
        );
        // Certain, but less than 1 %.
        assert_eq!(verdict(&shift(1.002, 1.004, 1.006), 0.001), Verdict::Same);
        let alone = Shift {
            interval: None,
            ..shift(0.5, 0.5, 0.5)
        };
        assert_eq!(verdict(&alone, 0.001), Verdict::CannotTell);
    }

    /// Times around 10 ms with a deviation of 2 %, and every twentieth 30 % longer: sums of twelve uniform numbers.
    fn times(random: &mut u64, count: usize) -> Vec<f64> {
        let mut uniform = || {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            (*random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut time = |index: usize| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let slow = if index % 20 == 19 { 1.3 } else { 1.0 };
            1e7 * (1.0 + 0.02 * normal) * slow
        };
        (0..count).map(&mut time).collect()
    }

    fn judge(first: &[f64], second: &[f64]) -> Verdict {
        let shift = Shift::of(first, second, CONFIDENCE).unwrap();
        verdict(&shift, Some(shift.p), Ratio(0.01))
    }

    #[test]
    fn halves_of_a_run_do_not_differ_and_three_percent_do() {
        let (mut wrong, mut found, mut random) = (0, 0, 0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..1000 {
            let whole = times(&mut random, 80);
            let (first, second) = whole.split_at(40);
            let same = judge(first, second);
            wrong += usize::from(matches!(same, Verdict::Better | Verdict::Worse));
            let slower: Vec<f64> = second.iter().map(|time| time * 1.03).collect();
            found += usize::from(judge(first, &slower) == Verdict::Worse);
        }
        assert!(wrong <= 10, "{wrong} of 1000 halves differ");
        assert!(found >= 950, "{found} of 1000 slowdowns are found");
    }
}
