//! The data set of ranges and modules.

use rooflens_schemas::Unit;

use crate::analysis::operators::call_tree::{Flops, Kind, Node, Tree};
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
                Kind::Function => "function",
                Kind::Operator => "operator",
            };
            let pass = session.pass_name(tree.pass);
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

/// One row per (tree, node that is listed), the nodes within a node after it, those with the most device time first.
pub(crate) fn paths(
    session: &Session,
    id: &'static str,
    title: String,
    trees: &[&Tree],
    is_listed: &dyn Fn(&Tree, &Node) -> bool,
) -> Dataset {
    let mut columns = vec![
        Column::text("path", "Path"),
        Column::text("pass", "Pass"),
        Column::text("stage", "Stage"),
        Column::new("depth", "Depth", Unit::Count),
    ];
    columns.extend(TIMES);
    let mut rows = Vec::new();
    for tree in trees {
        let pass = session.pass_name(tree.pass);
        for number in tree.depth_first(&|node| node.device_total) {
            let node = &tree.nodes[number as usize];
            if !is_listed(tree, node) {
                continue;
            }
            let mut row = vec![
                Cell::Name(tree.path(number)),
                Cell::Text(pass.to_owned()),
                Cell::Text(tree.label.clone()),
                Cell::Int(i64::from(node.depth)),
            ];
            row.extend(times(tree, node));
            rows.push(row);
        }
    }
    Dataset { id, title, columns, rows }
}

/// Columns of a node's times.
pub(crate) const TIMES: [Column; 16] = [
    Column::new("calls", "Calls", Unit::Count),
    Column::new("host_total_ns", "Host time", Unit::Nanoseconds),
    Column::new("host_self_ns", "Own host time", Unit::Nanoseconds),
    Column::new("host_cuda_ns", "In CUDA calls", Unit::Nanoseconds),
    Column::new("device_total_ns", "Device time", Unit::Nanoseconds),
    Column::new("device_self_ns", "Own device time", Unit::Nanoseconds),
    Column::new("busy_ns", "Busy", Unit::Nanoseconds),
    Column::new("device_share", "Share", Unit::Ratio),
    Column::new("launches", "Launches", Unit::Count),
    Column::new("flops", "FLOPs", Unit::Flop),
    Column::new("flops_self", "Own FLOPs", Unit::Flop),
    Column::new("flops_masked", "FLOPs, causal", Unit::Flop),
    Column::new("flop_rate", "Rate", Unit::FlopPerSecond),
    Column::new("flop_coverage", "Counted", Unit::Ratio),
    Column::new("uncounted_ns", "Matrix work of unknown sizes", Unit::Nanoseconds),
    Column::new("backward_ns", "Backward", Unit::Nanoseconds),
];

/// Their cells; spans of other threads than the stage's have no host time here.
pub(crate) fn times(tree: &Tree, node: &Node) -> [Cell; 16] {
    let whole = tree.nodes.first().map_or(0, |root| root.device_total);
    let device = Some(node.device_total as f64).filter(|time| *time > 0.0);
    let flops = Some(node.flops).filter(Flops::is_any_counted);
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
        Cell::maybe(flops.map(|flops| flops.full)),
        Cell::maybe(flops.map(|_| node.flops_self)),
        Cell::maybe(flops.map(|flops| flops.masked)),
        // FLOPs a nanosecond are billions a second.
        Cell::maybe(flops.zip(device).map(|(flops, time)| flops.full / time * 1e9)),
        Cell::maybe(device.map(|time| node.flops.counted as f64 / time)),
        Cell::Int(node.flops.uncounted),
        if tree.has_backward() { Cell::Int(node.backward) } else { Cell::Missing },
    ]
}

fn on_host(node: &Node, cell: Cell) -> Cell {
    if node.entries > 0 { cell } else { Cell::Missing }
}

fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
