//! The data sets of idle time within stages, and what of them a page shows.

use std::cmp::Reverse;

use super::causes;
use crate::Context;
use rooflens_analysis::operators::call_tree::fold;
use rooflens_analysis::time::idle::histogram::Bin;
use rooflens_analysis::time::idle::longest::{LongGap, ended_by};
use rooflens_analysis::time::idle::queue::QueueOverTime;
use rooflens_analysis::time::idle::samples::Sampled;
use rooflens_analysis::time::idle::{Cause, IdleTime, Line};
use rooflens_analysis::time::timeline::bins::Window;
use rooflens_document::{Block, Dataset, Quantity, SectionContent, Table, View};
use rooflens_session::{Arrange, Ns, StrId};

/// Rows that a page shows at most: of stages and causes, of gaps, of gaps of another pass.
const SHOWN: usize = 20;
const SHOWN_GAPS: usize = 10;
const SHOWN_GAPS_OF_OTHERS: usize = 5;

/// What bounds each stage: one row a line.
pub(super) fn launch_figures<'t>(context: &'t Context<'_>) -> Table<'t, &'t Line> {
    let counted = |line: &Line, count: u64| (line.launches.calls > 0).then_some(count);
    stage_and_pass(
        context,
        Table::new(context.text, "launch_figures"),
        |line: &&Line| line,
    )
    .text("verdict", |line| line.verdict().0.label())
    .share("verdict_share", |line| line.verdict().1)
    .share("busy_share", |line| line.share(line.busy()))
    .count("launches", move |line| {
        counted(
            line,
            line.launches.calls / line.instances.len().max(1) as u64,
        )
    })
    .count("launches_per_step", |line| line.launches.per_step)
    .text("launches_per_token", |line| line.launches.per_token)
    .time("kernel_mean_ns", |line| line.launches.mean_kernel())
    .time("launch_api_median_ns", |line| line.launches.median_call)
    .time("launch_api_mean_ns", |line| line.launches.mean_call)
    .time("queue_time_ns", |line| line.launches.queue_time)
    .count("begun_in_call", move |line| {
        counted(line, line.launches.begun_in_call)
    })
    .text("queue_depth_mean", |line| line.launches.depth_mean())
    .count("queue_depth_max", move |line| {
        counted(line, line.launches.depth_max)
    })
    .share("queue_empty_share", |line| line.queue_empty_share())
    .time("launching_calls_ns", |line| line.launching_in_calls)
    .time("launching_between_ns", |line| {
        line.of(Cause::Launching) - line.launching_in_calls
    })
}

/// The columns that begin all tables of lines.
fn stage_and_pass<'t, R>(
    context: &'t Context<'_>,
    table: Table<'t, R>,
    line: impl Fn(&R) -> &Line + Copy + 't,
) -> Table<'t, R> {
    table
        .text("stage", move |row| line(row).label(context))
        .on_page()
        .text("pass", move |row| {
            context.session.pass_name(line(row).pass(context))
        })
}

/// A line and one of its causes.
type OfCause<'a> = (&'a Line, Cause);

/// The causes of each line that occur, and *unknown* always; by (line, time descending).
fn causes_of<'a>(lines: &[&'a Line]) -> Vec<OfCause<'a>> {
    let of_line = |line: &&'a Line| {
        let line = *line;
        let occurs = |cause: &Cause| *cause == Cause::Unknown || line.of(*cause) > 0;
        let mut causes: Vec<Cause> = Cause::ALL.into_iter().filter(occurs).collect();
        causes.arrange_by_key(|cause| (Reverse(line.of(*cause)), *cause));
        causes.into_iter().map(move |cause| (line, cause))
    };
    lines.iter().flat_map(of_line).collect()
}

fn idle<'t>(context: &'t Context<'_>) -> Table<'t, OfCause<'t>> {
    let gaps = |(line, cause): &OfCause<'_>| line.gaps[*cause as usize];
    let time = |(line, cause): &OfCause<'_>| line.of(*cause);
    let spread = |(line, cause): &OfCause<'_>| line.spread(&[*cause]);
    stage_and_pass(
        context,
        Table::new(context.text, "idle"),
        |row: &OfCause<'t>| row.0,
    )
    .text("cause", |(_, cause)| cause.label())
    .on_page()
    .text("meaning", |(_, cause)| causes::of(*cause).2)
    .count("gaps", move |row| gaps(row).gaps)
    .on_page()
    .time("total_ns", time)
    .on_page()
    .share("idle_share", move |row| of_idle(row.0, time(row)))
    .time("longest_ns", move |row| gaps(row).longest)
    .on_page()
    .time("median_ns", |(line, cause)| line.median_of(*cause).ok())
    .share("stage_share", move |row| row.0.share(time(row)))
    .on_page()
    .share("least_share", move |row| spread(row).least)
    .on_page()
    .share("most_share", move |row| spread(row).most)
    .on_page()
    .count("occurs_in", move |row| spread(row).instances as u64)
    .on_page()
    .count("instances", move |row| spread(row).of as u64)
    .on_page()
}

