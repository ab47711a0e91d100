//! The Nsight Systems importer on small exports of all generations, written here table by table; what is
//! expected is written by hand beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rooflens::analysis::Facts;
use rooflens::bundle::{ArtifactFile, Content};
use rooflens::diagnostic::{Diagnostics, Severity};
use rooflens::ingest::{IngestError, IngestErrorKind, nsys};
use rooflens::model::{ApiLevel, CopyKind, Dim3, MemoryKind, RangeKind, Session};
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
        self.diagnostics.iter().map(|one| (one.code, one.severity, one.count)).collect()
    }

    fn messages(&self) -> Vec<&str> {
        self.diagnostics.iter().map(|one| one.message.as_str()).collect()
    }

    fn names(&self, ids: &[rooflens::model::StrId]) -> Vec<&str> {
        ids.iter().map(|id| self.session.text(*id)).collect()
    }

    fn fact(&self, key: &str) -> Option<&str> {
        let facts = &self.session.environment;
        let row = facts.key.iter().position(|one| self.session.text(*one) == key)?;
        Some(self.session.text(facts.value[row]))
    }
}

fn read(path: &Path) -> Result<Imported, IngestError> {
    let file = ArtifactFile {
        path: "timeline.sqlite".to_owned(),
        location: path.to_owned(),
        kind: None,
        pass: "nsys".to_owned(),
        pass_kind: None,
        producer: None,
        rank: None,
        sha256: None,
    };
    let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
    (nsys::IMPORTER.import)(&file, &mut session, &mut diagnostics)?;
    Ok(Imported { session, diagnostics })
}

/// The bytes of a database that these statements make.
fn database(statements: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("made.sqlite");
    let database = Connection::open(&path).expect("SQLite makes a file");
    database.execute_batch(&statements.join(";\n")).expect("the statements are right");
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

#[test]
fn an_export_of_2020_has_no_versions_and_its_gpu_in_two_tables() {
    let gpus = "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, deviceId INTEGER, name TEXT,
        busLocation TEXT, isDiscrete INTEGER);
        INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA GeForce RTX 3060 Laptop ', '0000:01', 1);
        CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INTEGER, name TEXT, numMultiprocessors INTEGER,
        computeCapabilityMajor INTEGER, computeCapabilityMinor INTEGER, globalMemorySize INTEGER,
        globalMemoryBandwidth INTEGER, coreClockRate INTEGER);
        INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'x', 30, 8, 6, 6442450944, 336000000000, 1425000000)";
    let process = global(77, 0);
    let (launch, made) = (call(100, 110, 0, process | 5, 9, 3), kernel(200, 260, 9, process));
    let read = import(&[STRINGS, gpus, KERNELS_2020, &made, CALLS, &launch]);
    let session = &read.session;
    assert_eq!(read.names(&session.passes.producer), ["nsys, exported before 2022"]);
    assert_eq!(read.fact("export schema"), None);
    let gpus = &session.gpus;
    assert_eq!((gpus.len(), gpus.ordinal[0]), (1, 0));
    assert_eq!(read.names(&gpus.name), ["NVIDIA GeForce RTX 3060 Laptop"]);
    assert_eq!((gpus.sm_count[0], gpus.compute_capability[0]), (Some(30), Some(86)));
    assert_eq!((gpus.memory_bytes[0], gpus.clock_hz[0]), (Some(6 << 30), Some(1_425_000_000)));
    assert_eq!(gpus.memory_bandwidth[0], Some(336_000_000_000));
    let launches = &session.launches;
    assert_eq!((launches.start[0], launches.end[0], launches.stream[0]), (200, 260, 7));
    assert_eq!(launches.grid[0], Dim3 { x: 4, y: 2, z: 1 });
    assert_eq!(launches.block[0], Dim3 { x: 128, y: 1, z: 1 });
    assert_eq!((launches.registers[0], launches.shared_bytes[0]), (Some(32), Some(16 + 48)));
    assert_eq!(session.kernel_name(launches.kernel[0]), "void axpy<float>(int, float*)");
    assert_eq!((session.processes.pid[0], session.threads.tid[0]), (77, 5));
    assert_eq!(read.names(&session.api_calls.name), ["cudaLaunchKernel"]);
    assert_eq!(read.codes(), [("nsys/no-ranges", Severity::Notice, 1)]);
}

