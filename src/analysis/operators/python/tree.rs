//! Functions by who called them: flame graphs of the stages, and a data set of paths.

use std::cmp::Reverse;

use crate::analysis::Context;
use crate::analysis::operators::call_tree::{Node, Spans, Tree, flame, trees, whole};
use crate::analysis::operators::modules::{rows, shown_stages};
use crate::findings::{Block, Findings};
use crate::model::PassId;

/// Share of the device time or of the host time of a stage below which a path is in no row: stacks have very many.
const LEAST_SHARE: f64 = 0.001;

/// Adds the trees of a pass: the GPU time of the stage that has most of it to the section, all others to the appendix.
pub(super) fn add(context: &Context<'_>, spans: &Spans, pass: PassId, findings: &mut Findings) {
    let mut trees = trees(context, spans, pass);
    trees.extend(whole(context, spans, pass, &trees));
    let shown = shown_stages(&trees);
    let device_time = |tree: &&&Tree| Reverse(tree.nodes.first().map(|node| node.device_total));
    let first = shown.iter().min_by_key(device_time).copied();
    for (number, tree) in shown.iter().enumerate() {
        let chart = flame::of_device(context, tree, format!("python-device-{}", number + 1));
        let is_first = first.is_some_and(|first| std::ptr::eq(first, *tree));
        let blocks = if is_first { &mut findings.blocks } else { &mut findings.appendix };
        blocks.extend(chart.map(Block::Chart));
        let chart = flame::of_host(context, tree, format!("python-host-{}", number + 1));
        findings.appendix.extend(chart.map(Block::Chart));
    }
    if trees.iter().any(Tree::has_inner) {
        let all: Vec<&Tree> = trees.iter().collect();
        let title = "Python functions by path".to_owned();
        findings.datasets.push(rows::paths(
            context.session,
            "python_tree",
            title,
            &all,
            &is_listed,
        ));
    }
}

fn is_listed(tree: &Tree, node: &Node) -> bool {
    let Some(root) = tree.nodes.first() else { return false };
    let is_large = |part: i64, whole: i64| part > 0 && part as f64 >= LEAST_SHARE * whole as f64;
    is_large(node.device_total, root.device_total)
        || is_large(node.host_total, root.host_total)
        || is_large(node.backward, root.backward)
}
