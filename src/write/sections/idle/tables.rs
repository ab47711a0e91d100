//! The data sets of idle time within stages, and what of them a page shows.

use std::cmp::Reverse;

use super::charts::window;
use super::presentation;
use crate::Context;
use rooflens_analysis::operators::call_tree::fold;
use rooflens_analysis::time::idle::histogram::Bin;
use rooflens_analysis::time::idle::longest::{LongGap, ended_by};
use rooflens_analysis::time::idle::queue::QueueOverTime;
use rooflens_analysis::time::idle::samples::Sampled;
use rooflens_analysis::time::idle::{Cause, IdleTime, StageIdle};
use rooflens_document::catalogue::{
    LAUNCH_API_TIME, LAUNCHES_PER_STEP, LAUNCHES_PER_TOKEN, MEAN_KERNEL_TIME, QUEUE_DEPTH,
    QUEUE_EMPTY_SHARE, QUEUE_TIME,
};
use rooflens_document::{Block, Dataset, Quantity, SectionContent, Table, View};
use rooflens_session::{Arrange, Ns, Session, StrId};
use rooflens_units::{Count, Ratio};

/// Rows that a page shows at most: of stages and causes, of gaps, of gaps of another pass.
pub(super) const SHOWN: usize = 20;
const SHOWN_GAPS: usize = 10;
const SHOWN_GAPS_OF_OTHERS: usize = 5;

/// What bounds each stage: one row a line.
pub(super) fn launch_figures<'t>(context: &'t Context<'_>) -> Table<'t, StageIdle> {
    columns! { context, "launch_figures", line: &StageIdle => {
        let launches = &line.launches;
        let calls = (launches.calls > 0).then_some(launches.calls);
        with stage_and_pass(context) of line;
        text "verdict" = line.verdict().0.label();
        share "verdict_share" = line.verdict().1;
        share "busy_share" = line.share(line.busy());
        count "launches" = calls.map(|calls| calls / line.instances.len().max(1) as u64);
        of LAUNCHES_PER_STEP "launches_per_step" = launches.per_step;
        of LAUNCHES_PER_TOKEN "launches_per_token" = launches.per_token;
        of MEAN_KERNEL_TIME "kernel_mean_ns" = launches.mean_kernel();
        of LAUNCH_API_TIME "launch_api_median_ns" = launches.median_call;
        time "launch_api_mean_ns" = launches.mean_call;
        of QUEUE_TIME "queue_time_ns" = launches.queue_time;
        count "begun_in_call" = calls.map(|_| launches.begun_in_call);
        of QUEUE_DEPTH "queue_depth_mean" = launches.depth_mean();
        count "queue_depth_max" = calls.map(|_| launches.depth_max);
        of QUEUE_EMPTY_SHARE "queue_empty_share" = line.queue_empty_share();
        time "launching_calls_ns" = line.launching_in_calls;
        time "launching_between_ns" = line.of(Cause::Launching) - line.launching_in_calls;
    } }
}

/// The columns that begin all tables of lines.
fn stage_and_pass<'t>(
    context: &'t Context<'_>,
    table: Table<'t, StageIdle>,
) -> Table<'t, StageIdle> {
    columns! { table, line: &StageIdle => {
        text "stage" = line.label(context), page;
        text "pass" = context.session.pass_name(line.pass(context));
    } }
}

/// A line and one of its causes.
type OfCause<'a> = (&'a StageIdle, Cause);

/// The causes of each line that occur, and *unknown* always; by (line, time descending).
fn causes_of<'a>(lines: &[&'a StageIdle]) -> Vec<OfCause<'a>> {
    let of_line = |line: &&'a StageIdle| {
        let line = *line;
        let occurs = |cause: &Cause| *cause == Cause::Unknown || line.of(*cause) > Ns::ZERO;
        let mut causes: Vec<Cause> = Cause::ALL.into_iter().filter(occurs).collect();
        causes.arrange_by_key(|cause| (Reverse(line.of(*cause)), *cause));
        causes.into_iter().map(move |cause| (line, cause))
    };
    lines.iter().flat_map(of_line).collect()
}