fn of_idle(line: &Line, time: Ns) -> Option<f64> {
    let idle = line.idle();
    (idle > 0).then(|| time as f64 / idle as f64)
}

/// Adds the data set of causes; a page shows the first `outermost` lines.
pub(super) fn add_causes(
    context: &Context<'_>,
    order: &[&Line],
    outermost: usize,
    findings: &mut SectionContent,
) {
    let table = idle(context);
    let caption = words!(context, "idle.caption_causes");
    let rows = causes_of(&order[..outermost]).len();
    findings
        .blocks
        .push(Block::Table(table.view(caption, rows.min(SHOWN))));
    findings.datasets.push(table.rows(&causes_of(order)));
}

/// The view of the data set of launch figures, with or without those of the queue.
pub(super) fn view_of_figures(context: &Context<'_>, lines: &[&Line], queues: bool) -> Block {
    let mut columns = vec![
        "stage",
        "verdict",
        "verdict_share",
        "busy_share",
        "launches",
    ];
    // Where an iteration is one step, both would say the same.
    let steps_differ = lines.iter().any(|line| {
        let calls = line.launches.calls as f64 / line.instances.len().max(1) as f64;
        line.launches
            .per_step
            .is_some_and(|step| (step - calls).abs() >= 1.0)
    });
    columns.extend(steps_differ.then_some("launches_per_step"));
    columns.extend(["kernel_mean_ns", "launch_api_median_ns"]);
    let caption = if queues {
        columns.extend(["queue_time_ns", "queue_depth_mean", "queue_empty_share"]);
        words!(context, "idle.caption_queues")
    } else {
        words!(context, "idle.caption")
    };
    Block::Table(View::new(
        "launch_figures",
        caption,
        &columns,
        lines.len().min(SHOWN),
    ))
}

