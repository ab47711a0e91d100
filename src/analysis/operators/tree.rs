//! Operators by who called them: a data set of paths, and flame graphs of the stages.

use rooflens_schemas::Unit;

use crate::analysis::Context;
use crate::analysis::call_tree::{Spans, Tree, flame, trees, whole};
use crate::analysis::modules::{rows, shown_stages};
use crate::findings::{Block, Cell, Column, Dataset, Findings};
use crate::model::{PassId, Session};

/// Adds the trees of all passes with operators as data, and those of `primary` as charts: of the GPU's time in
/// the section, of the host's in the appendix.
pub(super) fn add(context: &Context<'_>, primary: PassId, findings: &mut Findings) {
    let session = context.session;
    let spans = Spans::of_operators(session);
    let passes = session.passes.ids().filter(|pass| session.operators.pass.contains(pass));
    let of_pass = |pass| {
        let mut trees = trees(context, &spans, pass);
        trees.extend(whole(context, &spans, pass, &trees));
        (pass, trees)
    };
    let trees: Vec<(PassId, Vec<Tree>)> = passes.map(of_pass).collect();
    let of_primary = trees.iter().filter(|(pass, _)| *pass == primary);
    let shown: Vec<&Tree> = of_primary.flat_map(|(_, trees)| shown_stages(trees)).collect();
    for (number, tree) in shown.iter().enumerate() {
        let device = flame::of_device(context, tree, format!("operators-device-{}", number + 1));
        findings.blocks.extend(device.map(Block::Chart));
        let host = flame::of_host(context, tree, format!("operators-host-{}", number + 1));
        findings.appendix.extend(host.map(Block::Chart));
    }
    let all: Vec<&Tree> = trees.iter().flat_map(|(_, trees)| trees).collect();
    if all.iter().any(|tree| tree.has_inner()) {
        findings.datasets.push(dataset(session, &all));
    }
}

/// One row per (tree, node), the nodes within a node after it, those with the most device time first.
fn dataset(session: &Session, trees: &[&Tree]) -> Dataset {
    let mut columns = vec![
        Column::text("path", "Path"),
        Column::text("pass", "Pass"),
        Column::text("stage", "Stage"),
        Column::new("depth", "Depth", Unit::Count),
    ];
    columns.extend(rows::TIMES);
    let mut list = Vec::new();
    for tree in trees {
        let pass = session.text(session.passes.name[tree.pass.index()]);
        for number in tree.depth_first(&|node| node.device_total) {
            let node = &tree.nodes[number as usize];
            let mut row = vec![
                Cell::Name(tree.path(number)),
                Cell::Text(pass.to_owned()),
                Cell::Text(tree.label.clone()),
                Cell::Int(i64::from(node.depth)),
            ];
            row.extend(rows::times(tree, node));
            list.push(row);
        }
    }
    let title = "Operators by path".to_owned();
    Dataset { id: "operator_tree", title, columns, rows: list }
}
