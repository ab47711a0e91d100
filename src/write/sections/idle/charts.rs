//! The charts of idle time within stages.

use rooflens_schemas::Unit;
use rooflens_session::Ns;

use super::presentation;
use crate::Context;
use rooflens_analysis::engine::intervals::difference;
use rooflens_analysis::time::idle::histogram::Bin;
use rooflens_analysis::time::idle::queue::QueueOverTime;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_analysis::time::timeline::bins::{Window, cover};
use rooflens_document::Quantity;
use rooflens_document::chart::{
    self, Areas, Bar, Chart, Color, Lines, Part, Plot, StackedBars, Track, Tracks,
};

/// The causes that occur, and their part of a legend.
pub(super) fn legend(occurs: impl Fn(Cause) -> bool) -> (Vec<Cause>, Vec<Part>) {
    let (mut causes, mut parts) = (Vec::new(), Vec::new());
    for cause in Cause::ALL {
        if occurs(cause) {
            let (_, color, _) = presentation(cause);
            causes.push(cause);
            parts.push(Part::new(cause.label(), color));
        }
    }
    (causes, parts)
}

/// How idle the GPU is in the stage with most idle time, and the largest cause of that.
fn idlest(context: &Context<'_>, lines: &[&StageIdle]) -> String {
    // Of equally idle stages, and of equal causes, the first.
    let Some(line) = lines.iter().rev().max_by_key(|line| line.idle()) else {
        return String::new();
    };
    let mut largest: Option<(Cause, Ns)> = None;
    for cause in Cause::ALL {
        let time = line.of(cause);
        if cause != Cause::OtherWork && time > largest.map_or(Ns::ZERO, |(_, most)| most) {
            largest = Some((cause, time));
        }
    }
    // A cold start can hold most idle time of all iterations, and none of a typical one.
    let typical = line.typical_cause();
    let typical = typical.filter(|(cause, _)| largest.is_some_and(|(most, _)| most != *cause));
    words!(
        context,
        "idle.chart",
        stage = line.label(context),
        idle = line.share(line.idle()),
        typical = typical.map(|(cause, _)| context.text.word(cause.label())),
        of_typical = typical.map(|(_, share)| share),
        cause = largest.map(|(cause, _)| context.text.word(cause.label())),
        of_cause = largest.map(|(_, time)| line.share(time)),
    )
}

/// One bar a stage: busy time and idle time by cause.
pub(super) fn causes(context: &Context<'_>, lines: &[&StageIdle]) -> Chart {
    let occurs = |cause| lines.iter().any(|line| line.of(cause) > Ns::ZERO);
    let (causes, of_causes) = legend(|cause| cause != Cause::OtherWork && occurs(cause));
    let has_other_work = occurs(Cause::OtherWork);
    // In work of other stages the GPU is not idle.
    let mut parts = vec![Part::new(Color::Busy.label(), Color::Busy)];
    if has_other_work {
        parts.push(Part::new(Color::OtherWork.label(), Color::OtherWork));
    }
    parts.extend(of_causes);
    let mut bars = Vec::new();
    for line in lines {
        let mut values = vec![line.busy().time().0];
        if has_other_work {
            values.push(line.of(Cause::OtherWork).time().0);
        }
        values.extend(causes.iter().map(|cause| line.of(*cause).time().0));
        let (idle, time) = (Quantity::ns(line.idle()), Quantity::ns(line.pool.time));
        bars.push(Bar {
            label: line.label(context),
            values,
            note: words!(context, "idle.bar", idle = idle, time = time),
        });
    }
    Chart {
        id: "idle-causes".to_owned(),
        title: idlest(context, lines),
        description: words!(
            context,
            "idle.chart_text",
            other = has_other_work.then_some("")
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts,
            bars,
        }),
    }
}

/// A bar a bin, its idle time by cause.
pub(super) fn gap_lengths(context: &Context<'_>, line: &StageIdle) -> Chart {
    let bins: Vec<(Ns, Option<Ns>, &Bin)> = line.histogram.used().collect();
    let (causes, parts) =
        legend(|cause| bins.iter().any(|(.., bin)| bin.times.of(cause) > Ns::ZERO));
    let mut bars = Vec::new();
    for (lower, upper, bin) in bins {
        let times = causes.iter().map(|cause| bin.times.of(*cause).time().0);
        bars.push(Bar {
            label: bounds(context, lower, upper),
            values: times.collect(),
            note: words!(context, "idle.gaps.bar", gaps = Quantity::count(bin.gaps)),
        });
    }
    Chart {
        id: "gap-lengths".to_owned(),
        title: words!(context, "idle.gaps.chart", stage = line.label(context)),
        description: words!(context, "idle.gaps.chart_text", stage = line.label(context)),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars,
        }),
    }
}