/// The lengths of the gaps of all lines.
pub(super) fn histogram(context: &Context<'_>, order: &[&Line]) -> Dataset {
    type Row<'a> = (&'a Line, (Ns, Option<Ns>, &'a Bin));
    let bins = order
        .iter()
        .flat_map(|line| line.histogram.used().map(|bin| (*line, bin)));
    let rows: Vec<Row<'_>> = bins.collect();
    stage_and_pass(
        context,
        Table::new(context.text, "gap_histogram"),
        |row: &Row<'_>| row.0,
    )
    .time("from_ns", |(_, bin)| bin.0)
    .time("to_ns", |(_, bin)| bin.1)
    .count("gaps", |(_, bin)| bin.2.gaps)
    .time("total_ns", |(_, bin)| bin.2.times.total())
    .share("idle_share", |(line, bin)| {
        of_idle(line, bin.2.times.total())
    })
    .rows(&rows)
}

/// Samples of what the issuing threads ran; a page shows the beginning of the first stage that has some.
pub(super) fn add_samples(context: &Context<'_>, order: &[&Line], findings: &mut SectionContent) {
    type Row<'a> = (&'a Line, &'a Sampled);
    let all = order
        .iter()
        .flat_map(|line| line.sampled.iter().map(|row| (*line, row)));
    let rows: Vec<Row<'_>> = all.collect();
    let Some((first, _)) = rows.first() else {
        return;
    };
    let name = |id| context.session.text(id);
    let table = Table::new(context.text, "cpu_samples");
    let table = stage_and_pass(context, table, |row: &Row<'_>| row.0)
        .name("library", move |(_, row)| name(row.library))
        .on_page()
        .name("function", move |(_, row)| {
            Some(name(row.function)).filter(|name| !name.is_empty())
        })
        .on_page()
        .count("samples", |(_, row)| row.samples as u64)
        .on_page()
        .share("samples_share", |(line, row)| {
            row.samples as f64 / line.samples() as f64
        })
        .on_page();
    let caption = words!(
        context,
        "idle.caption_samples",
        stage = first.label(context)
    );
    let shown = first.sampled.len().min(SHOWN_GAPS);
    findings
        .blocks
        .push(Block::Table(table.view(caption, shown)));
    findings.datasets.push(table.rows(&rows));
}

/// The stretches of the queues over time.
pub(super) fn queues(context: &Context<'_>, idle: &IdleTime) -> Dataset {
    type Row<'a> = (&'a QueueOverTime, usize);
    let bins = idle
        .queues
        .iter()
        .flat_map(|queue| (0..queue.bins.len()).map(move |at| (queue, at)));
    let rows: Vec<Row<'_>> = bins.collect();
    let edge = |queue: &QueueOverTime, at: usize| window(queue).edge(at);
    let table = Table::new(context.text, "queue_over_time");
    stage_and_pass(context, table, |row: &Row<'_>| &idle.lines[row.0.line])
        .count("ordinal", |(queue, _)| queue.ordinal)
        .time("start_ns", move |(queue, at)| edge(queue, *at))
        .time("end_ns", move |(queue, at)| edge(queue, at + 1))
        .text("depth_mean", |(queue, at)| queue.bins[*at].0)
        .count("depth_max", |(queue, at)| queue.bins[*at].1)
        .rows(&rows)
}

/// The window of a queue over time.
pub(super) const fn window(queue: &QueueOverTime) -> Window {
    Window {
        start: queue.window.0,
        end: queue.window.1,
    }
}

/// A line and one of its longest gaps.
type OfGap<'a> = (&'a Line, &'a LongGap);

fn gaps<'t>(context: &'t Context<'_>) -> Table<'t, OfGap<'t>> {
    let session = context.session;
    let name = |text: String| Some(text).filter(|text| !text.is_empty());
    let text = move |id: Option<StrId>| id.and_then(|id| name(session.text(id).to_owned()));
    let issued_by = move |gap: &LongGap| {
        let call = context.facts.ops.api_call[gap.gap.op as usize]?;
        Some(session.api_calls.name[call.index()])
    };
    let path = move |gap: &LongGap| {
        let names: Vec<&str> = gap
            .ranges
            .iter()
            .map(|range| session.text(*range))
            .collect();
        name(names.join(" / "))
    };
    let frame = move |gap: &LongGap| name(fold(session.text(gap.frame?)));
    stage_and_pass(
        context,
        Table::new(context.text, "gaps"),
        |row: &OfGap<'t>| row.0,
    )
    .count("ordinal", |(_, gap)| gap.ordinal)
    .time("start_ns", |(_, gap)| gap.gap.start)
    .time("length_ns", |(_, gap)| gap.gap.end - gap.gap.start)
    .time("off_cpu_ns", |(_, gap)| gap.off_cpu)
    .text("cause", |(_, gap)| gap.gap.times.main().label())
    .text("causes", |(_, gap)| parts(gap))
    .text("host", move |(_, gap)| {
        gap.host.map_or("no call", |host| session.text(host))
    })
    .name("range", move |(_, gap)| text(gap.ranges.last().copied()))
    .name("path", move |(_, gap)| path(gap))
    .name("operator", move |(_, gap)| text(gap.operator))
    .name("frame", move |(_, gap)| frame(gap))
    .name("waits", move |(_, gap)| text(gap.waits_for))
    .name("issued_by", move |(_, gap)| text(issued_by(gap)))
    .name("ended_by", |(_, gap)| ended_by(context, gap.gap.op))
}

/// The causes of a gap with their times, the most first; nothing if there is but one.
fn parts(gap: &LongGap) -> Option<String> {
    let mut parts: Vec<(Cause, Ns)> = gap.gap.times.causes().collect();
    parts.arrange_by_key(|(cause, time)| (Reverse(*time), *cause));
    let part = |(cause, time): &(Cause, Ns)| format!("{} {}", cause.label(), Quantity::ns(*time));
    (parts.len() > 1).then(|| parts.iter().map(part).collect::<Vec<_>>().join(", "))
}

/// Adds the longest gaps of the outermost stages of all passes: the most idle stage first, as a page shows the
/// beginning.
pub(super) fn add_longest(context: &Context<'_>, order: &[&Line], findings: &mut SectionContent) {
    let Some(primary) = order.first().map(|line| line.pass(context)) else {
        return;
    };
    let other = |line: &Line| line.pass(context) != primary;
    let outermost = order
        .iter()
        .filter(|line| line.summary.is_outermost(context.facts));
    let mut lines: Vec<&Line> = outermost.copied().collect();
    lines.arrange_by_key(|line| (other(line), Reverse(line.idle())));
    let own = lines.partition_point(|line| !other(line));
    let of_primary: usize = lines[..own].iter().map(|line| line.longest.len()).sum();
    let all = lines
        .iter()
        .flat_map(|line| line.longest.iter().map(|gap| (*line, gap)));
    let longest = gaps(context).rows(&all.collect::<Vec<_>>());
    let caption = |line: Option<&&Line>| {
        let pass = line.map_or("", |line| context.session.pass_name(line.pass(context)));
        words!(context, "idle.caption_longest", pass = pass)
    };
    if of_primary > 0 {
        let limit = of_primary.min(SHOWN_GAPS);
        findings
            .blocks
            .push(longest_view(&longest, caption(lines.first()), 0, limit));
    }
    // A trace of a framework tells in which operator the host was.
    let rest = of_primary..longest.rows.len();
    if !longest
        .filled(rest.clone(), &["operator", "frame"])
        .is_empty()
    {
        let limit = rest.len().min(SHOWN_GAPS_OF_OTHERS);
        findings.blocks.push(longest_view(
            &longest,
            caption(lines.get(own)),
            of_primary,
            limit,
        ));
    }
    findings.datasets.push(longest);
}

fn longest_view(longest: &Dataset, caption: String, skip: usize, limit: usize) -> Block {
    let shown = skip..skip + limit;
    let mut columns = vec!["stage", "ordinal", "length_ns"];
    columns.extend(longest.filled(shown.clone(), &["off_cpu_ns"]));
    columns.extend(["cause", "host"]);
    columns.extend(longest.filled(shown, &["range", "operator", "frame", "waits"]));
    columns.push("ended_by");
    Block::Table(View {
        skip,
        ..View::new("gaps", caption, &columns, limit)
    })
}
