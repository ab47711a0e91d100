//! The rows of a file into the tables of the session.

use std::mem::take;

use super::backward::{Ties, ties};
use super::calls::nested;
use super::copies::{copy_kind, memory_kinds};
use super::host::{Host, Joins};
use super::rows::{FileRows, GpuSpan, Rows, Span};
use crate::abi::without_abi_suffix;
use rooflens_session::{
    ApiCall, BackwardOperator, Collective, Copy, Frame, GpuId, KernelId, Launch, LaunchId,
    MemoryEvent, Operator, OperatorId, PassId, Range, RangeKind, Session, StrId, Synchronization,
    ThreadId,
};

/// Counts for the diagnostics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SectionContent {
    pub(super) joins: Joins,
    /// Copies whose size is not written.
    pub(super) unsized_copies: u64,
    /// Kernels and copies.
    pub(super) gpu_operations: u64,
    /// Backward operators without a forward one, and those with several.
    pub(super) untied: (u64, u64),
}

/// Adds all rows.
pub(super) fn commit(file: FileRows, pass: PassId, session: &mut Session) -> SectionContent {
    let host = Host::commit(&file, pass, session);
    let mut file = file;
    let ties = ties(&file.rows, &file.lanes);
    let rows = take(&mut file.rows);
    let texts = vec![None; file.texts.len()];
    let kernels = vec![None; file.texts.len()];
    let findings = SectionContent::default();
    let mut tables = Tables {
        file,
        host,
        pass,
        session,
        texts,
        kernels,
        findings,
    };
    tables.backward(ties);
    tables.add(rows);
    tables.findings
}

struct Tables<'a> {
    file: FileRows,
    host: Host,
    pass: PassId,
    session: &'a mut Session,
    /// Texts that were interned already.
    texts: Vec<Option<StrId>>,
    /// Texts that were met as kernel names.
    kernels: Vec<Option<KernelId>>,
    findings: SectionContent,
}

