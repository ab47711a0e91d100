//! The data sets `idle` and `launch_figures`.

use rooflens_schemas::Unit;

use super::cause::Cause;
use super::line::Line;
use super::metrics::{per_step, per_token};
use super::verdict::Verdict;
use crate::analysis::Context;
use crate::findings::{Cell, Column, Dataset};

/// One row a line and cause that occurs, and *unknown* always; by (line, time descending).
pub(super) fn idle(context: &Context<'_>, lines: &[&Line]) -> Dataset {
    let rows = lines.iter().flat_map(|line| {
        let mut causes: Vec<Cause> = Cause::ALL
            .into_iter()
            .filter(|cause| *cause == Cause::Unknown || line.sums[*cause as usize].gaps > 0)
            .collect();
        causes.sort_by_key(|cause| (std::cmp::Reverse(line.sums[*cause as usize].time), *cause));
        causes.into_iter().map(|cause| idle_row(context, line, cause))
    });
    Dataset {
        id: "idle",
        title: "Idle time by cause".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::text("cause", "Cause"),
            Column::text("meaning", "What it is"),
            Column::new("gaps", "Gaps", Unit::Count),
            Column::new("total_ns", "Idle time", Unit::Nanoseconds),
            Column::new("idle_share", "Share of idle", Unit::Ratio),
            Column::new("longest_ns", "Longest", Unit::Nanoseconds),
            Column::new("median_ns", "Median instance", Unit::Nanoseconds),
            Column::new("stage_share", "Share of stage", Unit::Ratio),
        ],
        rows: rows.collect(),
    }
}

fn idle_row(context: &Context<'_>, line: &Line, cause: Cause) -> Vec<Cell> {
    let sum = line.sums[cause as usize];
    let idle = line.idle_total();
    vec![
        Cell::Text(line.label(context)),
        Cell::Text(line.pass_name(context)),
        Cell::Text(cause.label().to_owned()),
        Cell::Text(cause.meaning().to_owned()),
        Cell::Int(sum.gaps as i64),
        Cell::Int(sum.time),
        Cell::maybe((idle > 0).then(|| sum.time as f64 / idle as f64)),
        Cell::Int(sum.longest),
        Cell::Float(line.per_instance(line.of(cause))),
        Cell::Float(line.share(line.of(cause))),
    ]
}

/// One row a line.
pub(super) fn launch_figures(context: &Context<'_>, lines: &[&Line]) -> Dataset {
    Dataset {
        id: "launch_figures",
        title: "What bounds each stage, and what launching costs".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::text("verdict", "Verdict"),
            Column::new("verdict_share", "Its share", Unit::Ratio),
            Column::new("busy_share", "Busy", Unit::Ratio),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("launches_per_step", "Per step", Unit::Count),
            Column::new("launches_per_token", "Per token", Unit::One),
            Column::new("kernel_mean_ns", "Mean kernel", Unit::Nanoseconds),
            Column::new("launch_api_mean_ns", "Mean call", Unit::Nanoseconds),
            Column::new("queue_time_ns", "Queue time", Unit::Nanoseconds),
            Column::new("begun_in_call", "Begun in call", Unit::Count),
            Column::new("queue_depth_mean", "Queue depth", Unit::One),
            Column::new("queue_depth_max", "Deepest", Unit::Count),
            Column::new("queue_empty_share", "Queue empty", Unit::Ratio),
            Column::new("launching_calls_ns", "Launching: in calls", Unit::Nanoseconds),
            Column::new("launching_between_ns", "Between calls", Unit::Nanoseconds),
            Column::new("launching_latency_ns", "After the call", Unit::Nanoseconds),
        ],
        rows: lines.iter().map(|line| launch_row(context, line)).collect(),
    }
}

fn launch_row(context: &Context<'_>, line: &Line) -> Vec<Cell> {
    let (verdict, share) = Verdict::of(line);
    let launches = &line.launches;
    let counted = |count: u64| match launches.calls {
        0 => Cell::Missing,
        _ => Cell::Int(count as i64),
    };
    vec![
        Cell::Text(line.label(context)),
        Cell::Text(line.pass_name(context)),
        Cell::Text(verdict.label().to_owned()),
        Cell::Float(share),
        Cell::Float(line.share(line.middle.busy.total())),
        counted(launches.calls / line.instances.max(1)),
        Cell::maybe(per_step(context, line)),
        Cell::maybe(per_token(context, line)),
        Cell::maybe(launches.mean_kernel()),
        Cell::maybe(launches.mean_call()),
        Cell::maybe(launches.queue_time),
        counted(launches.begun_in_call),
        Cell::maybe(launches.depth_mean()),
        counted(launches.depth_max),
        Cell::maybe((launches.calls > 0).then(|| line.queue_empty_share())),
        Cell::Int(line.issuing.calls),
        Cell::Int(line.issuing.between),
        Cell::Int(line.issuing.latency),
    ]
}
