//! Where the time of a stage goes by range and module.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use super::paths::{self, Place, node, on_host, shown_stages};
use super::{Section, flame};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::operators::call_tree::{Kind, Tree};
use rooflens_findings::{Block, Dataset, Findings, Inline, Method, Table, View, prose};
use rooflens_model::{PassId, Session};

/// Modules and ranges.
pub(super) static SECTION: Section = Section { id: "modules", show };

/// Nodes that a table shows.
const SHOWN_NODES: usize = 15;

fn show(context: &Context<'_>) -> Known<Findings> {
    let session = context.session;
    let mut findings = Findings::default();
    let modules = context.results.modules()?;
    let Some(pass) = modules.shown else { return Ok(findings) };
    let shown = shown_stages(modules.of_pass(pass).iter());
    findings.blocks.push(Block::Prose(introduction(session, pass)));
    let with_modules: Vec<&Tree> = modules.trees.iter().filter(|tree| tree.has_modules()).collect();
    // The section of operators draws the trees of passes with operators, modules included.
    let drawn = !session.operators.pass.contains(&pass);
    for (number, tree) in (1..).zip(&shown) {
        let charts = [
            flame::of_device(context, tree, format!("modules-device-{number}")),
            flame::of_host(context, tree, format!("modules-host-{number}")),
        ];
        findings.blocks.extend(charts.into_iter().flatten().filter(|_| drawn).map(Block::Chart));
        findings.blocks.extend(view(session, &with_modules, tree).map(Block::Table));
    }
    // The pass that is shown, as a timeline, may not tell what the backward pass belongs to.
    let with_backward = with_modules.iter().filter(|tree| tree.pass != pass && tree.has_backward());
    if !shown.iter().any(|tree| tree.has_backward())
        && let Some(most) =
            with_backward.min_by_key(|tree| Reverse(tree.nodes[0].sum.within.backward))
    {
        findings.blocks.extend(view(session, &with_modules, most).map(Block::Table));
    }
    if !with_modules.iter().any(|tree| tree.has_flops()) && !with_modules.is_empty() {
        findings.blocks.push(Block::Prose(prose![
            "FLOPs of modules are not to be had: nothing in the bundle gives the sizes of its matrix kernels, as a \
             PyTorch trace with record_shapes=True or a cuBLASLt log does."
        ]));
    }
    if !with_modules.is_empty() {
        findings.datasets.push(dataset(context, &with_modules));
    }
    findings.methods.push(method());
    Ok(findings)
}

fn dataset(context: &Context<'_>, trees: &[&Tree]) -> Dataset {
    let session = context.session;
    let kind = |place: &Place<'_>| match node(place).kind {
        Kind::Stage | Kind::Range { part: true } => "stage",
        Kind::Range { part: false } => "range",
        Kind::Module => "module",
        Kind::Function => "function",
        Kind::Operator => "operator",
    };
    Table::new(context.text, "modules")
        .with(|table| paths::stage(table, session))
        .text("kind", kind)
        .count("depth", |place| node(place).depth)
        .count("names", |place| on_host(place, node(place).names))
        .with(paths::times)
        .rows(&paths::places(trees.iter().copied(), &|_, _| true))
}

/// The rows of one of the trees.
fn view(session: &Session, with_modules: &[&Tree], tree: &Tree) -> Option<View> {
    let at = with_modules.iter().position(|other| std::ptr::eq(*other, tree))?;
    let skip = with_modules[..at].iter().map(|tree| tree.nodes.len() - 1).sum();
    let pass = session.pass_name(tree.pass);
    let caption = format!("{} by range and module, pass {pass}", tree.label);
    let mut columns = vec!["path", "names", "host_total_ns", "host_self_ns", "device_total_ns"];
    columns.extend(tree.has_backward().then_some("backward_ns"));
    columns.extend(if tree.has_flops() {
        ["device_share", "flops", "flop_rate", "flop_coverage"]
    } else {
        ["device_self_ns", "busy_ns", "device_share", "launches"]
    });
    let limit = (tree.nodes.len() - 1).min(SHOWN_NODES);
    Some(View { skip, ..View::new("modules", caption, &columns, limit) })
}

fn introduction(session: &Session, pass: PassId) -> Vec<Inline> {
    prose![
        "Stages of the pass ",
        Inline::Code(session.pass_name(pass).to_owned()),
        " by the ranges and modules within them; times are sums over the counted instances. Names that \
         differ only in numbers, such as those of layers, are one line."
    ]
}

fn method() -> Method {
    Method {
        title: "Modules, ranges and flame graphs".to_owned(),
        text: prose![
            "The ranges of the user, the module frames of PyTorch traces and, in the trees of operators, \
             the operators nest by time on their thread. Numbers that stand alone in a name become *, and spans \
             of equal path are added up. Host time is the duration of the spans on the thread that opened the \
             stage; own host time is without spans and CUDA calls within. Device time is the sum of the durations of \
             the GPU operations whose CUDA call starts within the span, own device time that of operations whose \
             innermost span it is, and busy the length of the union of their intervals on each GPU. An operation \
             that another thread issued stands below the range that was lent to it, beneath the spans of its own \
             thread, which have no host time here. FLOPs are those of matrix products, convolutions and attention of \
             known sizes, attention over all pairs of query and key, and everything else counts 0; the rate is FLOPs \
             over device time, and counted the share of the device time in kernels whose FLOPs are counted. Backward \
             is the device time of the operators of the backward pass whose forward operators lie within, by the \
             sequence numbers of autograd. Flame graphs (Gregg, The Flame Graph, Communications of the ACM, \
             2016) show the same trees down to kernels and to CUDA calls; frames below 0.3 % of the width are \
             merged, and at most 12 levels are drawn."
        ],
    }
}
