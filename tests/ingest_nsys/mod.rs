//! The Nsight Systems importer on small exports of all generations, written here table by table; what is
//! expected is written by hand next to them.

mod collectives;
mod events;
mod exports;
mod faults;
mod fixtures;

use std::path::Path;

use rooflens::bundle::ArtifactFile;
use rooflens::diagnostic::{Diagnostics, Severity};
use rooflens::ingest::{IngestError, nsys};
use rooflens::session::Session;
use rusqlite::Connection;

/// The global process id of process `pid`, and the global thread id of its thread `tid`.
const fn global(pid: i64, tid: i64) -> i64 {
    0x0100_0000_0000_0000 | pid << 24 | tid
}

const KERNELS_2020: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL,
    end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, launchType INTEGER, cacheConfig INTEGER,
    registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
    gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
    staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL)";

/// The order of schema 3.20, with a green context in between.
const KERNELS_2025: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL,
    end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
    registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
    gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
    staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, graphNodeId INTEGER)";

const STRINGS: &str =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO StringIds VALUES (1, 'void axpy<float>(int, float*)'), (2, 'axpy'),
    (3, 'cudaLaunchKernel_v7000'), (4, 'cudaMalloc'), (5, 'cudaMalloc_v3020'), (6, 'by id'),
    (7, 'cuLaunchKernel')";

const CALLS: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL,
    end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL)";

const COPIES: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL,
    end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER)";

const RANGES: &str = "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER,
    eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,
    globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER)";

struct Imported {
    session: Session,
    diagnostics: Diagnostics,
}

impl Imported {
    /// Code, severity and count of each diagnostic.
    fn codes(&self) -> Vec<(&'static str, Severity, u64)> {
        self.diagnostics
            .iter()
            .map(|one| (one.code, one.severity, one.count))
            .collect()
    }

    fn messages(&self) -> Vec<&str> {
        self.diagnostics
            .iter()
            .map(|one| one.message.as_str())
            .collect()
    }

    fn names(&self, ids: &[rooflens::session::StrId]) -> Vec<&str> {
        ids.iter().map(|id| self.session.text(*id)).collect()
    }

    fn fact(&self, key: &str) -> Option<&str> {
        let facts = &self.session.environment;
        let row = facts
            .key
            .iter()
            .position(|one| self.session.text(*one) == key)?;
        Some(self.session.text(facts.value[row]))
    }
}

fn read(path: &Path) -> Result<Imported, IngestError> {
    let file = ArtifactFile {
        path: "timeline.sqlite".to_owned(),
        location: path.to_owned(),
        pass: "nsys".to_owned(),
        ..ArtifactFile::default()
    };
    let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
    (nsys::IMPORTER.import)(&file, &mut session, &mut diagnostics)?;
    Ok(Imported {
        session,
        diagnostics,
    })
}

/// The bytes of a database that these statements make.
fn database(statements: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("made.sqlite");
    let database = Connection::open(&path).expect("SQLite makes a file");
    database
        .execute_batch(&statements.join(";\n"))
        .expect("the statements are right");
    drop(database);
    std::fs::read(&path).expect("the file is there")
}

fn import_bytes(bytes: &[u8]) -> Result<Imported, IngestError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("timeline.sqlite");
    std::fs::write(&path, bytes).expect("the file can be written");
    read(&path)
}

fn import(statements: &[&str]) -> Imported {
    import_bytes(&database(statements)).expect("the export is read")
}

/// A kernel of a 2020 export.
fn kernel(start: i64, end: i64, correlation: i64, process: i64) -> String {
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
         ({start}, {end}, 0, 1, 7, {correlation}, {process}, 1, 2, 0, 0, 32, 4, 2, 1, 128, 1, 1, 16, 48)"
    )
}

fn call(start: i64, end: i64, class: i64, thread: i64, correlation: i64, name: i64) -> String {
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
         ({start}, {end}, {class}, {thread}, {correlation}, {name}, 0)"
    )
}
