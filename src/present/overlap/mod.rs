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
use rooflens_findings::catalogue::CONCURRENT_SHARE;
use rooflens_findings::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_findings::{Block, Chart, Findings, Method, Quantity, View, prose};
use rooflens_model::GpuId;

/// Concurrency.
pub(super) static SECTION: Section = Section { id: "concurrency", show };

/// Lines that the chart and the table show.
const SHOWN: usize = 16;

/// Bars of less overlap all look alike.
const LEAST_SHARE: f64 = 0.005;

/// Pairs of streams that the table shows.
const SHOWN_PAIRS: usize = 8;

fn show(context: &Context<'_>) -> Known<Findings> {
    let all = &context.results.overlap()?.lines;
    let mut findings = Findings::default();
    let Some(first) = all.first() else { return Ok(findings) };
    let own = all.iter().take_while(|line| line.pass == first.pass).count().min(SHOWN);
    let shown = all.len().min(SHOWN);
    let name = context.session.pass_name(first.pass);
    findings.blocks.push(Block::Prose(prose![
        "How many streams of a GPU work at once. Work on several streams gains only where it overlaps: a copy or a \
         collective that no kernel accompanies costs its whole time."
    ]));
    if all[..own].iter().any(|line| line.overlap.concurrent_share() > Some(LEAST_SHARE)) {
        findings.blocks.push(Block::Chart(chart(context, &all[..own], name)));
    }
    let columns = tables::shown_columns(&all[..shown]);
    let mut caption = "Time in which operations run at once".to_owned();
    if !columns.contains(&"pass") {
        caption.push_str(&format!(", pass {name}"));
    }
    findings.blocks.push(Block::Table(View::new("concurrency", caption, &columns, shown)));
    let pairs = tables::pairs(all);
    if !pairs.is_empty() {
        let mut columns = tables::shown_start(all);
        columns.extend(["stream", "other", "overlap_ns", "share"]);
        let caption = "Streams that work at once, as a share of the less busy one's time";
        let view = View::new("stream_overlap", caption, &columns, SHOWN_PAIRS);
        findings.appendix.push(Block::Table(view));
        findings.datasets.push(tables::stream_overlap(context).rows(&pairs));
    }
    findings.datasets.push(tables::concurrency(context).rows(all));
    findings.metrics = all.iter().filter_map(|line| metric(context, line)).collect();
    findings.methods.push(method());
    Ok(findings)
}

fn name_of<'a>(context: &Context<'a>, line: &Line) -> &'a str {
    line.stage_name(context).unwrap_or("whole pass")
}

fn chart(context: &Context<'_>, lines: &[Line], pass: &str) -> Chart {
    let gpus: BTreeSet<GpuId> = lines.iter().map(|line| line.gpu).collect();
    let bar = |line: &Line| {
        let values: Vec<f64> = line.overlap.by_streams.iter().map(|time| *time as f64).collect();
        let name = name_of(context, line);
        let label = match gpus.len() {
            1 => name.to_owned(),
            _ => format!("{name} · GPU {}", context.session.gpus.ordinal[line.gpu.index()]),
        };
        let busy = Quantity::ns(line.overlap.busy);
        Bar { label, values, note: format!("{busy} busy") }
    };
    let part = |(name, color): (&str, Color)| Part { name: name.to_owned(), color };
    let parts = [
        ("one stream", Color::Idle),
        ("two streams", Color::Elementwise),
        ("three or more", Color::Gemm),
    ];
    let parts: Vec<Part> = parts.into_iter().map(part).collect();
    let bars: Vec<Bar> = lines.iter().map(bar).collect();
    let most = lines.iter().max_by_key(|line| line.overlap.concurrent);
    let most = most.map_or_else(String::new, |line| {
        format!(
            " Most overlaps in {}: {} of {} busy.",
            name_of(context, line),
            Quantity::ns(line.overlap.concurrent),
            Quantity::ns(line.overlap.busy)
        )
    });
    Chart {
        id: "concurrency".to_owned(),
        title: "Streams that work at once, as shares of busy time".to_owned(),
        description: format!(
            "One bar a stage and GPU of pass {pass}: the shares of busy time in which operations of one, of two, and of \
             three or more streams run.{most}"
        ),
        plot: Plot::StackedBars(
            StackedBars { unit: Unit::Nanoseconds, normalized: true, parts, bars }
                .without_empty_parts(),
        ),
    }
}

fn metric(context: &Context<'_>, line: &Line) -> Option<Metric> {
    let session = context.session;
    let gpus = session.gpus.pass.iter().filter(|pass| **pass == line.pass).count();
    let scope = Scope {
        pass: Some(session.pass_name(line.pass).to_owned()),
        stage: line.stage_name(context).map(str::to_owned),
        gpu: (gpus > 1).then(|| session.gpus.ordinal[line.gpu.index()]),
        ..Scope::default()
    };
    let (concurrent, busy) = (line.overlap.concurrent, line.overlap.busy);
    let basis = format!(
        "{concurrent} ns with two or more operations at once ÷ {busy} ns busy, {} streams",
        line.overlap.streams.len()
    );
    let mut metric = CONCURRENT_SHARE.derived(scope, line.overlap.concurrent_share()?, basis);
    let rows = line.operations as u64;
    metric.evidence.push(session.evidence(line.pass, "launches, copies", rows));
    Some(metric)
}

fn method() -> Method {
    Method {
        title: "Concurrency".to_owned(),
        text: prose![
            "A sweep over the starts and ends of the operations of a stage's counted instances on one GPU; operations that \
             touch do not overlap. Busy is the length of their union. Computing is every kernel that is no collective, and \
             every whole CUDA graph; copies include memsets. The time of one kind with itself is that in which two or more \
             operations of it run. Whole CUDA graphs count as one operation of one stream: what overlaps within them \
             does not show."
        ],
    }
}
