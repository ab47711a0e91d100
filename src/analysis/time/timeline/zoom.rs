//! One instance of a stage close up: each class of operations in a row, and the host's CUDA calls below.

use rooflens_schemas::Unit;

use super::bins::{Window, cover};
use super::overview::{Overview, ordinal};
use crate::analysis::Context;
use crate::analysis::engine::facts::StageInstance;
use crate::analysis::engine::intervals::{Interval, difference, measure, union};
use crate::analysis::engine::stage_stats::{Summary, counted, middle, summaries};
use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::findings::chart::{Areas, Color, MarkRow, Part, Plot, Track, Tracks};
use crate::findings::{Chart, Quantity};
use crate::model::{GpuId, Ns};

/// Charts of instances that a report shows.
const MAX_ZOOMS: usize = 2;

/// Marks closer than this part of the axis are one: it is less than a point wide.
const PIXELS: Ns = 500;

/// An instance that fills more of the pass than this shows nothing new.
const MOST_OF_PASS: f64 = 0.6;

/// The charts of the stages with the most time, each of its median instance.
pub(super) fn charts(context: &Context<'_>, overview: &Overview) -> Vec<Chart> {
    let facts = context.facts;
    let mut lines: Vec<&Summary> = summaries(facts, overview.pass).iter().collect();
    // A part says more than the whole that it is part of.
    let is_parent = |stage: usize| facts.stages.iter().any(|other| other.parent == Some(stage));
    lines.retain(|line| !is_parent(line.stage) && facts.stages[line.stage].name != WHOLE_CAPTURE);
    let mut seen = Vec::new();
    lines.retain(|line| {
        let first = !seen.contains(&line.stage);
        seen.push(line.stage);
        first
    });
    lines.sort_by(|a, b| {
        let total = |line: &Summary| line.time * line.counted as f64;
        total(b).total_cmp(&total(a)).then(a.stage.cmp(&b.stage))
    });
    let most = overview.window.duration() as f64 * MOST_OF_PASS;
    lines.retain(|line| line.time < most);
    lines.iter().take(MAX_ZOOMS).filter_map(|line| chart(context, line)).collect()
}

fn chart(context: &Context<'_>, line: &Summary) -> Option<Chart> {
    let counted = counted(context.facts, line).collect();
    let instance = *middle(counted, |one| (one.time(), one.ordinal)).first()?;
    let (start, end) = instance.projection?;
    let lead = start.saturating_sub(instance.host_start).clamp(0, (end - start) / 10);
    let window = Window { start: start - lead, end };
    let gpu = *instance.gpus.first()?;
    let (rows, ..) = gpu_rows(context, line, &window, gpu);
    let projection = Window { start, end };
    let (_, busy, operations) = gpu_rows(context, line, &projection, gpu);
    let mut tracks = vec![Track::Marks(rows)];
    tracks.extend(calls(context, instance, &window));
    let stage = line.label(context.session, context.facts);
    let on = if instance.gpus.len() > 1 {
        format!(" on GPU {}", ordinal(context, gpu))
    } else {
        String::new()
    };
    let time = Quantity::ns(end - start);
    let description = format!(
        "Instance {} of {stage}, the median one{on}: {operations} operations within {time}, GPU busy for {}. One row a \
         class of operations; gaps that would not show are closed. Below, the share of the time in which the host is in \
         CUDA calls.",
        instance.ordinal,
        Quantity::ratio(busy as f64 / projection.duration().max(1) as f64),
    );
    Some(Chart {
        id: format!("timeline-stage-{}", line.stage),
        title: format!("The median instance of {stage} close up ({time}){on}"),
        description,
        plot: Plot::Tracks(Tracks {
            x_label: "Time".to_owned(),
            x_unit: Unit::Nanoseconds,
            extent: window.duration(),
            bands: vec![(stage, lead, window.duration())],
            tracks,
        }),
    })
}

/// A row for each class of operations that ran on the GPU in the window, its busy time, and their number.
fn gpu_rows(
    context: &Context<'_>,
    line: &Summary,
    window: &Window,
    gpu: GpuId,
) -> (Vec<MarkRow>, Ns, usize) {
    let ops = &context.facts.ops;
    let mut rows: Vec<(Color, Vec<Interval>)> =
        Color::KERNELS.into_iter().map(|color| (color, Vec::new())).collect();
    for row in context.facts.ops_of(line.stage(context.facts).pass) {
        let clipped = window.clip(ops.start[row], ops.end[row]);
        let Some(clipped) = clipped.filter(|_| ops.gpu[row] == gpu) else { continue };
        let color = context.facts.class(context.session, row).color();
        if let Some((_, list)) = rows.iter_mut().find(|(own, _)| *own == color) {
            list.push(clipped);
        }
    }
    let operations = rows.iter().map(|(_, list)| list.len()).sum();
    let mut all: Vec<Interval> = rows.iter().flat_map(|(_, list)| list.iter().copied()).collect();
    let busy = measure(&union(&mut all));
    let filled = rows.into_iter().filter(|(_, list)| !list.is_empty());
    let rows = filled.map(|(color, mut list)| MarkRow {
        label: color.label().to_owned(),
        color,
        marks: marks(window, &union(&mut list)),
    });
    (rows.collect(), busy, operations)
}

/// How much of the time the instance's process spends in outermost CUDA calls: those that launch, and others.
fn calls(context: &Context<'_>, instance: &StageInstance, window: &Window) -> Option<Track> {
    let (session, calls) = (context.session, &context.session.api_calls);
    let (mut launches, mut others) = (Vec::new(), Vec::new());
    let own = (0..calls.len()).filter(|row| calls.process[*row] == instance.process);
    for row in own.filter(|row| !calls.nested[*row]) {
        let Some(clipped) = window.clip(calls.start[row], calls.end[row]) else { continue };
        let is_launch = session.text(calls.name[row]).contains("Launch");
        if is_launch { launches.push(clipped) } else { others.push(clipped) }
    }
    if launches.is_empty() && others.is_empty() {
        return None;
    }
    // Calls of several threads may overlap; their shares must not exceed the whole.
    let launches = union(&mut launches);
    let others = difference(&union(&mut others), &launches);
    let part = |(name, color): (&str, Color)| Part { name: name.to_owned(), color };
    let parts = [("launch calls", Color::Other), ("other CUDA calls", Color::Idle)];
    Some(Track::Areas(Areas {
        label: "Host in CUDA calls".to_owned(),
        parts: parts.into_iter().map(part).collect(),
        shares: vec![cover(window, &launches), cover(window, &others)],
    }))
}

/// Intervals from the window's start, those joined between which no gap would show.
fn marks(window: &Window, intervals: &[Interval]) -> Vec<(i64, i64)> {
    let pixel = window.duration() / PIXELS;
    let mut marks: Vec<(i64, i64)> = Vec::new();
    for (start, end) in intervals.iter().map(|(s, e)| (s - window.start, e - window.start)) {
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

    #[test]
    fn gaps_that_would_not_show_are_closed() {
        // 5000 ns on 500 pixels: a gap of 9 ns is closed, one of 10 is not.
        let window = Window { start: 100, end: 5_100 };
        let marks = marks(&window, &[(100, 200), (209, 300), (310, 320)]);
        assert_eq!(marks, [(0, 200), (210, 220)]);
    }
}
