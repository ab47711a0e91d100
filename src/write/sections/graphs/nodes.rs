//! What the work in graphs is.

use std::collections::BTreeSet;

use rooflens_schemas::Scope;

use super::SHOWN;
use crate::Context;
use rooflens_analysis::time::graphs::Graphs;
use rooflens_analysis::time::graphs::nodes::{Origin, PassNodes, Sum};
use rooflens_document::catalogue::{GRAPH_CAPTURE_ATTRIBUTED_SHARE, GRAPH_EAGER_MATCHED_SHARE};
use rooflens_document::{Block, Inline, MetricDef, Quantity, SectionContent, Table};
use rooflens_session::{KernelId, Ns, PassId, StrId};

/// Operations of one origin.
type Row<'a> = (&'a PassNodes, &'a Origin, Sum);

/// Adds tables and metrics of all passes with graphs.
pub(super) fn add(context: &Context<'_>, graphs: &Graphs, content: &mut SectionContent) {
    let passes = &graphs.nodes;
    for pass in passes {
        add_metrics(context, pass, content);
    }
    let Some(shown) = passes.first() else { return };
    let rows = passes
        .iter()
        .flat_map(|nodes| nodes.origins.iter().map(move |origin| (nodes, origin)));
    let rows: Vec<Row<'_>> = rows
        .map(|(nodes, (origin, sum))| (nodes, origin, *sum))
        .collect();
    content
        .blocks
        .push(Block::Prose(introduction(context, shown)));
    let table = table(context, &rows);
    if shown.origins.len() > 1 {
        let pass = context.session.pass_name(shown.pass);
        let caption = words!(context, "graphs.caption_origins", pass = pass);
        let view = table.view(caption, shown.origins.len().min(SHOWN));
        content.blocks.push(Block::Table(view));
    }
    content.datasets.push(table.rows(&rows));
    add_unmatched(context, passes, content);
}

fn add_metrics(context: &Context<'_>, nodes: &PassNodes, content: &mut SectionContent) {
    let session = context.session;
    let (operations, whole) = nodes.all();
    if whole <= Ns::ZERO {
        return;
    }
    let tables = "launches, copies, graph_launches, graph_nodes, graph_creations";
    let mut add = |metric: &MetricDef, part: Sum, how: &str| {
        let basis = format!(
            "{} ns in {} operations {how} / {whole} ns in graphs",
            part.1, part.0
        );
        let scope = Scope {
            pass: Some(session.pass_name(nodes.pass).to_owned()),
            ..Scope::default()
        };
        let mut metric = metric.derived(scope, part.1.time() / whole.time(), basis);
        metric
            .evidence
            .push(session.evidence(nodes.pass, tables, operations));
        content.metrics.push(metric);
    };
    let captured = nodes.captured();
    add(
        &GRAPH_CAPTURE_ATTRIBUTED_SHARE,
        captured,
        "with a range open at capture",
    );
    // What runs in a graph that was traced as a whole is not known: there is nothing to match.
    if nodes.by_node && captured.0 < operations {
        add(
            &GRAPH_EAGER_MATCHED_SHARE,
            nodes.eager(),
            "with an eager twin",
        );
    }
}

fn introduction(context: &Context<'_>, nodes: &PassNodes) -> Vec<Inline> {
    let whole = nodes.all().1.max(Ns(1)).time().0;
    let share = |sum: Sum| Quantity::ratio(sum.1.time().0 / whole);
    let stages = nodes.origins.iter().filter_map(|(origin, _)| match origin {
        Origin::Eager(kernel, _) => Some(context.facts.stages[kernel.stage].name.as_str()),
        _ => None,
    });
    let stages: BTreeSet<&str> = stages.take(SHOWN).collect();
    let stages: Vec<&str> = stages.into_iter().collect();
    say!(
        context,
        "graphs.origins",
        captured = share(nodes.captured()),
        // The reason that holds for most of the rest.
        reason = nodes.origins.iter().find_map(|(origin, _)| origin.reason()),
        eager = (nodes.eager().0 > 0).then(|| share(nodes.eager())),
        stages = Inline::code(stages.join(context.text.comma())),
    )
}

/// One row an origin; on the page as far as a row has a value.
fn table<'t>(context: &Context<'t>, rows: &[Row<'_>]) -> Table<'t, Row<'t>> {
    let (session, context) = (context.session, *context);
    let text = |id: Option<StrId>| id.map(|id| session.text(id));
    let has = |column: usize| {
        rows.iter()
            .any(|(_, origin, _)| names(origin)[column].is_some())
    };
    let is_timed = rows.iter().any(|(nodes, ..)| nodes.all().1 > Ns::ZERO);
    columns! { context, "graph_nodes_by_range", (nodes, origin, (operations, time)): &Row<'_> => {
        let [range, operator, module] = names(origin);
        name "range" = text(range), page if has(0);
        name "operator" = text(operator), page if has(1);
        name "module" = text(module), page if has(2);
        text "found" = found(&context, nodes.pass, origin), page;
        text "pass" = session.pass_name(nodes.pass);
        count "operations" = *operations, page;
        time "total_ns" = *time, page;
        share "share" = (nodes.all().1 > Ns::ZERO).then(|| time.time().0 / nodes.all().1.time().0), page if is_timed;
    } }
}

/// Range, operator and module of an origin.
const fn names(origin: &Origin) -> [Option<StrId>; 3] {
    match origin {
        Origin::Capture(range) => [Some(*range), None, None],
        Origin::Eager(kernel, _) => [kernel.range, kernel.operator, kernel.module],
        Origin::Unmatched(_) | Origin::Unknown(_) => [None; 3],
    }
}

/// How an origin was found, or why there is none.
fn found(context: &Context<'_>, pass: PassId, origin: &Origin) -> String {
    match origin {
        Origin::Capture(_) => "open at capture".to_owned(),
        Origin::Eager(kernel, _) => {
            let stage = &context.facts.stages[kernel.stage];
            let name = context.session.pass_name(stage.pass);
            match stage.pass == pass {
                true => format!("same place in {}", stage.name),
                false => format!("same place in {} of {name}", stage.name),
            }
        }
        Origin::Unmatched(captured) => {
            format!("{}; not in the run without graphs", captured.reason())
        }
        Origin::Unknown(captured) => captured.reason().to_owned(),
    }
}

/// Kernels of graphs that the run without graphs does not have.
fn add_unmatched(context: &Context<'_>, passes: &[PassNodes], content: &mut SectionContent) {
    let (session, facts) = (context.session, context.facts);
    let rows = passes
        .iter()
        .flat_map(|nodes| nodes.unmatched.iter().map(move |row| (nodes.pass, *row)));
    let rows: Vec<(PassId, (KernelId, Sum))> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let table = columns! { context, "graph_unmatched_kernels", (pass, (kernel, (launches, time))): &(PassId, (KernelId, Sum)) => {
        name "kernel" = facts.identities[kernel.index()].short.as_str(), page;
        text "pass" = session.pass_name(*pass);
        count "launches" = *launches, page;
        time "total_ns" = *time, page;
        name "name" = session.kernel_name(*kernel);
    } };
    let shown = passes
        .first()
        .map_or(0, |nodes| nodes.unmatched.len())
        .min(SHOWN);
    if shown > 0 {
        let caption = words!(context, "graphs.caption_unmatched");
        content
            .blocks
            .push(Block::Table(table.view(caption, shown)));
    }
    content.datasets.push(table.rows(&rows));
}
