//! Where the time of a stage goes by range and module.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use super::paths::{self, Place, node, on_host, shown_stages};
use super::{Section, flame};
use crate::{Context, focus, shapes_advice};
use rooflens_analysis::Known;
use rooflens_analysis::operators::call_tree::{Kind, Tree};
use rooflens_document::{Block, Dataset, Inline, Quantity, SectionContent, View};

/// Modules and ranges.
pub(super) static SECTION: Section = Section {
    id: "modules",
    show,
};

/// Nodes that a table shows.
const SHOWN_NODES: usize = 15;

/// Nodes of the first stage that the report shows.
const SHOWN_FIRST: usize = 6;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let session = context.session;
    let mut content = SectionContent::default();
    let modules = context.results.modules()?;
    let Some(pass) = modules.shown else {
        return Ok(content);
    };
    let shown = shown_stages(modules.of_pass(pass).iter());
    let name = Inline::code(session.pass_name(pass));
    content.blocks.push(Block::Prose(say!(
        context,
        "modules.introduction",
        pass = name
    )));
    let with_modules: Vec<&Tree> = modules
        .trees
        .iter()
        .filter(|tree| tree.has_modules())
        .collect();
    // The section of operators draws the trees of passes with operators, modules included.
    let drawn = !session.operators.pass.contains(&pass);
    let focus = focus(context).map(|summary| summary.label(session, context.facts));
    let first = shown
        .iter()
        .position(|tree| Some(&tree.label) == focus.as_ref())
        .unwrap_or(0);
    for (number, tree) in shown.iter().enumerate() {
        let charts = [
            flame::of_device(context, tree, format!("modules-device-{}", number + 1)),
            flame::of_host(context, tree, format!("modules-host-{}", number + 1)),
        ];
        content.blocks.extend(
            charts
                .into_iter()
                .flatten()
                .filter(|_| drawn)
                .map(Block::Chart),
        );
        let view = view(context, &with_modules, tree);
        if number == first {
            let first = view.iter().map(|view| View {
                limit: view.limit.min(SHOWN_FIRST),
                ..view.clone()
            });
            content.main.extend(first.map(Block::Table));
        }
        content.blocks.extend(view.map(Block::Table));
    }
    // The pass that is shown, as a timeline, may not tell what the backward pass belongs to.
    let with_backward = with_modules
        .iter()
        .filter(|tree| tree.pass != pass && tree.has_backward());
    if !shown.iter().any(|tree| tree.has_backward())
        && let Some(most) =
            with_backward.min_by_key(|tree| Reverse(tree.nodes[0].sum.within.backward))
    {
        content
            .blocks
            .extend(view(context, &with_modules, most).map(Block::Table));
    }
    if !with_modules.iter().any(|tree| tree.has_flops()) && !with_modules.is_empty() {
        content.blocks.push(Block::Prose(say!(
            context,
            "modules.no_flops",
            advice = shapes_advice(context, context.text),
        )));
    }
    if !with_modules.is_empty() {
        content.datasets.push(dataset(context, &with_modules));
    }
    content.methods.push(method!(context, "modules"));
    Ok(content)
}

fn dataset(context: &Context<'_>, trees: &[&Tree]) -> Dataset {
    let session = context.session;
    let kind = |module: &Place<'_>| match node(module).kind {
        Kind::Stage | Kind::Range { part: true } => "stage",
        Kind::Range { part: false } => "range",
        Kind::Module => "module",
        Kind::Function => "function",
        Kind::Operator => "operator",
    };
    columns! { context, "modules", row: &Place<'_> => {
        with paths::stage(session) of row;
        text "kind" = kind(row);
        count "depth" = node(row).depth;
        count "names" = on_host(row, node(row).names);
        with paths::times() of row;
    } }
    .rows(&paths::places(trees.iter().copied(), &|_, _| true))
}

/// The rows of one of the trees.
fn view(context: &Context<'_>, with_modules: &[&Tree], tree: &Tree) -> Option<View> {
    let index = with_modules
        .iter()
        .position(|listed| std::ptr::eq(*listed, tree))?;
    let skip = with_modules[..index]
        .iter()
        .map(|tree| tree.nodes.len() - 1)
        .sum();
    let pass = context.session.pass_name(tree.pass);
    let caption = words!(
        context,
        "modules.of_stage",
        stage = tree.label.as_str(),
        count = Quantity::count(tree.instances as u64),
        pass = pass,
        flops = tree.has_flops().then_some(""),
    );
    let mut columns = vec![
        "path",
        "names",
        "host_total_ns",
        "host_self_ns",
        "device_total_ns",
    ];
    columns.extend(tree.has_backward().then_some("backward_ns"));
    columns.extend(if tree.has_flops() {
        ["device_share", "flops", "flop_rate", "flop_coverage"]
    } else {
        ["device_self_ns", "busy_ns", "device_share", "launches"]
    });
    let limit = (tree.nodes.len() - 1).min(SHOWN_NODES);
    Some(View {
        skip,
        ..View::new("modules", caption, &columns, limit)
    })
}
