//! JSON Lines exports of Nsight Systems: `nsys export --type jsonlines`, `--type json` of older versions.
//!
//! A line is one of nsys's own messages. It becomes rows of the tables that the SQLite export of the same report has, which
//! the importer then reads. NVIDIA describes the order of the lines, the strings and the names of threads ("JSON and Text
//! Format Description" of its export documentation) and not the fields of events. Those below are what exports that
//! people published from 2022 to 2025 hold, and what their public parsers read. A field that is not there is `NULL`.
//!
//! | message | field | column |
//! |---|---|---|
//! | `CudaEvent` | `startNs`, `endNs`: from the start of the session, as in SQLite | `start`, `end` |
//! | | `correlationId`, `deviceId`, `contextId`, `streamId`, `globalPid` | the same |
//! | | `graphNodeId`, `graphId`: named as in SQLite; in no published line | the same |
//! | `.kernel` | `demangledName`, `shortName`: ids of strings | `CUPTI_ACTIVITY_KIND_KERNEL`, the same |
//! | | `gridX` to `blockZ`, `registersPerThread`, `staticSharedMemory`, `dynamicSharedMemory` | the same |
//! | `.memcpy` | `sizebytes`; `copyKind`, `srcKind`, `dstKind` with the numbers of SQLite's enumerations | `CUPTI_ACTIVITY_KIND_MEMCPY.bytes`; the same |
//! | `.memset` | `sizebytes`, as of a copy: no published line shows the fields | `CUPTI_ACTIVITY_KIND_MEMSET.bytes` |
//! | `.sync` | `syncType`: `SYNCHRONIZATION_TYPE_` and CUPTI's name | `CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.syncType` |
//! | `.cudaEventRecord` | | not needed |
//! | `TraceProcessEvent` | `eventClass`: `ENUM_NSYS_EVENT_CLASS` | the table: `CUPTI_ACTIVITY_KIND_RUNTIME` of 0, 1 and 67, `OSRT_API` of 27 |
//! | | `startNs`, `endNs`, `correlationId`, `globalTid`; `name`, an id of a string | the same; `nameId` |
//! | `NvtxEvent` | `Timestamp`, `EndTimestamp`: nanoseconds if `NsTime` is true | `NVTX_EVENTS.start`, `end` |
//! | | `Type`: `ENUM_NSYS_EVENT_TYPE`; `Text` or `TextId`, `GlobalTid`, `DomainId` | `eventType`, `text`, `textId`, `globalTid`, `domainId` |
//! | `data` | an array: the strings, by id from 0 | `StringIds` |
//! | `type` `String`, `ThreadName` | with `--separate-strings`: a string or a thread's name a line | `StringIds`, `ThreadNames` |
//!
//! Other messages, such as GPUs, graphs traced as a whole and payloads of ranges, are counted and reported.
//!
//! Rows go through SQLite because a second importer would repeat the meaning of every table. What must hold: one line is
//! in memory at a time, lines have a maximum length, and a field that the format does not describe is never guessed.

mod line;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::made::{Cell, MadeExport};
use crate::{IngestError, IngestErrorKind, Prefix};
use line::{CudaEvent, Int, Line, NvtxEvent, Separate, TraceProcessEvent};
use rooflens_bundle::Content;
use rooflens_diagnostic::{Diagnostic, Location, Severity};

/// Bytes beyond which a line is refused: the strings of a report are one line.
const MAX_LINE: u64 = 256 << 20;

/// Number of message names that a diagnostic lists; others are counted together.
const MAX_NAMES: usize = 16;

/// How an export begins that has its strings first.
const STRINGS_FIRST: &[u8] = b"{\"data\":[\"[Unknown]\"";

/// True if a file begins like an export.
pub(super) fn sniff(prefix: &Prefix<'_>) -> bool {
    let start = prefix.bytes.trim_ascii_start();
    let events = ["\"NvtxEvent\"", "\"CudaEvent\"", "\"TraceProcessEvent\""];
    let has_event = || events.iter().any(|event| prefix.contains(event));
    start.starts_with(STRINGS_FIRST)
        || start.starts_with(b"{") && has_event() && !prefix.contains("\"traceEvents\"")
}

