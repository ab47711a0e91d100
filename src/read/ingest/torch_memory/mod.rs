//! Memory snapshots of PyTorch (`torch.cuda.memory._dump_snapshot`): a pickle of segments and of the allocator's events.
//!
//! The layout is that of "Understanding CUDA Memory Usage" in PyTorch's documentation and of `_snapshot` in torch/cuda/memory.py:
//! `{"segments": [{"device", "total_size", "blocks": [{"size", "requested_size", "state"}]}], "device_traces": [[{"action",
//! "addr", "size", "time_us"}]]}`. Events keep the requested size, and the trace is a ring that may have lost its begin; what was
//! held is therefore counted backwards from the segments, which are those at the end. Memory counts as freed when that is
//! requested, as in the allocator's own statistics. Stacks are not read.
//!
//! A pickle can run code, so the format is not unpickled in the usual sense. A small machine executes the opcodes of plain
//! data and refuses every opcode that names a class or calls it. The number of nodes is bounded by the input's allowance.

mod pickle;

use rooflens_schemas::{ArtifactKind, PassKind};

use self::pickle::{Node, Pickle};
use super::{Importer, IngestError, IngestErrorKind, Prefix, check_count};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{MAX_TIME, MemoryEvent, Ns, PassId, Session};

/// Reads memory snapshots.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::TorchMemory,
    sniff,
    import,
};

const MAX_BYTES: u64 = 1 << 30;

fn sniff(prefix: &Prefix<'_>) -> bool {
    matches!(prefix.bytes, [0x80, 2..=5, ..])
        && prefix.contains("segments")
        && (prefix.contains("device_traces") || prefix.contains("allocated_size"))
}

/// Bytes of a device.
#[derive(Clone, Copy, Default)]
struct Total {
    allocated: i64,
    reserved: i64,
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let pickle = Pickle::read(&bytes, session.room())?;
    let root = pickle.root();
    let traces = pickle.items(pickle.get(root, "device_traces"));
    check_count("GPUs", traces.len())?;
    let pass = PassId::at(session.passes.len());
    let room = session.room() / (2 * size_of::<MemoryEvent>()) as u64;
    let (mut rows, mut untimed) = (Vec::new(), 0);
    for (device, trace) in (0..).zip(traces) {
        let events = pickle.items(Some(*trace));
        let at_end = at_end(&pickle, root, device);
        untimed += read_device(&pickle, events, (device, at_end), pass, room, &mut rows)?;
    }
    if rows.is_empty() {
        let message = "it holds no timed allocation: only events with times are read";
        return Err(IngestError::from(IngestErrorKind::Empty(message.to_owned())).hint(
            "record before you dump: torch.cuda.memory._record_memory_history(max_entries=1000000)",
        ));
    }
    let pass = session.add_pass(&file.pass, PassKind::Operators, &file.path);
    session.passes.producer[pass.index()] = session.intern("PyTorch memory snapshot");
    session.passes.rank[pass.index()] = file.rank;
    session.passes.utc_origin[pass.index()] = Some(Ns::ZERO);
    rows.into_iter().for_each(|row| {
        session.memory_events.push(row);
    });
    if untimed > 0 {
        let message = "events of the allocator without a time or a size are skipped";
        let diagnostic = Diagnostic::new(Severity::DataLoss, "memory/event", message);
        diagnostics.push(diagnostic.artifact(&file.path).times(untimed));
    }
    Ok(())
}

/// What a device holds at the end, by the segments.
fn at_end(pickle: &Pickle<'_>, root: u32, device: i64) -> Total {
    let mut total = Total::default();
    for segment in pickle.items(pickle.get(root, "segments")) {
        if pickle.int(*segment, "device") != Some(device) {
            continue;
        }
        let size = pickle.int(*segment, "total_size").unwrap_or(0);
        total.reserved = total.reserved.saturating_add(size);
        for block in pickle.items(pickle.get(*segment, "blocks")) {
            if pickle.text(*block, "state") == Some("active_allocated") {
                let requested = pickle.int(*block, "requested_size");
                let size = requested
                    .or_else(|| pickle.int(*block, "size"))
                    .unwrap_or(0);
                total.allocated = total.allocated.saturating_add(size);
            }
        }
    }
    total
}

/// Adds the events of a device; how many have no time or size.
fn read_device(
    pickle: &Pickle<'_>,
    events: &[u32],
    (device, mut total): (i64, Total),
    pass: PassId,
    room: u64,
    rows: &mut Vec<MemoryEvent>,
) -> Result<u64, IngestError> {
    let (first, mut untimed) = (rows.len(), 0);
    for event in events.iter().rev() {
        let size = pickle.int(*event, "size");
        let time = pickle
            .int(*event, "time_us")
            .and_then(|time| time.checked_mul(1000))
            .map(Ns);
        let time = time.filter(|time| (-MAX_TIME..=MAX_TIME).contains(time));
        let action = pickle.text(*event, "action").unwrap_or_default();
        let (allocated, reserved) = match action {
            "alloc" => (1, 0),
            "free_requested" => (-1, 0),
            "segment_alloc" | "segment_map" => (0, 1),
            "segment_free" | "segment_unmap" => (0, -1),
            // `free_completed` follows a request; `oom`, `snapshot` and marks hold nothing.
            _ => continue,
        };
        let Some(size) = size.filter(|size| (0..1 << 50).contains(size)) else {
            untimed += 1;
            continue;
        };
        let before = Total {
            allocated: total.allocated - allocated * size,
            reserved: total.reserved - reserved * size,
        };
        if let Some(time) = time.filter(|_| allocated != 0) {
            if rows.len() as u64 >= room {
                return Err(IngestErrorKind::Budget.into());
            }
            rows.push(MemoryEvent {
                time,
                pass,
                thread: None,
                device: u32::try_from(device).ok(),
                address: pickle.int(*event, "addr").unwrap_or(0) as u64,
                bytes: allocated * size,
                allocated: Some(total.allocated).filter(|allocated| *allocated >= 0),
                reserved: Some(total.reserved).filter(|reserved| *reserved > 0),
            });
        } else if time.is_none() {
            untimed += 1;
        }
        total = before;
    }
    rows[first..].reverse();
    Ok(untimed)
}

impl<'a> Pickle<'a> {
    fn int(&self, dict: u32, key: &str) -> Option<i64> {
        match self.node(self.get(dict, key)?) {
            Node::Int(value) => Some(*value),
            _ => None,
        }
    }

    fn text(&self, dict: u32, key: &str) -> Option<&'a str> {
        match self.node(self.get(dict, key)?) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
