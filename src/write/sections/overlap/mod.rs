//! Concurrency: how much of the busy time several streams and kinds of operations share.

mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rooflens_schemas::{Metric, Scope, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::overlap::Line;
use rooflens_document::catalogue::CONCURRENT_SHARE;
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Quantity, SectionContent, View};
use rooflens_session::GpuId;
use rooflens_units::Ratio;

/// Concurrency.
pub(super) static SECTION: Section = Section {
    id: "concurrency",
    show,
};

/// Lines that the chart and the table show.
const SHOWN: usize = 16;

/// Bars of less overlap all look alike.
const LEAST_SHARE: Ratio = Ratio(0.005);

/// Pairs of streams that the table shows.
const SHOWN_PAIRS: usize = 8;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let lines = &context.results.overlap()?.lines;
    let mut content = SectionContent::default();
    let Some(first) = lines.first() else {
        return Ok(content);
    };
    let lines_of_first_pass = lines
        .iter()
        .take_while(|line| line.pass == first.pass)
        .count()
        .min(SHOWN);
    let shown = lines.len().min(SHOWN);
    let name = context.session.pass_name(first.pass);
    content
        .blocks
        .push(Block::Prose(say!(context, "overlap.introduction")));
    if lines[..lines_of_first_pass]
        .iter()
        .any(|line| line.overlap.concurrent_share() > Some(LEAST_SHARE))
    {
        content.blocks.push(Block::Chart(chart(
            context,
            &lines[..lines_of_first_pass],
            name,
        )));
    }
    let columns = tables::shown_columns(&lines[..shown]);
    let pass = (!columns.contains(&"pass")).then_some(name);
    let caption = words!(context, "overlap.caption", pass = pass);
    content.blocks.push(Block::Table(View::new(
        "concurrency",
        caption,
        &columns,
        shown,
    )));
    let pairs = tables::pairs(lines);
    if !pairs.is_empty() {
        let mut columns = tables::shown_start(lines);
        columns.extend(["stream", "other", "overlap_ns", "share"]);
        let caption = words!(context, "overlap.caption_streams");
        let view = View::new("stream_overlap", caption, &columns, SHOWN_PAIRS);
        content.appendix.push(Block::Table(view));
        content
            .datasets
            .push(tables::stream_overlap(context).rows(&pairs));
    }
    content
        .datasets
        .push(tables::concurrency(context).rows(lines));
    content.metrics = lines
        .iter()
        .filter_map(|line| metric(context, line))
        .collect();
    content.methods.push(method!(context, "overlap"));
    Ok(content)
}

fn name_of<'a>(context: &Context<'a>, line: &Line) -> &'a str {
    line.stage_name(context).unwrap_or("whole pass")
}

fn chart(context: &Context<'_>, lines: &[Line], pass: &str) -> Chart {
    let gpus: BTreeSet<GpuId> = lines.iter().map(|line| line.gpu).collect();
    let bar = |line: &Line| {
        let values: Vec<f64> = line
            .overlap
            .by_streams
            .iter()
            .map(|time| time.time().0)
            .collect();
        let name = name_of(context, line);
        let label = match gpus.len() {
            1 => name.to_owned(),
            _ => {
                let gpu = context.session.gpus.ordinal[line.gpu.index()].to_string();
                words!(context, "overlap.bar_gpu", stage = name, gpu = gpu)
            }
        };
        let note = words!(
            context,
            "overlap.bar",
            time = Quantity::ns(line.overlap.busy)
        );
        Bar {
            label,
            values,
            note,
        }
    };
    let parts = vec![
        Part::new(words!(context, "overlap.one_stream"), Color::Idle),
        Part::new(words!(context, "overlap.two_streams"), Color::Elementwise),
        Part::new(words!(context, "overlap.more_streams"), Color::Gemm),
    ];
    let bars = lines.iter().map(bar).collect();
    let most = lines.iter().max_by_key(|line| line.overlap.concurrent);
    Chart {
        id: "concurrency".to_owned(),
        title: words!(context, "overlap.chart"),
        description: words!(
            context,
            "overlap.chart_text",
            pass = pass,
            stage = most.map(|line| name_of(context, line)),
            concurrent = most.map(|line| Quantity::ns(line.overlap.concurrent)),
            busy = most.map(|line| Quantity::ns(line.overlap.busy)),
        ),
        plot: Plot::StackedBars(
            StackedBars {
                unit: Unit::Nanoseconds,
                normalized: true,
                parts,
                bars,
            }
            .without_empty_parts(),
        ),
    }
}

fn metric(context: &Context<'_>, line: &Line) -> Option<Metric> {
    let session = context.session;
    let gpus = session
        .gpus
        .pass
        .iter()
        .filter(|pass| **pass == line.pass)
        .count();
    let scope = Scope {
        pass: Some(session.pass_name(line.pass).to_owned()),
        stage: line.stage_name(context).map(str::to_owned),
        gpu: (gpus > 1).then(|| session.gpus.ordinal[line.gpu.index()]),
        ..Scope::default()
    };
    let basis = basis!(
        "basis.concurrent_share",
        concurrent = line.overlap.concurrent,
        busy = line.overlap.busy,
        streams = line.overlap.streams.len()
    );
    let mut metric = CONCURRENT_SHARE.derived(scope, line.overlap.concurrent_share()?.0, basis);
    let rows = line.operations as u64;
    metric
        .evidence
        .push(session.evidence(line.pass, "launches, copies", rows));
    Some(metric)
}