/// `10 to 20 µs`.
fn bounds(context: &Context<'_>, lower: Ns, upper: Option<Ns>) -> String {
    let from = short(lower);
    match upper.map(short) {
        Some(upper) if lower == Ns(0) => words!(context, "idle.gaps.below", upper = upper),
        Some(upper) => words!(context, "idle.gaps.between", lower = from, upper = upper),
        None => words!(context, "idle.gaps.above", lower = from),
    }
}

/// A whole number of microseconds, milliseconds or seconds.
fn short(time: Ns) -> String {
    match time {
        Ns(0..1_000_000) => format!("{} µs", time / 1_000),
        Ns(1_000_000..1_000_000_000) => format!("{} ms", time / 1_000_000),
        _ => format!("{} s", time / 1_000_000_000),
    }
}

/// The depth above, what the GPU does below.
pub(super) fn queue(context: &Context<'_>, line: &StageIdle, queue: &QueueOverTime) -> Chart {
    let duration = window(queue).duration();
    let (stage, time) = (line.label(context), Quantity::ns(duration));
    Chart {
        id: format!("queue-depth-{}", line.summary.stage),
        title: words!(
            context,
            "idle.queue.chart",
            stage = stage.as_str(),
            time = time
        ),
        description: words!(
            context,
            "idle.queue.chart_text",
            ordinal = queue.ordinal.to_string(),
            stage = stage,
            count = queue.bins.len().to_string(),
            time = time,
            empty = line.queue_empty_share().unwrap_or_default(),
        ),
        plot: Plot::Tracks(Tracks {
            x_label: words!(context, "idle.queue.time"),
            x_unit: Unit::Nanoseconds,
            extent: duration.0,
            bands: Vec::new(),
            tracks: vec![depth(context, queue), states(context, queue)],
        }),
    }
}

fn depth(context: &Context<'_>, queue: &QueueOverTime) -> Track {
    let window = window(queue);
    let (mut most, mut mean) = (Vec::new(), Vec::new());
    for (bin, (depth_mean, depth_max)) in queue.bins.iter().enumerate() {
        let start = window.edge(bin) - window.start;
        let end = window.edge(bin + 1) - window.start;
        let middle = (start + (end - start) / 2).0;
        most.push((middle, *depth_max as f64));
        mean.push((middle, libm::round(depth_mean.0 * 1e4) / 1e4));
    }
    Track::Lines(Lines {
        label: words!(context, "idle.queue.depth"),
        unit: Unit::Count,
        lines: vec![
            chart::Line {
                name: words!(context, "idle.queue.most"),
                filled: true,
                points: most,
            },
            chart::Line {
                name: words!(context, "idle.queue.mean"),
                filled: false,
                points: mean,
            },
        ],
        shades: None,
        outliers: Vec::new(),
    })
}

/// When the GPU is busy and when the queue is empty; what is left is idle although work waits.
fn states(context: &Context<'_>, queue: &QueueOverTime) -> Track {
    let (busy, empty) = (&queue.busy, &queue.empty);
    let ahead = difference(busy, empty);
    let states = [
        (
            words!(context, "idle.queue.busy_waits"),
            Color::Busy,
            &ahead,
        ),
        (
            words!(context, "idle.queue.busy_empty"),
            Color::Elementwise,
            &difference(busy, &ahead),
        ),
        (
            words!(context, "idle.queue.idle_empty"),
            Color::Launching,
            &difference(empty, busy),
        ),
    ];
    let (mut parts, mut shares) = (Vec::new(), Vec::new());
    for (name, color, times) in states {
        parts.push(Part { name, color });
        shares.push(cover(&window(queue), times));
    }
    Track::Areas(Areas {
        label: words!(context, "idle.queue.states"),
        parts,
        shares,
    })
}

/// The window of a queue over time.
pub(super) const fn window(queue: &QueueOverTime) -> Window {
    Window {
        start: queue.window.0,
        end: queue.window.1,
    }
}
