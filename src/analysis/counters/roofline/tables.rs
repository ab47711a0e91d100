//! Data sets of the roofline section.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::ceilings::Roofs;
use super::group::Group;
use crate::analysis::counters::ncu::flops::Flops;
use crate::analysis::counters::ncu::{KernelCounters, Level};
use crate::findings::{Cell, Column, Dataset};

/// Kernels with a mark in some roofline.
pub(super) const POINTS: &str = "roofline_points";

/// Kernels without one, and why.
pub(super) const UNPLOTTED: &str = "roofline_unplotted";

/// Operations by dtype and pipe.
pub(super) const TYPES: &str = "executed_flops_types";

/// An empty data set of operations by dtype and pipe.
pub(super) fn types() -> Dataset {
    Dataset {
        id: TYPES,
        title: "Executed FLOPs of profiled launches by dtype and pipe".to_owned(),
        columns: vec![
            Column::text("dtype", "dtype"),
            Column::text("pass", "Pass"),
            Column::text("pipe", "Pipe"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("flop", "FLOPs", Unit::Flop),
            Column::new("flop_share", "Share", Unit::Ratio),
            Column::new("duration_ns", "Time of the launches", Unit::Nanoseconds),
            Column::new("flop_per_second", "FLOP rate", Unit::FlopPerSecond),
            Column::new("peak_flop_per_second", "Specified peak", Unit::FlopPerSecond),
            Column::new("measured_flop_per_second", "Measured peak", Unit::FlopPerSecond),
        ],
        rows: Vec::new(),
    }
}

/// One row a dtype and pipe of a pass, the most operations first.
pub(super) fn type_rows(
    pass: &str,
    kernels: &[KernelCounters],
    roofs: &Roofs<'_>,
) -> Vec<Vec<Cell>> {
    let mut sums = BTreeMap::<(&'static str, bool), (i64, f64, f64)>::new();
    for kernel in kernels {
        let Flops::Counted(parts) = &kernel.flops else { continue };
        for part in parts {
            let sum = sums.entry((part.dtype, part.tensor)).or_default();
            let seconds = kernel.seconds.unwrap_or_default();
            *sum = (sum.0 + 1, sum.1 + part.flops, sum.2 + seconds);
        }
    }
    let total: f64 = sums.values().map(|sum| sum.1).sum();
    let mut sums: Vec<_> = sums.into_iter().collect();
    // Equal sums keep the order of their names.
    sums.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let row = |((dtype, tensor), (launches, flops, seconds)): ((&'static str, bool), _)| {
        let roof = |measured| {
            let roofs = roofs.rates_of(&[dtype]);
            roofs.into_iter().find(|roof| roof.measured == measured).map(|roof| roof.value)
        };
        vec![
            Cell::Text(dtype.to_owned()),
            Cell::Text(pass.to_owned()),
            Cell::Text(if tensor { "tensor cores" } else { "vector" }.to_owned()),
            Cell::Int(launches),
            Cell::Float(flops),
            Cell::Float(flops / total),
            Cell::Float(seconds * 1e9),
            Cell::maybe((seconds > 0.0).then(|| flops / seconds)),
            Cell::maybe(roof(false)),
            Cell::maybe(roof(true)),
        ]
    };
    sums.into_iter().map(row).collect()
}

/// An empty data set of marks.
pub(super) fn points() -> Dataset {
    Dataset {
        id: POINTS,
        title: "Roofline points".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("pass", "Pass"),
            Column::text("grid", "Grid"),
            Column::text("block", "Block"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("duration_ns", "Time", Unit::Nanoseconds),
            Column::new("time_share", "Share", Unit::Ratio),
            Column::new("flop", "FLOPs", Unit::Flop),
            Column::text("dtype", "dtype"),
            Column::new("flop_per_second", "FLOP rate", Unit::FlopPerSecond),
            Column::new("dram_flop_per_byte", "DRAM intensity", Unit::FlopPerByte),
            Column::new("l2_flop_per_byte", "L2 intensity", Unit::FlopPerByte),
            Column::new("l1_flop_per_byte", "L1 intensity", Unit::FlopPerByte),
            Column::new("attainable_flop_per_second", "Attainable", Unit::FlopPerSecond),
            Column::new("attained_share", "Attained", Unit::Ratio),
            Column::text("bound", "Bound"),
        ],
        rows: Vec::new(),
    }
}

/// An empty data set of kernels without marks.
pub(super) fn unplotted() -> Dataset {
    Dataset {
        id: UNPLOTTED,
        title: "Kernels outside of the rooflines".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("pass", "Pass"),
            Column::text("roofline", "Roofline"),
            Column::text("grid", "Grid"),
            Column::text("block", "Block"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("duration_ns", "Time", Unit::Nanoseconds),
            Column::new("time_share", "Share", Unit::Ratio),
            Column::text("reason", "Reason"),
        ],
        rows: Vec::new(),
    }
}

/// The row of a group with a mark.
pub(super) fn point_row(pass: &str, group: &Group, roofs: &Roofs<'_>) -> Vec<Cell> {
    let attainable = roofs.attainable(group);
    let attained = group.rate().zip(attainable).map(|(rate, roof)| rate / roof);
    vec![
        Cell::Name(group.short.clone()),
        Cell::Text(pass.to_owned()),
        Cell::Text(group.grid.to_string()),
        Cell::Text(group.block.to_string()),
        Cell::Int(i64::try_from(group.launches).unwrap_or(i64::MAX)),
        Cell::maybe(group.seconds.map(|seconds| seconds * 1e9)),
        Cell::Float(group.share),
        Cell::maybe(group.flops.ok()),
        group.dtype.map_or(Cell::Missing, |dtype| Cell::Text(dtype.to_owned())),
        Cell::maybe(group.rate()),
        Cell::maybe(group.intensity(Level::Dram)),
        Cell::maybe(group.intensity(Level::L2)),
        Cell::maybe(group.intensity(Level::L1)),
        Cell::maybe(attainable),
        Cell::maybe(attained),
        Cell::Text(group.bound.label().to_owned()),
    ]
}

/// The row of a group without a mark in the named roofline.
pub(super) fn unplotted_row(pass: &str, group: &Group, roofline: &str, reason: &str) -> Vec<Cell> {
    vec![
        Cell::Name(group.short.clone()),
        Cell::Text(pass.to_owned()),
        Cell::Text(roofline.to_owned()),
        Cell::Text(group.grid.to_string()),
        Cell::Text(group.block.to_string()),
        Cell::Int(i64::try_from(group.launches).unwrap_or(i64::MAX)),
        Cell::maybe(group.seconds.map(|seconds| seconds * 1e9)),
        Cell::Float(group.share),
        Cell::Text(reason.to_owned()),
    ]
}
