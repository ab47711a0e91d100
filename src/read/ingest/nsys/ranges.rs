//! NVTX ranges. `text` and `textId` stand side by side in one table; domains have rows of their own.

use rustc_hash::FxHashMap;

use super::Import;
use super::payloads::Payload;
use crate::IngestError;
use crate::database::Want;
use rooflens_diagnostic::Severity;
use rooflens_session::{MAX_TIME, Ns, Range, RangeId, RangeKind, StrId};

use Want::{May, Need};

/// Event types of `NVTX_EVENTS` (`ENUM_NSYS_EVENT_TYPE`); the numbers are the same in all versions.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN_CREATE: i64 = 75;

struct Event {
    start: Ns,
    end: Option<Ns>,
    kind: i64,
    thread: i64,
    domain: i64,
    text: Option<Box<str>>,
    text_id: Option<i64>,
    /// Boxed: few events have it.
    payload: Option<Box<Payload>>,
}

#[derive(Default)]
struct Chunk {
    events: Vec<Event>,
    /// Malformed payloads.
    malformed: u64,
}

impl Import<'_> {
    /// Reads push/pop and start/end ranges, and gives their payloads by range, ascending. A range that was never
    /// closed ends with the capture.
    pub(super) fn ranges(&mut self) -> Result<Vec<(RangeId, Payload)>, IngestError> {
        let wants = [
            Need("start"),
            Need("end"),
            Need("eventType"),
            May(&["globalTid"]),
            May(&["domainId"]),
            May(&["textId"]),
            May(&["text"]),
            May(&["binaryData"]),
        ];
        let table = "NVTX_EVENTS";
        let schemas = self.payload_schemas()?;
        let (parts, bad) = self.database.scan(table, &wants, |out: &mut Chunk, row| {
            let kind = row.int(2)?;
            if ![PUSH_POP, START_END, DOMAIN_CREATE].contains(&kind) {
                return Ok(());
            }
            let (start, end) = (row.time(0)?, row.maybe_time(1)?);
            if end.is_some_and(|end| end < start) {
                return Err(format!(
                    "end {:?} lies before start {}",
                    end.map(|end| end.0),
                    start.0
                ));
            }
            if start < -MAX_TIME || start > MAX_TIME || end.is_some_and(|end| end > MAX_TIME) {
                return Err(format!(
                    "{} to {:?} is no time of a capture",
                    start.0,
                    end.map(|end| end.0)
                ));
            }
            let (thread, domain) = (row.maybe(3)?.unwrap_or(0), row.maybe(4)?.unwrap_or(0));
            let (text, text_id) = (row.text(6).map(Into::into), row.maybe(5)?);
            let blob = row.blob(7).filter(|_| !schemas.is_empty());
            let payload = blob.map(|blob| schemas.read(domain, blob));
            out.malformed += u64::from(payload == Some(None));
            let payload = payload.flatten().filter(|read| *read != Payload::default());
            let payload = payload.map(Box::new);
            out.events.push(Event {
                start,
                end,
                kind,
                thread,
                domain,
                text,
                text_id,
                payload,
            });
            Ok(())
        })?;
        self.report_bad_rows(table, &bad);
        let malformed = parts.iter().map(|part| part.malformed).sum();
        if malformed > 0 {
            let message = "payloads of NVTX events are malformed; what they say is left out";
            self.say(
                Severity::Notice,
                "nsys/bad-payloads",
                message,
                None,
                malformed,
            );
        }
        let events: Vec<Event> = parts.into_iter().flat_map(|part| part.events).collect();
        Ok(self.add_ranges(&events))
    }

    fn add_ranges(&mut self, events: &[Event]) -> Vec<(RangeId, Payload)> {
        let mut domains: FxHashMap<(i64, i64), StrId> = FxHashMap::default();
        for event in events.iter().filter(|event| event.kind == DOMAIN_CREATE) {
            let name = self.event_name(event);
            domains.insert((process_of(event.thread), event.domain), name);
        }
        let capture_end = self.capture_end(events);
        let (mut unclosed_count, mut payloads) = (0, Vec::new());
        for event in events.iter().filter(|event| event.kind != DOMAIN_CREATE) {
            let name = self.event_name(event);
            let key = (process_of(event.thread), event.domain);
            let domain = domains.get(&key).copied().unwrap_or_default();
            let unclosed = event.end.is_none();
            unclosed_count += u64::from(unclosed);
            let kind = if event.kind == PUSH_POP {
                RangeKind::PushPop
            } else {
                RangeKind::StartEnd
            };
            let row = Range {
                start: event.start,
                end: event.end.unwrap_or(capture_end.max(event.start)),
                name,
                domain,
                kind,
                unclosed,
                pass: self.pass,
                thread: self.thread(event.thread),
            };
            let id = self.session.ranges.push(row);
            payloads.extend(event.payload.as_deref().map(|payload| (id, *payload)));
        }
        if unclosed_count > 0 {
            let message = "NVTX ranges were never closed; they are taken to end with the capture";
            self.say(
                Severity::Notice,
                "nsys/unclosed-ranges",
                message,
                None,
                unclosed_count,
            );
        }
        payloads
    }

    fn event_name(&mut self, event: &Event) -> StrId {
        match (&event.text, event.text_id) {
            (Some(text), _) => self.session.intern(text),
            (None, Some(id)) => self.names.intern(id, self.session),
            (None, None) => StrId::default(),
        }
    }

    /// The last moment of which the capture has a trace.
    fn capture_end(&self, events: &[Event]) -> Ns {
        let session = &*self.session;
        let last_end = |passes: &[rooflens_session::PassId], ends: &[Ns]| {
            let pairs = passes.iter().zip(ends);
            pairs
                .filter(|(pass, _)| **pass == self.pass)
                .map(|(_, end)| *end)
                .max()
        };
        let ranges = events
            .iter()
            .map(|event| event.end.unwrap_or(event.start))
            .max();
        [
            last_end(&session.launches.pass, &session.launches.end),
            last_end(&session.copies.pass, &session.copies.end),
            last_end(&session.graph_launches.pass, &session.graph_launches.end),
            last_end(&session.api_calls.pass, &session.api_calls.end),
            ranges,
        ]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(Ns::ZERO)
    }
}

/// The process part of a global thread id: domains belong to processes.
const fn process_of(global_thread: i64) -> i64 {
    global_thread & !super::info::THREAD_MASK
}
