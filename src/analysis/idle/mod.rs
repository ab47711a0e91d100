//! Idle time: why each GPU waits within a stage, what launching costs, and what bounds the stage.

mod calls;
mod cause;
mod gaps;
mod histogram;
mod launches;
mod line;
mod longest;
mod metrics;
mod tables;
#[cfg(test)]
pub(super) mod tests;
mod verdict;

use rooflens_schemas::Unit;

use super::bounds;
use super::summary::summaries;
use super::{Analysis, Context};
use crate::findings::chart::{Bar, Chart, Color, Part, Plot, StackedBars};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View};
use crate::model::{PassId, Session};
use crate::prose;

use calls::Calls;
use gaps::Gaps;
use histogram::Histogram;
use metrics::Traced;
use verdict::Verdict;

pub(super) use cause::Cause;
pub(super) use line::{Line, counted};

/// Idle time.
pub(super) static ANALYSIS: Analysis =
    Analysis { id: "idle", title: "Idle time", missing: |_: &Session| None, run };

/// Rows of tables that a page shows at most.
const SHOWN: usize = 20;
const SHOWN_GAPS: usize = 10;

/// Without GPU work there is no section: the one on stage times says what is missing.
fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let Some(primary) = context.facts.primary_pass(context.session) else { return findings };
    let calls = Calls::new(context.session, &context.facts.ops);
    let gaps = Gaps::new(context, &calls);
    let lines = lines(context, &calls, &gaps, primary);
    if lines.is_empty() {
        return findings;
    }
    for of_pass in lines.chunk_by(|a, b| pass(context, a) == pass(context, b)) {
        let traced = Traced::new(context.session, pass(context, &of_pass[0]));
        for line in of_pass {
            findings.metrics.extend(metrics::metrics(context, line, traced));
        }
    }
    // Stages of the primary pass first, and of these the outermost ones.
    let mut order: Vec<&Line> = lines.iter().collect();
    let inner = |line: &Line| !line.summary.is_outermost(context.facts);
    order.sort_by_key(|line| (pass(context, line) != primary, inner(line)));
    let shown = order.partition_point(|line| pass(context, line) == primary);
    let outermost = order.partition_point(|line| pass(context, line) == primary && !inner(line));
    findings.blocks.push(Block::Prose(introduction(context, &order[..outermost])));
    findings.blocks.push(Block::Chart(chart(context, &order[..shown])));
    add_tables(context, (&calls, &gaps), &order, outermost, &mut findings);
    bounds::add(context, &order, outermost, &mut findings);
    findings.methods.extend(methods());
    findings
}

/// The lines of all passes, the primary one first.
fn lines(context: &Context<'_>, calls: &Calls<'_>, gaps: &Gaps, primary: PassId) -> Vec<Line> {
    let others = context.session.passes.ids().filter(|pass| *pass != primary);
    let passes = std::iter::once(primary).chain(others);
    let summaries = passes.flat_map(|pass| summaries(context.facts, pass));
    summaries.flat_map(|summary| line::lines(context, calls, gaps, &summary)).collect()
}

fn pass(context: &Context<'_>, line: &Line) -> PassId {
    line.summary.stage(context.facts).pass
}

/// A sentence a stage.
fn introduction(context: &Context<'_>, lines: &[&Line]) -> Vec<Inline> {
    let mut text = prose![
        "Each gap between operations of a GPU has one cause, that of the operation that ends it. "
    ];
    for line in lines {
        let (verdict, share) = Verdict::of(line);
        text.extend(prose![
            Inline::Strong(line.label(context)),
            format!(" is {}: ", verdict.label()),
            Quantity::ratio(share),
            " of its time; the GPU is idle for ",
            Quantity::ratio(line.share(line.idle())),
            ". "
        ]);
    }
    text
}

/// One bar a stage: busy time and idle time by cause.
fn chart(context: &Context<'_>, lines: &[&Line]) -> Chart {
    let causes: Vec<Cause> =
        Cause::ALL.into_iter().filter(|cause| lines.iter().any(|l| l.of(*cause) > 0)).collect();
    let mut parts = vec![Part { name: Color::Busy.label().to_owned(), color: Color::Busy }];
    let part = |cause: &Cause| Part { name: cause.label().to_owned(), color: cause.color() };
    parts.extend(causes.iter().map(part));
    let bar = |line: &&Line| Bar {
        label: line.label(context),
        values: std::iter::once(line.middle.busy.total())
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
                      which it is idle, by cause. The table below holds the numbers."
                .to_owned(),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts,
            bars: lines.iter().map(bar).collect(),
        }),
    }
}

