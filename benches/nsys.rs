//! Speed of the Nsight Systems importer: rows a second on the showcase and on a generated export.
//!
//! `cargo bench --bench nsys`. Thread counts are fixed per line, so that "one core" means one core. Of the
//! floors, one is what SQLite itself takes to step over the same kernels and hand over the same columns,
//! the other what it takes to read the file's bytes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use rooflens::analysis::Facts;
use rooflens::bundle::ArtifactFile;
use rooflens::diagnostic::Diagnostics;
use rooflens::ingest::nsys;
use rooflens::session::Session;
use rusqlite::{Connection, OpenFlags};

/// Kernels of the generated export: about 20 times the showcase's.
const KERNELS: i64 = 1_700_000;

struct Export {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// The showcase's export, unpacked once.
static SHOWCASE: LazyLock<Export> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("timeline.sqlite");
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/h200-llama-8b/nsys/timeline.sqlite.zst");
    let file = std::fs::File::open(&packed).expect("the fixture is there");
    let bytes = zstd::decode_all(file).expect("the fixture unpacks");
    std::fs::write(&path, bytes).expect("it can be written");
    Export {
        path,
        _folder: folder,
    }
});

/// An export of kernels and the calls that launch them.
static GENERATED: LazyLock<Export> = LazyLock::new(|| generated(true));

/// The same kernels alone.
static KERNELS_ALONE: LazyLock<Export> = LazyLock::new(|| generated(false));

fn generated(with_calls: bool) -> Export {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("generated.sqlite");
    generate(&path, with_calls).expect("SQLite writes what it is given");
    Export {
        path,
        _folder: folder,
    }
}

/// Tables with the columns of schema 3.20.
fn generate(path: &Path, with_calls: bool) -> rusqlite::Result<()> {
    let mut database = Connection::open(path)?;
    database.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    database.execute_batch(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
           contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER,
           globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER,
           launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER,
           gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
           staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER,
           localMemoryTotal INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
           sharedMemoryLimitConfig INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
           globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER,
           callchainId INTEGER);",
    )?;
    let transaction = database.transaction()?;
    {
        let mut names = transaction.prepare("INSERT INTO StringIds VALUES (?, ?)")?;
        for id in 0..400 {
            names.execute((id, format!("void kernel_{id}<float, {id}>(float*, int)")))?;
        }
        let mut kernels = transaction.prepare(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, 0, 1, NULL, 7, ?3, 281487073083392,
             ?4, ?4, NULL, 0, 0, 64, ?5, 1, 1, 256, 1, 1, 1024, 0, 0, 0, ?3, 65536, NULL, 0)",
        )?;
        let mut calls = transaction.prepare(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, 281487073083392, ?3, 399, 0, NULL)",
        )?;
        for index in 0..KERNELS {
            let start = 10_000_000_000 + index * 7_000;
            kernels.execute((
                start,
                start + 3_000 + index % 977,
                index,
                index % 399,
                132 + index % 64,
            ))?;
            if with_calls {
                calls.execute((start - 9_000, start - 4_000, index))?;
            }
        }
    }
    transaction.commit()
}

fn import(path: &Path) -> Session {
    let file = ArtifactFile {
        path: "timeline.sqlite".to_owned(),
        location: path.to_owned(),
        pass: "nsys".to_owned(),
        ..ArtifactFile::default()
    };
    let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
    (nsys::IMPORTER.import)(&file, &mut session, &mut diagnostics).expect("the export is read");
    session
}

fn on_threads(threads: usize, bencher: Bencher<'_, '_>, path: &Path) {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("a pool");
    let session = pool.install(|| import(path));
    let rows = session.launches.len() + session.copies.len() + session.api_calls.len();
    bencher
        .counter(ItemsCount::new(rows))
        .bench_local(|| pool.install(|| import(path)));
}

/// Items: kernels, copies and calls.
#[divan::bench(args = [1, 2], sample_count = 20)]
fn showcase(bencher: Bencher<'_, '_>, threads: usize) {
    on_threads(threads, bencher, &SHOWCASE.path);
}

/// Items: kernels and calls.
#[divan::bench(args = [1, 2], sample_count = 5)]
fn kernels_and_calls(bencher: Bencher<'_, '_>, threads: usize) {
    on_threads(threads, bencher, &GENERATED.path);
}

/// Items: kernels, of 18 columns each.
#[divan::bench(args = [1, 2], sample_count = 5)]
fn kernels(bencher: Bencher<'_, '_>, threads: usize) {
    on_threads(threads, bencher, &KERNELS_ALONE.path);
}

/// The kernel columns of the generated export through SQLite alone, on one thread.
#[divan::bench(sample_count = 5)]
fn floor_kernels_by_sqlite(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(KERNELS as usize)).bench_local(|| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&KERNELS_ALONE.path, flags).expect("it opens");
        let mut select = database
            .prepare(
                "SELECT start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName,
                 registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory,
                 dynamicSharedMemory, graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL",
            )
            .expect("the table is there");
        let mut rows = select.query([]).expect("it can be read");
        let mut sum = 0_i64;
        while let Some(row) = rows.next().expect("rows are sound") {
            for column in 0..18 {
                if let Ok(rusqlite::types::ValueRef::Integer(value)) = row.get_ref(column) {
                    sum = sum.wrapping_add(value);
                }
            }
        }
        sum
    });
}

/// The bytes of the kernels' export, on one thread.
#[divan::bench(sample_count = 5)]
fn floor_kernels_bytes(bencher: Bencher<'_, '_>) {
    let path = &KERNELS_ALONE.path;
    let bytes = std::fs::metadata(path).expect("it is there").len();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut file = std::fs::File::open(path).expect("it opens");
        let mut buffer = vec![0; 1 << 18];
        while file.read(&mut buffer).expect("it can be read") > 0 {}
    });
}

/// Operations joined, attributed and put into stages, from the tables of the showcase.
#[divan::bench(sample_count = 10)]
fn showcase_facts(bencher: Bencher<'_, '_>) {
    let session = import(&SHOWCASE.path);
    bencher
        .counter(ItemsCount::new(session.launches.len()))
        .bench_local(|| Facts::new(&session));
}

fn main() {
    divan::main();
}
