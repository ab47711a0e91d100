//! The data set of what allocators held.

use rooflens_schemas::Unit;

use super::Row;
use crate::findings::{Cell, Column, Dataset};
use crate::model::Session;

/// One row per (line, stage); the whole trace first.
pub(super) fn memory(session: &Session, rows: &[Row<'_>]) -> Dataset {
    let columns = vec![
        Column::text("stage", "Stage"),
        Column::text("pass", "Pass"),
        Column::new("device", "GPU", Unit::Count),
        Column::new("peak_allocated_bytes", "Most allocated", Unit::Bytes),
        Column::new("peak_time_ns", "At", Unit::Nanoseconds),
        Column::new("reserved_at_peak_bytes", "Reserved then", Unit::Bytes),
        Column::new("peak_reserved_bytes", "Most reserved", Unit::Bytes),
        Column::new("fragmentation_at_peak", "Unused at the peak", Unit::Ratio),
        Column::new("fragmentation", "Unused on average", Unit::Ratio),
        Column::new("allocations", "Allocations", Unit::Count),
        Column::new("allocated_bytes", "Allocated in all", Unit::Bytes),
    ];
    let bytes = |value: Option<i64>| value.map_or(Cell::Missing, Cell::Int);
    let row = |row: &Row<'_>| {
        let Row { line, figures, .. } = row;
        let peak = figures.peak;
        vec![
            Cell::Text(row.label.clone()),
            Cell::Text(session.pass_name(line.pass).to_owned()),
            Cell::Int(i64::from(line.device)),
            Cell::Int(peak.allocated),
            Cell::Int(peak.time.saturating_sub(line.span().0)),
            bytes(peak.reserved),
            bytes(figures.peak_reserved),
            Cell::maybe(peak.fragmentation()),
            Cell::maybe(figures.fragmentation),
            Cell::Float(figures.allocations),
            Cell::Float(figures.bytes),
        ]
    };
    let title = "Memory that the framework's allocator held".to_owned();
    Dataset { id: "memory", title, columns, rows: rows.iter().map(row).collect() }
}
