//! The charts of idle time within stages.

use rooflens_schemas::Unit;

use super::causes::legend;
use super::tables::window;
use crate::Context;
use rooflens_analysis::engine::intervals::difference;
use rooflens_analysis::time::idle::histogram::Bin;
use rooflens_analysis::time::idle::queue::QueueOverTime;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_analysis::time::timeline::bins::cover;
use rooflens_document::Quantity;
use rooflens_document::chart::{
    self, Areas, Bar, Chart, Color, Lines, Part, Plot, StackedBars, Track, Tracks,
};
use rooflens_session::Ns;

/// Time of gaps, nanoseconds: in work of other stages the GPU is not idle.
fn idle(line: &Line) -> Ns {
    line.idle() - line.of(Cause::OtherWork)
}

/// How idle the GPU is in the stage with most idle time, and the largest cause of that.
fn idlest(context: &Context<'_>, lines: &[&Line]) -> String {
    // Of equally idle stages, and of equal causes, the first.
    let Some(line) = lines.iter().rev().max_by_key(|line| idle(line)) else {
        return String::new();
    };
    let time = |cause: &Cause| line.of(*cause);
    let causes = Cause::ALL
        .into_iter()
        .rev()
        .filter(|cause| *cause != Cause::OtherWork);
    let cause = causes.max_by_key(time).filter(|cause| time(cause) > 0);
    words!(
        context,
        "idle.chart",
        stage = line.label(context),
        idle = Quantity::ratio(line.share(idle(line))),
        cause = cause.map(|cause| context.text.word(cause.label())),
        of_cause = cause.map(|cause| Quantity::ratio(line.share(time(&cause)))),
    )
}

/// One bar a stage: busy time and idle time by cause.
pub(super) fn causes(context: &Context<'_>, lines: &[&Line]) -> Chart {
    let (causes, mut parts) = legend(|cause| lines.iter().any(|line| line.of(cause) > 0));
    parts.insert(
        0,
        Part {
            name: Color::Busy.label().to_owned(),
            color: Color::Busy,
        },
    );
    let bar = |line: &&Line| Bar {
        label: line.label(context),
        values: std::iter::once(line.busy())
            .chain(causes.iter().map(|cause| line.of(*cause)))
            .map(|time| time as f64)
            .collect(),
        note: words!(
            context,
            "idle.bar",
            idle = Quantity::ns(idle(line)),
            time = Quantity::ns(line.pool.time),
        ),
    };
    Chart {
        id: "idle-causes".to_owned(),
        title: idlest(context, lines),
        description: words!(context, "idle.chart_text"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts,
            bars: lines.iter().map(bar).collect(),
        }),
    }
}

/// A bar a bin, its idle time by cause.
pub(super) fn gap_lengths(context: &Context<'_>, line: &Line) -> Chart {
    let occurs = |cause: Cause| {
        line.histogram
            .used()
            .any(|(.., bin)| bin.times.of(cause) > 0)
    };
    let (causes, parts) = legend(occurs);
    let bar = |(lower, upper, bin): (Ns, Option<Ns>, &Bin)| Bar {
        label: bounds(context, lower, upper),
        values: causes
            .iter()
            .map(|cause| bin.times.of(*cause) as f64)
            .collect(),
        note: words!(context, "idle.gaps.bar", gaps = Quantity::count(bin.gaps)),
    };
    Chart {
        id: "gap-lengths".to_owned(),
        title: words!(context, "idle.gaps.chart", stage = line.label(context)),
        description: words!(context, "idle.gaps.chart_text", stage = line.label(context)),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars: line.histogram.used().map(bar).collect(),
        }),
    }
}

/// `10 to 20 µs`.
fn bounds(context: &Context<'_>, lower: Ns, upper: Option<Ns>) -> String {
    let short = |time: Ns| match time {
        0..1_000_000 => format!("{} µs", time / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", time / 1_000_000),
        _ => format!("{} s", time / 1_000_000_000),
    };
    let from = short(lower);
    match upper.map(short) {
        Some(upper) if lower == 0 => words!(context, "idle.gaps.below", upper = upper),
        Some(upper) => words!(context, "idle.gaps.between", lower = from, upper = upper),
        None => words!(context, "idle.gaps.above", lower = from),
    }
}

/// The depth above, what the GPU does below.
pub(super) fn queue(context: &Context<'_>, line: &Line, queue: &QueueOverTime) -> Chart {
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
            empty = Quantity::ratio(line.queue_empty_share().unwrap_or(0.0)),
        ),
        plot: Plot::Tracks(Tracks {
            x_label: words!(context, "idle.queue.time"),
            x_unit: Unit::Nanoseconds,
            extent: duration,
            bands: Vec::new(),
            tracks: vec![depth(context, queue), states(context, queue)],
        }),
    }
}

fn depth(context: &Context<'_>, queue: &QueueOverTime) -> Track {
    let window = window(queue);
    let edge = |bin: usize| window.edge(bin) - window.start;
    let line = |name: String, filled: bool, value: &dyn Fn(&(f64, u64)) -> f64| {
        let middle = |bin: usize| edge(bin) + (edge(bin + 1) - edge(bin)) / 2;
        let points = queue
            .bins
            .iter()
            .enumerate()
            .map(|(at, bin)| (middle(at), value(bin)));
        chart::Line {
            name,
            filled,
            points: points.collect(),
        }
    };
    Track::Lines(Lines {
        label: words!(context, "idle.queue.depth"),
        unit: Unit::Count,
        lines: vec![
            line(words!(context, "idle.queue.most"), true, &|bin| {
                bin.1 as f64
            }),
            line(words!(context, "idle.queue.mean"), false, &|bin| {
                libm::round(bin.0 * 1e4) / 1e4
            }),
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
    let part = |(name, color, _): &(String, Color, _)| Part {
        name: name.clone(),
        color: *color,
    };
    Track::Areas(Areas {
        label: words!(context, "idle.queue.states"),
        parts: states.iter().map(part).collect(),
        shares: states
            .iter()
            .map(|(.., times)| cover(&window(queue), times))
            .collect(),
    })
}
