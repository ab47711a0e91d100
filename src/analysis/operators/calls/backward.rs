//! GPU time of the backward pass by the operators of the forward pass.

use std::cmp::Reverse;

use rooflens_schemas::{Evidence, Scope, Unit};

use crate::analysis::Context;
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::analysis::operators::backward::by_engine;
use crate::analysis::operators::call_tree::{Node, Tree};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Quantity, View, derived};
use crate::model::{Ns, PassId, Session};
use crate::prose;

/// Paths that the table shows.
const SHOWN: usize = 10;

/// Adds the metric and the data set of all passes, and the table of `primary`; `trees` are those of operators.
pub(super) fn add(
    context: &Context<'_>,
    primary: PassId,
    trees: &[&Tree],
    findings: &mut Findings,
) {
    let session = context.session;
    if context.facts.backward.is_empty() {
        return;
    }
    let engine = by_engine(session, &context.facts.ops);
    for pass in session.passes.ids() {
        add_coverage(context, pass, &engine, pass == primary, findings);
    }
    let mut found: Vec<(&Tree, u32)> = Vec::new();
    for of_pass in trees.chunk_by(|a, b| a.pass == b.pass) {
        let own = of_pass.iter().filter(|tree| tree.has_backward());
        // The tree of the whole pass holds what those of the stages do.
        let stages = own.clone().filter(|tree| tree.label != WHOLE_CAPTURE).count();
        for tree in own.filter(|tree| stages == 0 || tree.label != WHOLE_CAPTURE) {
            let nodes =
                (0u32..).zip(&tree.nodes).skip(1).filter(|(_, node)| node.backward_self > 0);
            found.extend(nodes.map(|(number, _)| (*tree, number)));
        }
    }
    let node = |(tree, number): &(&Tree, u32)| tree.nodes[*number as usize].clone();
    found.sort_by_cached_key(|one| {
        (one.0.pass, Reverse(node(one).backward_self), one.0.path(one.1))
    });
    let skip = found.iter().filter(|one| one.0.pass < primary).count();
    let shown = found.iter().filter(|one| one.0.pass == primary).count().min(SHOWN);
    if shown > 0 {
        let name = session.pass_name(primary);
        let caption = format!("Backward GPU time by the operator of the forward pass, pass {name}");
        let columns = ["path", "stage", "calls", "device_total_ns", "backward_ns", "ratio"];
        let view = View { skip, ..View::new("backward_by_operator", caption, &columns, shown) };
        findings.blocks.push(Block::Table(view));
    }
    let rows = found.iter().map(|one| row(session, one.0, one.1, &node(one))).collect();
    findings.datasets.push(dataset(rows));
}

/// What share of the GPU time that autograd issued belongs to operators of the forward pass.
fn add_coverage(
    context: &Context<'_>,
    pass: PassId,
    engine: &[u32],
    is_shown: bool,
    findings: &mut Findings,
) {
    let (session, ops) = (context.session, &context.facts.ops);
    let sum = |list: &mut dyn Iterator<Item = u32>| -> Ns {
        let own = list.map(|op| op as usize).filter(|op| ops.pass[*op] == pass);
        total(own.map(|op| ops.end[op].saturating_sub(ops.start[op])))
    };
    let all = sum(&mut engine.iter().copied());
    if all <= 0 {
        return;
    }
    let tied = sum(&mut context.facts.backward.iter().map(|(op, _)| *op));
    let share = tied as f64 / all as f64;
    let text = |id| session.text(id).to_owned();
    let scope = Scope { pass: Some(text(session.passes.name[pass.index()])), ..Scope::default() };
    let basis = format!(
        "{tied} ns of GPU operations of backward operators with a forward operator / {all} ns of all that autograd issued"
    );
    let mut metric = derived("backward_coverage", scope, Unit::Ratio, share, basis);
    let ties = &session.backward_operators.operator;
    let of_pass = ties.iter().filter(|id| session.operators.pass[id.index()] == pass).count();
    metric.evidence.push(Evidence {
        artifact: text(session.passes.artifact[pass.index()]),
        table: Some("backward_operators".to_owned()),
        rows: Some(of_pass as u64),
    });
    findings.metrics.push(metric);
    if is_shown {
        findings.blocks.push(Block::Prose(prose![
            "Of ",
            Quantity::ns(all),
            " of GPU time that autograd issued, ",
            Quantity::ns(tied),
            ", ",
            Quantity::ratio(share),
            ", belong to operators of the forward pass; the rest, such as the accumulation of gradients and what \
             hooks do, belongs to none."
        ]));
    }
}

fn row(session: &Session, tree: &Tree, number: u32, node: &Node) -> Vec<Cell> {
    let ratio =
        (node.device_total > 0).then(|| node.backward_self as f64 / node.device_total as f64);
    vec![
        Cell::Name(tree.path(number)),
        Cell::Text(session.pass_name(tree.pass).to_owned()),
        Cell::Text(tree.label.clone()),
        Cell::Int(i64::try_from(node.entries).unwrap_or(i64::MAX)),
        Cell::Int(node.device_total),
        Cell::Int(node.backward_self),
        Cell::maybe(ratio),
    ]
}

fn dataset(rows: Vec<Vec<Cell>>) -> Dataset {
    Dataset {
        id: "backward_by_operator",
        title: "Backward GPU time by the operator of the forward pass".to_owned(),
        columns: vec![
            Column::text("path", "Path"),
            Column::text("pass", "Pass"),
            Column::text("stage", "Stage"),
            Column::new("calls", "Calls", Unit::Count),
            Column::new("device_total_ns", "Forward", Unit::Nanoseconds),
            Column::new("backward_ns", "Backward", Unit::Nanoseconds),
            Column::new("ratio", "Backward ÷ forward", Unit::One),
        ],
        rows,
    }
}
