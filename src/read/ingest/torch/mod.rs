//! PyTorch profiler (Kineto) traces, 2020 to 2026.
//!
//! A trace is one JSON object, or the list of events alone (the JSON Array Format of Chrome traces), as tools that cut traces
//! leave it. The events are read in blocks: one thread reads, inflates and
//! cuts, the others parse; of the text no more than some blocks is ever in memory. Times become
//! integer nanoseconds from the decimal text, never through floating point.
//!
//! A file that is cut off gives its events up to there, and one that holds invalid events the others,
//! each with a data-loss diagnostic that says at which byte; a file without any event is refused.
//!
//! A trace can hold gigabytes of JSON, so the reader neither keeps the text nor builds a tree of values. A parser for
//! the whole document was rejected: it runs on one thread and needs memory for every event at once. The stream is cut at
//! event boundaries instead. Cheap cuts may misjudge a boundary inside a string. The parser notices that, and the file is
//! read again with exact cuts. Blocks join in file order, so the rows do not depend on the number of threads.

mod backward;
mod block;
mod builder;
mod callers;
mod calls;
mod copies;
mod event;
mod header;
mod host;
mod json;
mod notes;
mod rows;
mod split;
mod stream;
mod tables;
mod time;
mod value;

use rooflens_schemas::{ArtifactKind, PassKind, manifest};
use rustc_hash::FxHashSet;

use super::{Importer, IngestError, IngestErrorKind, Prefix, check_count};
use rooflens_bundle::{ArtifactFile, Content, ContentError};
use rooflens_diagnostic::{Diagnostics, Location};
use rooflens_session::{Ns, PassId, Session};

use header::Header;
use notes::Notes;
use rows::Rows;
use stream::{BLOCK, Cutting, Ending, File, Refusal};

/// Reads PyTorch profiler traces.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::TorchTrace,
    sniff,
    import,
};

/// Texts of which a trace of the PyTorch profiler has at least one near its begin.
const MARKS: &[&str] = &[
    "\"deviceProperties\"",
    "\"distributedInfo\"",
    "\"baseTimeNanoseconds\"",
    "\"PyTorch Profiler\"",
    "\"cpu_op\"",
    "\"Operator\"",
    "\"cuda_runtime\"",
    "\"cuda_driver\"",
    "\"gpu_memcpy\"",
    "\"gpu_memset\"",
    "\"user_annotation\"",
    "\"python_function\"",
    "\"registers per thread\"",
];

/// The mark of the export of `torch.autograd.profiler`, a bare list, which is detected and refused.
const LEGACY_MARK: &str = "\"CPU functions\"";

/// True if events are those of `torch.autograd.profiler`.
fn is_legacy(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, LEGACY_MARK.as_bytes()).is_some()
}

fn sniff(prefix: &Prefix<'_>) -> bool {
    let marked = || MARKS.iter().any(|mark| prefix.contains(mark));
    match prefix.bytes.trim_ascii_start().first() {
        // Long lists of process groups may push the events out of the first bytes.
        Some(b'{') => {
            let named = prefix.contains("\"traceEvents\"")
                || prefix.contains("\"schemaVersion\"") && prefix.contains("\"distributedInfo\"");
            named && marked()
        }
        Some(b'[') => (is_legacy(prefix.bytes) || marked()) && prefix.contains("\"ph\""),
        _ => false,
    }
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let trace = read(&file.content()?, session.room())?;
    if trace.rows.rows.events == 0 {
        refuse_damaged(&trace)?;
    }
    few_devices(&trace)?;
    commit(trace, file, session, diagnostics);
    Ok(())
}

/// Refuses a trace of more GPUs, or processes, than a machine runs: much is computed for each of them.
fn few_devices(trace: &File) -> Result<(), IngestError> {
    let rows = &trace.rows.rows;
    let spans = rows.kernels.iter().map(|row| &row.gpu);
    let spans = spans.chain(rows.copies.iter().map(|row| &row.gpu));
    let devices: FxHashSet<u32> = spans.filter_map(|span| span.device).collect();
    check_count("GPUs", devices.len())?;
    let lanes = rows
        .calls
        .iter()
        .map(|row| trace.rows.lanes[row.span.lane as usize]);
    let processes: FxHashSet<_> = lanes.map(|(process, _)| process).collect();
    check_count("processes", processes.len())
}

