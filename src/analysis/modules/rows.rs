//! The data set of ranges and modules.

use rooflens_schemas::Unit;

use crate::analysis::call_tree::{Kind, Node, Tree};
use crate::findings::{Cell, Column, Dataset};
use crate::model::Session;

/// One row per (tree, node), the nodes within a node after it, those with the most device time first.
pub(super) fn modules(session: &Session, trees: &[&Tree]) -> Dataset {
    let mut columns = vec![
        Column::text("path", "Range or module"),
        Column::text("pass", "Pass"),
        Column::text("stage", "Stage"),
        Column::text("kind", "Kind"),
        Column::new("depth", "Depth", Unit::Count),
        Column::new("names", "Names", Unit::Count),
    ];
    columns.extend(TIMES);
    let mut rows = Vec::new();
    for tree in trees {
        for number in tree.depth_first(&|node| node.device_total) {
            let node = &tree.nodes[number as usize];
            let kind = match node.kind {
                Kind::Stage | Kind::Range { part: true } => "stage",
                Kind::Range { part: false } => "range",
                Kind::Module => "module",
                Kind::Operator => "operator",
            };
            let pass = session.text(session.passes.name[tree.pass.index()]);
            let mut row = vec![
                Cell::Name(tree.path(number)),
                Cell::Text(pass.to_owned()),
                Cell::Text(tree.label.clone()),
                Cell::Text(kind.to_owned()),
                Cell::Int(i64::from(node.depth)),
                on_host(node, count(node.names)),
            ];
            row.extend(times(tree, node));
            rows.push(row);
        }
    }
    let title = "Host and device time by range and module".to_owned();
    Dataset { id: "modules", title, columns, rows }
}

/// Columns of a node's times.
pub(in crate::analysis) const TIMES: [Column; 9] = [
    Column::new("calls", "Calls", Unit::Count),
    Column::new("host_total_ns", "Host time", Unit::Nanoseconds),
    Column::new("host_self_ns", "Own host time", Unit::Nanoseconds),
    Column::new("host_cuda_ns", "In CUDA calls", Unit::Nanoseconds),
    Column::new("device_total_ns", "Device time", Unit::Nanoseconds),
    Column::new("device_self_ns", "Own device time", Unit::Nanoseconds),
    Column::new("busy_ns", "Busy", Unit::Nanoseconds),
    Column::new("device_share", "Share", Unit::Ratio),
    Column::new("launches", "Launches", Unit::Count),
];

/// Their cells; spans of other threads than the stage's have no host time here.
pub(in crate::analysis) fn times(tree: &Tree, node: &Node) -> [Cell; 9] {
    let whole = tree.nodes.first().map_or(0, |root| root.device_total);
    let share = (whole > 0).then(|| node.device_total as f64 / whole as f64);
    [
        on_host(node, count(node.entries)),
        on_host(node, Cell::Int(node.host_total)),
        on_host(node, Cell::Int(node.host_self)),
        on_host(node, Cell::Int(node.host_calls)),
        Cell::Int(node.device_total),
        Cell::Int(node.device_self),
        Cell::Int(node.busy),
        Cell::maybe(share),
        count(node.launches),
    ]
}

fn on_host(node: &Node, cell: Cell) -> Cell {
    if node.entries > 0 { cell } else { Cell::Missing }
}

fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