/// Columns that all work on a GPU has.
const WORK: &[&str] = &[
    "start",
    "end",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "globalPid",
    "graphNodeId",
    "graphId",
];

/// Columns of calls.
const OF_CALLS: &[&str] = &[
    "start",
    "end",
    "eventClass",
    "globalTid",
    "correlationId",
    "nameId",
];

/// Tables, the columns that they share with others, and their own.
const TABLES: [(&str, &[&str], &[&str]); 10] = [
    ("META_DATA_EXPORT", &[], &["name", "value"]),
    ("StringIds", &[], &["id", "value"]),
    ("ThreadNames", &[], &["nameId", "priority", "globalTid"]),
    (
        KERNELS,
        WORK,
        &[
            "demangledName",
            "shortName",
            "registersPerThread",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "staticSharedMemory",
            "dynamicSharedMemory",
        ],
    ),
    (COPIES, WORK, &["bytes", "copyKind", "srcKind", "dstKind"]),
    (MEMSETS, WORK, &["bytes"]),
    (
        SYNCS,
        &[],
        &[
            "start",
            "end",
            "streamId",
            "correlationId",
            "globalPid",
            "syncType",
        ],
    ),
    (
        RANGES,
        &[],
        &[
            "start",
            "end",
            "eventType",
            "globalTid",
            "domainId",
            "textId",
            "text",
        ],
    ),
    (CALLS, OF_CALLS, &[]),
    (OS_CALLS, OF_CALLS, &[]),
];

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const MEMSETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const SYNCS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
const RANGES: &str = "NVTX_EVENTS";
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const OS_CALLS: &str = "OSRT_API";

/// Event class of calls of the operating system's libraries.
const OS_RUNTIME: i64 = 27;

/// Event classes of CUDA calls: runtime, driver, and the outer of two that some versions write of a call.
const CUDA_CALLS: [i64; 3] = [0, 1, 67];

/// Makes an SQLite export at `path` of a JSON Lines export, and gives what was lost on the way.
///
/// # Errors
/// When the file cannot be read or is no such export, has a line of more than 256 MiB, or costs too much.
pub(super) fn to_sqlite(content: &Content, path: &Path) -> Result<Vec<Diagnostic>, IngestError> {
    let export = MadeExport::create(path, content.inflation())?;
    for (table, shared, columns) in TABLES {
        export.table(table, &[shared, columns].concat())?;
    }
    let version = [
        Cell::Text("EXPORT_PRODUCT_VERSION"),
        Cell::Text("(JSON Lines without a version)"),
    ];
    export.row("META_DATA_EXPORT", &version)?;
    let mut lines =
        BufReader::with_capacity(1 << 18, content.reader().map_err(IngestErrorKind::from)?);
    let (mut bytes, mut number, mut lost) = (Vec::new(), 0_u64, Lost::default());
    loop {
        bytes.clear();
        if (&mut lines).take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        number += 1;
        if bytes.len() as u64 == MAX_LINE {
            let error = IngestErrorKind::Unsupported("a line has more than 256 MiB".to_owned());
            return Err(IngestError::from(error).at(Location::Line(number)));
        }
        let text = bytes.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line<'_>>(text) {
            Ok(line) => add(&export, &line, &mut lost)?,
            Err(error) => lost.bad_line(number, &error),
        }
    }
    if lost.read == 0 {
        let message = "no line of it is an event of CUDA or NVTX".to_owned();
        return Err(IngestErrorKind::Empty(message).into());
    }
    export.finish()?;
    Ok(lost.tell())
}

