//! NVTX ranges. `text` and `textId` stand side by side in one table; domains have rows of their own.

use rooflens_session::{MAX_TIME, Ns, PassId, Range, RangeId, RangeKind, Session, StrId};
use rustc_hash::FxHashMap;

use super::{Names, process_of, thread};
use crate::Want::{May, Need};
use crate::{Row, RowError, Want};

/// The table of NVTX events.
pub const EVENTS: &str = "NVTX_EVENTS";

/// Its columns.
pub const EVENT_COLUMNS: [Want; 7] = [
    Need("start"),
    Need("end"),
    Need("eventType"),
    May(&["globalTid"]),
    May(&["domainId"]),
    May(&["textId"]),
    May(&["text"]),
];

/// Event types (`ENUM_NSYS_EVENT_TYPE`); the numbers are the same in all versions.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN_CREATE: i64 = 75;

/// A range, or the creation of a domain.
#[derive(Clone, Debug)]
pub struct Event {
    start: Ns,
    end: Option<Ns>,
    /// Absent for a domain.
    kind: Option<RangeKind>,
    thread: i64,
    /// Domain, which counts within its process.
    pub domain: i64,
    text: Option<Box<str>>,
    text_id: Option<i64>,
}

/// Outcome of [`add_ranges`].
#[derive(Debug, Default)]
pub struct AddedRanges {
    /// The range of each event; none for a domain.
    pub ids: Vec<Option<RangeId>>,
    /// Ranges that were never closed; they end with the capture.
    pub unclosed: u64,
}

impl Event {
    /// Decodes a row; none for events of other types, such as marks.
    ///
    /// # Errors
    /// A value makes no sense.
    #[inline]
    pub fn read(row: &Row<'_>) -> Result<Option<Self>, RowError> {
        let kind = match row.int(2)? {
            PUSH_POP => Some(RangeKind::PushPop),
            START_END => Some(RangeKind::StartEnd),
            DOMAIN_CREATE => None,
            _ => return Ok(None),
        };
        let (start, end) = (row.time(0)?, row.maybe_time(1)?);
        let last = end.unwrap_or(start);
        if last < start {
            return Err(format!("end {} lies before start {}", last.0, start.0));
        }
        if start < -MAX_TIME || last > MAX_TIME {
            return Err(format!("{} to {} is no time of a capture", start.0, last.0));
        }
        Ok(Some(Self {
            start,
            end,
            kind,
            thread: row.maybe(3)?.unwrap_or(0),
            domain: row.maybe(4)?.unwrap_or(0),
            text_id: row.maybe(5)?,
            text: row.text(6).map(Into::into),
        }))
    }

    fn name(&self, names: &mut Names, session: &mut Session) -> StrId {
        match (&self.text, self.text_id) {
            (Some(text), _) => session.intern(text),
            (None, Some(id)) => names.intern(id, session),
            (None, None) => StrId::default(),
        }
    }

    fn process_and_domain(&self) -> (i64, i64) {
        (process_of(self.thread), self.domain)
    }
}

/// Adds the ranges of a pass. A range that was never closed ends with the capture, so the tables of GPU work and calls
/// must be there before.
pub fn add_ranges(
    session: &mut Session,
    pass: PassId,
    names: &mut Names,
    events: &[Event],
) -> AddedRanges {
    let mut domains: FxHashMap<(i64, i64), StrId> = FxHashMap::default();
    for event in events.iter().filter(|event| event.kind.is_none()) {
        let name = event.name(names, session);
        domains.insert(event.process_and_domain(), name);
    }
    let capture_end = capture_end(session, pass, events);
    let mut added = AddedRanges::default();
    for event in events {
        let Some(kind) = event.kind else {
            added.ids.push(None);
            continue;
        };
        let unclosed = event.end.is_none();
        added.unclosed += u64::from(unclosed);
        let domain = domains.get(&event.process_and_domain());
        let range = Range {
            start: event.start,
            end: event.end.unwrap_or(capture_end.max(event.start)),
            name: event.name(names, session),
            domain: domain.copied().unwrap_or_default(),
            kind,
            unclosed,
            pass,
            thread: thread(session, pass, event.thread),
        };
        added.ids.push(session.add_range(range));
    }
    added
}

/// The last moment of which the capture has a trace.
fn capture_end(session: &Session, pass: PassId, events: &[Event]) -> Ns {
    let last_end = |passes: &[PassId], ends: &[Ns]| {
        let rows = passes.iter().zip(ends);
        let of_pass = rows.filter(|(row_pass, _)| **row_pass == pass);
        of_pass.map(|(_, end)| *end).max()
    };
    let last_event = events.iter().map(|event| event.end.unwrap_or(event.start));
    let ends = [
        last_end(&session.launches.pass, &session.launches.end),
        last_end(&session.copies.pass, &session.copies.end),
        last_end(&session.graph_launches.pass, &session.graph_launches.end),
        last_end(&session.api_calls.pass, &session.api_calls.end),
        last_event.max(),
    ];
    ends.into_iter().flatten().max().unwrap_or(Ns::ZERO)
}
