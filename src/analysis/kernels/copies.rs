//! Copies and memsets by direction and kind of memory.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::pass_name;
use super::rows::count;
use crate::findings::{Block, Cell, Column, Dataset, Findings, View};
use crate::model::{CopyKind, MemoryKind, Ns, PassId, Session};

/// Rows of the table on the page.
const SHOWN: usize = 12;

/// What copies of one kind add up to.
#[derive(Default)]
struct CopySum {
    count: u64,
    bytes: u64,
    total: Ns,
}

/// Adds the data set and its table, if there were copies.
pub(super) fn add(session: &Session, findings: &mut Findings) {
    let rows = rows(session);
    if rows.is_empty() {
        return;
    }
    let columns = ["kind", "pass", "source", "destination", "count", "bytes", "total_ns", "rate"];
    let view = View::new("copies", "Copies and memsets", &columns, SHOWN);
    findings.blocks.push(Block::Table(view));
    let columns = vec![
        Column::text("kind", "Kind"),
        Column::text("pass", "Pass"),
        Column::text("source", "From"),
        Column::text("destination", "To"),
        Column::new("count", "Count", Unit::Count),
        Column::new("bytes", "Bytes", Unit::Bytes),
        Column::new("total_ns", "Time", Unit::Nanoseconds),
        Column::new("rate", "Rate", Unit::BytesPerSecond),
    ];
    let title = "Copies and memsets by kind".to_owned();
    findings.datasets.push(Dataset { id: "copies", title, columns, rows });
}

/// One row per (pass, kind, memory), by (pass, time descending, kind, memory).
fn rows(session: &Session) -> Vec<Vec<Cell>> {
    let copies = &session.copies;
    let mut sums: BTreeMap<(PassId, CopyKind, MemoryKind, MemoryKind), CopySum> = BTreeMap::new();
    for row in 0..copies.len() {
        let key = (copies.pass[row], copies.kind[row], copies.source[row], copies.destination[row]);
        let sum = sums.entry(key).or_default();
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(copies.bytes[row]);
        let duration = copies.end[row].saturating_sub(copies.start[row]);
        sum.total = sum.total.saturating_add(duration);
    }
    let mut list: Vec<_> = sums.into_iter().collect();
    list.sort_by_key(|(key, sum)| (key.0, std::cmp::Reverse(sum.total), *key));
    let cells = |((pass, kind, source, destination), sum): &(_, CopySum)| {
        // Bytes a nanosecond are billions of bytes a second.
        let rate = (sum.total > 0).then(|| sum.bytes as f64 / sum.total as f64 * 1e9);
        vec![
            Cell::Text(CopyKind::label(*kind).to_owned()),
            Cell::Text(pass_name(session, *pass).to_owned()),
            memory(*source),
            memory(*destination),
            count(sum.count),
            count(sum.bytes),
            Cell::Int(sum.total),
            Cell::maybe(rate),
        ]
    };
    list.iter().map(cells).collect()
}

fn memory(kind: MemoryKind) -> Cell {
    match kind {
        MemoryKind::Unknown => Cell::Missing,
        known => Cell::Text(known.label().to_owned()),
    }
}
