//! Tracks of samples: hardware counters, power, clocks.

use rooflens_schemas::Unit;
use rooflens_session::Ns;
use rooflens_units::{Hertz, Ratio};

use crate::Context;
use rooflens_analysis::system::power;
use rooflens_analysis::system::power::reasons::lowers_clock;
use rooflens_analysis::system::power::samples::Sample;
use rooflens_analysis::time::timeline::bins::{Window, means};
use rooflens_analysis::time::timeline::sampled::{Counter, GpuCounters};
use rooflens_document::chart::{Line, Lines, Track};

/// Share of the highest clock below which a clock that has a reason to be low is marked.
pub(super) const THROTTLED: Ratio = Ratio(0.97);

fn line(name: String, filled: bool, points: Vec<(Ns, f64)>) -> Line {
    let points = points
        .into_iter()
        .map(|(time, value)| (time.0, significant(value)))
        .collect();
    Line {
        name,
        filled,
        points,
    }
}

/// A value with the digits that a chart can show.
fn significant(value: f64) -> f64 {
    libm::round(value * 1e4) / 1e4
}

fn track(label: String, unit: Unit, lines: Vec<Line>) -> Option<Track> {
    let lines: Vec<Line> = lines
        .into_iter()
        .filter(|line| !line.points.is_empty())
        .collect();
    let (shades, outliers) = (None, Vec::new());
    (!lines.is_empty()).then_some(Track::Lines(Lines {
        label,
        unit,
        lines,
        shades,
        outliers,
    }))
}

fn single(label: String, unit: Unit, points: Vec<(Ns, f64)>) -> Option<Track> {
    track(label, unit, vec![line(String::new(), false, points)])
}

/// SM and tensor activity, memory traffic, and the clock where NVML does not give it.
pub(super) fn counter_tracks(
    context: &Context<'_>,
    window: &Window,
    own: &GpuCounters,
    clock: bool,
    gpu: Option<&str>,
) -> Vec<Track> {
    let points = |counter: Counter| match own.sampled.get(&counter) {
        Some(sampled) => means(window, sampled.samples.iter().copied()),
        None => Vec::new(),
    };
    let activity = vec![
        line(
            words!(context, "timeline.sms"),
            true,
            points(Counter::SmActive),
        ),
        line(
            words!(context, "timeline.tensor"),
            false,
            points(Counter::TensorActive),
        ),
    ];
    let traffic = vec![
        line(
            words!(context, "timeline.read"),
            true,
            points(Counter::DramRead),
        ),
        line(
            words!(context, "timeline.write"),
            false,
            points(Counter::DramWrite),
        ),
    ];
    let clocks = if clock {
        points(Counter::Clock)
    } else {
        Vec::new()
    };
    [
        track(
            words!(context, "timeline.active", gpu = gpu),
            Unit::Ratio,
            activity,
        ),
        track(
            words!(context, "timeline.bandwidth", gpu = gpu),
            Unit::Ratio,
            traffic,
        ),
        single(
            words!(context, "timeline.clock", gpu = gpu),
            Unit::Hertz,
            clocks,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Power and SM clock, with the stretches in which a reason lowers the clock.
pub(super) fn nvml_tracks(
    context: &Context<'_>,
    window: &Window,
    samples: &[(Ns, Sample)],
    gpu: Option<&str>,
) -> Vec<Track> {
    let points = |value: fn(&Sample) -> Option<f64>| {
        let stated = samples
            .iter()
            .filter_map(|(time, sample)| Some((*time, value(sample)?)));
        means(window, stated)
    };
    let throttled = throttled(window, samples, highest_clock(context));
    let label = words!(context, "timeline.throttled", least = THROTTLED);
    let tracks = [
        single(
            words!(context, "timeline.power", gpu = gpu),
            Unit::Watts,
            points(|s| Some(s.watts?.0)),
        ),
        single(
            words!(context, "timeline.clock", gpu = gpu),
            Unit::Hertz,
            points(|s| Some(s.sm_hz?.0)),
        ),
    ];
    let shaded = tracks.into_iter().flatten().map(|track| match track {
        Track::Lines(lines) => {
            let shades = (!throttled.is_empty()).then(|| (label.clone(), throttled.clone()));
            Track::Lines(Lines { shades, ..lines })
        }
        other => other,
    });
    shaded.collect()
}

/// The highest SM clock that was sampled on any GPU.
fn highest_clock(context: &Context<'_>) -> Hertz {
    let samples = power::sampled(context)
        .iter()
        .flat_map(|device| &device.samples);
    samples
        .filter_map(|sample| sample.sm_hz)
        .fold(Hertz::ZERO, Hertz::max)
}

/// Stretches from a sample at a low clock, with a reason for it, to the next sample without one.
fn throttled(window: &Window, samples: &[(Ns, Sample)], highest: Hertz) -> Vec<(i64, i64)> {
    let is_low = |sample: &Sample| {
        sample
            .sm_hz
            .is_some_and(|clock| clock < highest * THROTTLED)
    };
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for pair in samples.windows(2) {
        if !(pair[0].1.reasons.is_some_and(lowers_clock) && is_low(&pair[0].1)) {
            continue;
        }
        let (start, end) = ((pair[0].0 - window.start).0, (pair[1].0 - window.start).0);
        match stretches.last_mut() {
            Some(last) if last.1 >= start => last.1 = end,
            _ => stretches.push((start, end)),
        }
    }
    stretches
}
