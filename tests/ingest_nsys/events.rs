//! Tables of all generations: where columns stand, what values mean.

use rooflens::analysis::Facts;
use rooflens::diagnostic::Severity;
use rooflens::session::{ApiLevel, CopyKind, Dim3, MemoryKind, Ns, RangeKind};

use super::*;

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
    let (launch, made) = (
        call(100, 110, 0, process | 5, 9, 3),
        kernel(200, 260, 9, process),
    );
    let read = import(&[STRINGS, gpus, KERNELS_2020, &made, CALLS, &launch]);
    let session = &read.session;
    assert_eq!(
        read.names(&session.passes.producer),
        ["nsys, exported before 2022"]
    );
    assert_eq!(read.fact("export schema"), None);
    let gpus = &session.gpus;
    assert_eq!((gpus.len(), gpus.ordinal[0]), (1, 0));
    assert_eq!(read.names(&gpus.name), ["NVIDIA GeForce RTX 3060 Laptop"]);
    assert_eq!(
        (gpus.sm_count[0], gpus.compute_capability[0]),
        (Some(30), Some(86))
    );
    assert_eq!(
        (gpus.memory_bytes[0], gpus.clock_hz[0]),
        (Some(6 << 30), Some(1_425_000_000))
    );
    assert_eq!(gpus.memory_bandwidth[0], Some(336_000_000_000));
    let launches = &session.launches;
    assert_eq!(
        (launches.start[0], launches.end[0], launches.stream[0]),
        (Ns(200), Ns(260), 7)
    );
    assert_eq!(launches.grid[0], Dim3 { x: 4, y: 2, z: 1 });
    assert_eq!(launches.block[0], Dim3 { x: 128, y: 1, z: 1 });
    assert_eq!(
        (launches.registers[0], launches.shared_bytes[0]),
        (Some(32), Some(16 + 48))
    );
    assert_eq!(
        session.kernel_name(launches.kernel[0]),
        "void axpy<float>(int, float*)"
    );
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
        assert_eq!(
            read.names(&read.session.passes.producer),
            ["nsys 2025.3.1.90"]
        );
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

/// The column is in exports of 2025.5 and newer.
#[test]
fn the_graph_of_a_launch_is_kept_where_the_export_has_it() {
    let values = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN graphId INTEGER;
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
        (10, 30, 0, 1, 99, 21, 9, 5, 1, 2, 4, 0, 0, 64, 3, 1, 1, 32, 2, 1, 0, 0, 8589934592, 2),
        (40, 50, 0, 1, 99, 21, 9, 5, 1, 2, 4, 0, 0, 64, 3, 1, 1, 32, 2, 1, 0, 0, 0, 0)";
    let launches = import(&[STRINGS, KERNELS_2025, values]).session.launches;
    assert_eq!(launches.graph, [Some(2), None]);
}

