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
use rooflens_document::catalogue::{
    BUSY_SHARE, HOST_TIME, INFERRED_SHARE, OPERATION_TIME_SUM, OPERATIONS, STAGE_TIME,
};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Inline, Quantity, SectionContent, Table};
use rooflens_units::Time;

/// Stages and their time.
pub(super) static SECTION: Section = Section { id: "stages", show };

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let times = context.results.stage_times()?;
    let mut content = SectionContent::default();
    let session = context.session;
    let kind = session.passes.kind[times.primary.index()].label();
    let pass = Inline::code(session.pass_name(times.primary));
    let mut introduction = say!(
        context,
        "stage_times.introduction",
        pass = pass,
        kind = kind
    );
    introduction.extend(times.of_primary().flat_map(|stage| doubt(context, stage)));
    content.blocks.push(Block::Prose(introduction));
    content.blocks.push(Block::Chart(chart(context, times)));
    tables::add(context, times, &mut content);
    attribution::add(context, times, &mut content);
    content.metrics.extend(
        times
            .stages
            .iter()
            .flat_map(|stage| metrics(context, stage)),
    );
    let parts = |stage| {
        StageTime::parts(stage)
            .into_iter()
            .map(move |part| (stage, part))
    };
    let parts: Vec<StagePart<'_>> = times.of_primary().flat_map(parts).collect();
    content.datasets.push(parts_table(context).rows(&parts));
    let limit = Quantity::new(WARMUP_Z, Unit::One);
    content
        .methods
        .push(method!(context, "stage_times", limit = limit));
    Ok(content)
}

/// What is to be said of a stage with a first instance that may be a cold one, and too few others to tell.
fn doubt(context: &Context<'_>, stage: &StageTime) -> Vec<Inline> {
    let Some((factor, others)) = stage.doubtful_first else {
        return Vec::new();
    };
    say!(
        context,
        "stage_times.doubtful_first",
        stage = Inline::strong(stage.summary.label(context.session, context.facts)),
        factor = Quantity::new(factor.0, Unit::One),
        others = others.to_string(),
    )
}

/// One bar a stage: busy time by group of classes, then idle time, as shares of the stage time.
fn chart(context: &Context<'_>, times: &StageTimes) -> Chart {
    let bar = |stage: &StageTime| {
        let line = &stage.summary;
        let groups = || stage.groups.iter().flatten().map(|time| time.time());
        let busy: Time = groups().sum();
        let idle = busy / line.busy_share.0.max(1e-12) - busy;
        let mut values: Vec<f64> = groups().map(|time| time.0).collect();
        values.push(idle.max(Time::ZERO).0);
        let (time, share) = (line.time, line.busy_share);
        let note = words!(context, "stage_times.busy", time = time, share = share);
        Bar {
            label: line.label(context.session, context.facts),
            values,
            note,
        }
    };
    let colors = ClassGroup::ALL
        .map(group_color)
        .into_iter()
        .chain([Color::Idle]);
    let bars = StackedBars {
        unit: Unit::Nanoseconds,
        normalized: true,
        parts: colors
            .map(|color| Part::new(color.label(), color))
            .collect(),
        bars: times.of_primary().map(bar).collect(),
    };
    let pass = context.session.pass_name(times.primary);
    Chart {
        id: "stage-time".to_owned(),
        title: words!(context, "stage_times.chart"),
        description: words!(context, "stage_times.chart_text", pass = pass),
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
    let mut metrics = vec![
        STAGE_TIME.derived(scope(), line.time.0, projection),
        HOST_TIME.derived(scope(), line.host.0, host),
        OPERATION_TIME_SUM.derived(
            scope(),
            line.sum.0,
            format!("sum of operation durations, {over}"),
        ),
        BUSY_SHARE.derived(scope(), line.busy_share.0, busy),
        OPERATIONS.derived(scope(), line.operations.0, over),
        INFERRED_SHARE.derived(scope(), line.inferred_share.0, inferred),
    ];
    let evidence = line.evidence(context.session, context.facts);
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}

/// A stage with one of its parts: a group of classes and its busy time.
type StagePart<'a> = (&'a StageTime, (ClassGroup, Time));

/// The parts of the chart's bars as a table.
fn parts_table<'t>(context: &Context<'t>) -> Table<'t, StagePart<'t>> {
    let (session, facts) = (context.session, context.facts);
    columns! { context, "stage_parts", (stage, (group, time)): &StagePart<'_> => {
        text "stage" = stage.summary.label(session, facts);
        text "pass" = session.pass_name(stage.pass);
        text "part" = group_color(*group).label();
        "time_ns" = *time;
        "busy_share" = stage.share(*group);
    } }
}