fn idle<'t>(context: &'t Context<'_>) -> Table<'t, OfCause<'t>> {
    columns! { context, "idle", (line, cause): &OfCause<'_> => {
        let gaps = line.gaps[*cause as usize];
        let time = line.of(*cause);
        let spread = line.spread(&[*cause]);
        with stage_and_pass(context) of *line;
        text "cause" = cause.label(), page;
        text "meaning" = presentation(*cause).2;
        count "gaps" = gaps.gaps, page;
        time "total_ns" = time, page;
        share "idle_share" = of_idle(line, time).filter(|_| *cause != Cause::OtherWork);
        time "longest_ns" = gaps.longest, page;
        time "median_ns" = line.median_of(*cause).ok();
        share "stage_share" = line.share(time), page;
        share "least_share" = spread.least, page;
        share "most_share" = spread.most, page;
        count "occurs_in" = spread.instances as u64, page;
        count "instances" = spread.of as u64, page;
    } }
}

fn of_idle(line: &StageIdle, time: Ns) -> Option<Ratio> {
    let idle = line.idle();
    (idle > Ns::ZERO).then(|| Ratio::of(time, idle))
}

/// Adds the data set of causes; a page shows the first `outermost` lines.
pub(super) fn add_causes(
    context: &Context<'_>,
    order: &[&StageIdle],
    outermost: usize,
    content: &mut SectionContent,
) {
    let table = idle(context);
    let caption = words!(context, "idle.caption_causes");
    let rows = causes_of(&order[..outermost]).len();
    content
        .blocks
        .push(Block::Table(table.view(caption, rows.min(SHOWN))));
    content.datasets.push(table.rows(&causes_of(order)));
}

/// The view of the data set of launch figures, with or without those of the queue.
pub(super) fn view_of_figures(context: &Context<'_>, lines: &[&StageIdle], queues: bool) -> Block {
    let mut columns = vec!["stage", "verdict", "launches"];
    // Where an iteration is one step, both would say the same.
    let steps_differ = lines.iter().any(|line| {
        let calls = Count(line.launches.calls as f64 / line.instances.len().max(1) as f64);
        line.launches
            .per_step
            .is_some_and(|step| (step - calls).abs() >= Count(1.0))
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
pub(super) fn histogram(context: &Context<'_>, order: &[&StageIdle]) -> Dataset {
    type Row<'a> = (&'a StageIdle, (Ns, Option<Ns>, &'a Bin));
    let bins = order
        .iter()
        .flat_map(|line| line.histogram.used().map(|bin| (*line, bin)));
    let rows: Vec<Row<'_>> = bins.collect();
    columns! { context, "gap_histogram", (line, bin): &Row<'_> => {
        with stage_and_pass(context) of *line;
        time "from_ns" = bin.0;
        time "to_ns" = bin.1;
        count "gaps" = bin.2.gaps;
        time "total_ns" = bin.2.times.total();
        share "idle_share" = of_idle(line, bin.2.times.total());
    } }
    .rows(&rows)
}

/// Samples of what the issuing threads ran; a page shows the beginning of the first stage that has some.
pub(super) fn add_samples(
    context: &Context<'_>,
    order: &[&StageIdle],
    content: &mut SectionContent,
) {
    type Row<'a> = (&'a StageIdle, &'a Sampled);
    let samples = order
        .iter()
        .flat_map(|line| line.sampled.iter().map(|row| (*line, row)));
    let rows: Vec<Row<'_>> = samples.collect();
    let Some((first, _)) = rows.first() else {
        return;
    };
    let name = |id| context.session.text(id);
    let table = columns! { context, "cpu_samples", (line, row): &Row<'_> => {
        with stage_and_pass(context) of *line;
        name "library" = name(row.library), page;
        name "function" = Some(name(row.function)).filter(|name| !name.is_empty()), page;
        count "samples" = row.samples as u64, page;
        share "samples_share" = row.samples as f64 / line.samples() as f64, page;
    } };
    let caption = words!(
        context,
        "idle.caption_samples",
        stage = first.label(context)
    );
    let shown = first.sampled.len().min(SHOWN_GAPS);
    content
        .blocks
        .push(Block::Table(table.view(caption, shown)));
    content.datasets.push(table.rows(&rows));
}

/// The stretches of the queues over time.
pub(super) fn queues(context: &Context<'_>, idle: &IdleTime) -> Dataset {
    type Row<'a> = (&'a QueueOverTime, usize);
    let bins = idle
        .queues
        .iter()
        .flat_map(|queue| (0..queue.bins.len()).map(move |bin| (queue, bin)));
    let rows: Vec<Row<'_>> = bins.collect();
    columns! { context, "queue_over_time", (queue, bin): &Row<'_> => {
        with stage_and_pass(context) of &idle.lines[queue.line];
        count "ordinal" = queue.ordinal;
        time "start_ns" = window(queue).edge(*bin);
        time "end_ns" = window(queue).edge(bin + 1);
        text "depth_mean" = queue.bins[*bin].0;
        count "depth_max" = queue.bins[*bin].1;
    } }
    .rows(&rows)
}

