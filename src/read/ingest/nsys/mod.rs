//! Nsight Systems exports, 2020 to 2026: SQLite, and JSON Lines, of which SQLite is made first ([`json_lines`]).
//!
//! Tables and columns are probed, never assumed: nsys creates a table only when it has rows, and each
//! version adds, renames and reorders columns. What a report needs is read in parallel by rowid ranges;
//! everything else in the file is left alone.
//!
//! An export holds dozens of tables with millions of rows, and a report needs a few columns of some of them. One query
//! per table through SQLite was rejected, because stepping rows costs more than decoding the pages.
//! Every other form of export becomes an SQLite file first, so one reader defines the meaning of each column. Ids of
//! names, threads and kernels stay local to a chunk and are made global in chunk order, so the rows are deterministic.

mod call_stacks;
mod collectives;
mod counters;
mod host;
mod info;
mod json_lines;
mod local_keys;
mod made;
pub mod parquet;
mod payloads;
mod ranges;
mod scheduling;
mod system;
mod work;

use std::collections::BTreeSet;

use rooflens_exports::nsys::{self, Names, STRING_COLUMNS, STRINGS};
use rooflens_schemas::{ArtifactKind, PassKind, marks};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::{ArtifactFile, Content};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{PassId, ProcessId, Session, StrId};
use rooflens_sqlite_pages::Journal;

use crate::database::{BadRows, Database, Row, RowError, Settled, Want};
use info::Devices;
pub use made::{Cell, MadeExport};

/// Reads Nsight Systems SQLite exports.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NsysSqlite,
    sniff,
    import,
};

/// Bytes that a row takes in memory at the least, while its table is read.
const ROW_BYTES: u64 = 48;

/// An SQLite file is taken for an nsys export; one that is not is refused when its tables are seen,
/// because the schema of a large file lies beyond the first bytes.
fn sniff(prefix: &Prefix<'_>) -> bool {
    prefix.bytes.starts_with(b"SQLite format 3\0") || json_lines::sniff(prefix)
}

/// State that the readers of single tables share.
struct Import<'a> {
    file: &'a ArtifactFile,
    database: &'a Database,
    pass: PassId,
    names: Names,
    devices: Devices,
    /// Global ids of the threads that call CUDA.
    callers: FxHashSet<i64>,
    /// There is neither GPU work nor a CUDA call nor a range.
    host_only: bool,
    session: &'a mut Session,
    diagnostics: &'a mut Diagnostics,
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let content = file.content().map_err(IngestErrorKind::from)?;
    let start = content.prefix(16).map_err(IngestErrorKind::from)?;
    if start.trim_ascii_start().starts_with(b"{") {
        return import_json_lines(file, &content, session, diagnostics);
    }
    let plain = content.plain_file().map_err(IngestErrorKind::from)?;
    let settled = settle(&plain.path, file, diagnostics);
    let path = settled.as_ref().map_or(&plain.path, |copy| &copy.path);
    let database = Database::open(path, session.room() / ROW_BYTES)?;
    if !nsys::is_export(|table| database.has(table)) {
        let unknown = "an SQLite file, but none of its tables is one of Nsight Systems";
        let format = crate::unread::database(|table| database.has(table));
        let message = format.map_or(unknown.to_owned(), |(what, _)| {
            format!("{what} is not read")
        });
        let error = IngestError::from(IngestErrorKind::Unsupported(message));
        return Err(match format {
            Some((_, instead)) => error.hint(instead),
            None => error,
        });
    }
    let pass = session.add_pass(&file.pass, PassKind::Timeline, &file.path);
    let mut import = Import {
        file,
        database: &database,
        pass,
        names: Names::default(),
        devices: Devices::default(),
        callers: FxHashSet::default(),
        host_only: false,
        session,
        diagnostics,
    };
    import.names()?;
    import.facts();
    let work = import.work();
    let messages = import.messages();
    import.or_without(messages);
    work?;
    import.rank();
    // Ties of stages are decided by ids of processes and threads, so the tables that decide stages come first.
    import.api_calls()?;
    let payloads = import.ranges()?;
    import.graphs_and_waits();
    import.collectives(&payloads);
    import.host_only = import.is_host_only();
    import.rest();
    import.say_what_is_missing();
    Ok(())
}

/// Reads a table that decides no stage.
type ReadTable<'a> = fn(&mut Import<'a>) -> Result<(), IngestError>;

/// Reads a JSON Lines export through an SQLite export in a temporary folder.
fn import_json_lines(
    file: &ArtifactFile,
    content: &Content,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let folder = tempfile::Builder::new().prefix("rooflens-nsys-").tempdir();
    let folder = folder.map_err(IngestErrorKind::from)?;
    let location = folder.path().join("export.sqlite");
    let losses = json_lines::to_sqlite(content, &location)?;
    import(
        &ArtifactFile {
            location,
            inflation: None,
            ..file.clone()
        },
        session,
        diagnostics,
    )?;
    losses
        .into_iter()
        .for_each(|loss| diagnostics.push(loss.artifact(&file.path)));
    Ok(())
}