#[test]
fn versions_are_read_from_both_generations_of_tables() {
    for table in ["EXPORT_META_DATA", "META_DATA_EXPORT"] {
        let versions = format!(
            "CREATE TABLE {table} (name TEXT, value TEXT); INSERT INTO {table} VALUES
             ('EXPORT_SCHEMA_VERSION', '3.20.2'), ('EXPORT_PRODUCT_VERSION', '2025.3.1.90')"
        );
        let read = import(&[&versions]);
        assert_eq!(read.names(&read.session.passes.producer), ["nsys 2025.3.1.90"]);
        assert_eq!(read.fact("export schema"), Some("3.20.2"));
        assert_eq!(read.codes(), [("nsys/no-gpu-work", Severity::DataLoss, 1)]);
    }
}

#[test]
fn columns_are_found_wherever_they_stand() {
    let values = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
        (10, 30, 0, 1, 99, 21, 9, 5, 1, 2, 4, 0, 0, 64, 3, 1, 1, 32, 2, 1, 0, 0, 8589934592),
        (40, 50, 0, 1, NULL, 22, 10, 5, 1, 2, NULL, 0, 0, 64, 3, 1, 1, 32, 2, 1, 0, 0, NULL),
        (60, 70, 0, 1, NULL, 23, 11, 5, 1, 2, NULL, 0, 0, 64, 3, 1, 1, 32, 2, 1, 0, 0, 0)";
    let launches = import(&[STRINGS, KERNELS_2025, values]).session.launches;
    assert_eq!(launches.stream, [21, 22, 23]);
    assert_eq!(launches.correlation, [Some(9), Some(10), Some(11)]);
    assert_eq!(launches.block[0], Dim3 { x: 32, y: 2, z: 1 });
    // Node 2 of graph 2: 2 << 32; 0 is how some versions write "none".
    assert_eq!(launches.graph_node, [Some(8_589_934_592), None, None]);
    assert_eq!(launches.shared_bytes, [Some(0); 3]);
}

#[test]
fn without_optional_columns_values_are_absent_not_zero() {
    let bare = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (demangledName INTEGER, streamId INTEGER,
        deviceId INTEGER, end INTEGER, start INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 7, 0, 20, 10)";
    let launches = import(&[STRINGS, bare]).session.launches;
    assert_eq!((launches.start[0], launches.end[0]), (10, 20));
    assert_eq!(launches.registers, [None]);
    assert_eq!(launches.shared_bytes, [None]);
    assert_eq!(launches.correlation, [None]);
}

#[test]
fn a_needed_column_that_is_missing_is_named() {
    let bare = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, deviceId INTEGER)";
    let error = import_bytes(&database(&[STRINGS, bare])).map(|_| ()).expect_err("no end");
    assert_eq!(error.to_string(), "column end of CUPTI_ACTIVITY_KIND_KERNEL is missing");
}

/// An A100 export wrote each call twice, under one correlation id: the outer of class 67, the inner of 0.
#[test]
fn of_calls_written_twice_the_inner_is_nested_and_work_joins_the_outer() {
    let (process, thread) = (global(5, 0), global(5, 6));
    let outer = call(100, 140, 67, thread, 9, 4);
    let inner = call(105, 135, 0, thread, 9, 5);
    let driver = call(110, 120, 1, thread, 12, 7);
    let made = kernel(200, 260, 9, process);
    // Written inner first, so that the order of rows does not help.
    let read = import(&[STRINGS, CALLS, &inner, &outer, &driver, KERNELS_2020, &made]);
    let calls = &read.session.api_calls;
    assert_eq!(read.names(&calls.name), ["cudaMalloc", "cudaMalloc", "cuLaunchKernel"]);
    assert_eq!(calls.nested, [true, false, true]);
    assert_eq!(calls.level, [ApiLevel::Runtime, ApiLevel::Runtime, ApiLevel::Driver]);
    let facts = Facts::new(&read.session);
    assert_eq!(
        facts.ops.api_call.iter().map(|id| id.map(|id| id.0)).collect::<Vec<_>>(),
        [Some(1)]
    );
}

