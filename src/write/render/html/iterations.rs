//! Iterations for the script: JSON in columns, deflated (RFC 1951), in base64.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;

use super::shell::base64;
use crate::svg::hex;
use rooflens_document::chart::{Event, Iteration, Lane};

/// An iteration as the script reads it.
#[derive(Serialize)]
struct Columns<'a> {
    label: &'a str,
    extent: i64,
    names: Vec<(&'a str, String)>,
    lanes: Vec<LaneColumns<'a>>,
}

/// Events in columns, of which small differences deflate best.
#[derive(Serialize)]
struct LaneColumns<'a> {
    label: &'a str,
    /// Numbers of names.
    name: Vec<usize>,
    /// From the end of the event before to the start, nanoseconds.
    gap: Vec<i64>,
    /// Nanoseconds.
    duration: Vec<i64>,
    /// From the number of the launching call of the event before to that of its own, if it has one.
    call: Vec<Option<i64>>,
}

/// What stands in the document.
pub(super) fn encoded(iterations: &[Iteration]) -> String {
    let columns: Vec<Columns<'_>> = iterations.iter().map(columns).collect();
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let json = serde_json::to_vec(&columns).unwrap_or_default();
    let written = encoder.write_all(&json).and_then(|()| encoder.finish());
    base64(&written.unwrap_or_default())
}

fn columns(iteration: &Iteration) -> Columns<'_> {
    Columns {
        label: &iteration.label,
        extent: iteration.extent,
        names: iteration
            .names
            .iter()
            .map(|(name, color)| (name.as_str(), hex(*color)))
            .collect(),
        lanes: iteration.lanes.iter().map(lane).collect(),
    }
}

fn lane(lane: &Lane) -> LaneColumns<'_> {
    let events = lane.events.as_slice();
    let (mut end, mut last) = (0, 0);
    let gap =
        |event: &Event| event.start - std::mem::replace(&mut end, event.start + event.duration);
    let call = |event: &Event| {
        let number = event.call? as i64;
        Some(number - std::mem::replace(&mut last, number))
    };
    LaneColumns {
        label: &lane.label,
        name: events.iter().map(|event| event.name).collect(),
        gap: events.iter().map(gap).collect(),
        duration: events.iter().map(|event| event.duration).collect(),
        call: events.iter().map(call).collect(),
    }
}
