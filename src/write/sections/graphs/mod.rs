//! CUDA graphs: how long replays take, what the GPU does inside and between them, and what their kernels are.

mod nodes;
mod replays;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Metric, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::graphs::replays::Graph;
use rooflens_analysis::time::graphs::{Graphs, StageGraph, StageReplays};
use rooflens_document::catalogue::{GRAPH_BUSY_SHARE, GRAPH_GAP, GRAPH_REPLAY_TIME, GRAPH_REPLAYS};
use rooflens_document::{Block, Inline, Quantity, SectionContent, Table, View};
use rooflens_session::PassId;
use rooflens_units::Time;

/// CUDA graphs. A bundle without graphs has no such section.
pub(super) static SECTION: Section = Section { id: "graphs", show };

/// Rows of each table on the page.
const SHOWN: usize = 15;

/// What an artifact with graphs as single operations cannot tell.
const WHOLE: &str = "graphs were traced as single operations: capture with --cuda-graph-trace=node";

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let graphs = context.results.graphs()?;
    let mut content = SectionContent::default();
    let Some(first) = graphs.by_stage.first() else {
        return Ok(content);
    };
    let shown = graphs.replays.graphs[first.graph].pass;
    let table = replays::table(context, graphs);
    content
        .main
        .push(Block::Prose(introduction(context, graphs, shown)));
    content
        .main
        .push(Block::Chart(replays::chart(context, graphs, shown)));
    content
        .main
        .push(Block::Table(view(context, graphs, &table)));
    let costs = graphs.traced_twice(context.facts);
    content.main.extend(
        costs
            .into_iter()
            .filter_map(|pair| cost(context, pair))
            .map(Block::Prose),
    );
    content
        .blocks
        .extend(whole_graphs(context, graphs).map(Block::Prose));
    content.datasets.push(table.rows(&graphs.by_stage));
    nodes::add(context, graphs, &mut content);
    content.metrics.extend(
        graphs
            .stages
            .iter()
            .flat_map(|stage| metrics(context, stage)),
    );
    content.methods.push(method!(context, "graphs"));
    Ok(content)
}

/// The table on the page, with the idle time between replays where that is not all of the time between them.
fn view(context: &Context<'_>, graphs: &Graphs, table: &Table<'_, StageGraph>) -> View {
    let mut view = table.view(words!(context, "graphs.caption"), SHOWN);
    if graphs
        .by_stage
        .iter()
        .all(|row| row.figures.gap == row.figures.gap_idle)
    {
        view.columns.retain(|column| *column != "gap_ns");
    }
    view
}

fn introduction(context: &Context<'_>, graphs: &Graphs, shown: PassId) -> Vec<Inline> {
    let replays = &graphs.replays;
    let of_pass = |graph: usize| replays.graphs[graph].pass == shown;
    let mut counted = 0;
    for row in &graphs.by_stage {
        if of_pass(row.graph) {
            counted += row.figures.replays;
        }
    }
    let left_out = replays
        .all
        .iter()
        .filter(|replay| of_pass(replay.graph))
        .count()
        - counted;
    let number = replays
        .graphs
        .iter()
        .filter(|graph| graph.pass == shown)
        .count();
    say!(
        context,
        "graphs.introduction",
        pass = Inline::code(context.session.pass_name(shown)),
        replays = Quantity::count(counted as u64),
        graphs = Quantity::count(number as u64),
        left_out = (left_out > 0).then(|| Quantity::count(left_out as u64)),
    )
}

/// What tracing by node costs a stage: why its times are of one pass, and its kernels of another.
fn cost(
    context: &Context<'_>,
    (whole, nodes): (&StageReplays, &StageReplays),
) -> Option<Vec<Inline>> {
    let name = |replays: &StageReplays| {
        let pass = replays.summary.stage(context.facts).pass;
        Inline::code(context.session.pass_name(pass))
    };
    let ratio = |nodes: Time, whole: Time| {
        whole
            .is_positive()
            .then(|| Quantity::new(nodes / whole, Unit::One))
    };
    let (whole_launch, nodes_launch) = (whole.figures.launch?, nodes.figures.launch?);
    Some(say!(
        context,
        "graphs.cost",
        stage = Inline::strong(whole.summary.label(context.session, context.facts)),
        whole = name(whole),
        nodes = name(nodes),
        whole_launch = whole_launch,
        nodes_launch = nodes_launch,
        launch_ratio = ratio(nodes_launch, whole_launch)?,
        whole_time = whole.summary.time,
        nodes_time = nodes.summary.time,
        time_ratio = ratio(nodes.summary.time, whole.summary.time)?,
    ))
}

/// Says which passes have graphs as single operations, and what another trace would add.
fn whole_graphs(context: &Context<'_>, graphs: &Graphs) -> Option<Vec<Inline>> {
    let whole = graphs
        .replays
        .graphs
        .iter()
        .filter(|graph: &&Graph| graph.whole);
    let mut passes: Vec<PassId> = whole.map(|graph| graph.pass).collect();
    passes.dedup();
    passes.retain(|pass| context.facts.graph_nodes.is_none() || !context.facts.run.contains(pass));
    let names: Vec<&str> = passes
        .iter()
        .map(|pass| context.session.pass_name(*pass))
        .collect();
    (!names.is_empty()).then(|| {
        say!(
            context,
            "graphs.whole",
            passes = Inline::code(names.join(context.text.comma()))
        )
    })
}

fn metrics(context: &Context<'_>, replays: &StageReplays) -> Vec<Metric> {
    let scope = || replays.summary.scope(context.session, context.facts);
    let figures = &replays.figures;
    let count = figures.replays;
    let basis = "graph launches with work on the GPU, in the instances that count";
    let mut metrics = vec![GRAPH_REPLAYS.measured(scope(), count as f64, basis)];
    let basis =
        format!("first start to last end of a replay's operations, median of {count} replays");
    metrics.extend(
        figures
            .time
            .map(|time| GRAPH_REPLAY_TIME.derived(scope(), time.0, basis)),
    );
    let basis = format!(
        "{} ns busy / {} ns of {count} replays",
        figures.busy, figures.gpu_time
    );
    let share = match replays.whole {
        true => Err(WHOLE.to_owned()),
        false => figures
            .busy_share()
            .ok_or_else(|| "the replays take no time".to_owned()),
    };
    metrics.push(GRAPH_BUSY_SHARE.known(scope(), share.map(|share| (share.0, basis))));
    let basis = format!(
        "end of the replay before to start of the next one in a stage instance on a GPU, median of {}",
        figures.gaps
    );
    let gap = figures.gap.map(|gap| (gap.0, basis));
    let gap = gap.ok_or_else(|| "no stage instance has two replays".to_owned());
    metrics.push(GRAPH_GAP.known(scope(), gap));
    let pass = replays.summary.stage(context.facts).pass;
    let tables = "launches, copies, graph_launches, api_calls";
    let evidence = context.session.evidence(pass, tables, figures.operations);
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}
