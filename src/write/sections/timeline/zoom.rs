//! One instance of a stage close up: each class of operations in a row, and the host's CUDA calls below.

use rooflens_schemas::Unit;

use super::number;
use crate::Context;
use crate::group_color;
use rooflens_analysis::engine::intervals::Interval;
use rooflens_analysis::time::timeline::bins::{Window, cover};
use rooflens_analysis::time::timeline::zoom::Zoom;
use rooflens_document::chart::{Areas, Color, MarkRow, Part, Plot, Track, Tracks};
use rooflens_document::{Chart, Quantity};

/// Marks closer than this part of the axis are one: it is less than a point wide.
const PIXELS: i64 = 500;

/// The chart of an instance.
pub(super) fn chart(context: &Context<'_>, zoom: &Zoom) -> Chart {
    let Zoom {
        window,
        projection,
        operations,
        ..
    } = zoom;
    let row = |(group, intervals): &(_, Vec<Interval>)| {
        let color = group_color(*group);
        let label = context.text.word(color.label()).to_owned();
        MarkRow {
            label,
            color,
            marks: marks(window, intervals),
        }
    };
    let mut tracks = vec![Track::Marks(zoom.groups.iter().map(row).collect())];
    tracks.extend(calls(context, zoom));
    let stage = zoom.summary.label(context.session, context.facts);
    let gpu = number(context, zoom.gpu, zoom.several_gpus);
    let time = Quantity::ns(projection.duration());
    let (name, gpu) = (stage.as_str(), gpu.as_deref());
    let ordinal = zoom.ordinal.to_string();
    let busy = zoom.busy_share();
    let title = words!(
        context,
        "timeline_stage.chart",
        ordinal = ordinal.as_str(),
        stage = name,
        time = time,
        median = zoom.summary.time,
        gpu = gpu,
        busy = busy,
    );
    let description = words!(
        context,
        "timeline_stage.chart_text",
        ordinal = ordinal,
        stage = name,
        gpu = gpu,
        operations = operations.to_string(),
        time = time,
        busy = busy,
    );
    Chart {
        id: format!("timeline-stage-{}", zoom.summary.stage),
        title,
        description,
        plot: Plot::Tracks(Tracks {
            x_label: words!(context, "timeline.time"),
            x_unit: Unit::Nanoseconds,
            extent: window.duration().0,
            bands: vec![(
                stage,
                (projection.start - window.start).0,
                window.duration().0,
            )],
            tracks,
        }),
    }
}

/// How much of the time the process spends in CUDA calls: in those that launch, and in others.
fn calls(context: &Context<'_>, zoom: &Zoom) -> Option<Track> {
    let (launches, others) = zoom.calls.as_ref()?;
    let parts = vec![
        Part::new(words!(context, "timeline_stage.launch_calls"), Color::Other),
        Part::new(words!(context, "timeline_stage.other_calls"), Color::Idle),
    ];
    let shares = vec![cover(&zoom.window, launches), cover(&zoom.window, others)];
    Some(Track::Areas(Areas {
        label: words!(context, "timeline_stage.calls"),
        parts,
        shares,
    }))
}

/// Intervals from the window's start, those joined between which no gap would show.
fn marks(window: &Window, intervals: &[Interval]) -> Vec<(i64, i64)> {
    let pixel = window.duration().0 / PIXELS;
    let mut marks: Vec<(i64, i64)> = Vec::new();
    for interval in intervals {
        let start = (interval.0 - window.start).0;
        let end = (interval.1 - window.start).0;
        match marks.last_mut() {
            Some(last) if start - last.1 < pixel => last.1 = end,
            _ => marks.push((start, end)),
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_session::Ns;

    #[test]
    fn gaps_that_would_not_show_are_closed() {
        // 5000 ns on 500 pixels: a gap of 9 ns is closed, one of 10 is not.
        let window = Window {
            start: Ns(100),
            end: Ns(5_100),
        };
        let marks = marks(
            &window,
            &[(Ns(100), Ns(200)), (Ns(209), Ns(300)), (Ns(310), Ns(320))],
        );
        assert_eq!(marks, [(0, 200), (210, 220)]);
    }
}
