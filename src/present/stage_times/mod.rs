//! Stages: how long each takes, how long the GPU is busy in it, and what is attributed to none.

mod attribution;
mod tables;

use rooflens_schemas::{Metric, Unit};

use super::{Section, group_color};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::engine::stages::WARMUP_Z;
use rooflens_analysis::time::stage_times::{StageTime, StageTimes};
use rooflens_findings::catalogue::{
    BUSY_SHARE, HOST_TIME, INFERRED_SHARE, OPERATION_TIME_SUM, OPERATIONS, STAGE_TIME,
};
use rooflens_findings::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_findings::{Block, Chart, Findings, Inline, Method, Quantity, Table, prose};

/// Stages and their time.
pub(super) static SECTION: Section = Section { id: "stages", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let times = context.results.stage_times()?;
    let mut findings = Findings::default();
    let mut introduction = introduction(context, times);
    introduction.extend(times.of_primary().flat_map(|stage| doubt(context, stage)));
    findings.blocks.push(Block::Prose(introduction));
    findings.blocks.push(Block::Chart(chart(context, times)));
    tables::add(context, times, &mut findings);
    attribution::add(context, times, &mut findings);
    findings.metrics.extend(times.stages.iter().flat_map(|stage| metrics(context, stage)));
    let parts = |stage| StageTime::parts(stage).into_iter().map(move |part| (stage, part));
    let parts: Vec<StagePart<'_>> = times.of_primary().flat_map(parts).collect();
    findings.datasets.push(parts_table(context).rows(&parts));
    findings.methods.push(method());
    Ok(findings)
}

fn introduction(context: &Context<'_>, times: &StageTimes) -> Vec<Inline> {
    let session = context.session;
    let kind = session.passes.kind[times.primary.index()].label();
    prose![
        "Times of this section are those of the pass ",
        Inline::Code(session.pass_name(times.primary).to_owned()),
        format!(
            " ({kind}). Stage time is the projection of a stage onto the GPU: from the start of its \
             first GPU operation to the end of its last. Profiling itself slows the host; the \
             un-profiled times stand under Repeats where the bundle has them."
        ),
    ]
}

/// What is to be said of a stage with a first instance that may be a cold one, and too few others to tell.
fn doubt(context: &Context<'_>, stage: &StageTime) -> Vec<Inline> {
    let Some((factor, others)) = stage.doubtful_first else { return Vec::new() };
    prose![
        " The first instance of ",
        Inline::Strong(stage.summary.label(context.session, context.facts)),
        " that counts takes ",
        Quantity::new(factor, Unit::One),
        format!(
            " times the median of the {others} others. It may be a cold one; so few others have no spread to tell it by, so \
             it counts. A longer declared warm-up would leave it out."
        )
    ]
}

/// One bar a stage: busy time by group of classes, then idle time, as shares of the stage time.
fn chart(context: &Context<'_>, times: &StageTimes) -> Chart {
    let bar = |stage: &StageTime| {
        let line = &stage.summary;
        let mut values: Vec<f64> = stage.groups.iter().flatten().map(|time| *time as f64).collect();
        let busy: f64 = values.iter().sum();
        values.push((busy / line.busy_share.max(1e-12) - busy).max(0.0));
        let time = Quantity::new(line.time, Unit::Nanoseconds);
        let note = format!("{time} · {} busy", Quantity::ratio(line.busy_share));
        Bar { label: line.label(context.session, context.facts), values, note }
    };
    let colors = ClassGroup::ALL.map(group_color).into_iter().chain([Color::Idle]);
    let bars = StackedBars {
        unit: Unit::Nanoseconds,
        normalized: true,
        parts: colors.map(|color| Part { name: color.label().to_owned(), color }).collect(),
        bars: times.of_primary().map(bar).collect(),
    };
    let pass = context.session.pass_name(times.primary);
    Chart {
        id: "stage-time".to_owned(),
        title: "Where the stage time goes".to_owned(),
        description: format!(
            "One bar per stage of the pass {pass}: the shares of the stage time in which the GPU runs \
             each class of kernels, and the share in which it is idle. The table below holds the numbers."
        ),
        plot: Plot::StackedBars(bars.without_empty_parts()),
    }
}

fn metrics(context: &Context<'_>, stage: &StageTime) -> Vec<Metric> {
    let line = &stage.summary;
    let scope = || line.scope(context.session, context.facts);
    let over = format!("median of {} of {} instances", line.counted, line.instances);
    let projection = format!("first start to last end of the stage's GPU operations, {over}");
    let host = format!("duration of the range on the host, {over}");
    let busy = "median length of the union of operation intervals ÷ (stage time × GPUs)";
    let inferred = "operations issued by a thread without ranges, attributed to the one other thread with an open range";
    let mut all = vec![
        STAGE_TIME.derived(scope(), line.time, projection),
        HOST_TIME.derived(scope(), line.host, host),
        OPERATION_TIME_SUM.derived(
            scope(),
            line.sum,
            format!("sum of operation durations, {over}"),
        ),
        BUSY_SHARE.derived(scope(), line.busy_share, busy),
        OPERATIONS.derived(scope(), line.operations, over),
        INFERRED_SHARE.derived(scope(), line.inferred_share, inferred),
    ];
    let evidence = line.evidence(context.session, context.facts);
    all.iter_mut().for_each(|metric| metric.evidence.push(evidence.clone()));
    all
}

/// A stage with one of its parts: a group of classes and its busy time.
type StagePart<'a> = (&'a StageTime, (ClassGroup, f64));

/// The parts of the chart's bars as a table.
fn parts_table<'t>(context: &Context<'t>) -> Table<'t, StagePart<'t>> {
    let (session, facts) = (context.session, context.facts);
    Table::new(context.text, "stage_parts")
        .text("stage", |(stage, _): &StagePart<'_>| stage.summary.label(session, facts))
        .text("pass", |(stage, _)| session.pass_name(stage.pass))
        .text("part", |(_, (group, _))| group_color(*group).label())
        .time("time_ns", |(_, (_, time))| *time)
        .share("busy_share", |(stage, (group, _))| stage.share(*group))
}

fn method() -> Method {
    Method {
        title: "Stage time and busy share".to_owned(),
        text: prose![
            "A GPU operation (kernel, copy, memset, or a whole CUDA graph) belongs to every range that encloses \
             the start of the API call that issued it, on the same thread; operation and call join on process and \
             correlation id. An operation issued by a thread without an open range is lent the range of the one \
             other thread of the process that has one open over the whole call, and counted as inferred; where \
             several threads have, it stays unattributed. Stage time is the projection: last end minus first start \
             of the stage's operations. Busy is the length of the union of their intervals, per GPU; busy share is \
             busy ÷ projection; idle is the difference. Where several operations run at once, charts give the moment to a \
             computing kernel, then to a collective, then to a copy. Sums of durations count overlap twice and are never called \
             busy. Aggregates are medians over the instances that count: declared warm-up, instances with another \
             number of decode steps than the workload states, and a first instance whose modified z-score against \
             the later ones exceeds ",
            Quantity::new(WARMUP_Z, Unit::One),
            " are left out and shown as left out."
        ],
    }
}