/// Counts of skipped messages.
#[derive(Default)]
struct Lost {
    /// Events that were read.
    read: u64,
    /// Messages that are not read, by name.
    others: BTreeMap<String, u64>,
    /// The first bad line and why, and how many there are.
    bad: Option<(u64, String)>,
    bad_count: u64,
    /// Events of CUDA of which it is not known what they are.
    unknown_work: u64,
    /// Ranges whose times are in another unit.
    unknown_unit: u64,
}

impl Lost {
    fn bad_line(&mut self, number: u64, error: &serde_json::Error) {
        self.bad_count += 1;
        // It has a line and column of its own, which count within the line.
        let reason = |error: String| {
            error
                .split(" at line")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        self.bad
            .get_or_insert_with(|| (number, reason(error.to_string())));
    }

    fn other(&mut self, name: &str) {
        let name: String = name.chars().take(40).collect();
        let is_room = self.others.len() < MAX_NAMES || self.others.contains_key(&name);
        let name = if is_room { name } else { "others".to_owned() };
        *self.others.entry(name).or_default() += 1;
    }

    fn tell(self) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        if let Some((line, error)) = self.bad {
            let message = format!("lines that make no sense are skipped; the first: {error}");
            let bad = Diagnostic::new(Severity::DataLoss, "nsys/bad-lines", message);
            diagnostics.push(bad.at(Location::Line(line)).times(self.bad_count));
        }
        if self.unknown_work > 0 {
            let message = "events of CUDA are neither kernels nor copies, memsets or synchronizations (graphs that were traced as a whole, say); they are skipped";
            let unknown = Diagnostic::new(Severity::DataLoss, "nsys/unknown-work", message);
            diagnostics.push(unknown.times(self.unknown_work));
        }
        if self.unknown_unit > 0 {
            let message =
                "NVTX events do not say that their times are nanoseconds; they are skipped";
            let unknown = Diagnostic::new(Severity::DataLoss, "nsys/unknown-unit", message);
            diagnostics.push(unknown.times(self.unknown_unit));
        }
        let counts = self
            .others
            .iter()
            .map(|(name, count)| format!(", {name} ({count})"));
        let message = format!(
            "a JSON Lines export holds less than SQLite: not read are GPUs, CUDA graphs and the profiler's overhead{}",
            counts.collect::<String>()
        );
        let less = Diagnostic::new(Severity::Notice, "nsys/json-lines", message);
        diagnostics.push(less);
        let advice = "export the report as SQLite, which has all of it: nsys export --type sqlite FILE.nsys-rep";
        diagnostics
            .into_iter()
            .map(|diagnostic| diagnostic.hint(advice))
            .collect()
    }
}

fn add(export: &MadeExport, line: &Line<'_>, lost: &mut Lost) -> Result<(), IngestError> {
    if let Some(event) = &line.cuda {
        add_work(export, event, lost)
    } else if let Some(event) = &line.call {
        add_call(export, event, lost)
    } else if let Some(event) = &line.nvtx {
        add_range(export, event, line.kind, lost)
    } else if let Some(texts) = &line.strings {
        for (id, text) in (0..).zip(texts) {
            export.row("StringIds", &[Cell::Int(id), Cell::Text(text)])?;
        }
        Ok(())
    } else if line.separate.kind.is_some() {
        add_separate(export, &line.separate, lost)
    } else {
        lost.other(line.other.as_deref().unwrap_or("lines without a message"));
        Ok(())
    }
}

fn cell(value: Option<Int>) -> Cell<'static> {
    value.map_or(Cell::Null, |value| Cell::Int(value.0))
}

