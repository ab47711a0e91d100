//! The tables of an export as a session.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rooflens_schemas::PassKind;
use rooflens_session::{
    ApiCall, ApiLevel, Copy, CopyKind, Dim3, GpuId, GraphLaunch, Launch, MAX_DURATION, MAX_TIME,
    MemoryKind, Ns, ProcessId, Range, RangeKind, Session, StrId, ThreadId, mark_nested,
};
use rooflens_sqlite_pages::Record;

use super::{PASS, Timeline};
use crate::redact::{Database, Table};

/// Event types of `NVTX_EVENTS`, the same in all versions.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN: i64 = 75;

/// The low bits of a global id: the thread. Those of the process follow.
const THREAD: i64 = 0xff_ffff;
const PROCESS_BITS: u32 = 24;

/// The open export.
struct Reader {
    database: Database,
    tables: Vec<Table>,
    strings: HashMap<i64, String>,
}

/// A row with the columns of its table by name; those that a version does not have read as nothing.
struct Row<'a>(&'a Table, &'a Record<'a>);

impl Row<'_> {
    fn int(&self, name: &str) -> Option<i64> {
        self.1.value(self.0.column(name)?).int()
    }

    fn time(&self, name: &str) -> Option<Ns> {
        self.int(name).map(Ns)
    }

    /// 0 where the version has no such column; nothing where the row has no number.
    fn int_or_no_column(&self, name: &str) -> Option<i64> {
        match self.0.column(name) {
            Some(column) => self.1.value(column).int(),
            None => Some(0),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.1.value(self.0.column(name)?).text()
    }

    /// Start and end, unless they are no times of a capture.
    fn interval(&self) -> Option<(Ns, Ns)> {
        let (start, end) = (self.time("start")?, self.time("end")?);
        let is_valid = start >= -MAX_TIME && (start..=MAX_TIME).contains(&end);
        (is_valid && end - start <= MAX_DURATION).then_some((start, end))
    }

    /// A count that fits 32 bits; 0 where there is none.
    fn count(&self, name: &str) -> u32 {
        let count = self.int(name).unwrap_or(0);
        u32::try_from(count).unwrap_or(0)
    }

    fn dimensions(&self, [x, y, z]: [&str; 3]) -> Dim3 {
        let (x, y, z) = (self.count(x), self.count(y), self.count(z));
        Dim3 { x, y, z }
    }
}

/// The columns that all tables of GPU work have in common.
struct Work {
    start: Ns,
    end: Ns,
    process: ProcessId,
    gpu: GpuId,
    stream: u64,
    correlation: Option<i64>,
}

impl Work {
    fn of(session: &mut Session, row: &Row<'_>) -> Option<Self> {
        let (start, end) = row.interval()?;
        let device = u32::try_from(row.int_or_no_column("deviceId")?).ok()?;
        let stream = row.int_or_no_column("streamId")? as u64;
        let process = process(session, row.int("globalPid").unwrap_or(0));
        let (gpu, correlation) = (session.gpu(PASS, device), row.int("correlationId"));
        Some(Self {
            start,
            end,
            process,
            gpu,
            stream,
            correlation,
        })
    }
}

fn process(session: &mut Session, global: i64) -> ProcessId {
    session.process(PASS, global & !THREAD, (global >> PROCESS_BITS) & THREAD)
}

fn thread(session: &mut Session, global: i64) -> ThreadId {
    let process = process(session, global);
    session.thread(process, global & THREAD)
}

pub(super) fn read(path: &Path) -> io::Result<Timeline> {
    let database = Database::open(path)?;
    let tables = database.schema()?.tables;
    let mut reader = Reader {
        database,
        tables,
        strings: HashMap::new(),
    };
    reader.strings = reader.strings()?;
    let mut timeline = Timeline::default();
    timeline.session.add_pass("nsys", PassKind::Timeline, "");
    reader.kernels(&mut timeline)?;
    let session = &mut timeline.session;
    reader.copies(session)?;
    reader.graphs(session)?;
    reader.calls(session)?;
    reader.ranges(session)?;
    reader.rows("TARGET_INFO_SESSION_START_TIME", |row| {
        timeline.origin = row.time("utcEpochNs").or(timeline.origin);
    })?;
    Ok(timeline)
}

