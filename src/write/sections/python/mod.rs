//! Functions of Python: tables, flame graphs, and what share of the GPU time was issued within them.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use rooflens_schemas::Scope;
use rooflens_session::Ns;
use rooflens_units::Ratio;

use super::paths::{self, shown_stages};
use super::{Section, flame};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::operators::call_tree::{Node, Tree};
use rooflens_analysis::operators::python::{FunctionSum, PassFunctions, Python};
use rooflens_document::catalogue::PYTHON_COVERAGE;
use rooflens_document::{Block, Inline, Quantity, SectionContent, Table, View};

/// Functions of Python.
pub(super) static SECTION: Section = Section { id: "python", show };

/// Functions that a table shows.
const SHOWN: usize = 10;

/// Share of the device time or of the host time of a stage below which a path is in no row: stacks have very many.
const LEAST_SHARE: Ratio = Ratio(0.001);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let session = context.session;
    let mut content = SectionContent::default();
    let python = context.results.python()?;
    let Some(primary) = python.passes.first() else {
        return Ok(content);
    };
    content
        .blocks
        .push(Block::Prose(introduction(context, primary)));
    add_trees(context, &python.trees, &mut content);
    content.blocks.extend(
        views(context, python, primary)
            .into_iter()
            .map(Block::Table),
    );
    for of_pass in &python.passes {
        let Some(share) = of_pass.coverage() else {
            continue;
        };
        let scope = Scope {
            pass: Some(session.pass_name(of_pass.pass).to_owned()),
            ..Scope::default()
        };
        let basis = format!(
            "{} ns of GPU operations issued within Python functions / {} ns of all",
            of_pass.device, of_pass.work.device
        );
        let mut metric = PYTHON_COVERAGE.derived(scope, share.0, basis);
        metric
            .evidence
            .push(session.evidence(of_pass.pass, "frames", of_pass.calls));
        content.metrics.push(metric);
    }
    let by_device = table(context, "python_functions");
    content
        .datasets
        .push(device(by_device).rows(&python.functions));
    let mut by_host: Vec<&FunctionSum> = python.functions.iter().collect();
    by_host.sort_by_key(|function| {
        (
            function.pass,
            Reverse(function.sum.host_self),
            &function.name,
        )
    });
    content
        .datasets
        .push(table(context, "python_functions_by_host").rows(by_host));
    content.methods.push(method!(context, "python"));
    Ok(content)
}

/// What the functions of a pass hold of the GPU's time.
fn introduction(context: &Context<'_>, primary: &PassFunctions) -> Vec<Inline> {
    say!(
        context,
        "python.introduction",
        pass = Inline::code(context.session.pass_name(primary.pass)),
        calls = Quantity::count(primary.calls),
        functions = Quantity::count(primary.functions),
        share = primary.coverage(),
        rest = (primary.device < primary.work.device).then(|| say!(context, "python.rest")),
    )
}

/// Flame graphs, the GPU time of the stage that has most of it in the section and all others in the appendix, and the
/// data set of paths.
fn add_trees(context: &Context<'_>, trees: &[Tree], content: &mut SectionContent) {
    let shown = shown_stages(trees.iter());
    let device_time = |tree: &&&Tree| Reverse(tree.nodes[0].sum.within.device);
    let first = shown.iter().min_by_key(device_time).copied();
    for (number, tree) in (1..).zip(&shown) {
        let is_first = first.is_some_and(|first| std::ptr::eq(first, *tree));
        let blocks = if is_first {
            &mut content.blocks
        } else {
            &mut content.appendix
        };
        let chart = flame::of_device(context, tree, format!("python-device-{number}"));
        blocks.extend(chart.map(Block::Chart));
        let chart = flame::of_host(context, tree, format!("python-host-{number}"));
        content.appendix.extend(chart.map(Block::Chart));
    }
    if trees.iter().any(Tree::has_inner) {
        let places = paths::places(trees.iter(), &is_listed);
        content
            .datasets
            .push(paths::dataset(context, "python_tree", &places));
    }
}

fn is_listed(tree: &Tree, node: &Node) -> bool {
    let (own, root) = (&node.sum, &tree.nodes[0].sum);
    let is_large =
        |part: Ns, whole: Ns| part > Ns::ZERO && part.time() >= whole.time() * LEAST_SHARE;
    is_large(own.within.device, root.within.device)
        || is_large(own.host_total, root.host_total)
        || is_large(own.within.backward, root.within.backward)
}

/// Views of the first pass with functions; other ranks and passes are in the data sets.
fn views(context: &Context<'_>, python: &Python, primary: &PassFunctions) -> Vec<View> {
    let pass = context.session.pass_name(primary.pass);
    let of_primary: Vec<&FunctionSum> = python
        .functions
        .iter()
        .filter(|function| function.pass == primary.pass)
        .collect();
    let shown = of_primary.len().min(SHOWN);
    let mut views = Vec::new();
    if primary.work.linked {
        let mut columns = vec![
            "function",
            "calls",
            "device_self_ns",
            "device_share",
            "device_total_ns",
        ];
        let has_backward = of_primary
            .iter()
            .any(|function| function.sum.within.backward > Ns::ZERO);
        columns.extend(has_backward.then_some("backward_ns"));
        columns.extend(["launches", "host_self_ns"]);
        let caption = words!(context, "python.by_device", pass = pass);
        views.push(View::new("python_functions", caption, &columns, shown));
    }
    let mut columns = vec![
        "function",
        "calls",
        "host_self_ns",
        "host_cuda_ns",
        "host_total_ns",
    ];
    if primary.work.linked {
        columns.extend(["idle_self_ns", "idle_ns"]);
    }
    let caption = words!(context, "python.by_host", pass = pass);
    views.push(View::new(
        "python_functions_by_host",
        caption,
        &columns,
        shown,
    ));
    views
}

/// Names and host times.
fn table<'t>(context: &Context<'t>, id: &'static str) -> Table<'t, FunctionSum> {
    let session = context.session;
    columns! { context, id, row: &FunctionSum => {
        name "function" = row.name.clone();
        text "pass" = session.pass_name(row.pass);
        with paths::host() of row;
        time "host_total_ns" = row.sum.host_total;
        time "idle_self_ns" = row.idle.own;
        time "idle_ns" = row.idle.total;
    } }
}

fn device(table: Table<'_, FunctionSum>) -> Table<'_, FunctionSum> {
    columns! { table, function: &FunctionSum => {
        with paths::device_times() of function;
        time "backward_ns" = function.work.known(function.sum.within.backward);
        count "launches" = function.work.known(function.sum.within.launches);
    } }
}
