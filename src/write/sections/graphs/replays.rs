//! Replays by graph and stage, as table and chart.

use rooflens_schemas::Unit;

use crate::Context;
use crate::group_color;
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::time::graphs::{Graphs, StageGraph};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Chart, Quantity, Table};
use rooflens_session::{Ns, PassId};

/// Bars of the chart.
const SHOWN_BARS: usize = 12;

/// One row a graph and stage; times are medians.
pub(super) fn table<'t>(context: &Context<'t>, graphs: &'t Graphs) -> Table<'t, StageGraph> {
    let (session, facts) = (context.session, context.facts);
    columns! { context, "graphs", row: &StageGraph => {
        let graph = &graphs.replays.graphs[row.graph];
        let inside = inside(graphs, row);
        text "graph" = format!("graph {}", graph.number), page;
        text "pass" = session.pass_name(graph.pass), page;
        text "stage" = row.stage.map(|stage| facts.stages[stage].name.as_str()), page;
        count "replays" = row.figures.replays, page;
        count "nodes" = inside.and(row.figures.median_operations), page;
        time "replay_ns" = row.figures.time, page;
        share "busy_share" = inside.and(row.figures.busy_share()), page;
        time "gap_ns" = row.figures.gap, page;
        time "gap_idle_ns" = row.figures.gap_idle, page;
        time "launch_ns" = row.figures.launch, page;
        time "total_ns" = row.figures.total;
        text "class" = inside.and(row.largest_class()).map(|(class, _)| class.label());
        share "class_share" = {
            let operations = Some(row.operation_time()).filter(|time| *time > Ns::ZERO)?;
            inside
                .and(row.largest_class())
                .map(|(_, time)| time.time().0 / operations.time().0)
        };
        text "process" = session.processes.pid[graph.process.index()];
        text "graph_id" = graph.id;
    } }
}

/// Where the time from the first to the last replay goes, one bar a graph and stage of the pass.
pub(super) fn chart(context: &Context<'_>, graphs: &Graphs, pass: PassId) -> Chart {
    let rows = graphs
        .by_stage
        .iter()
        .filter(|row| graphs.replays.graphs[row.graph].pass == pass);
    let rest = [
        (words!(context, "graphs.idle_inside"), Color::Idle),
        (words!(context, "graphs.other_work"), Color::Other),
        (words!(context, "graphs.idle_between"), Color::LatencyBound),
    ];
    let groups = ClassGroup::ALL
        .map(group_color)
        .map(|color| (color.label().to_owned(), color));
    let part = |(name, color)| Part { name, color };
    let bars = StackedBars {
        unit: Unit::Nanoseconds,
        normalized: true,
        parts: groups.into_iter().chain(rest).map(part).collect(),
        bars: rows
            .clone()
            .take(SHOWN_BARS)
            .map(|row| bar(context, graphs, row))
            .collect(),
    };
    let longest = rows.rev().max_by_key(|row| row.figures.total);
    let pass = context.session.pass_name(pass);
    Chart {
        id: "graph-replays".to_owned(),
        title: longest.map_or(String::new(), |row| caption(context, graphs, row, pass)),
        description: words!(context, "graphs.chart_text", pass = pass),
        plot: Plot::StackedBars(bars.without_empty_parts()),
    }
}

/// What runs inside of a graph that was traced as one operation is not known.
fn inside(graphs: &Graphs, row: &StageGraph) -> Option<()> {
    (!graphs.replays.graphs[row.graph].whole).then_some(())
}

/// The replays with most time.
fn caption(context: &Context<'_>, graphs: &Graphs, row: &StageGraph, pass: &str) -> String {
    let figures = &row.figures;
    words!(
        context,
        "graphs.chart",
        stage = row
            .stage
            .map(|stage| context.facts.stages[stage].name.as_str()),
        graph = format!("graph {}", graphs.replays.graphs[row.graph].number),
        count = Quantity::count(figures.replays as u64),
        time = figures.time.unwrap_or_default(),
        busy = inside(graphs, row).and(figures.busy_share()),
        pass = pass,
    )
}

/// Busy time is dealt out to the groups by their sums of durations.
fn bar(context: &Context<'_>, graphs: &Graphs, row: &StageGraph) -> Bar {
    let figures = &row.figures;
    let operations = row.operation_time().max(Ns(1)).time().0;
    let of_group = |group: ClassGroup| {
        let is_own = |class: &KernelClass| class.group() == group;
        let times = row.classes.iter().filter(|(class, _)| is_own(class));
        total(times.map(|(_, time)| *time)).time().0 / operations * figures.busy.time().0
    };
    let mut values = ClassGroup::ALL.map(of_group).to_vec();
    let (gaps, idle) = (figures.gap_total, figures.gap_idle_total);
    values.extend([
        (figures.gpu_time - figures.busy).time().0,
        (gaps - idle).time().0,
        idle.time().0,
    ]);
    let count = Quantity::count(figures.replays as u64);
    let time = Quantity::from(figures.time.unwrap_or_default());
    let graph = format!("graph {}", graphs.replays.graphs[row.graph].number);
    let label = match row.stage {
        Some(stage) => format!("{} · {graph}", context.facts.stages[stage].name),
        None => graph,
    };
    Bar {
        label,
        values,
        note: format!("{count} × {time}"),
    }
}
