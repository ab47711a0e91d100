//! Data sets of the roofline section.

use rooflens_schemas::Unit;

use super::ceilings::Roofs;
use super::group::Group;
use crate::analysis::counters::Level;
use crate::findings::{Cell, Column, Dataset};

/// Kernels with a mark in some roofline.
pub(super) const POINTS: &str = "roofline_points";

/// Kernels without one, and why.
pub(super) const UNPLOTTED: &str = "roofline_unplotted";

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