impl Reader {
    fn rows(&self, table: &str, mut each: impl FnMut(&Row<'_>)) -> io::Result<()> {
        let Some(table) = self.tables.iter().find(|known| known.name == table) else {
            return Ok(());
        };
        self.database.rows(table, |record| {
            each(&Row(table, record));
            Ok(())
        })
    }

    fn strings(&self) -> io::Result<HashMap<i64, String>> {
        let mut strings = HashMap::new();
        self.rows("StringIds", |row| {
            if let Some(text) = row.text("value") {
                // The column of an integer primary key is the row id, and empty in the record.
                strings.insert(row.int("id").unwrap_or(row.1.rowid), text.to_owned());
            }
        })?;
        Ok(strings)
    }

    /// The text of an id; a number in angle brackets for an id that the file does not explain.
    fn string(&self, id: i64) -> String {
        let text = self.strings.get(&id).cloned();
        text.unwrap_or_else(|| format!("<string {id}>"))
    }

    fn kernels(&self, timeline: &mut Timeline) -> io::Result<()> {
        let Timeline {
            session, mangled, ..
        } = timeline;
        let mut kernels = HashMap::new();
        self.rows("CUPTI_ACTIVITY_KIND_KERNEL", |row| {
            let Some(name) = row.int("demangledName") else {
                return;
            };
            let Some(work) = Work::of(session, row) else {
                return;
            };
            let short = row.int("shortName").unwrap_or(name);
            let kernel = *kernels
                .entry((name, short))
                .or_insert_with(|| session.kernel(&self.string(name), &self.string(short)));
            if mangled.len() <= kernel.index() {
                let id = row.int("mangledName");
                mangled.push(id.and_then(|id| self.strings.get(&id).cloned()));
            }
            let (fixed, dynamic) = (
                row.count("staticSharedMemory"),
                row.count("dynamicSharedMemory"),
            );
            session.launches.push(Launch {
                start: work.start,
                end: work.end,
                kernel,
                pass: PASS,
                gpu: work.gpu,
                process: work.process,
                stream: work.stream,
                correlation: work.correlation,
                grid: row.dimensions(["gridX", "gridY", "gridZ"]),
                block: row.dimensions(["blockX", "blockY", "blockZ"]),
                registers: None,
                shared_bytes: Some(fixed.saturating_add(dynamic)),
                graph_node: None,
                graph: None,
            });
        })
    }

    fn copies(&self, session: &mut Session) -> io::Result<()> {
        for table in ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"] {
            self.rows(table, |row| {
                let Some(bytes) = row.int("bytes").and_then(|bytes| u64::try_from(bytes).ok())
                else {
                    return;
                };
                if let Some(work) = Work::of(session, row) {
                    session.copies.push(Copy {
                        start: work.start,
                        end: work.end,
                        kind: CopyKind::Unknown,
                        bytes,
                        source: MemoryKind::Unknown,
                        destination: MemoryKind::Unknown,
                        pass: PASS,
                        gpu: work.gpu,
                        process: work.process,
                        stream: work.stream,
                        correlation: work.correlation,
                        graph_node: None,
                        graph: None,
                    });
                }
            })?;
        }
        Ok(())
    }

    fn graphs(&self, session: &mut Session) -> io::Result<()> {
        self.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", |row| {
            if let Some(work) = Work::of(session, row) {
                session.graph_launches.push(GraphLaunch {
                    start: work.start,
                    end: work.end,
                    pass: PASS,
                    gpu: work.gpu,
                    process: work.process,
                    stream: work.stream,
                    correlation: work.correlation,
                    graph: None,
                });
            }
        })
    }

    fn calls(&self, session: &mut Session) -> io::Result<()> {
        self.rows("CUPTI_ACTIVITY_KIND_RUNTIME", |row| {
            let (Some((start, end)), Some(global)) = (row.interval(), row.int("globalTid")) else {
                return;
            };
            let thread = thread(session, global);
            session.api_calls.push(ApiCall {
                start,
                end,
                name: StrId::default(),
                level: ApiLevel::Runtime,
                nested: false,
                pass: PASS,
                process: session.threads.process[thread.index()],
                thread,
                correlation: row.int("correlationId"),
            });
        })?;
        mark_nested(&mut session.api_calls, 0);
        Ok(())
    }

    /// Pushed and started ranges. One that was never closed ends with the capture.
    fn ranges(&self, session: &mut Session) -> io::Result<()> {
        let mut domains: HashMap<(i64, i64), StrId> = HashMap::new();
        let mut domain_of_range = Vec::new();
        let mut last = Ns::ZERO;
        self.rows("NVTX_EVENTS", |row| {
            let (Some(kind), Some(start)) = (row.int("eventType"), row.time("start")) else {
                return;
            };
            let end = row.time("end");
            let is_event = matches!(kind, PUSH_POP | START_END | DOMAIN);
            let is_valid = end.is_none_or(|end| (start..=MAX_TIME).contains(&end));
            if !is_event || !is_valid || start < -MAX_TIME || start > MAX_TIME {
                return;
            }
            let text = row.text("text").map(str::to_owned);
            let text = text.or_else(|| row.int("textId").map(|id| self.string(id)));
            let name = session.intern(&text.unwrap_or_default());
            let global = row.int("globalTid").unwrap_or(0);
            let domain = (global & !THREAD, row.int("domainId").unwrap_or(0));
            last = last.max(end.unwrap_or(start));
            if kind == DOMAIN {
                domains.insert(domain, name);
                return;
            }
            domain_of_range.push(domain);
            let kind = match kind {
                PUSH_POP => RangeKind::PushPop,
                _ => RangeKind::StartEnd,
            };
            let thread = thread(session, global);
            session.ranges.push(Range {
                start,
                end: end.unwrap_or(start),
                name,
                domain: StrId::default(),
                kind,
                unclosed: end.is_none(),
                pass: PASS,
                thread,
            });
        })?;
        for ends in [
            &session.launches.end,
            &session.copies.end,
            &session.graph_launches.end,
            &session.api_calls.end,
        ] {
            last = ends.iter().copied().fold(last, Ns::max);
        }
        for (row, domain) in domain_of_range.iter().enumerate() {
            session.ranges.domain[row] = domains.get(domain).copied().unwrap_or_default();
            if session.ranges.unclosed[row] {
                session.ranges.end[row] = last.max(session.ranges.start[row]);
            }
        }
        Ok(())
    }
}