fn add_work(
    export: &MadeExport,
    event: &CudaEvent<'_>,
    lost: &mut Lost,
) -> Result<(), IngestError> {
    let common_and = |values: &[Option<Int>]| {
        let common = [
            event.start_ns,
            event.end_ns,
            event.device_id,
            event.context_id,
            event.stream_id,
            event.correlation_id,
            event.global_pid,
            event.graph_node_id,
            event.graph_id,
        ];
        common
            .iter()
            .chain(values)
            .map(|value| cell(*value))
            .collect::<Vec<_>>()
    };
    lost.read += 1;
    if let Some(kernel) = &event.kernel {
        let values = [
            kernel.demangled_name,
            kernel.short_name,
            kernel.registers_per_thread,
            kernel.grid_x,
            kernel.grid_y,
            kernel.grid_z,
            kernel.block_x,
            kernel.block_y,
            kernel.block_z,
            kernel.static_shared_memory,
            kernel.dynamic_shared_memory,
        ];
        export.row(KERNELS, &common_and(&values))
    } else if let Some(copy) = &event.memcpy {
        let values = [copy.sizebytes, copy.copy_kind, copy.src_kind, copy.dst_kind];
        export.row(COPIES, &common_and(&values))
    } else if let Some(memset) = &event.memset {
        export.row(MEMSETS, &common_and(&[memset.sizebytes]))
    } else if let Some(sync) = &event.sync {
        let kind = sync.sync_type.as_deref().and_then(sync_type);
        let [start, end] = [event.start_ns, event.end_ns].map(cell);
        let ids = [event.stream_id, event.correlation_id, event.global_pid].map(cell);
        let [stream, correlation, process] = ids;
        let kind = kind.map_or(Cell::Null, Cell::Int);
        export.row(SYNCS, &[start, end, stream, correlation, process, kind])
    } else {
        lost.unknown_work += u64::from(event.cuda_event_record.is_none());
        Ok(())
    }
}

/// `ENUM_CUPTI_SYNC_TYPE` by name.
fn sync_type(name: &str) -> Option<i64> {
    match name.strip_prefix("SYNCHRONIZATION_TYPE_")? {
        "EVENT_SYNCHRONIZE" => Some(1),
        "STREAM_WAIT_EVENT" => Some(2),
        "STREAM_SYNCHRONIZE" => Some(3),
        "CONTEXT_SYNCHRONIZE" => Some(4),
        _ => None,
    }
}

fn add_call(
    export: &MadeExport,
    event: &TraceProcessEvent,
    lost: &mut Lost,
) -> Result<(), IngestError> {
    let table = match event.event_class.map(|class| class.0) {
        Some(OS_RUNTIME) => OS_CALLS,
        Some(class) if CUDA_CALLS.contains(&class) => CALLS,
        Some(class) => {
            lost.other(&format!("TraceProcessEvent of class {class}"));
            return Ok(());
        }
        None => {
            lost.other("TraceProcessEvent without a class");
            return Ok(());
        }
    };
    lost.read += 1;
    let cells = [
        event.start_ns,
        event.end_ns,
        event.event_class,
        event.global_tid,
        event.correlation_id,
        event.name,
    ];
    export.row(table, &cells.map(cell))
}

fn add_range(
    export: &MadeExport,
    event: &NvtxEvent<'_>,
    kind: Option<Int>,
    lost: &mut Lost,
) -> Result<(), IngestError> {
    lost.read += 1;
    if event.ns_time != Some(true) {
        lost.unknown_unit += 1;
        return Ok(());
    }
    let [start, end] = [event.timestamp, event.end_timestamp].map(cell);
    let [kind, thread] = [event.kind.or(kind), event.global_tid].map(cell);
    let [domain, text_id] = [event.domain_id, event.text_id].map(cell);
    let text = event.text.as_deref().map_or(Cell::Null, Cell::Text);
    export.row(RANGES, &[start, end, kind, thread, domain, text_id, text])
}

fn add_separate(
    export: &MadeExport,
    line: &Separate<'_>,
    lost: &mut Lost,
) -> Result<(), IngestError> {
    match (line.kind.as_deref(), &line.value) {
        (Some("String"), Some(value)) if line.id.is_some() => {
            export.row("StringIds", &[cell(line.id), Cell::Text(value)])
        }
        (Some("ThreadName"), _) => {
            let cells = [line.name_id, line.priority, line.global_tid];
            export.row("ThreadNames", &cells.map(cell))
        }
        (kind, _) => {
            lost.other(kind.unwrap_or_default());
            Ok(())
        }
    }
}
