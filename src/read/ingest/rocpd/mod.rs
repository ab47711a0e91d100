//! rocpd, the SQLite database of rocprofv3: kernels, copies, calls of HIP and HSA, ROCTX ranges, GPUs.
//!
//! Tables are those of `rocpd_tables.sql` in ROCm/rocm-systems (projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd)
//! and what generateRocpd.cpp of rocprofiler-sdk writes into them: schema 3, in which rows have times, process and thread of
//! their own, and schema 4, in which they point to `rocpd_timestamp` and `rocpd_track`. The names of tables end in the UUID
//! of a process; a file may hold several. Times are nanoseconds of one clock. Grids are in work-items. A call of HIP and the
//! work that it issues share the `stack_id` of their events.
//!
//! Both schemas are read by one set of columns: a row's own value wins, and the value that it points to is the fallback.
//! Two importers were rejected, because files differ by single columns between versions of rocprofv3. A row that refers
//! to a missing kernel, GPU or thread is counted as bad. It is never given a default, as that would move its time.

mod info;
mod work;

use rooflens_schemas::{ArtifactKind, PassKind};
use rustc_hash::FxHashMap;

use super::database::{BadRows, Database, Want};
use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{GpuId, KernelId, Ns, PassId, ProcessId, Session, ThreadId};

/// Reads rocpd databases.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::RocpdSqlite,
    sniff,
    import,
};

/// How the name of each process's first table begins.
const METADATA: &str = "rocpd_metadata";

/// Bytes that a row takes in memory at the least, while its table is read.
const ROW_BYTES: u64 = 48;

fn sniff(prefix: &Prefix<'_>) -> bool {
    prefix.bytes.starts_with(b"SQLite format 3\0") && prefix.contains(METADATA)
}

/// An event that rows point to: which call issued it, and the text that is its category.
#[derive(Clone, Copy, Default)]
struct Event {
    stack: Option<i64>,
    category: i64,
}

/// Where a row of schema 4 stands: process, thread, agent, queue and stream.
#[derive(Clone, Copy, Default)]
struct Track {
    process: Option<i64>,
    thread: Option<i64>,
    agent: Option<i64>,
    queue: Option<i64>,
    stream: Option<i64>,
}

/// What the rows of a process's tables refer to, by their numbers in it.
#[derive(Default)]
struct Names {
    texts: FxHashMap<i64, String>,
    /// Categories of events, where they are no texts.
    categories: Option<FxHashMap<i64, String>>,
    processes: FxHashMap<i64, ProcessId>,
    threads: FxHashMap<i64, ThreadId>,
    /// GPUs; of agents that are CPUs nothing.
    gpus: FxHashMap<i64, GpuId>,
    kernels: FxHashMap<i64, (KernelId, Option<u32>)>,
    events: FxHashMap<i64, Event>,
    times: FxHashMap<i64, Ns>,
    tracks: FxHashMap<i64, Track>,
}

/// One process's tables on their way into the session.
struct Import<'a> {
    file: &'a ArtifactFile,
    database: &'a Database,
    /// What the names of its tables end in.
    suffix: &'a str,
    /// Number of the process's tables in the file.
    number: i64,
    pass: PassId,
    names: Names,
    session: &'a mut Session,
    diagnostics: &'a mut Diagnostics,
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let plain = file
        .content()?
        .plain_file()
        .map_err(IngestErrorKind::from)?;
    let database = Database::open(&plain.path, session.room() / ROW_BYTES)?;
    let suffixes: Vec<&str> = database.suffixes(METADATA).collect();
    if suffixes.is_empty() {
        return Err(IngestErrorKind::MissingTable(METADATA.to_owned()).into());
    }
    let pass = session.add_pass(&file.pass, PassKind::Timeline, &file.path);
    session.passes.rank[pass.index()] = file.rank;
    let (launches, calls) = (session.launches.len(), session.api_calls.len());
    for (number, suffix) in (0..).zip(suffixes) {
        let names = Names::default();
        let (session, diagnostics) = (&mut *session, &mut *diagnostics);
        let database = &database;
        let mut import = Import {
            file,
            database,
            suffix,
            number,
            pass,
            names,
            session,
            diagnostics,
        };
        import.info()?;
        import.work()?;
    }
    rooflens_session::mark_nested(&mut session.api_calls, calls);
    if session.launches.len() == launches {
        let message = "the database holds no kernel";
        let diagnostic = Diagnostic::new(Severity::DataLoss, "rocpd/no-kernels", message);
        let hint = "trace kernels: rocprofv3 --sys-trace (or --kernel-trace) -- COMMAND";
        diagnostics.push(diagnostic.artifact(&file.path).hint(hint));
    }
    Ok(())
}

impl Import<'_> {
    /// Reads a table of the process; a table that is not there has no rows.
    fn scan<T: Default + Send>(
        &mut self,
        table: &str,
        wants: &[Want],
        each: impl Fn(&mut Vec<T>, &super::database::Row<'_>) -> Result<(), String> + Sync,
    ) -> Result<Vec<T>, IngestError> {
        let name = format!("{table}{}", self.suffix);
        let (parts, bad) = self.database.scan(&name, wants, each)?;
        self.report(table, &bad);
        Ok(parts.into_iter().flatten().collect())
    }

    fn report(&mut self, table: &str, bad: &BadRows) {
        if let Some((message, count)) = bad.message(table) {
            self.lose(message, count);
        }
    }

    fn lose(&mut self, message: String, count: u64) {
        let diagnostic = Diagnostic::new(Severity::DataLoss, "rocpd/bad-rows", message);
        self.diagnostics
            .push(diagnostic.artifact(&self.file.path).times(count));
    }
}

#[cfg(test)]
mod tests;
