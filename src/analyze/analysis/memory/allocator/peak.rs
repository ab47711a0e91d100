//! Which allocations are live at the peak, and who made them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::states::{State, States};
use crate::operators::call_tree::{Source, Spans, fold};
use rooflens_session::{Arrange, MemoryEventId, Session};

/// Live allocations of one maker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holder {
    /// Outermost operator around the allocation; empty outside of operators.
    pub operator: String,
    /// Innermost range or module around it; empty outside of ranges.
    pub range: String,
    /// Number.
    pub allocations: u64,
    /// Bytes.
    pub bytes: i64,
}

/// What holds the memory at a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// Makers by (bytes descending, names).
    pub holders: Vec<Holder>,
    /// Bytes that were allocated before the first event; none if the events contradict their totals.
    pub before: Option<i64>,
}

/// Replays the events up to `peak`.
pub(super) fn held(
    session: &Session,
    spans: Option<&Spans>,
    states: &States,
    peak: &State,
) -> Held {
    let events = &session.memory_events;
    let mut live: FxHashMap<u64, MemoryEventId> = FxHashMap::default();
    for id in &states.events {
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
    let mut events_sum: i64 = 0;
    let mut live: Vec<MemoryEventId> = live.into_values().collect();
    live.sort_unstable();
    for id in live {
        let bytes = events.bytes[id.index()];
        events_sum = events_sum.saturating_add(bytes);
        let sum = by_maker.entry(maker(session, spans, id)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(bytes));
    }
    let holder = |((operator, range), (allocations, bytes))| Holder {
        operator,
        range,
        allocations,
        bytes,
    };
    let mut holders: Vec<Holder> = by_maker.into_iter().map(holder).collect();
    holders.arrange_by_key(|holder| Reverse(holder.bytes));
    let before = Some(peak.allocated.saturating_sub(events_sum)).filter(|before| *before >= 0);
    Held { holders, before }
}

/// Operator and range that made an allocation.
fn maker(session: &Session, spans: Option<&Spans>, event: MemoryEventId) -> (String, String) {
    let row = event.index();
    let mut made = (String::new(), String::new());
    let Some((spans, thread)) = spans.zip(session.memory_events.thread[row]) else {
        return made;
    };
    let mut ancestor = spans.at(thread, session.memory_events.time[row]);
    while let Some(span) = ancestor {
        let name = session.text(spans.name[span as usize]);
        match spans.source[span as usize] {
            Source::Operator(_) => name.clone_into(&mut made.0),
            Source::Range(_) | Source::Module(_) | Source::Function(_) => {
                made.1 = fold(name);
                break;
            }
        }
        ancestor = spans.nesting.parent[span as usize];
    }
    made
}
