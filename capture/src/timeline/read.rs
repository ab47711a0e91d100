//! The tables of an export as a session.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::path::Path;

use rooflens_exports::nsys::{
    self, CALL_COLUMNS, CALLS, COPY_COLUMNS, CallRow, CopyRow, EVENT_COLUMNS, EVENTS, Event,
    GRAPH_COLUMNS, GRAPHS, GraphRow, KERNEL_COLUMNS, KERNELS, KernelRow, MEMCPYS, MEMSETS, Names,
    SESSION_START_COLUMNS, SESSION_STARTS, STRING_COLUMNS, STRINGS, Work,
};
use rooflens_exports::{BadRows, Cells, MAX_GPUS, Row, RowError, Want, pick};
use rooflens_schemas::PassKind;
use rooflens_session::{ApiCall, GpuId, Ns, ProcessId, Session, StrId, mark_nested};
use rooflens_sqlite_pages::Journal;

use super::{PASS, Timeline};
use crate::redact::{Database, Schema};

/// The open export.
struct Reader {
    database: Database,
    schema: Schema,
    /// What is skipped, and why.
    notes: Vec<String>,
}

/// Reads an export.
///
/// # Errors
/// It cannot be read, is none of nsys, or only SQLite can read it.
pub(super) fn read(path: &Path) -> io::Result<Timeline> {
    if let Some(journal) = Journal::find(path) {
        let ending = journal.ending();
        return Err(invalid(format!(
            "its writer was stopped before the end, because a journal ({ending}) is there: export the report again"
        )));
    }
    let database = Database::open_to_read(path)?;
    let schema = database.schema()?;
    let mut reader = Reader {
        database,
        schema,
        notes: Vec::new(),
    };
    if !nsys::is_export(|table| reader.has(table)) {
        return Err(invalid("none of its tables is one of Nsight Systems"));
    }
    let mut timeline = Timeline::default();
    timeline.session.add_pass("nsys", PassKind::Timeline, "");
    // The order of the analyzer's importer: it numbers processes, threads and kernels.
    let mut names = reader.strings()?;
    reader.kernels(&mut timeline, &names)?;
    let session = &mut timeline.session;
    reader.copies(session, MEMCPYS, CopyRow::memcpy)?;
    reader.copies(session, MEMSETS, CopyRow::memset)?;
    reader.graphs(session)?;
    reader.calls(session)?;
    reader.ranges(session, &mut names)?;
    timeline.origin = reader.origin();
    timeline.notes = reader.notes;
    Ok(timeline)
}

