//! Traces of the profiler of XLA, which JAX and TensorFlow write as `<host>.trace.json.gz` and `perfetto_trace.json.gz`.
//!
//! Chrome trace events as xplane_to_trace_container.cc and trace_container.cc of XLA (tsl/profiler) write them: a process is a
//! device (`/device:GPU:0`) or the host (`/host:CPU`), a thread of a device a stream (`Stream #14(Compute)`) or a line that is
//! derived from the streams and not read. Arguments are texts; what CUPTI saw of a kernel or copy is in `kernel_details`
//! (`regs:32 static_shared:0 dynamic_shared:0 grid:4,1,1 block:128,1,1 occ_pct:100`) and `memcpy_details`
//! (`kind_src:pageable kind_dst:device size:40 dest:0 async:1`), as cupti_collector.cc and cupti_utils.cc print them. Calls
//! of the driver are events of the host with a `correlation_id`; step markers have a `step_num`. Times are microseconds.
//!
//! The container resembles PyTorch's, but roles follow from names of processes and threads instead of categories. A
//! common reader with PyTorch was rejected for that reason. Lines that the profiler derives from streams are skipped:
//! they repeat the same work, and counting both would double the GPU time.

mod event;

use rooflens_schemas::{ArtifactKind, PassKind};
use rustc_hash::FxHashMap;

use self::event::{Event, Row, Trace};
use super::{Importer, IngestError, IngestErrorKind, Prefix, check_count};
use crate::abi::without_abi_suffix;
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{
    ApiCall, ApiLevel, Copy, CopyKind, Dim3, Launch, MemoryKind, PassId, Range, RangeKind, Session,
    StrId,
};

/// Reads traces of XLA's profiler.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::XlaTrace,
    sniff,
    import,
};

const MAX_BYTES: u64 = 1 << 30;

/// XLA writes no more events into a trace.
const MOST_EVENTS: u64 = 1_000_000;

const DEVICE: &str = "/device:GPU:";
const STREAM: &str = "Stream #";

fn sniff(prefix: &Prefix<'_>) -> bool {
    let is_object = prefix.bytes.trim_ascii_start().first() == Some(&b'{');
    is_object && prefix.contains("\"traceEvents\"") && prefix.contains("\"highres-ticks\"")
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let trace = Trace::read(&bytes, session.room() / 2)?;
    let devices: Vec<u32> = trace
        .processes
        .values()
        .filter_map(|name| device(name))
        .collect();
    check_count("GPUs", devices.len())?;
    if devices.is_empty() {
        let message = "it holds no GPU: only streams of /device:GPU are read".to_owned();
        return Err(IngestErrorKind::Empty(message).into());
    }
    let pass = session.add_pass(&file.pass, PassKind::Timeline, &file.path);
    session.passes.producer[pass.index()] = session.intern("XLA profiler");
    session.passes.rank[pass.index()] = file.rank;
    let process = session.process(pass, 0, 0);
    session.processes.rank[process.index()] = file.rank;
    let (calls, (events, untimed)) = (session.api_calls.len(), (trace.events, trace.untimed));
    let mut lanes = Lanes {
        pass,
        streams: streams(&trace),
        trace,
        session,
    };
    lanes.commit();
    rooflens_session::mark_nested(&mut session.api_calls, calls);
    let mut say = |severity, code, message: &str, count| {
        let diagnostic = Diagnostic::new(severity, code, message).artifact(&file.path);
        diagnostics.push(diagnostic.times(count));
    };
    if untimed > 0 {
        say(
            Severity::DataLoss,
            "xla/event",
            "events without a sound time are skipped",
            untimed,
        );
    }
    if events >= MOST_EVENTS {
        let message =
            "the trace has a million events, the most that XLA writes: others are missing";
        say(Severity::DataLoss, "xla/limit", message, 1);
    }
    Ok(())
}

/// The number of a GPU by the name of its process.
fn device(name: &str) -> Option<u32> {
    name.split_once(DEVICE)?
        .1
        .trim()
        .parse()
        .ok()
        .filter(|number| *number < 0x1_0000)
}

/// Device and stream of the threads that are streams.
fn streams(trace: &Trace<'_>) -> FxHashMap<(i64, i64), (u32, u64)> {
    let mut streams = FxHashMap::default();
    for ((pid, tid), name) in &trace.threads {
        let device = trace.processes.get(pid).and_then(|name| device(name));
        let number = name.strip_prefix(STREAM).and_then(|rest| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest[..digits].parse().ok()
        });
        if let (Some(device), Some(stream)) = (device, number) {
            streams.insert((*pid, *tid), (device, stream));
        }
    }
    streams
}

struct Lanes<'a, 's> {
    pass: PassId,
    streams: FxHashMap<(i64, i64), (u32, u64)>,
    trace: Trace<'a>,
    session: &'s mut Session,
}