#[test]
fn without_optional_columns_values_are_absent_not_zero() {
    let bare = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (demangledName INTEGER, streamId INTEGER,
        deviceId INTEGER, end INTEGER, start INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 7, 0, 20, 10)";
    let launches = import(&[STRINGS, bare]).session.launches;
    assert_eq!((launches.start[0], launches.end[0]), (Ns(10), Ns(20)));
    assert_eq!(launches.registers, [None]);
    assert_eq!(launches.shared_bytes, [None]);
    assert_eq!(launches.correlation, [None]);
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
    assert_eq!(
        read.names(&calls.name),
        ["cudaMalloc", "cudaMalloc", "cuLaunchKernel"]
    );
    assert_eq!(calls.nested, [true, false, true]);
    assert_eq!(
        calls.level,
        [ApiLevel::Runtime, ApiLevel::Runtime, ApiLevel::Driver]
    );
    let facts = Facts::new(&read.session);
    assert_eq!(
        facts
            .ops
            .api_call
            .iter()
            .map(|id| id.map(|id| id.0))
            .collect::<Vec<_>>(),
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
    assert_eq!(facts.ops.start, [Ns(200), Ns(300)]);
    assert_eq!(
        facts
            .ops
            .api_call
            .iter()
            .map(|id| id.map(|id| id.0))
            .collect::<Vec<_>>(),
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
    assert_eq!(
        read.names(&ranges.name),
        ["by text", "by id", "by id", "open"]
    );
    assert_eq!(read.names(&ranges.domain), ["", "NCCL", "", ""]);
    let (push_pop, start_end) = (RangeKind::PushPop, RangeKind::StartEnd);
    assert_eq!(ranges.kind, [push_pop, push_pop, start_end, push_pop]);
    // The capture's last trace is the kernel's end.
    assert_eq!(ranges.end, [Ns(90), Ns(50), Ns(60), Ns(260)]);
    assert_eq!(ranges.unclosed, [false, false, false, true]);
    let expected = [
        ("nsys/bad-rows", Severity::DataLoss, 1),
        ("nsys/unclosed-ranges", Severity::Notice, 1),
    ];
    assert_eq!(read.codes(), expected);
    assert!(read.messages()[0].contains("row 7, end 49 lies before start 50"));
}

#[test]
fn marks_of_the_capture_have_a_domain_and_model_calls_a_table() {
    let thread = global(5, 6);
    let rows = format!(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) VALUES
         (5, 20, 60, 'rooflens:gc generation 2', {thread}, NULL, 0),
         (30, 60, 60, 'rooflens:call decode batch=4 tokens=1 keys=513', {thread}, NULL, 0),
         (70, 90, 60, 'rooflens:new shape prefill batch=2 tokens=128', {thread}, NULL, 0)"
    );
    let made = kernel(200, 260, 9, global(5, 0));
    let read = import(&[STRINGS, RANGES, &rows, KERNELS_2020, &made]);
    let (ranges, calls) = (&read.session.ranges, &read.session.model_calls);
    let names = ["gc generation 2", "new shape prefill batch=2 tokens=128"];
    assert_eq!(read.names(&ranges.name), names);
    assert_eq!(read.names(&ranges.domain), ["rooflens", "rooflens"]);
    assert_eq!(read.names(&calls.phase), ["decode", "prefill"]);
    assert_eq!((calls.start[0], calls.end[0]), (Ns(30), Ns(60)));
    assert_eq!(calls.batch, [Some(4), Some(2)]);
    assert_eq!(calls.tokens, [Some(1), Some(128)]);
    assert_eq!(calls.keys, [Some(513), None]);
    // The workload has no range of its own.
    assert_eq!(read.codes(), [("nsys/no-ranges", Severity::Notice, 1)]);
}

#[test]
fn copies_and_memsets_of_all_kinds() {
    let process = global(5, 0);
    let copy = |start: i64, kind: i64, from: i64, to: i64| {
        format!("({start}, {start} + 5, 0, 1, 7, {start}, {process}, 1024, {kind}, {from}, {to})")
    };
    let kinds = [
        (1, 0, 2),
        (2, 2, 1),
        (8, 2, 2),
        (9, 1, 0),
        (10, 2, 2),
        (11, 4, 4),
        (12, 6, 4),
        (5, 3, 3),
    ];
    let rows: Vec<_> = (0..)
        .zip(kinds)
        .map(|(at, (k, f, t))| copy(10 * at, k, f, t))
        .collect();
    let insert = format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES {}",
        rows.join(", ")
    );
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
        [
            MemoryKind::Managed,
            MemoryKind::Managed,
            MemoryKind::Array,
            MemoryKind::Unknown
        ]
    );
    assert_eq!(
        copies.bytes,
        [1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 64]
    );
    let expected = [
        ("nsys/bad-rows", Severity::DataLoss, 1),
        ("nsys/no-kernels", Severity::DataLoss, 1),
        ("nsys/no-ranges", Severity::Notice, 1),
    ];
    assert_eq!(read.codes(), expected);
    assert!(
        read.messages()[0]
            .ends_with("MEMSET that make no sense are skipped; the first: row 2, bytes is -1")
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
         (3, 4, 3, 110, {thread}, 17179869185, 8589934593);
         CREATE TABLE CUDA_GRAPH_EVENTS (start INTEGER, end INTEGER, nameId INTEGER, eventClass INTEGER,
         globalTid INTEGER, graphId INTEGER, originalGraphId INTEGER, graphExecId INTEGER);
         INSERT INTO CUDA_GRAPH_EVENTS VALUES (1, 1, 3, 95, {thread}, 2, NULL, NULL),
         (2, 2, 3, 95, {thread}, 3, 2, NULL), (5, 5, 3, 94, {thread}, 2, NULL, 4)"
    );
    let read = import(&[STRINGS, &tables]);
    let graphs = &read.session.graph_launches;
    assert_eq!(
        (graphs.start[0], graphs.end[0], graphs.graph[0]),
        (Ns(10), Ns(90), Some(2))
    );
    assert_eq!(read.session.graph_nodes.node, [2 << 32 | 1, 4 << 32 | 1]);
    assert_eq!(read.session.graph_nodes.original, [None, Some(2 << 32 | 1)]);
    // The third row tells of an instantiation.
    let created = &read.session.graph_creations;
    assert_eq!(
        (&created.time[..], &created.graph[..]),
        (&[Ns(1), Ns(2)][..], &[2, 3][..])
    );
    assert_eq!(created.original, [None, Some(2)]);
    let expected = [
        ("nsys/whole-graphs", Severity::Notice, 1),
        ("nsys/no-ranges", Severity::Notice, 1),
    ];
    assert_eq!(read.codes(), expected);
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
    assert_eq!(samples.time, [Ns(-37_928), Ns(-37_928), Ns(100)]);
    assert_eq!(samples.value, [2_330_513_255.0, 55.0, 1_980_000_000.0]);
    assert_eq!(
        read.names(&samples.metric[..2]),
        [
            "GPC Clock Frequency [Hz]",
            "DRAM Read Bandwidth [Throughput %]"
        ]
    );
    // The type's low byte, 1, is the GPU.
    let gpu = samples.gpu[0].expect("the type names it");
    assert_eq!(read.session.gpus.ordinal[gpu.index()], 1);
    assert!(read.messages()[0].ends_with("row 4, metricId 8 has no name"));
}