/// Tables of all lines; pages show the first `outermost` ones.
fn add_tables(
    context: &Context<'_>,
    (calls, gaps): (&Calls<'_>, &Gaps),
    order: &[&Line],
    outermost: usize,
    findings: &mut Findings,
) {
    let figures = tables::launch_figures(context, order);
    let mut columns = vec!["stage", "verdict", "verdict_share", "busy_share", "launches"];
    let has = |column| figures.rows.iter().any(|row| known(&figures, row, column));
    columns.extend(["launches_per_step"].iter().filter(|column| has(column)));
    columns.extend(["kernel_mean_ns", "launch_api_mean_ns", "queue_time_ns", "queue_depth_mean"]);
    let caption = "What bounds each stage, and what launching costs";
    let shown = outermost.min(SHOWN);
    findings.blocks.push(Block::Table(View::new("launch_figures", caption, &columns, shown)));
    let causes = tables::idle(context, order);
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
        order.iter().map(|line| (*line, Histogram::new(context, gaps, line))).collect();
    // Of equally idle stages the first.
    let most = histograms[..outermost].iter().rev().max_by_key(|(line, _)| line.idle_total());
    if let Some((line, histogram)) = most.filter(|(line, _)| line.idle_total() > 0) {
        findings.blocks.push(Block::Chart(histogram.chart(context, line)));
    }
    findings.datasets.push(figures);
    findings.datasets.push(causes);
    findings.datasets.push(histogram::dataset(context, &histograms));
    add_longest(context, calls, gaps, &order[..outermost], findings);
}

/// The longest gaps of the stages that pages show.
fn add_longest(
    context: &Context<'_>,
    calls: &Calls<'_>,
    gaps: &Gaps,
    lines: &[&Line],
    findings: &mut Findings,
) {
    // The most idle stage first: a page shows the beginning.
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| std::cmp::Reverse(line.idle_total()));
    let longest = longest::dataset(context, calls, gaps, &lines);
    if longest.rows.is_empty() {
        return;
    }
    let mut columns = vec!["stage", "ordinal", "length_ns", "cause", "host"];
    let has = |column| longest.rows.iter().any(|row| known(&longest, row, column));
    columns.extend(["range", "operator", "frame", "waits"].iter().filter(|column| has(column)));
    columns.push("ended_by");
    let limit = longest.rows.len().min(SHOWN_GAPS);
    let caption = "The longest gaps of the stage with the most idle time";
    findings.blocks.push(Block::Table(View::new("gaps", caption, &columns, limit)));
    findings.datasets.push(longest);
}

fn known(dataset: &crate::findings::Dataset, row: &[crate::findings::Cell], id: &str) -> bool {
    let column = dataset.columns.iter().position(|column| column.id == id);
    column.is_some_and(|column| row[column] != crate::findings::Cell::Missing)
}

fn methods() -> Vec<Method> {
    let stretch = || Quantity::ns(gaps::HOST_STRETCH);
    let causes = prose![
        "A gap is a time without any operation on a GPU, whatever stage it belongs to. Within the projection of a \
         stage instance, busy + gaps + operations of others (other work) = projection, to the nanosecond. The \
         operation that ends a gap decides its cause, by the API call that issued it and the thread that made the \
         call. First: without a call in the artifact, or with one that starts after the operation, the cause is \
         unknown. If the call had returned when the gap began, or issued other operations before (a graph), the \
         work waits in the queue: at a collective if one ends the gap or ended where it begins, else for launch \
         latency, stream order or an event. Otherwise the host had not issued it yet, and the first of these holds: \
         the profiler's overhead on that thread covers half of the gap or more; synchronizing calls do; calls that \
         allocate, load code or instantiate graphs do; blocking copies do (also asynchronous ones with pageable \
         memory); calls of the operating system outside of CUDA calls do; launching, if the thread made no pause of ",
        stretch(),
        " or more between CUDA calls (a pause that began before the gap counts whole); else host code, which made \
         such a pause. The dispatch of a framework between two launches is thus launching, as CUDA graphs would \
         remove it, and a long pause is host code, as they would not."
    ];
    let verdict = prose![
        "The verdict on a stage names the largest share of its time: GPU-bound (computing, or work in the queue), \
         communication-bound and copy-bound (exposed, or waited for), launch-bound (launching), host-bound (host \
         code, allocation and loading, operating system), sync-bound (synchronizing calls), or what else is \
         largest. Queue time is the time from the return of a launch call to the start of its first operation; \
         launches that begin before their call returns have none and are counted apart. Queue depth is the number \
         of launches issued and not begun; a graph is one launch."
    ];
    vec![
        Method { title: "Idle time by cause".to_owned(), text: causes },
        Method { title: "Verdict and launch figures".to_owned(), text: verdict },
    ]
}
