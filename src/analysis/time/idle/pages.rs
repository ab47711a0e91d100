//! Tables and charts of idle time, and what of them a page shows.

use super::histogram::{self, Histogram};
use super::line::Line;
use super::queue::{self, OverTime};
use super::{Sweeps, longest, pass, tables};
use crate::analysis::Context;
use crate::findings::{Block, Cell, Dataset, Findings, View};
use crate::prose;

/// Rows that a page shows at most: of stages and causes, of gaps, of gaps of another pass.
const SHOWN: usize = 20;
const SHOWN_GAPS: usize = 10;
const SHOWN_GAPS_OF_OTHERS: usize = 5;

/// Stages whose queue a chart shows.
const SHOWN_QUEUES: usize = 2;

/// Adds the data sets of all lines; pages show the first `outermost` ones, those of the primary pass.
pub(super) fn add(
    context: &Context<'_>,
    sweeps: &Sweeps<'_>,
    order: &[&Line],
    outermost: usize,
    findings: &mut Findings,
) {
    let figures = tables::launch_figures(context, order);
    let mut columns = vec!["stage", "verdict", "verdict_share", "busy_share", "launches"];
    columns.extend(filled(&figures, 0..outermost, &["launches_per_step"]));
    columns.extend(["kernel_mean_ns", "launch_api_mean_ns", "queue_time_ns", "queue_depth_mean"]);
    columns.push("queue_empty_share");
    let caption = "What bounds each stage, and what launching costs";
    let view = View::new("launch_figures", caption, &columns, outermost.min(SHOWN));
    findings.blocks.push(Block::Table(view));
    add_queues(context, sweeps, &order[..outermost], findings);
    let rows = tables::idle(context, &order[..outermost]).rows.len();
    let columns = [
        "stage",
        "cause",
        "gaps",
        "total_ns",
        "idle_share",
        "longest_ns",
        "median_ns",
        "stage_share",
    ];
    let caption =
        "Idle time by cause: of all instances that count, and of the one of median stage time";
    findings.blocks.push(Block::Table(View::new("idle", caption, &columns, rows.min(SHOWN))));
    let histograms: Vec<(&Line, Histogram)> =
        order.iter().map(|line| (*line, Histogram::new(context, &sweeps.gaps, line))).collect();
    // Of equally idle stages the first.
    let most = histograms[..outermost].iter().rev().max_by_key(|(line, _)| line.idle_total());
    if let Some((line, histogram)) = most.filter(|(_, histogram)| !histogram.is_empty()) {
        findings.blocks.push(Block::Chart(histogram.chart(context, line)));
    }
    findings.datasets.push(figures);
    findings.datasets.push(tables::idle(context, order));
    findings.datasets.push(histogram::dataset(context, &histograms));
    add_longest(context, sweeps, order, findings);
}

/// The queue over the median instance of the stages that take most time, on their first GPU.
fn add_queues(
    context: &Context<'_>,
    sweeps: &Sweeps<'_>,
    lines: &[&Line],
    findings: &mut Findings,
) {
    let mut stages: Vec<&Line> = lines.to_vec();
    stages.dedup_by_key(|line| line.summary.stage);
    let total = |line: &Line| line.summary.time * line.summary.counted as f64;
    stages.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let shown = stages.into_iter().filter_map(|line| OverTime::of(context, &sweeps.queues, line));
    let shown: Vec<OverTime<'_>> = shown.take(SHOWN_QUEUES).collect();
    if shown.is_empty() {
        return;
    }
    findings.blocks.push(Block::Prose(prose![
        "How far the host is ahead of the GPU: idle with an empty queue, the GPU waits for a host that is too slow \
         (or, for moments, for the next kernel of the graph that it runs); busy with an empty queue, the host comes \
         just in time, or one long operation or graph runs; where much waits, the host is far ahead and faster launches \
         gain nothing."
    ]));
    findings.blocks.extend(shown.iter().map(|one| Block::Chart(one.chart(context))));
    findings.datasets.push(queue::dataset(context, &shown));
}

/// The longest gaps of the outermost stages of all passes.
fn add_longest(
    context: &Context<'_>,
    sweeps: &Sweeps<'_>,
    order: &[&Line],
    findings: &mut Findings,
) {
    let Some(primary) = order.first().map(|line| pass(context, line)) else { return };
    let outermost = order.iter().filter(|line| line.summary.is_outermost(context.facts));
    let mut lines: Vec<&Line> = outermost.copied().collect();
    // The most idle stage first: a page shows the beginning.
    let other = |line: &Line| pass(context, line) != primary;
    lines.sort_by_key(|line| (other(line), std::cmp::Reverse(line.idle_total())));
    let own = lines.partition_point(|line| !other(line));
    let longest = longest::dataset(context, sweeps, &lines);
    let of_primary = longest::dataset(context, sweeps, &lines[..own]).rows.len();
    let pass_name =
        |line: Option<&&Line>| line.map_or(String::new(), |line| line.pass_name(context));
    let caption = "The longest gaps of the stage with the most idle time, pass";
    if of_primary > 0 {
        let caption = format!("{caption} {}", pass_name(lines.first()));
        let limit = of_primary.min(SHOWN_GAPS);
        findings.blocks.push(Block::Table(longest_view(&longest, caption, 0, limit)));
    }
    // A trace of a framework tells in which operator the host was.
    let rest = of_primary..longest.rows.len();
    if !filled(&longest, rest.clone(), &["operator", "frame"]).is_empty() {
        let caption = format!("{caption} {}", pass_name(lines.get(own)));
        let limit = rest.len().min(SHOWN_GAPS_OF_OTHERS);
        findings.blocks.push(Block::Table(longest_view(&longest, caption, of_primary, limit)));
    }
    findings.datasets.push(longest);
}

fn longest_view(longest: &Dataset, caption: String, skip: usize, limit: usize) -> View {
    let mut columns = vec!["stage", "ordinal", "length_ns"];
    columns.extend(filled(longest, skip..skip + limit, &["off_cpu_ns"]));
    columns.extend(["cause", "host"]);
    let optional = ["range", "operator", "frame", "waits"];
    columns.extend(filled(longest, skip..skip + limit, &optional));
    columns.push("ended_by");
    View { skip, ..View::new("gaps", caption, &columns, limit) }
}

/// Those of the columns in which one of the rows has a value.
fn filled(
    dataset: &Dataset,
    rows: std::ops::Range<usize>,
    columns: &[&'static str],
) -> Vec<&'static str> {
    let rows = dataset.rows.get(rows).unwrap_or_default();
    let has_value = |id: &&&'static str| {
        let column = dataset.columns.iter().position(|column| column.id == **id);
        column.is_some_and(|column| rows.iter().any(|row| row[column] != Cell::Missing))
    };
    columns.iter().filter(has_value).copied().collect()
}