/// The launcher, process 78, calls no CUDA: its calls would make a second process of the capture.
#[test]
fn calls_of_the_system_and_overhead_of_processes_that_use_cuda() {
    let (thread, other) = (global(77, 5), global(78, 6));
    let tables = format!(
        "CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
         globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER);
         INSERT INTO OSRT_API VALUES (10, 20, 27, {thread}, 1, 2, 0), (11, 12, 27, {other}, 2, 2, 0),
         (30, 20, 27, {thread}, 3, 2, 0);
         CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER,
         returnValue INTEGER);
         INSERT INTO PROFILER_OVERHEAD VALUES (40, 50, {thread}, 6, 0), (41, 42, NULL, 6, 0)"
    );
    let launch = call(100, 110, 0, thread, 9, 3);
    let read = import(&[STRINGS, CALLS, &launch, &tables]);
    let (calls, overheads) = (&read.session.os_calls, &read.session.overheads);
    assert_eq!(
        (&calls.start[..], &calls.end[..]),
        (&[Ns(10)][..], &[Ns(20)][..])
    );
    assert_eq!(read.names(&calls.name), ["axpy"]);
    assert_eq!(
        (&overheads.start[..], &overheads.end[..]),
        (&[Ns(40)][..], &[Ns(50)][..])
    );
    assert_eq!(read.names(&overheads.name), ["by id"]);
    assert_eq!(calls.thread[0], read.session.api_calls.thread[0]);
    assert_eq!(read.session.processes.len(), 1);
    assert!(
        read.codes()
            .contains(&("nsys/bad-rows", Severity::DataLoss, 1))
    );
}

