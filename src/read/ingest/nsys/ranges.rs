//! NVTX ranges with their payloads.

use rooflens_exports::nsys::{self, EVENT_COLUMNS, EVENTS, Event};

use super::Import;
use super::payloads::Payload;
use crate::IngestError;
use crate::database::Want;
use rooflens_diagnostic::Severity;
use rooflens_session::RangeId;

#[derive(Default)]
struct Chunk {
    events: Vec<Event>,
    /// Payloads of events, by the number of the event in the chunk.
    payloads: Vec<(usize, Payload)>,
    /// Malformed payloads.
    malformed: u64,
}

impl Import<'_> {
    /// Reads push/pop and start/end ranges, and gives their payloads by range, ascending.
    pub(super) fn ranges(&mut self) -> Result<Vec<(RangeId, Payload)>, IngestError> {
        let payload = EVENT_COLUMNS.len();
        let mut wants = EVENT_COLUMNS.to_vec();
        wants.push(Want::May(&["binaryData"]));
        let schemas = self.payload_schemas();
        let schemas = self.or_without(schemas);
        let chunks = self.scan(EVENTS, &wants, |chunk: &mut Chunk, row| {
            let Some(event) = Event::read(row)? else {
                return Ok(());
            };
            if let Some(blob) = row.blob(payload).filter(|_| !schemas.is_empty()) {
                match schemas.read(event.domain, blob) {
                    Some(payload) if payload != Payload::default() => {
                        chunk.payloads.push((chunk.events.len(), payload));
                    }
                    Some(_) => {}
                    None => chunk.malformed += 1,
                }
            }
            chunk.events.push(event);
            Ok(())
        })?;
        let malformed = chunks.iter().map(|chunk| chunk.malformed).sum();
        if malformed > 0 {
            let message = "payloads of NVTX events are malformed; what they say is skipped";
            self.say(
                Severity::Notice,
                "nsys/bad-payloads",
                message,
                None,
                malformed,
            );
        }
        let (mut events, mut payloads) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let before = events.len();
            for (event, payload) in chunk.payloads {
                payloads.push((before + event, payload));
            }
            events.extend(chunk.events);
        }
        let added = nsys::add_ranges(self.session, self.pass, &mut self.names, &events);
        if added.unclosed > 0 {
            let message = "NVTX ranges were never closed; they are taken to end with the capture";
            self.say(
                Severity::Notice,
                "nsys/unclosed-ranges",
                message,
                None,
                added.unclosed,
            );
        }
        let of_range = |(event, payload): (usize, Payload)| Some((added.ids[event]?, payload));
        Ok(payloads.into_iter().filter_map(of_range).collect())
    }
}