/// A copy of an export with its journal applied, as SQLite would read it. The export itself is not written.
fn settle(
    path: &std::path::Path,
    file: &ArtifactFile,
    diagnostics: &mut Diagnostics,
) -> Option<Settled> {
    let journal = Journal::find(path)?;
    let settled = Settled::new(path, journal);
    let ending = journal.ending();
    let (severity, message) = match (&settled, journal) {
        (Err(error), _) => {
            let message = format!(
                "the journal ({ending}) next to the file cannot be used: {error}; the file is read as it is, and rows may be missing or wrong"
            );
            (Severity::DataLoss, message)
        }
        (Ok(_), Journal::Rollback) => {
            let message = format!(
                "its writer was stopped before the end, which the journal ({ending}) next to the file tells: what it had not committed is missing"
            );
            (Severity::DataLoss, message)
        }
        (Ok(_), Journal::Wal) => {
            let message =
                format!("what is only in the journal ({ending}) next to the file is read, too");
            (Severity::Notice, message)
        }
    };
    let advice = "close the program that has the file open, or export the report again";
    let diagnostic = Diagnostic::new(severity, "nsys/journal", message);
    diagnostics.push(diagnostic.artifact(&file.path).hint(advice));
    settled.ok()
}

impl<'a> Import<'a> {
    /// The rank that the manifest or the file's name states, if one process has all of the GPU work. If each of several
    /// has a GPU of its own, it is that of the first GPU, and those of the others follow, as launchers number them.
    fn rank(&mut self) {
        let Some(first) = self.file.rank else { return };
        let (session, pass) = (&mut *self.session, self.pass);
        let launches = &session.launches;
        let rows = (0..launches.len()).filter(|row| launches.pass[*row] == pass);
        let used = rows.map(|row| {
            (
                session.gpus.ordinal[launches.gpu[row].index()],
                launches.process[row],
            )
        });
        let used: BTreeSet<(u32, ProcessId)> = used.collect();
        let processes: BTreeSet<ProcessId> = used.iter().map(|(_, process)| *process).collect();
        let gpus: BTreeSet<u32> = used.iter().map(|(gpu, _)| *gpu).collect();
        let is_one_each = processes.len() == used.len() && gpus.len() == used.len();
        if processes.len() == 1 || is_one_each {
            session.passes.rank[pass.index()] = Some(first);
            for (rank, (_, process)) in (first..).zip(used) {
                session.processes.rank[process.index()].get_or_insert(rank);
            }
        }
    }

    /// True if nothing so far uses CUDA or marks ranges: then all of the host's side is of interest.
    fn is_host_only(&self) -> bool {
        let session = &self.session;
        let tables = [
            &session.launches.pass,
            &session.copies.pass,
            &session.graph_launches.pass,
            &session.api_calls.pass,
            &session.ranges.pass,
        ];
        !tables.iter().any(|table| table.contains(&self.pass))
    }