#[test]
fn correlation_ids_count_within_their_process() {
    let (first, second) = (global(5, 0), global(6, 0));
    let statements = [
        call(100, 110, 0, second | 6, 9, 3),
        call(120, 130, 0, first | 5, 9, 3),
        kernel(200, 210, 9, first),
        kernel(300, 310, 9, second),
    ];
    let mut all = vec![STRINGS, CALLS, KERNELS_2020];
    all.extend(statements.iter().map(String::as_str));
    let read = import(&all);
    assert_eq!(read.session.processes.pid, [5, 6]);
    let facts = Facts::new(&read.session);
    // The operation at 200 is of process 5, whose call is the second row.
    assert_eq!(facts.ops.start, [200, 300]);
    assert_eq!(
        facts.ops.api_call.iter().map(|id| id.map(|id| id.0)).collect::<Vec<_>>(),
        [Some(1), Some(0)]
    );
}

#[test]
fn ranges_have_text_or_a_text_id_domains_and_sometimes_no_end() {
    let thread = global(5, 6);
    let rows = format!(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) VALUES
         (0, NULL, 75, 'NCCL', {thread}, NULL, 1),
         (10, 90, 59, 'by text', {thread}, NULL, 0),
         (20, 50, 59, NULL, {thread}, 6, 1),
         (30, 60, 60, NULL, {thread}, 6, NULL),
         (40, NULL, 59, 'open', {thread}, NULL, 0),
         (45, NULL, 34, 'a mark', {thread}, NULL, 0),
         (50, 49, 59, 'backwards', {thread}, NULL, 0)"
    );
    let made = kernel(200, 260, 9, global(5, 0));
    let read = import(&[STRINGS, RANGES, &rows, KERNELS_2020, &made]);
    let ranges = &read.session.ranges;
    assert_eq!(read.names(&ranges.name), ["by text", "by id", "by id", "open"]);
    assert_eq!(read.names(&ranges.domain), ["", "NCCL", "", ""]);
    let (push_pop, start_end) = (RangeKind::PushPop, RangeKind::StartEnd);
    assert_eq!(ranges.kind, [push_pop, push_pop, start_end, push_pop]);
    // The capture's last trace is the kernel's end.
    assert_eq!(ranges.end, [90, 50, 60, 260]);
    assert_eq!(ranges.unclosed, [false, false, false, true]);
    let expected =
        [("nsys/bad-rows", Severity::DataLoss, 1), ("nsys/unclosed-ranges", Severity::Notice, 1)];
    assert_eq!(read.codes(), expected);
    assert!(read.messages()[0].contains("row 7, end Some(49) lies before start 50"));
}

#[test]
fn copies_and_memsets_of_all_kinds() {
    let process = global(5, 0);
    let copy = |start: i64, kind: i64, from: i64, to: i64| {
        format!("({start}, {start} + 5, 0, 1, 7, {start}, {process}, 1024, {kind}, {from}, {to})")
    };
    let kinds =
        [(1, 0, 2), (2, 2, 1), (8, 2, 2), (9, 1, 0), (10, 2, 2), (11, 4, 4), (12, 6, 4), (5, 3, 3)];
    let rows: Vec<_> = (0..).zip(kinds).map(|(at, (k, f, t))| copy(10 * at, k, f, t)).collect();
    let insert = format!("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES {}", rows.join(", "));
    let memset = format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER,
         contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, value INTEGER,
         bytes INTEGER, memKind INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (500, 510, 0, 1, 7, 99, {process}, 0, 64, 2),
         (520, 530, 0, 1, 7, 100, {process}, 0, -1, 2)"
    );
    let read = import(&[STRINGS, COPIES, &insert, &memset]);
    use CopyKind::*;
    let copies = &read.session.copies;
    let expected = [
        HostToDevice,
        DeviceToHost,
        DeviceToDevice,
        HostToHost,
        PeerToPeer,
        MigrateToDevice,
        MigrateToHost,
        Array,
        Memset,
    ];
    assert_eq!(copies.kind, expected);
    let (pageable, pinned, device) = (MemoryKind::Pageable, MemoryKind::Pinned, MemoryKind::Device);
    assert_eq!(copies.source[..4], [pageable, device, device, pinned]);
    assert_eq!(copies.destination[..4], [device, pinned, device, pageable]);
    assert_eq!(
        copies.source[5..],
        [MemoryKind::Managed, MemoryKind::Managed, MemoryKind::Array, MemoryKind::Unknown]
    );
    assert_eq!(copies.bytes, [1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 64]);
    let expected = [
        ("nsys/bad-rows", Severity::DataLoss, 1),
        ("nsys/no-kernels", Severity::DataLoss, 1),
        ("nsys/no-ranges", Severity::Notice, 1),
    ];
    assert_eq!(read.codes(), expected);
    assert!(
        read.messages()[0]
            .ends_with("MEMSET that make no sense are left out; the first: row 2, bytes is -1")
    );
}

