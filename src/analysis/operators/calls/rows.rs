//! The data sets of operators.

use rooflens_schemas::Unit;

use super::DeviceWork;
use super::sums::OperatorSum;
use crate::findings::{Cell, Column, Dataset};
use crate::model::Session;

/// One row per (pass, operator), in the order of the sums.
pub(super) fn by_name(session: &Session, sums: &[OperatorSum], work: &[DeviceWork]) -> Dataset {
    let mut columns = vec![Column::text("name", "Operator"), Column::text("pass", "Pass")];
    columns.extend(HOST);
    columns.extend(DEVICE);
    let row = |sum: &OperatorSum| {
        let mut cells = vec![name(session, sum), pass(session, sum)];
        cells.extend(host(sum));
        cells.extend(device(sum, &work[sum.pass.index()]));
        cells
    };
    let rows = sums.iter().map(row).collect();
    Dataset { id: "operators", title: "Operators by own device time".to_owned(), columns, rows }
}

/// The same, by own host time.
pub(super) fn by_host(session: &Session, sums: &[OperatorSum]) -> Dataset {
    let mut columns = vec![Column::text("name", "Operator"), Column::text("pass", "Pass")];
    columns.extend(HOST);
    let mut sorted: Vec<&OperatorSum> = sums.iter().collect();
    sorted.sort_by_key(|sum| (sum.pass, std::cmp::Reverse(sum.host_self), session.text(sum.name)));
    let row = |sum: &&OperatorSum| {
        let mut cells = vec![name(session, sum), pass(session, sum)];
        cells.extend(host(sum));
        cells
    };
    let rows = sorted.iter().map(row).collect();
    let title = "Operators by own host time".to_owned();
    Dataset { id: "operators_by_host", title, columns, rows }
}

/// One row per (pass, operator, shapes).
pub(super) fn by_shapes(session: &Session, sums: &[OperatorSum], work: &[DeviceWork]) -> Dataset {
    let mut columns = vec![
        Column::text("name", "Operator"),
        Column::text("shapes", "Input shapes"),
        Column::text("pass", "Pass"),
    ];
    columns.extend(HOST);
    columns.extend(DEVICE);
    let row = |sum: &OperatorSum| {
        let shapes = Cell::Name(session.text(sum.shapes).to_owned());
        let mut cells = vec![name(session, sum), shapes, pass(session, sum)];
        cells.extend(host(sum));
        cells.extend(device(sum, &work[sum.pass.index()]));
        cells
    };
    let rows = sums.iter().map(row).collect();
    let title = "Operators and shapes by own device time".to_owned();
    Dataset { id: "operator_shapes", title, columns, rows }
}

const HOST: [Column; 4] = [
    Column::new("calls", "Calls", Unit::Count),
    Column::new("host_self_ns", "Own host time", Unit::Nanoseconds),
    Column::new("host_cuda_ns", "In CUDA calls", Unit::Nanoseconds),
    Column::new("host_total_ns", "Host time", Unit::Nanoseconds),
];

const DEVICE: [Column; 7] = [
    Column::new("device_self_ns", "Own device time", Unit::Nanoseconds),
    Column::new("device_share", "Share", Unit::Ratio),
    Column::new("device_total_ns", "Device time", Unit::Nanoseconds),
    Column::new("launches", "Launches", Unit::Count),
    Column::new("flops", "FLOPs, all pairs", Unit::Flop),
    Column::new("flops_masked", "FLOPs, causal", Unit::Flop),
    Column::new("flop_rate", "Rate, all pairs", Unit::FlopPerSecond),
];

pub(super) fn name(session: &Session, sum: &OperatorSum) -> Cell {
    Cell::Name(session.text(sum.name).to_owned())
}

pub(super) fn pass(session: &Session, sum: &OperatorSum) -> Cell {
    Cell::Text(session.pass_name(sum.pass).to_owned())
}

pub(super) fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn host(sum: &OperatorSum) -> [Cell; 4] {
    [
        count(sum.calls),
        Cell::Int(sum.host_self),
        Cell::Int(sum.host_cuda),
        Cell::Int(sum.host_total),
    ]
}

/// Device cells; missing where the trace does not say which call issued what.
fn device(sum: &OperatorSum, work: &DeviceWork) -> [Cell; 7] {
    let flops = sum.flops.map(|flops| flops.full);
    let masked = sum.flops.map(|flops| flops.masked);
    let (flops_cell, masked_cell) = (Cell::maybe(flops), Cell::maybe(masked));
    if !work.linked {
        let missing = || Cell::Missing;
        return [missing(), missing(), missing(), missing(), flops_cell, masked_cell, missing()];
    }
    // FLOPs a nanosecond are billions a second.
    let rate = flops.filter(|_| sum.device_total > 0).map(|f| f / sum.device_total as f64 * 1e9);
    let share = (work.total > 0).then(|| sum.device_self as f64 / work.total as f64);
    [
        Cell::Int(sum.device_self),
        Cell::maybe(share),
        Cell::Int(sum.device_total),
        count(sum.launches),
        flops_cell,
        masked_cell,
        Cell::maybe(rate),
    ]
}