    fn names(&mut self) -> Result<(), IngestError> {
        let read_string = |out: &mut Vec<(i64, Box<str>)>, row: &Row<'_>| {
            out.extend(nsys::string(row)?.map(|(id, text)| (id, text.into())));
            Ok(())
        };
        let parts = self.scan(STRINGS, &STRING_COLUMNS, read_string)?;
        self.names = parts.into_iter().flatten().collect();
        if self.names.conflicts > 0 {
            let message = "strings have an id that another string has: names may be wrong";
            let loss = Diagnostic::new(Severity::DataLoss, "nsys/string-ids", message);
            let loss = loss.times(self.names.conflicts);
            self.diagnostics.push(loss.artifact(&self.file.path));
        }
        Ok(())
    }

    /// Reads everything that later tables refer to.
    fn facts(&mut self) {
        self.read_tables(&[
            Self::versions,
            Self::session_start,
            Self::gpus,
            Self::device_map,
        ]);
    }

    /// Reads waits, and graphs as they were captured.
    fn graphs_and_waits(&mut self) {
        self.read_tables(&[
            Self::synchronizations,
            Self::graph_nodes,
            Self::graph_creations,
        ]);
    }

    /// Reads what is of interest only of processes with CUDA calls or ranges.
    fn rest(&mut self) {
        self.read_tables(&[
            Self::system,
            Self::scheduling,
            Self::cpu_samples,
            Self::process_names,
            Self::thread_names,
            Self::counters,
        ]);
    }

    fn read_tables(&mut self, tables: &[ReadTable<'a>]) {
        for read in tables {
            let outcome = read(self);
            self.or_without(outcome);
        }
    }

    /// The content of a table that decides no stage. One that cannot be read loses only its own rows.
    fn or_without<T: Default>(&mut self, outcome: Result<T, IngestError>) -> T {
        outcome.unwrap_or_else(|error| {
            let message = format!("a table is skipped: {error}");
            self.say(Severity::DataLoss, "nsys/table", message, None, 1);
            T::default()
        })
    }

    /// Reads a table in parallel, as [`Database::scan`] does, and reports rows that could not be read.
    fn scan<T: Default + Send>(
        &mut self,
        table: &str,
        wants: &[Want],
        visit: impl Fn(&mut T, &Row<'_>) -> Result<(), RowError> + Sync,
    ) -> Result<Vec<T>, IngestError> {
        let (parts, bad) = self.database.scan(table, wants, visit)?;
        self.report_bad_rows(table, &bad);
        Ok(parts)
    }

    /// Turns rows that could not be read into one diagnostic a table.
    fn report_bad_rows(&mut self, table: &str, bad: &BadRows) {
        if let Some((message, count)) = bad.message(table) {
            self.say(Severity::DataLoss, "nsys/bad-rows", message, None, count);
        }
    }

    fn say(
        &mut self,
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
        hint: Option<&str>,
        count: u64,
    ) {
        let mut diagnostic = Diagnostic::new(severity, code, message)
            .artifact(&self.file.path)
            .times(count);
        diagnostic.hint = hint.map(str::to_owned);
        self.diagnostics.push(diagnostic);
    }

    /// Calls of this pass that launch kernels or graphs and are no part of another.
    fn launch_calls(&self) -> usize {
        let calls = &self.session.api_calls;
        let rows =
            (0..calls.len()).filter(|row| calls.pass[*row] == self.pass && !calls.nested[*row]);
        let mut by_name = FxHashMap::<StrId, usize>::default();
        rows.for_each(|row| *by_name.entry(calls.name[row]).or_default() += 1);
        let launches = |name: &StrId| self.session.text(*name).contains("Launch");
        by_name
            .iter()
            .filter(|(name, _)| launches(name))
            .map(|(_, count)| count)
            .sum()
    }

    /// Absent tables are how nsys says that it recorded nothing of a kind.
    fn say_what_is_missing(&mut self) {
        let has_pass = |pass: &[PassId]| pass.contains(&self.pass);
        let session = &*self.session;
        let operations = has_pass(&session.launches.pass)
            || has_pass(&session.copies.pass)
            || has_pass(&session.graph_launches.pass);
        let kernels = has_pass(&session.launches.pass) || has_pass(&session.graph_launches.pass);
        let table = &session.ranges;
        let is_mark = |row: usize| session.text(table.domain[row]) == marks::DOMAIN;
        let ranges = (0..table.len()).any(|row| table.pass[row] == self.pass && !is_mark(row));
        let traced = has_pass(&session.api_calls.pass);
        let graphs = session
            .graph_launches
            .pass
            .iter()
            .filter(|pass| **pass == self.pass)
            .count();
        if graphs > 0 {
            let message =
                "CUDA graphs were traced as a whole: they count as busy, their kernels are unknown";
            let hint = "capture with --cuda-graph-trace=node to see the kernels inside";
            self.say(
                Severity::Notice,
                "nsys/whole-graphs",
                message,
                Some(hint),
                graphs as u64,
            );
        }
        let launching = self.launch_calls();
        if !kernels && launching > 0 {
            let message = format!(
                "GPU activity was lost: {launching} calls launch kernels or graphs, 0 kernels are in the export"
            );
            let hint = "capture again, and let the process end by itself (or call cudaDeviceSynchronize and cudaProfilerStop before it is stopped): activity that was not flushed is lost. Otherwise see the messages of nsys: it collects none if another profiler holds CUPTI, or if the driver does not fit its version";
            self.say(
                Severity::DataLoss,
                "nsys/lost-activity",
                message,
                Some(hint),
                1,
            );
        } else if !operations {
            let asked = self.traced();
            let hint = match traced {
                _ if asked => {
                    "CUDA was traced and nothing came: see the messages of nsys, or capture a part of the run that uses the GPU"
                }
                true => {
                    "CUDA was traced, but no call launches work: capture a part of the run that uses the GPU"
                }
                false => "trace CUDA (-t cuda) over a part of the run that uses the GPU",
            };
            let message = "the export holds no GPU operation";
            self.say(
                Severity::DataLoss,
                "nsys/no-gpu-work",
                message,
                Some(hint),
                1,
            );
        } else if !kernels && traced {
            let message = "the export holds copies but no kernel, and no call that launches one";
            let hint = "capture a part of the run that launches kernels";
            self.say(Severity::Notice, "nsys/no-kernels", message, Some(hint), 1);
        } else if !kernels {
            let message = "the export holds copies but no kernel";
            let hint = "nsys writes no kernel table when it could not collect kernels; see its own messages";
            self.say(
                Severity::DataLoss,
                "nsys/no-kernels",
                message,
                Some(hint),
                1,
            );
        }
        if operations && !ranges {
            let message = "the export holds no NVTX range, so the capture is one stage";
            let hint = "push NVTX ranges around the phases and trace them (-t cuda,nvtx)";
            self.say(Severity::Notice, "nsys/no-ranges", message, Some(hint), 1);
        }
    }
}