#[test]
fn graphs_traced_whole_and_their_nodes() {
    let (process, thread) = (global(5, 0), global(5, 6));
    let tables = format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER,
         contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER,
         graphExecId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 90, 0, 1, 7, 3, {process}, 2, 4);
         CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, end INTEGER, nameId INTEGER,
         eventClass INTEGER, globalTid INTEGER, graphNodeId INTEGER, originalGraphNodeId INTEGER);
         INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (1, 2, 3, 110, {thread}, 8589934593, NULL),
         (3, 4, 3, 110, {thread}, 17179869185, 8589934593)"
    );
    let read = import(&[STRINGS, &tables]);
    let graphs = &read.session.graph_launches;
    assert_eq!((graphs.start[0], graphs.end[0], graphs.graph[0]), (10, 90, Some(2)));
    assert_eq!(read.session.graph_nodes.node, [2 << 32 | 1, 4 << 32 | 1]);
    assert_eq!(read.session.graph_nodes.original, [None, Some(2 << 32 | 1)]);
    assert_eq!(read.codes(), [("nsys/no-ranges", Severity::Notice, 1)]);
}

/// 2 330 513 255 Hz does not fit 32 bits: old exports hold 2 330 513 255 - 2^32 = -1 964 454 041.
#[test]
fn a_clock_that_wrapped_is_unwrapped_and_times_before_zero_stay() {
    let tables = "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER,
        typeName TEXT, metricId INTEGER, metricName TEXT);
        INSERT INTO TARGET_INFO_GPU_METRICS VALUES (281474976710913, 1, '', 0, 'GPC Clock Frequency [Hz]'),
        (281474976710913, 1, '', 1, 'DRAM Read Bandwidth [Throughput %]');
        CREATE TABLE GPU_METRICS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER,
        metricId INTEGER, value INTEGER);
        INSERT INTO GPU_METRICS VALUES (9, -37928, 281474976710913, 0, -1964454041),
        (9, -37928, 281474976710913, 1, 55), (9, 100, 281474976710913, 0, 1980000000),
        (9, 100, 281474976710913, 8, 1)";
    let read = import(&[STRINGS, tables]);
    let samples = &read.session.counter_samples;
    assert_eq!(samples.time, [-37_928, -37_928, 100]);
    assert_eq!(samples.value, [2_330_513_255.0, 55.0, 1_980_000_000.0]);
    assert_eq!(
        read.names(&samples.metric[..2]),
        ["GPC Clock Frequency [Hz]", "DRAM Read Bandwidth [Throughput %]"]
    );
    // The type's low byte, 1, is the GPU.
    let gpu = samples.gpu[0].expect("the type names it");
    assert_eq!(read.session.gpus.ordinal[gpu.index()], 1);
    assert!(read.messages()[0].ends_with("row 4, metricId 8 has no name"));
}

