//! Which allocations are live at the peak, and who made them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_schemas::Unit;
use rustc_hash::FxHashMap;

use super::lines::{Line, State};
use crate::analysis::operators::call_tree::{Source, Spans, fold};
use crate::findings::{Cell, Column, Dataset};
use crate::model::{MemoryEventId, Session};

/// Live allocations of one maker.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Holder {
    /// Outermost operator around the allocation; empty outside of operators.
    pub(super) operator: String,
    /// Innermost range or module around it; empty outside of ranges.
    pub(super) range: String,
    /// Number.
    pub(super) allocations: u64,
    /// Bytes.
    pub(super) bytes: i64,
}

/// What holds the memory of a line at a state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    /// Makers by (bytes descending, names).
    pub(super) holders: Vec<Holder>,
    /// Bytes that were allocated before the first event; none if the events contradict their totals.
    pub(super) before: Option<i64>,
}

/// Replays the events up to `peak`.
pub(super) fn held(session: &Session, spans: &Spans, line: &Line, peak: &State) -> Held {
    let events = &session.memory_events;
    let mut live: FxHashMap<u64, MemoryEventId> = FxHashMap::default();
    for id in &line.events {
        let row = id.index();
        if events.time[row] > peak.time {
            break;
        }
        if events.bytes[row] > 0 {
            live.insert(events.address[row], *id);
        } else {
            live.remove(&events.address[row]);
        }
        // Of several events at one time, those after the peak do not count.
        if events.time[row] == peak.time && events.allocated[row] == Some(peak.allocated) {
            break;
        }
    }
    let mut by_maker: BTreeMap<(String, String), (u64, i64)> = BTreeMap::new();
    let mut known: i64 = 0;
    let mut live: Vec<MemoryEventId> = live.into_values().collect();
    live.sort_unstable();
    for id in live {
        let bytes = events.bytes[id.index()];
        known = known.saturating_add(bytes);
        let sum = by_maker.entry(maker(session, spans, id)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(bytes));
    }
    let holder =
        |((operator, range), (allocations, bytes))| Holder { operator, range, allocations, bytes };
    let mut holders: Vec<Holder> = by_maker.into_iter().map(holder).collect();
    holders.sort_by_key(|holder| Reverse(holder.bytes));
    let before = Some(peak.allocated.saturating_sub(known)).filter(|before| *before >= 0);
    Held { holders, before }
}

/// Operator and range that made an allocation.
fn maker(session: &Session, spans: &Spans, event: MemoryEventId) -> (String, String) {
    let row = event.index();
    let mut made = (String::new(), String::new());
    let thread = session.memory_events.thread[row];
    let mut at = thread.and_then(|thread| spans.at(thread, session.memory_events.time[row]));
    while let Some(span) = at {
        let name = session.text(spans.name[span as usize]);
        match spans.source[span as usize] {
            Source::Operator(_) => name.clone_into(&mut made.0),
            Source::Range(_) | Source::Module(_) | Source::Function(_) => {
                made.1 = fold(name);
                break;
            }
        }
        at = spans.nesting.parent[span as usize];
    }
    made
}

/// One row per (line, maker); the lines in order.
pub(super) fn dataset(session: &Session, lines: &[(&Line, i64, Held)]) -> Dataset {
    let columns = vec![
        Column::text("operator", "Allocated by"),
        Column::text("range", "In"),
        Column::text("pass", "Pass"),
        Column::new("device", "GPU", Unit::Count),
        Column::new("allocations", "Allocations", Unit::Count),
        Column::new("bytes", "Bytes", Unit::Bytes),
        Column::new("share", "Share of the peak", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    for (line, peak, held) in lines {
        let mut add = |operator: Cell, range: Cell, allocations: Cell, bytes: i64| {
            let share = (*peak > 0).then(|| bytes as f64 / *peak as f64);
            let pass = session.pass_name(line.pass);
            rows.push(vec![
                operator,
                range,
                Cell::Text(pass.to_owned()),
                Cell::Int(i64::from(line.device)),
                allocations,
                Cell::Int(bytes),
                Cell::maybe(share),
            ]);
        };
        if let Some(before) = held.before {
            let what = Cell::Text("before the trace began".to_owned());
            add(what, Cell::Missing, Cell::Missing, before);
        }
        for holder in &held.holders {
            let operator = match holder.operator.is_empty() {
                true => Cell::Text("outside of operators".to_owned()),
                false => Cell::Name(holder.operator.clone()),
            };
            let range = match holder.range.is_empty() {
                true => Cell::Missing,
                false => Cell::Name(holder.range.clone()),
            };
            let count = Cell::Int(i64::try_from(holder.allocations).unwrap_or(i64::MAX));
            add(operator, range, count, holder.bytes);
        }
    }
    let title = "What holds the memory at the peak".to_owned();
    Dataset { id: "memory_at_peak", title, columns, rows }
}