/// A line and one of its longest gaps.
type OfGap<'a> = (&'a StageIdle, &'a LongGap);

fn gaps<'t>(context: &'t Context<'_>) -> Table<'t, OfGap<'t>> {
    let session = context.session;
    columns! { context, "gaps", (line, gap): &OfGap<'_> => {
        with stage_and_pass(context) of *line;
        count "ordinal" = gap.ordinal;
        time "start_ns" = gap.gap.start;
        time "length_ns" = gap.gap.end - gap.gap.start;
        time "off_cpu_ns" = gap.off_cpu;
        text "cause" = gap.gap.times.main().label();
        text "causes" = parts(gap);
        text "host" = gap.host.map_or("no call", |host| session.text(host));
        name "range" = text_of(session, gap.ranges.last().copied());
        name "path" = unless_empty(path(session, gap));
        name "operator" = text_of(session, gap.operator);
        name "frame" = gap.frame.and_then(|frame| unless_empty(fold(session.text(frame))));
        name "waits" = text_of(session, gap.waits_for);
        name "issued_by" = text_of(session, issuing_call(context, gap));
        name "ended_by" = ended_by(context, gap.gap.op);
    } }
}

fn unless_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn text_of(session: &Session, id: Option<StrId>) -> Option<String> {
    unless_empty(session.text(id?).to_owned())
}

/// The ranges around a gap, the outermost first.
fn path(session: &Session, gap: &LongGap) -> String {
    let names: Vec<&str> = gap
        .ranges
        .iter()
        .map(|range| session.text(*range))
        .collect();
    names.join(" / ")
}

/// The name of the call that issued the operation after a gap.
fn issuing_call(context: &Context<'_>, gap: &LongGap) -> Option<StrId> {
    let call = context.facts.ops.api_call[gap.gap.op as usize]?;
    Some(context.session.api_calls.name[call.index()])
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
pub(super) fn add_longest(
    context: &Context<'_>,
    order: &[&StageIdle],
    content: &mut SectionContent,
) {
    let Some(primary) = order.first().map(|line| line.pass(context)) else {
        return;
    };
    let is_of_other_pass = |line: &StageIdle| line.pass(context) != primary;
    let outermost = order
        .iter()
        .filter(|line| line.summary.is_outermost(context.facts));
    let mut lines: Vec<&StageIdle> = outermost.copied().collect();
    lines.arrange_by_key(|line| (is_of_other_pass(line), Reverse(line.idle())));
    let lines_of_primary = lines.partition_point(|line| !is_of_other_pass(line));
    let of_primary: usize = lines[..lines_of_primary]
        .iter()
        .map(|line| line.longest.len())
        .sum();
    let gaps_of_lines = lines
        .iter()
        .flat_map(|line| line.longest.iter().map(|gap| (*line, gap)));
    let longest = gaps(context).rows(&gaps_of_lines.collect::<Vec<_>>());
    let caption = |line: Option<&&StageIdle>| {
        let pass = line.map_or("", |line| context.session.pass_name(line.pass(context)));
        words!(context, "idle.caption_longest", pass = pass)
    };
    if of_primary > 0 {
        let limit = of_primary.min(SHOWN_GAPS);
        content
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
        content.blocks.push(longest_view(
            &longest,
            caption(lines.get(lines_of_primary)),
            of_primary,
            limit,
        ));
    }
    content.datasets.push(longest);
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
