//! The data sets of copies.

use rooflens_schemas::Unit;

use super::Place;
use super::link::Link;
use super::sums::{self, crosses_host};
use crate::analysis::Context;
use crate::analysis::engine::facts::OpIndex;
use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::findings::{Cell, Column, Dataset};
use crate::model::{MemoryKind, PassId};

/// Groups of copies that the data set holds per pass.
const GROUPS: usize = 200;

/// One row per (place, direction, memory), by (place, time descending, kind).
pub(super) fn copies(places: &[Place], link: Option<&Link>) -> Dataset {
    let columns = vec![
        Column::text("kind", "Kind"),
        Column::text("pass", "Pass"),
        Column::text("stage", "Stage"),
        Column::text("source", "From"),
        Column::text("destination", "To"),
        Column::new("count", "Count", Unit::Count),
        Column::new("bytes", "Bytes", Unit::Bytes),
        Column::new("total_ns", "Time", Unit::Nanoseconds),
        Column::new("rate", "Rate", Unit::BytesPerSecond),
        Column::new("exposed_ns", "Exposed", Unit::Nanoseconds),
        Column::new("overlapped_ns", "Overlapped", Unit::Nanoseconds),
        Column::new("large", "Large", Unit::Count),
        Column::new("large_p5", "Large, 5 %", Unit::BytesPerSecond),
        Column::new("large_median", "Large, median", Unit::BytesPerSecond),
        Column::new("large_p95", "Large, 95 %", Unit::BytesPerSecond),
        Column::new("link_share", "Of the link", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    // The whole capture as a stage is the whole pass again.
    for place in places.iter().filter(|place| place.label != WHOLE_CAPTURE) {
        let mut list: Vec<_> = place.sums.kinds.iter().collect();
        list.sort_by_key(|(kind, sum)| (std::cmp::Reverse(sum.total), **kind));
        rows.extend(list.into_iter().map(|((kind, source, destination), sum)| {
            let large = sum.large_rate(0.5);
            let share = link.zip(large).filter(|_| crosses_host(*kind));
            vec![
                Cell::Text(kind.label().to_owned()),
                Cell::Text(place.scope.pass.clone().unwrap_or_default()),
                Cell::Text(place.label.clone()),
                memory(*source),
                memory(*destination),
                Cell::Int(sum.count as i64),
                Cell::Float(sum.bytes as f64),
                Cell::Int(sum.total),
                Cell::maybe(sum.rate()),
                Cell::Int(sum.exposed),
                Cell::Int(sum.union - sum.exposed),
                Cell::Int(sum.large.len() as i64),
                Cell::maybe(sum.large_rate(0.05)),
                Cell::maybe(large),
                Cell::maybe(sum.large_rate(0.95)),
                Cell::maybe(share.map(|(link, rate)| rate / link.peak)),
            ]
        }));
    }
    Dataset { id: "copies", title: "Copies and memsets by kind".to_owned(), columns, rows }
}

/// The groups of copies of each pass with the most time.
pub(super) fn groups(context: &Context<'_>, passes: &[PassId]) -> Dataset {
    let session = context.session;
    let columns = vec![
        Column::text("kind", "Kind"),
        Column::text("pass", "Pass"),
        Column::text("source", "From"),
        Column::text("destination", "To"),
        Column::new("size", "Size", Unit::Bytes),
        Column::text("range", "Range"),
        Column::new("count", "Count", Unit::Count),
        Column::new("total_ns", "Time", Unit::Nanoseconds),
        Column::new("rate", "Rate", Unit::BytesPerSecond),
    ];
    let mut rows = Vec::new();
    for pass in passes {
        let ops = context.facts.ops_of(*pass).map(|op| op as OpIndex);
        rows.extend(sums::groups(context, ops).into_iter().take(GROUPS).map(|group| {
            let (kind, source, destination) = group.kind;
            let bytes = group.size as f64 * group.count as f64;
            let rate = (group.total > 0 && bytes > 0.0).then(|| bytes / group.total as f64 * 1e9);
            vec![
                Cell::Text(kind.label().to_owned()),
                Cell::Text(session.text(session.passes.name[pass.index()]).to_owned()),
                memory(source),
                memory(destination),
                Cell::Float(group.size as f64),
                group
                    .range
                    .map_or(Cell::Missing, |range| Cell::Name(session.text(range).to_owned())),
                Cell::Int(group.count as i64),
                Cell::Int(group.total),
                Cell::maybe(rate),
            ]
        }));
    }
    let title =
        format!("Copies by size and range: the {GROUPS} groups of each pass with the most time");
    Dataset { id: "copy_groups", title, columns, rows }
}

fn memory(kind: MemoryKind) -> Cell {
    match kind {
        MemoryKind::Unknown => Cell::Missing,
        known => Cell::Text(known.label().to_owned()),
    }
}