fn invalid(reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

/// Process and GPU of a row.
fn ids(session: &mut Session, work: &Work) -> (ProcessId, GpuId) {
    let process = nsys::process(session, PASS, work.process);
    (process, session.gpu(PASS, work.device))
}

/// Refuses a table of work of more processes than a machine runs.
fn few_processes(processes: &HashSet<i64>) -> io::Result<()> {
    let count = processes.len();
    if count <= MAX_GPUS {
        return Ok(());
    }
    Err(invalid(format!(
        "the number of processes is {count}, expected at most {MAX_GPUS}"
    )))
}

impl Reader {
    /// Whether the export has a table.
    fn has(&self, table: &str) -> bool {
        let tables = self.schema.tables.iter().map(|table| &table.name);
        let mut names = tables.chain(&self.schema.unreadable);
        names.any(|name| name == table)
    }

    /// Calls `each` for the rows of a table. A row for which it fails is skipped and noted.
    fn scan(
        &mut self,
        name: &str,
        wants: &[Want],
        mut each: impl FnMut(&Row<'_>) -> Result<(), RowError>,
    ) -> io::Result<()> {
        if !self.has(name) {
            return Ok(());
        }
        let table = self.schema.tables.iter().find(|table| table.name == name);
        let Some(table) = table.filter(|table| table.is_plain) else {
            return Err(invalid(format!("{name} is no ordinary table")));
        };
        let picks = pick(name, &table.columns, wants).map_err(invalid)?;
        let mut bad = BadRows::default();
        self.database.rows(table, |record| {
            let cells = Cells::Record {
                record,
                picks: &picks,
                rowid: table.rowid,
            };
            if let Err(error) = each(&Row { cells, wants }) {
                bad.add(record.rowid, &error);
            }
            Ok(())
        })?;
        if let Some((message, count)) = bad.message(name) {
            self.notes.push(format!("{message} ({count} in all)"));
        }
        Ok(())
    }

    fn strings(&mut self) -> io::Result<Names> {
        let mut strings: Vec<(i64, Box<str>)> = Vec::new();
        self.scan(STRINGS, &STRING_COLUMNS, |row| {
            strings.extend(nsys::string(row)?.map(|(id, text)| (id, text.into())));
            Ok(())
        })?;
        Ok(strings.into_iter().collect())
    }

    fn kernels(&mut self, timeline: &mut Timeline, names: &Names) -> io::Result<()> {
        let mangled_name = KERNEL_COLUMNS.len();
        let mut wants = KERNEL_COLUMNS.to_vec();
        wants.push(Want::May(&["mangledName"]));
        let session = &mut timeline.session;
        let (mut processes, mut kernels) = (HashSet::new(), HashMap::new());
        self.scan(KERNELS, &wants, |row| {
            let launch = KernelRow::read(row)?;
            processes.insert(launch.work.process);
            let (name, short) = (launch.name, launch.short);
            let kernel = *kernels
                .entry((name, short))
                .or_insert_with(|| session.kernel(&names.text(name), &names.text(short)));
            if timeline.mangled.len() <= kernel.index() {
                let id = row.maybe(mangled_name).unwrap_or_default();
                let mangled = id.and_then(|id| names.get(id)).map(str::to_owned);
                timeline.mangled.push(mangled);
            }
            let ids = ids(session, &launch.work);
            session.launches.push(launch.launch(PASS, ids, kernel));
            Ok(())
        })?;
        few_processes(&processes)
    }

    fn copies(
        &mut self,
        session: &mut Session,
        table: &str,
        read: fn(&Row<'_>) -> Result<CopyRow, RowError>,
    ) -> io::Result<()> {
        let mut processes = HashSet::new();
        self.scan(table, &COPY_COLUMNS, |row| {
            let copy = read(row)?;
            processes.insert(copy.work.process);
            let ids = ids(session, &copy.work);
            session.copies.push(copy.copy(PASS, ids));
            Ok(())
        })?;
        few_processes(&processes)
    }

    fn graphs(&mut self, session: &mut Session) -> io::Result<()> {
        let mut processes = HashSet::new();
        self.scan(GRAPHS, &GRAPH_COLUMNS, |row| {
            let graph = GraphRow::read(row)?;
            processes.insert(graph.work.process);
            let ids = ids(session, &graph.work);
            session.graph_launches.push(graph.launch(PASS, ids));
            Ok(())
        })?;
        few_processes(&processes)
    }

    fn calls(&mut self, session: &mut Session) -> io::Result<()> {
        self.scan(CALLS, &CALL_COLUMNS, |row| {
            let call = CallRow::read(row)?;
            let thread = nsys::thread(session, PASS, call.thread);
            session.api_calls.push(ApiCall {
                start: call.start,
                end: call.end,
                // No stage depends on it.
                name: StrId::default(),
                level: call.level,
                nested: false,
                pass: PASS,
                process: session.threads.process[thread.index()],
                thread,
                correlation: call.correlation,
            });
            Ok(())
        })?;
        mark_nested(&mut session.api_calls, 0);
        Ok(())
    }

    fn ranges(&mut self, session: &mut Session, names: &mut Names) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::new();
        self.scan(EVENTS, &EVENT_COLUMNS, |row| {
            events.extend(Event::read(row)?);
            Ok(())
        })?;
        nsys::add_ranges(session, PASS, names, &events);
        Ok(())
    }

    /// When the export begins. No stage depends on it.
    fn origin(&mut self) -> Option<Ns> {
        let mut origin = None;
        let read = self.scan(SESSION_STARTS, &SESSION_START_COLUMNS, |row| {
            origin = row.maybe_time(0)?.or(origin);
            Ok(())
        });
        if let Err(error) = read {
            self.notes.push(format!("a table is skipped: {error}"));
        }
        origin
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_the_injected_modules_are_no_ranges_of_the_workload() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timeline.sqlite");
        let export = rusqlite::Connection::open(&path).unwrap();
        let rows =
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
                globalTid INTEGER, domainId INTEGER);
            INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 'NCCL', 1, 7),
                (1, 9, 60, 'rooflens:call decode batch=4', 1, 0), (2, 8, 59, 'step', 1, 0),
                (3, 4, 60, 'rooflens:gc generation 0', 1, 0), (5, 6, 59, 'ncclAllReduce', 1, 7)";
        export.execute_batch(rows).unwrap();
        let session = read(&path).unwrap().session;
        let names = |ids: &[StrId]| -> Vec<String> {
            ids.iter().map(|id| session.text(*id).to_owned()).collect()
        };
        let ranges = &session.ranges;
        assert_eq!(
            names(&ranges.name),
            ["step", "gc generation 0", "ncclAllReduce"]
        );
        assert_eq!(names(&ranges.domain), ["", "rooflens", "NCCL"]);
    }
}
