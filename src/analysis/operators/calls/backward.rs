//! GPU time of the backward pass by the operators of the forward pass.

use std::cmp::Reverse;

use rooflens_schemas::{Scope, Unit};

use crate::analysis::Context;
use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::analysis::operators::backward::PassBackward;
use crate::analysis::operators::call_tree::{Node, Tree};
use crate::findings::catalogue::BACKWARD_COVERAGE;
use crate::findings::{Block, Cell, Column, Dataset, Findings, Quantity, View};
use crate::model::{PassId, Session};
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
    let Some(backward) = context.results.backward().ok().filter(|found| !found.work.is_empty())
    else {
        return;
    };
    for of_pass in &backward.passes {
        add_coverage(session, of_pass, of_pass.pass == primary, findings);
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
fn add_coverage(session: &Session, of: &PassBackward, is_shown: bool, findings: &mut Findings) {
    let PassBackward { pass, issued, tied, operators } = *of;
    let scope = Scope { pass: Some(session.pass_name(pass).to_owned()), ..Scope::default() };
    let basis = format!(
        "{tied} ns of GPU operations of backward operators with a forward operator / {issued} ns of all that autograd issued"
    );
    let mut metric = BACKWARD_COVERAGE.derived(scope, of.coverage(), basis);
    metric.evidence.push(session.evidence(pass, "backward_operators", operators));
    findings.metrics.push(metric);
    if is_shown {
        findings.blocks.push(Block::Prose(prose![
            "Of ",
            Quantity::ns(issued),
            " of GPU time that autograd issued, ",
            Quantity::ns(tied),
            ", ",
            Quantity::ratio(of.coverage()),
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