impl Lanes<'_, '_> {
    fn commit(&mut self) {
        let mut rows = std::mem::take(&mut self.trace.rows);
        rows.sort_by_key(|row| (row.start, row.pid, row.tid));
        for row in &rows {
            match self.streams.get(&(row.pid, row.tid)).copied() {
                Some(stream) => self.work(row, stream),
                None if self.trace.is_host(row.pid) => self.host(row),
                None => {}
            }
        }
    }

    fn work(&mut self, row: &Row<'_>, (device, stream): (u32, u64)) {
        let pass = self.pass;
        let (gpu, process) = (
            self.session.gpu(pass, device),
            self.session.process(pass, 0, 0),
        );
        let Row {
            start,
            end,
            correlation,
            ..
        } = *row;
        let (graph_node, graph) = (None, None);
        match &row.event {
            Event::Copy(details) => {
                let kinds = ["kind_src", "kind_dst"].map(|key| field(details, key).unwrap_or(""));
                let [source, destination] = kinds.map(MemoryKind::of_name);
                let Some(bytes) = field(details, "size").and_then(|size| size.parse().ok()) else {
                    return;
                };
                let kind = copy_kind(&row.name, source, destination);
                self.session.copies.push(Copy {
                    start,
                    end,
                    kind,
                    bytes,
                    source,
                    destination,
                    pass,
                    gpu,
                    process,
                    stream,
                    correlation,
                    graph_node,
                    graph,
                });
            }
            Event::Kernel(details) => {
                let number = |key| field(details, key).and_then(|value| value.parse::<u32>().ok());
                let shared = number("static_shared").zip(number("dynamic_shared"));
                let kernel = self.session.kernel(&row.name, "");
                self.session.launches.push(Launch {
                    start,
                    end,
                    kernel,
                    pass,
                    gpu,
                    process,
                    stream,
                    correlation,
                    grid: dim(details, "grid"),
                    block: dim(details, "block"),
                    registers: number("regs"),
                    shared_bytes: shared.map(|(fixed, dynamic)| fixed.saturating_add(dynamic)),
                    graph_node,
                    graph,
                });
            }
            Event::Step(_) | Event::Other => {}
        }
    }

    fn host(&mut self, row: &Row<'_>) {
        let pass = self.pass;
        let process = self.session.process(pass, 0, 0);
        let Row {
            start,
            end,
            correlation,
            ..
        } = *row;
        if let Event::Step(number) = row.event {
            let thread = self.session.thread(process, row.tid);
            // As it is named where a timeline of nsys shows it.
            let name = self
                .session
                .intern(&format!("{}#step_num={number}#", row.name));
            let (domain, kind) = (StrId::default(), RangeKind::Annotation);
            let range = Range {
                start,
                end,
                name,
                domain,
                kind,
                unclosed: false,
                pass,
                thread,
            };
            self.session.ranges.push(range);
        } else if correlation.is_some() && row.name.starts_with("cu") {
            let thread = self.session.thread(process, row.tid);
            let name = self.session.intern(without_abi_suffix(&row.name));
            let level = ApiLevel::Driver;
            let call = ApiCall {
                start,
                end,
                name,
                level,
                nested: false,
                pass,
                process,
                thread,
                correlation,
            };
            self.session.api_calls.push(call);
        }
    }
}

/// The value of a key in `key:value key:value`.
fn field<'d>(details: &'d str, key: &str) -> Option<&'d str> {
    details
        .split_ascii_whitespace()
        .find_map(|part| part.strip_prefix(key)?.strip_prefix(':'))
}

fn dim(details: &str, key: &str) -> Dim3 {
    let mut sizes = field(details, key).unwrap_or("").split(',');
    let mut next = || sizes.next().and_then(|size| size.parse().ok()).unwrap_or(0);
    Dim3 {
        x: next(),
        y: next(),
        z: next(),
    }
}

/// By the name that XLA gives the operation, such as `MemcpyH2D`.
fn copy_kind(name: &str, source: MemoryKind, destination: MemoryKind) -> CopyKind {
    use MemoryKind::{Device, Pageable, Pinned};
    match (name, source, destination) {
        ("MemcpyH2D", ..) | (_, Pageable | Pinned, Device) => CopyKind::HostToDevice,
        ("MemcpyD2H", ..) | (_, Device, Pageable | Pinned) => CopyKind::DeviceToHost,
        ("MemcpyP2P", ..) => CopyKind::PeerToPeer,
        ("MemcpyD2D", ..) | (_, Device, Device) => CopyKind::DeviceToDevice,
        ("MemcpyH2H", ..) => CopyKind::HostToHost,
        _ => CopyKind::Unknown,
    }
}

#[cfg(test)]
mod tests;