/// Reads the file with likely cuts and, should one prove wrong, with exact ones.
fn read(content: &Content, room: u64) -> Result<File, IngestError> {
    for cutting in [Cutting::Likely, Cutting::Exact] {
        let mut reader = content.reader()?;
        if let Some(file) = stream::read(&mut *reader, cutting, BLOCK, room).map_err(refusal)? {
            return Ok(file);
        }
    }
    Err(IngestErrorKind::Truncated.into())
}

fn commit(trace: File, file: &ArtifactFile, session: &mut Session, diagnostics: &mut Diagnostics) {
    let header = Header::of(&trace);
    let mut notes = Notes { file, diagnostics };
    notes.ending(&trace.ending, &header);
    let mut rows = trace.rows;
    notes.losses(&rows.rows.losses, &rows.rows.unknown);
    let (operators, events) = (rows.rows.operators.len() as u64, rows.rows.events);
    let by_flows = calls::correlate_by_flows(&mut rows);

    let pass = session.add_pass(&file.pass, PassKind::Operators, &file.path);
    session.passes.utc_origin[pass.index()] = utc_origin(&rows.rows, &header);
    header.commit(pass, file, session);
    if file.pass.ends_with(manifest::STACKS) {
        callers::commit(&rows, pass, session);
        describe(pass, &header, file, session);
        return;
    }
    let other_device = notes::other_device(&rows.rows.unknown);
    let findings = tables::commit(rows, pass, session);
    describe(pass, &header, file, session);
    notes.content(findings.gpu_operations, operators, events, other_device);
    notes.joins(&findings, by_flows);
}

/// Producer and rank of the pass; the manifest's word counts where the trace has none.
fn describe(pass: PassId, header: &Header, file: &ArtifactFile, session: &mut Session) {
    session.passes.producer[pass.index()] = session.strings.intern(&header.producer());
    let rank = header.rank().or(file.rank);
    session.passes.rank[pass.index()] = rank;
    let processes = &mut session.processes;
    for process in processes.ids() {
        if processes.pass[process.index()] == pass {
            processes.rank[process.index()] = rank;
        }
    }
}

/// The UTC time of time zero. Newer traces count from `baseTimeNanoseconds`, older ones from 1970;
/// times that are as long as UTC is (from 2001 on) are UTC, whatever else the trace says.
fn utc_origin(rows: &Rows, header: &Header) -> Option<Ns> {
    const UTC_FLOOR: Ns = Ns(1_000_000_000_000_000_000);
    let first = None
        .or_else(|| rows.operators.first().map(|row| row.span.start))
        .or_else(|| rows.calls.first().map(|row| row.span.start))
        .or_else(|| rows.kernels.first().map(|row| row.gpu.span.start))
        .or_else(|| rows.annotations.first().map(|row| row.start));
    if first.is_some_and(|first| first >= UTC_FLOOR) {
        return Some(Ns::ZERO);
    }
    header.base()
}

/// The error of a damaged file without a single event.
fn refuse_damaged(trace: &File) -> Result<(), IngestError> {
    let (kind, at) = match (&trace.ending, trace.rows.rows.losses.first_invalid) {
        (Ending::Whole, None) => return Ok(()),
        (_, Some(at)) => (found("none that is valid JSON"), at),
        (Ending::CutOff(at), None) => (IngestErrorKind::Truncated, *at),
        (Ending::Unreadable(at, error), None) => (
            found(&format!("in an archive that cannot be unpacked: {error}")),
            *at,
        ),
    };
    Err(IngestError::from(kind).at(Location::Byte(at)))
}

fn refusal(refusal: Refusal) -> IngestError {
    let (kind, at) = match refusal {
        Refusal::NoEvents(at) => (found("no list"), at),
        Refusal::CutOff(at) => (IngestErrorKind::Truncated, at),
        Refusal::TooLong(at) => (found("longer in one part than a trace can be"), at),
        Refusal::Budget => return IngestErrorKind::Budget.into(),
        Refusal::Io(error) => return ContentError::Io(error).into(),
        Refusal::Legacy => {
            let message = "this is a bare list of events, as torch.autograd.profiler exports";
            return IngestError::from(IngestErrorKind::Unsupported(message.to_owned()))
                .hint("profile with torch.profiler and its export_chrome_trace");
        }
    };
    IngestError::from(kind).at(Location::Byte(at))
}

/// What `traceEvents` is instead of a list of events.
fn found(found: &str) -> IngestErrorKind {
    IngestErrorKind::Value {
        what: "traceEvents".to_owned(),
        found: found.to_owned(),
        expected: "a list of trace events",
    }
}