/// `SCHED_EVENTS` of 2020 without states, and of 2023 with them; process 77 calls CUDA on thread 5.
#[test]
fn a_thread_is_off_the_cpu_from_one_event_to_the_next() {
    let (thread, other) = (global(77, 5), global(77, 6));
    let launch = call(100, 110, 0, thread, 9, 3);
    let old = format!(
        "CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL,
         globalTid INTEGER);
         INSERT INTO SCHED_EVENTS VALUES (5, 0, 1, {thread}), (70, 0, 0, {thread}), (20, 0, 0, {thread}),
         (30, 0, 0, {thread}), (40, 1, 1, {thread}), (50, 1, 1, {thread}), (10, 0, 0, {other}),
         (15, 0, 1, {other}), (90, 0, 7, {thread}), (95, 0, 0, NULL), (99, 0, 0, {thread}),
         (9223372036854775807, 0, 1, {thread})"
    );
    let read = import(&[STRINGS, CALLS, &launch, &old]);
    let off = &read.session.off_cpu;
    // Out at 20 and again at 30, in at 40: of [20, 30) nothing is known. Out at 70, in (any number but 0) at 90.
    // The last event is at no time of a capture.
    assert_eq!(
        (&off.start[..], &off.end[..]),
        (&[Ns(30), Ns(70)][..], &[Ns(40), Ns(90)][..])
    );
    assert_eq!(off.thread[0], read.session.api_calls.thread[0]);
    assert_eq!(
        read.session.threads.len(),
        1,
        "of threads without CUDA calls nothing is read"
    );
    assert!(
        read.codes()
            .contains(&("nsys/bad-rows", Severity::DataLoss, 1))
    );
    // A thread that ended (state 5) is not off the CPU until another one gets its number.
    let new = format!(
        "CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL,
         globalTid INTEGER, threadState INTEGER, threadBlock INTEGER);
         INSERT INTO SCHED_EVENTS VALUES (10, 0, 0, {thread}, 0, NULL), (20, 0, 1, {thread}, 0, NULL),
         (30, 0, 0, {thread}, 5, NULL), (40, 0, 1, {thread}, 0, NULL), (50, 0, 0, {thread}, NULL, NULL),
         (60, 0, 1, {thread}, 0, NULL)"
    );
    let read = import(&[STRINGS, CALLS, &launch, &new]);
    let off = &read.session.off_cpu;
    assert_eq!(
        (&off.start[..], &off.end[..]),
        (&[Ns(10), Ns(50)][..], &[Ns(20), Ns(60)][..])
    );
}

/// Samples 1 and 2 are of a thread that calls CUDA, 3 of another; of call stacks the innermost function counts.
#[test]
fn cpu_samples_are_of_threads_that_call_cuda() {
    let (thread, other) = (global(77, 5), global(77, 6));
    let launch = call(100, 110, 0, thread, 9, 3);
    let samples = format!(
        "CREATE TABLE COMPOSITE_EVENTS (id INTEGER PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER,
         globalTid INTEGER, cpuCycles INTEGER NOT NULL);
         INSERT INTO COMPOSITE_EVENTS VALUES (1, 60, 0, 1, {thread}, 1), (2, 50, 0, 1, {thread}, 1), (3, 55, 0, 1, {other}, 1);
         INSERT INTO StringIds VALUES (901, 'malloc'), (902, '/usr/lib/libc.so.6'), (903, 'main'), (904, '0x61cb5d'),
         (905, '/usr/bin/python3.12');
         CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL,
         unresolved INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth));
         INSERT INTO SAMPLING_CALLCHAINS VALUES (1, 901, 902, NULL, 0), (1, 903, 905, NULL, 1), (2, 904, 905, 1, 0),
         (3, 901, 902, NULL, 0)"
    );
    let read = import(&[STRINGS, CALLS, &launch, &samples]);
    let (session, rows) = (&read.session, &read.session.cpu_samples);
    let text = |id| session.text(id);
    let found: Vec<_> = (0..rows.len())
        .map(|row| {
            (
                rows.time[row],
                text(rows.library[row]),
                text(rows.function[row]),
            )
        })
        .collect();
    assert_eq!(
        found,
        [(Ns(50), "python3.12", ""), (Ns(60), "libc.so.6", "malloc")]
    );
    assert_eq!(rows.thread[0], session.api_calls.thread[0]);
}

#[test]
fn copies_without_launches_lose_no_kernel() {
    let process = global(5, 0);
    let copy = format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 20, 0, 1, 7, 1, {process}, 64, 1, 0, 2)"
    );
    let codes = |name| {
        let traced = call(5, 9, 0, global(5, 6), 1, name);
        import(&[STRINGS, CALLS, COPIES, &copy, &traced]).codes()
    };
    let ranges = ("nsys/no-ranges", Severity::Notice, 1);
    // Another call than one that launches; and one that does, whose kernel is missing.
    assert_eq!(codes(4), [("nsys/no-kernels", Severity::Notice, 1), ranges]);
    assert_eq!(
        codes(3),
        [("nsys/lost-activity", Severity::DataLoss, 1), ranges]
    );
}
