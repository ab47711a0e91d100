//! The data sets of functions.

use std::cmp::Reverse;

use rooflens_schemas::Unit;

use super::DeviceWork;
use super::sums::{FunctionSum, Sums};
use crate::findings::{Cell, Column, Dataset};
use crate::model::Session;

const NAME: [Column; 2] = [Column::text("function", "Function"), Column::text("pass", "Pass")];

const HOST: [Column; 6] = [
    Column::new("calls", "Calls", Unit::Count),
    Column::new("host_self_ns", "Own host time", Unit::Nanoseconds),
    Column::new("host_cuda_ns", "In CUDA calls", Unit::Nanoseconds),
    Column::new("host_total_ns", "Host time", Unit::Nanoseconds),
    Column::new("idle_self_ns", "Own GPU idle", Unit::Nanoseconds),
    Column::new("idle_ns", "GPU idle", Unit::Nanoseconds),
];

const DEVICE: [Column; 5] = [
    Column::new("device_self_ns", "Own device time", Unit::Nanoseconds),
    Column::new("device_share", "Share", Unit::Ratio),
    Column::new("device_total_ns", "Device time", Unit::Nanoseconds),
    Column::new("backward_ns", "Backward", Unit::Nanoseconds),
    Column::new("launches", "Launches", Unit::Count),
];

/// One row per (pass, function), in the order of the sums.
pub(super) fn by_device(session: &Session, sums: &Sums, work: &[DeviceWork]) -> Dataset {
    let row = |sum: &FunctionSum| {
        let mut cells = name(session, sum);
        cells.extend(host(sum));
        cells.extend(device(sum, &work[sum.pass.index()]));
        cells
    };
    Dataset {
        id: "python_functions",
        title: "Python functions by own device time".to_owned(),
        columns: NAME.into_iter().chain(HOST).chain(DEVICE).collect(),
        rows: sums.all.iter().map(row).collect(),
    }
}

/// The same, by own host time.
pub(super) fn by_host(session: &Session, sums: &Sums) -> Dataset {
    let mut sorted: Vec<&FunctionSum> = sums.all.iter().collect();
    sorted.sort_by_key(|sum| (sum.pass, Reverse(sum.host_self), &sum.name));
    let row = |sum: &&FunctionSum| {
        let mut cells = name(session, sum);
        cells.extend(host(sum));
        cells
    };
    Dataset {
        id: "python_functions_by_host",
        title: "Python functions by own host time".to_owned(),
        columns: NAME.into_iter().chain(HOST).collect(),
        rows: sorted.iter().map(row).collect(),
    }
}

fn name(session: &Session, sum: &FunctionSum) -> Vec<Cell> {
    let pass = session.pass_name(sum.pass);
    vec![Cell::Name(sum.name.clone()), Cell::Text(pass.to_owned())]
}

fn host(sum: &FunctionSum) -> [Cell; 6] {
    [
        count(sum.calls),
        Cell::Int(sum.host_self),
        Cell::Int(sum.host_cuda),
        Cell::Int(sum.host_total),
        Cell::Int(sum.idle_self),
        Cell::Int(sum.idle_total),
    ]
}

/// Device cells; missing where the trace does not say which call issued what.
fn device(sum: &FunctionSum, work: &DeviceWork) -> [Cell; 5] {
    if !work.linked {
        return [const { Cell::Missing }; 5];
    }
    let share = (work.total > 0).then(|| sum.device_self as f64 / work.total as f64);
    [
        Cell::Int(sum.device_self),
        Cell::maybe(share),
        Cell::Int(sum.device_total),
        Cell::Int(sum.backward),
        count(sum.launches),
    ]
}

fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