impl Tables<'_> {
    fn add(&mut self, rows: Rows) {
        self.findings.gpu_operations = (rows.kernels.len() + rows.copies.len()) as u64;
        self.findings.joins.shared = shared(&rows);
        let first = self.session.launches.len();
        self.launches(rows.kernels);
        self.collectives(rows.collectives, first);
        self.copies(rows.copies);
        self.syncs(rows.syncs);
        self.calls(rows.calls);
        self.operators(rows.operators);
        self.ranges(rows.annotations);
        self.frames(rows.frames);
        self.memory(rows.memory);
    }

    fn launches(&mut self, rows: Vec<super::rows::KernelRow>) {
        self.session.launches.reserve(rows.len());
        for row in rows {
            let GpuSpan {
                span,
                stream,
                correlation,
                graph_node,
                graph,
                ..
            } = row.gpu;
            let process = self.host.launcher(&row.gpu, &mut self.findings.joins);
            let launch = Launch {
                start: span.start,
                end: span.end,
                kernel: self.kernel(span.name),
                pass: self.pass,
                gpu: self.gpu(&row.gpu),
                process,
                stream: stream.unwrap_or(0),
                correlation,
                grid: row.grid,
                block: row.block,
                registers: row.registers,
                shared_bytes: row.shared_bytes,
                graph_node,
                graph,
            };
            self.session.launches.push(launch);
        }
    }

    /// `first` is the launch that the file's first kernel became.
    fn collectives(&mut self, rows: Vec<super::rows::CollectiveRow>, first: usize) {
        for row in rows {
            let size = element_size(self.file.text(row.dtype));
            let bytes =
                |elements: Option<u64>| elements.zip(size).and_then(|(n, s)| n.checked_mul(s));
            let collective = Collective {
                launch: LaunchId::at(first + row.kernel),
                operation: self.text(row.operation),
                dtype: self.text(row.dtype),
                bytes_in: bytes(row.elements_in),
                bytes_out: bytes(row.elements_out),
                group_size: row.group_size,
                group: self.text(row.group),
                ranks: self.text(row.ranks),
                sequence: row.sequence,
                rank: None,
                peer: row.peer,
            };
            self.session.collectives.push(collective);
        }
    }

    fn copies(&mut self, rows: Vec<super::rows::CopyRow>) {
        for row in rows {
            let GpuSpan {
                span,
                stream,
                correlation,
                graph_node,
                graph,
                ..
            } = row.gpu;
            let process = self.host.launcher(&row.gpu, &mut self.findings.joins);
            self.findings.unsized_copies += u64::from(row.bytes.is_none());
            let name = self.file.text(span.name);
            let (source, destination) = memory_kinds(name, row.memset);
            let copy = Copy {
                start: span.start,
                end: span.end,
                kind: copy_kind(name, row.memset),
                bytes: row.bytes.unwrap_or(0),
                source,
                destination,
                pass: self.pass,
                gpu: self.gpu(&row.gpu),
                process,
                stream: stream.unwrap_or(0),
                correlation,
                graph_node,
                graph,
            };
            self.session.copies.push(copy);
        }
    }

    fn syncs(&mut self, rows: Vec<super::rows::SyncRow>) {
        for row in rows {
            let GpuSpan {
                span,
                stream,
                correlation,
                ..
            } = row.gpu;
            let kind = sync_kind(self.file.text(span.name));
            let synchronization = Synchronization {
                start: span.start,
                end: span.end,
                kind: self.session.intern(&kind),
                pass: self.pass,
                process: self.host.waiter(&row.gpu),
                stream,
                correlation,
            };
            self.session.synchronizations.push(synchronization);
        }
    }

    fn calls(&mut self, rows: Vec<super::rows::CallRow>) {
        self.session.api_calls.reserve(rows.len());
        let nested = nested(&rows);
        for (row, nested) in rows.into_iter().zip(nested) {
            let Some((process, thread)) = self.host.thread(row.span.lane) else {
                continue;
            };
            let name = without_abi_suffix(self.file.text(row.span.name));
            let call = ApiCall {
                start: row.span.start,
                end: row.span.end,
                name: self.session.intern(name),
                level: row.level,
                nested,
                pass: self.pass,
                process,
                thread,
                correlation: row.correlation,
            };
            self.session.api_calls.push(call);
        }
    }

    fn operators(&mut self, rows: Vec<super::rows::OperatorRow>) {
        self.session.operators.reserve(rows.len());
        for row in rows {
            let Some((name, thread)) = self.place(&row.span) else {
                continue;
            };
            let operator = Operator {
                start: row.span.start,
                end: row.span.end,
                name,
                pass: self.pass,
                thread,
                external: row.external,
                shapes: self.text(row.shapes),
                strides: self.text(row.strides),
                types: self.text(row.types),
                inputs: self.text(row.inputs),
            };
            self.session.operators.push(operator);
        }
    }

    /// Comes before the operators: rows of the file follow those of the session.
    fn backward(&mut self, ties: Ties) {
        self.findings.untied = (ties.missing, ties.ambiguous);
        let first = self.session.operators.len();
        for (operator, forward) in ties.pairs {
            let [operator, forward] = [operator, forward].map(|row| OperatorId::at(first + row));
            self.session
                .backward_operators
                .push(BackwardOperator { operator, forward });
        }
    }

    fn ranges(&mut self, rows: Vec<Span>) {
        for span in rows {
            let Some((name, thread)) = self.place(&span) else {
                continue;
            };
            let (start, end, pass) = (span.start, span.end, self.pass);
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
            self.session.add_range(range);
        }
    }

    fn frames(&mut self, rows: Vec<Span>) {
        self.session.frames.reserve(rows.len());
        for span in rows {
            let Some((name, thread)) = self.place(&span) else {
                continue;
            };
            let (start, end, pass) = (span.start, span.end, self.pass);
            self.session.frames.push(Frame {
                start,
                end,
                name,
                pass,
                thread,
            });
        }
    }

    fn memory(&mut self, rows: Vec<super::rows::MemoryRow>) {
        self.session.memory_events.reserve(rows.len());
        for row in rows {
            let event = MemoryEvent {
                time: row.time,
                pass: self.pass,
                thread: self.host.thread(row.lane).map(|(_, thread)| thread),
                device: row.device,
                address: row.address,
                bytes: row.bytes,
                allocated: row.allocated,
                reserved: row.reserved,
            };
            self.session.memory_events.push(event);
        }
    }

    /// Name and thread of a host event; all lanes of such events have threads.
    fn place(&mut self, span: &Span) -> Option<(StrId, ThreadId)> {
        let (_, thread) = self.host.thread(span.lane)?;
        Some((self.text(span.name), thread))
    }

    fn text(&mut self, text: u32) -> StrId {
        let (file, session) = (&self.file, &mut *self.session);
        *self.texts[text as usize].get_or_insert_with(|| session.intern(file.text(text)))
    }

    fn kernel(&mut self, text: u32) -> KernelId {
        let (file, session) = (&self.file, &mut *self.session);
        *self.kernels[text as usize].get_or_insert_with(|| session.kernel(file.text(text), ""))
    }

    fn gpu(&mut self, gpu: &GpuSpan) -> GpuId {
        self.session.gpu(self.pass, gpu.device.unwrap_or(0))
    }
}

/// Operations that share their correlation id with one before them.
fn shared(rows: &Rows) -> u64 {
    let kernels = rows.kernels.iter().map(|row| &row.gpu);
    let operations = kernels.chain(rows.copies.iter().map(|row| &row.gpu));
    let mut ids: Vec<i64> = operations.filter_map(|gpu| gpu.correlation).collect();
    let operations = ids.len();
    ids.sort();
    ids.dedup();
    (operations - ids.len()) as u64
}

/// Bytes of an element by the name of its `c10::ScalarType`.
fn element_size(dtype: &str) -> Option<u64> {
    let size = match dtype {
        "Double" | "Long" | "ComplexFloat" | "UInt64" => 8,
        "Float" | "Int" | "ComplexHalf" | "UInt32" => 4,
        "BFloat16" | "Half" | "Short" | "UInt16" => 2,
        "Byte" | "Char" | "Bool" => 1,
        "ComplexDouble" => 16,
        eight_bits if eight_bits.starts_with("Float8") => 1,
        _ => return None,
    };
    Some(size)
}

/// `cuda_sync_kind` in the words that all importers use.
fn sync_kind(kind: &str) -> String {
    match kind {
        "Stream Sync" | "Stream Synchronize" => "stream synchronize".to_owned(),
        "Event Sync" | "Event Synchronize" => "event synchronize".to_owned(),
        "Context Sync" | "Context Synchronize" => "context synchronize".to_owned(),
        other => other.to_lowercase(),
    }
}
