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
use rooflens_findings::Quantity;
use rooflens_findings::chart::{
    self, Areas, Bar, Chart, Color, Lines, Part, Plot, StackedBars, Track, Tracks,
};
use rooflens_model::Ns;

/// One bar a stage: busy time and idle time by cause.
pub(super) fn causes(context: &Context<'_>, lines: &[&Line]) -> Chart {
    let (causes, mut parts) = legend(|cause| lines.iter().any(|line| line.of(cause) > 0));
    parts.insert(0, Part { name: Color::Busy.label().to_owned(), color: Color::Busy });
    let bar = |line: &&Line| Bar {
        label: line.label(context),
        values: std::iter::once(line.busy())
            .chain(causes.iter().map(|cause| line.of(*cause)))
            .map(|time| time as f64)
            .collect(),
        note: format!("{} idle", Quantity::new(line.per_instance(line.idle()), Unit::Nanoseconds)),
    };
    Chart {
        id: "idle-causes".to_owned(),
        title: "Why the GPU is idle".to_owned(),
        description:
            "One bar a stage: the share of its time in which the GPU is busy, and the shares in \
                      which it is idle, by cause, in the instance of median stage time. The table below holds the \
                      numbers."
                .to_owned(),
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
    let label = line.label(context);
    let occurs =
        |cause: Cause| line.histogram.used().any(|(.., bin)| bin.times[cause as usize] > 0);
    let (causes, parts) = legend(occurs);
    let bar = |(lower, upper, bin): (Ns, Option<Ns>, &Bin)| Bar {
        label: bounds(lower, upper),
        values: causes.iter().map(|cause| bin.times[*cause as usize] as f64).collect(),
        note: match bin.gaps {
            1 => "1 gap".to_owned(),
            gaps => format!("{} gaps", Quantity::count(gaps)),
        },
    };
    Chart {
        id: "gap-lengths".to_owned(),
        title: format!("Idle time of {label} by length of the gaps"),
        description: format!(
            "One bar a range of gap lengths: the idle time of the counted instances of {label} in gaps \
             of that length, by cause, and their number."
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars: line.histogram.used().map(bar).collect(),
        }),
    }
}

/// `10 to 20 µs`.
fn bounds(lower: Ns, upper: Option<Ns>) -> String {
    let short = |time: Ns| match time {
        0..1_000_000 => format!("{} µs", time / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", time / 1_000_000),
        _ => format!("{} s", time / 1_000_000_000),
    };
    match upper {
        Some(upper) if lower == 0 => format!("below {}", short(upper)),
        Some(upper) => format!("{} to {}", short(lower), short(upper)),
        None => format!("{} and more", short(lower)),
    }
}

/// The depth above, what the GPU does below.
pub(super) fn queue(context: &Context<'_>, line: &Line, queue: &QueueOverTime) -> Chart {
    let duration = window(queue).duration();
    let label = line.label(context);
    let time = Quantity::ns(duration);
    let empty = Quantity::ratio(line.queue_empty_share().unwrap_or(0.0));
    Chart {
        id: format!("queue-depth-{}", line.summary.stage),
        title: format!("How far the host is ahead in the median instance of {label} ({time})"),
        description: format!(
            "Instance {} of {label}: launches issued and not begun, mean and most in each of {} stretches of \
             {time}; below, the shares of each stretch in which the GPU is busy with and without work that waits, \
             and idle with an empty queue. The queue is empty for {empty} of the time. The data set \
             queue_over_time holds the stretches.",
            queue.ordinal,
            queue.bins.len(),
        ),
        plot: Plot::Tracks(Tracks {
            x_label: "Time".to_owned(),
            x_unit: Unit::Nanoseconds,
            extent: duration,
            bands: Vec::new(),
            tracks: vec![depth(queue), states(queue)],
        }),
    }
}

fn depth(queue: &QueueOverTime) -> Track {
    let window = window(queue);
    let edge = |bin: usize| window.edge(bin) - window.start;
    let line = |name: &str, filled: bool, value: &dyn Fn(&(f64, u64)) -> f64| {
        let middle = |bin: usize| edge(bin) + (edge(bin + 1) - edge(bin)) / 2;
        let points = queue.bins.iter().enumerate().map(|(at, bin)| (middle(at), value(bin)));
        chart::Line { name: name.to_owned(), filled, points: points.collect() }
    };
    Track::Lines(Lines {
        label: "Launches issued and not begun".to_owned(),
        unit: Unit::Count,
        lines: vec![
            line("most", true, &|bin| bin.1 as f64),
            line("mean", false, &|bin| libm::round(bin.0 * 1e4) / 1e4),
        ],
        shades: None,
        outliers: Vec::new(),
    })
}

/// When the GPU is busy and when the queue is empty; what is left is idle although work waits.
fn states(queue: &QueueOverTime) -> Track {
    let (busy, empty) = (&queue.busy, &queue.empty);
    let ahead = difference(busy, empty);
    let states = [
        ("busy, work waits", Color::Busy, &ahead),
        ("busy, queue empty", Color::Elementwise, &difference(busy, &ahead)),
        ("idle, queue empty", Color::Launching, &difference(empty, busy)),
    ];
    let part =
        |(name, color, _): &(&str, Color, _)| Part { name: (*name).to_owned(), color: *color };
    Track::Areas(Areas {
        label: "GPU and queue".to_owned(),
        parts: states.iter().map(part).collect(),
        shares: states.iter().map(|(.., times)| cover(&window(queue), times)).collect(),
    })
}