#[test]
fn what_nsys_says_of_itself_is_passed_on() {
    let table = "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER,
        source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER);
        INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 1, 1, 'all is well', NULL),
        (0, 1, 1, 2, 'No NVTX events collected.', NULL), (0, 1, 1, 3, 'CUDA events were dropped', NULL)";
    let read = import(&[STRINGS, table, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    let expected = [
        ("nsys/message", Severity::Notice, 1),
        ("nsys/message", Severity::DataLoss, 1),
        ("nsys/no-ranges", Severity::Notice, 1),
    ];
    assert_eq!(read.codes(), expected);
    let messages = read.messages();
    assert_eq!(messages[0], "nsys says: No NVTX events collected.");
    assert_eq!(messages[1], "nsys says: CUDA events were dropped");
}

#[test]
fn rows_of_wrong_types_are_left_out_and_counted() {
    let process = global(5, 0);
    let rows = [
        kernel(10, 20, 1, process),
        kernel(30, 25, 2, process),
        kernel(40, 50, 3, process).replace("(40,", "('soon',"),
        kernel(60, 70, 4, process).replace(" 128,", " 5000000000,"),
        kernel(80, 90, 5, process).replace("(80,", "(80.5,"),
        kernel(100, 110, 6, process).replace("(100,", "(100.0,"),
    ];
    let mut all = vec![STRINGS, KERNELS_2020];
    all.extend(rows.iter().map(String::as_str));
    let read = import(&all);
    // 100.0 is a whole number.
    assert_eq!(read.session.launches.start, [10, 100]);
    assert_eq!(read.codes()[0], ("nsys/bad-rows", Severity::DataLoss, 4));
    let message = "rows of CUPTI_ACTIVITY_KIND_KERNEL that make no sense are left out; \
                   the first: row 2, end 25 lies before start 30";
    assert_eq!(read.messages()[0], message);
    let message = |at: usize| {
        let read = import(&[STRINGS, KERNELS_2020, &rows[at]]);
        read.messages()[0].rsplit(": ").next().map(str::to_owned)
    };
    assert_eq!(message(2).as_deref(), Some("row 1, start is the text \"soon\""));
    assert_eq!(message(3).as_deref(), Some("row 1, blockX is 5000000000"));
    assert_eq!(message(4).as_deref(), Some("row 1, start is 80.5"));
}

#[test]
fn what_is_no_export_is_refused() {
    let other = database(&["CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT)"]);
    let error = import_bytes(&other).map(|_| ()).expect_err("songs are no profile");
    assert!(matches!(error.kind, IngestErrorKind::Unsupported(_)), "{error}");
    let empty = import_bytes(b"SQLite format 3\0").map(|_| ()).expect_err("16 bytes");
    assert!(matches!(empty.kind, IngestErrorKind::Truncated), "{empty}");
}

#[test]
fn an_export_that_is_cut_off_is_refused() {
    let bytes = database(&[STRINGS, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    for length in [0, 99, 4096, bytes.len() - 4096, bytes.len() - 1] {
        let error = import_bytes(&bytes[..length]).map(|_| ()).expect_err("cut off");
        assert!(matches!(error.kind, IngestErrorKind::Truncated), "{length}: {error}");
    }
}

#[test]
fn a_page_that_is_no_page_is_named() {
    let mut bytes = database(&[STRINGS, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    // Page 1 is the schema, 2 the strings, 3 the kernels.
    bytes[2 * 4096] = 0x77;
    let error = import_bytes(&bytes).map(|_| ()).expect_err("page 3 is broken");
    assert!(matches!(error.kind, IngestErrorKind::MalformedPage { page: 3, .. }), "{error}");
}

#[test]
fn a_journal_beside_the_file_is_mentioned() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("timeline.sqlite");
    let bytes = database(&[STRINGS, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    std::fs::write(&path, bytes).expect("the file can be written");
    std::fs::write(folder.path().join("timeline.sqlite-wal"), "x").expect("so can the journal");
    let imported = read(&path).expect("the export is read");
    assert_eq!(imported.codes()[0], ("nsys/journal", Severity::Notice, 1));
}

/// Exports among the fixtures, unpacked by `visit` one after another.
fn for_each_fixture(mut visit: impl FnMut(&Path, &str)) {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")];
    let mut packed = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".sqlite.zst") {
                packed.push(path);
            }
        }
    }
    assert!(packed.len() >= 7, "the fixtures are there");
    for path in packed {
        let plain = Content::open(&path).and_then(|content| content.plain_file());
        visit(&plain.expect("the fixture unpacks").path, &path.to_string_lossy());
    }
}

/// Count and time of each kernel name, as SQL sums them over the raw tables.
fn sums_by_sql(path: &Path) -> BTreeMap<String, (i64, i64)> {
    let database = Connection::open(path).expect("it opens");
    let sql = "SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL
        JOIN StringIds ON id = demangledName GROUP BY value";
    // A capture of whole graphs has no kernel table.
    let Ok(mut statement) = database.prepare(sql) else { return BTreeMap::new() };
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
    rows.and_then(Iterator::collect).expect("the tables are sound")
}

#[test]
fn kernel_time_by_name_is_what_sql_says() {
    let mut kernels = 0;
    for_each_fixture(|path, name| {
        let session = read(path).expect("fixtures are sound").session;
        let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        let launches = &session.launches;
        for row in 0..launches.len() {
            let sum = sums.entry(session.kernel_name(launches.kernel[row]).to_owned()).or_default();
            *sum = (sum.0 + 1, sum.1 + launches.end[row] - launches.start[row]);
        }
        assert_eq!(sums, sums_by_sql(path), "{name}");
        kernels += launches.len();
    });
    assert!(kernels > 84_868, "the largest fixture alone has as many");
}
