//! PyTorch profiler traces of all generations, made by hand, with the rows that they must give.

use std::io::Write as _;

use rooflens::bundle::ArtifactFile;
use rooflens::diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens::ingest::torch::IMPORTER;
use rooflens::ingest::{IngestError, IngestErrorKind, Prefix};
use rooflens::session::{ApiLevel, CopyKind, Dim3, MemoryKind, Ns, RangeKind, Session};

/// What one file gave.
struct Imported {
    session: Session,
    diagnostics: Diagnostics,
    result: Result<(), IngestError>,
}

impl Imported {
    fn diagnostic(&self, code: &str) -> Option<&Diagnostic> {
        self.diagnostics
            .iter()
            .find(|diagnostic| diagnostic.code == code)
    }

    fn codes(&self) -> Vec<&str> {
        self.diagnostics
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect()
    }
}

fn import(bytes: impl AsRef<[u8]>) -> Imported {
    import_pass("torch", bytes)
}

fn import_pass(pass: &str, bytes: impl AsRef<[u8]>) -> Imported {
    let mut temporary = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    temporary
        .write_all(bytes.as_ref())
        .expect("it can be written");
    let file = ArtifactFile {
        path: "torch/trace.json".to_owned(),
        location: temporary.path().to_owned(),
        kind: None,
        pass: pass.to_owned(),
        pass_kind: None,
        producer: None,
        rank: Some(5),
        sha256: None,
        inflation: None,
    };
    let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
    let result = (IMPORTER.import)(&file, &mut session, &mut diagnostics);
    Imported {
        session,
        diagnostics,
        result,
    }
}

/// 2025: relative times with three decimals, device properties, versions, a rank, allocator events.
const MODERN: &str = include_str!("data/torch_modern.json");

#[test]
fn a_modern_trace_fills_all_tables() {
    let imported = import(MODERN);
    imported.result.as_ref().expect("it is sound");
    let session = &imported.session;
    let launches = &session.launches;
    assert_eq!(launches.len(), 1);
    // 4 366 746 849 999.001 µs + 5.728 µs
    assert_eq!(launches.start[0], Ns(4_366_746_849_999_001));
    assert_eq!(launches.end[0], Ns(4_366_746_850_004_729));
    assert_eq!(
        session.kernel_name(launches.kernel[0]),
        "void gemm<8, std::array<char*, 3ul> >(int)"
    );
    assert_eq!((launches.stream[0], launches.correlation[0]), (7, Some(7)));
    assert_eq!(
        launches.grid[0],
        Dim3 {
            x: 2048,
            y: 2,
            z: 1
        }
    );
    assert_eq!(launches.block[0], Dim3 { x: 256, y: 1, z: 1 });
    assert_eq!(launches.registers[0], Some(32));
    assert_eq!(launches.shared_bytes[0], Some(49_152));
    assert_eq!(
        (launches.graph_node[0], launches.graph[0]),
        (Some(34), Some(5))
    );
    assert_eq!(session.processes.pid[launches.process[0].index()], 548);

    let calls = &session.api_calls;
    assert_eq!(session.text(calls.name[0]), "cudaLaunchKernelExC");
    assert_eq!(calls.level, [ApiLevel::Runtime, ApiLevel::Driver]);
    assert_eq!(calls.nested, [false, true]);
    assert_eq!(calls.process, [launches.process[0]; 2]);
}

/// `step` of train.py calls `forward` of model.py, which calls aten::mm twice by way of a module of PyTorch; `step` calls
/// aten::mm once. Another thread runs aten::mm in no function.
const STACKS: &str = r#"{"schemaVersion": 1, "with_stack": 1, "traceEvents": [
    {"ph": "X", "cat": "python_function", "name": "train.py(6): step", "pid": 1, "tid": 1, "ts": 100, "dur": 900},
    {"ph": "X", "cat": "python_function", "name": "model.py(3): forward", "pid": 1, "tid": 1, "ts": 200, "dur": 300},
    {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 1, "tid": 1, "ts": 210, "dur": 200},
    {"ph": "X", "cat": "python_function", "name": "torch/nn/modules/linear.py(134): forward", "pid": 1, "tid": 1, "ts": 211, "dur": 198},
    {"ph": "X", "cat": "python_function", "name": "<built-in function linear>", "pid": 1, "tid": 1, "ts": 220, "dur": 180},
    {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 230, "dur": 160},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 240, "dur": 50},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 300, "dur": 50},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 600, "dur": 50},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 300, "dur": 50}]}"#;

#[test]
fn of_a_pass_with_stacks_only_the_callers_of_operators_are_read() {
    let imported = import_pass("torch-stacks", STACKS);
    imported.result.as_ref().expect("it is sound");
    let session = &imported.session;
    let callers = &session.callers;
    let rows: Vec<(&str, &str, u64)> = (0..callers.len())
        .map(|row| {
            let [operator, function] = [callers.operator[row], callers.function[row]];
            (
                session.text(operator),
                session.text(function),
                callers.calls[row],
            )
        })
        .collect();
    let expected = [
        ("aten::linear", "model.py(3): forward", 1),
        ("aten::mm", "model.py(3): forward", 2),
        ("aten::mm", "train.py(6): step", 1),
    ];
    assert_eq!(rows.len(), expected.len());
    assert!(expected.iter().all(|row| rows.contains(row)), "{rows:?}");
    let mm = callers.operator[callers
        .calls
        .iter()
        .position(|calls| *calls == 2)
        .expect("is there")];
    let most = session.caller(mm).map(|name| session.text(name));
    assert_eq!(most, Some("model.py(3): forward"));
    assert!(session.operators.is_empty() && session.frames.is_empty() && session.ranges.is_empty());
    // The same trace of another pass has its times.
    let other = import_pass("torch", STACKS).session;
    assert_eq!((other.operators.len(), other.callers.len()), (5, 0));
}

#[test]
fn a_graph_numbered_0_is_none() {
    let trace = MODERN.replace(
        "node id\": 34, \"graph id\": 5",
        "node id\": 0, \"graph id\": 0",
    );
    let launches = import(&trace).session.launches;
    assert_eq!((launches.graph_node[0], launches.graph[0]), (None, None));
}

#[test]
fn the_host_side_keeps_shapes_annotations_frames_and_waits() {
    let session = import(MODERN).session;
    let operators = &session.operators;
    assert_eq!(session.text(operators.name[0]), "aten::mm");
    assert_eq!(operators.external[0], Some(2));
    assert_eq!(session.text(operators.shapes[0]), "[[8,1024],[1024,64]]");
    assert_eq!(
        session.text(operators.types[0]),
        r#"["c10::BFloat16","long int"]"#
    );
    assert_eq!(session.text(operators.inputs[0]), r#"["","a \"b, c\" ]"]"#);

    assert_eq!(session.ranges.kind, [RangeKind::Annotation]);
    assert_eq!(
        session.ranges.end[0] - session.ranges.start[0],
        Ns(68_703_455)
    );
    assert_eq!(session.text(session.frames.name[0]), "nn.Module: Linear_0");
    assert_eq!(
        session.text(session.synchronizations.kind[0]),
        "context synchronize"
    );
    assert_eq!(session.synchronizations.stream, [None]);
}

#[test]
fn marks_of_the_capture_have_a_domain_and_model_calls_a_table() {
    let event = |name: &str, start: u32| {
        format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 2,
                "ts": {start}, "dur": 5}}"#
        )
    };
    let events = [
        event("rooflens:torch.save", 10),
        event("rooflens:call train batch=8 tokens=300", 20),
        event("step", 30),
    ];
    let imported = import(format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")));
    let session = &imported.session;
    let (ranges, calls) = (&session.ranges, &session.model_calls);
    let text = |id| session.text(id);
    assert_eq!(
        [0, 1].map(|row| text(ranges.name[row])),
        ["torch.save", "step"]
    );
    assert_eq!([0, 1].map(|row| text(ranges.domain[row])), ["rooflens", ""]);
    assert_eq!((calls.len(), text(calls.phase[0])), (1, "train"));
    assert_eq!((calls.start[0], calls.end[0]), (Ns(20_000), Ns(25_000)));
    let sizes = (calls.batch[0], calls.tokens[0], calls.keys[0]);
    assert_eq!(sizes, (Some(8), Some(300), None));
}

#[test]
fn copies_and_allocations_keep_bytes_and_places() {
    let session = import(MODERN).session;
    let copies = &session.copies;
    assert_eq!(copies.kind, [CopyKind::HostToDevice, CopyKind::Memset]);
    assert_eq!(copies.bytes, [4096, 512]);
    assert_eq!(copies.source, [MemoryKind::Pageable, MemoryKind::Unknown]);
    assert_eq!(copies.destination, [MemoryKind::Device; 2]);
    assert_eq!(copies.end[1], copies.start[1], "a length of 0 is kept");

    let memory = &session.memory_events;
    assert_eq!(memory.time[0], Ns(4_366_746_849_948_528));
    assert_eq!(memory.device, [Some(0), None]);
    assert_eq!(memory.thread, [Some(session.operators.thread[0]); 2]);
    assert_eq!(memory.bytes, [-67_108_864, 64]);
    assert_eq!(memory.address, [140_291_281_518_592, 16]);
    assert_eq!(memory.allocated, [Some(16_161_252_864), None]);
    assert_eq!(memory.reserved, [Some(18_714_984_448), None]);
}

#[test]
fn a_modern_trace_tells_of_its_machine() {
    let imported = import(MODERN);
    let session = &imported.session;
    let passes = &session.passes;
    assert_eq!(passes.utc_origin, [Some(Ns(1_790_857_026_000_000_000))]);
    assert_eq!(
        session.text(passes.producer[0]),
        "PyTorch profiler (CUDA 13.0, CUPTI 130001)"
    );
    assert_eq!(
        passes.rank,
        [Some(1)],
        "the trace's word counts before the manifest's"
    );
    assert_eq!(session.gpus.ordinal, [0]);
    assert_eq!(session.gpus.sm_count, [Some(132)]);
    assert_eq!(session.text(session.gpus.name[0]), "NVIDIA H200");
    assert_eq!(session.gpus.compute_capability, [Some(90)]);
    assert_eq!(session.gpus.memory_bytes, [Some(150_109_880_320)]);
    assert_eq!(session.processes.len(), 1, "devices are no processes");
    assert_eq!(session.text(session.processes.name[0]), "python3");
    assert_eq!(session.processes.rank, [Some(1)]);
    assert_eq!(session.threads.tid, [549]);
    assert_eq!(
        session.text(session.threads.name[0]),
        "thread 549 (python3)"
    );

    let facts = &session.environment;
    let fact = |key: &str| {
        let row = facts.key.iter().position(|id| session.text(*id) == key)?;
        Some((
            session.text(facts.subject[row]),
            session.text(facts.value[row]),
        ))
    };
    assert_eq!(fact("world_size"), Some(("distributed", "2")));
    assert_eq!(fact("nccl_version"), Some(("distributed", "2.28.9")));
    assert_eq!(fact("with_flops"), Some(("profiler", "1")));
    assert_eq!((fact("host_name"), fact("traceName")), (None, None));
    // The copy of id 99 has no call; the memset shares id 7 with the kernel.
    assert_eq!(
        imported.codes(),
        ["torch/launch-without-call", "torch/shared-correlation"]
    );
    assert!(
        imported
            .diagnostics
            .iter()
            .all(|diagnostic| diagnostic.count == 1)
    );
}

/// December 2020: capitalized categories, threads and streams as strings, whole microseconds since 1970,
/// no key next to the events.
const OLDEST: &str = r#"{"traceEvents": [
  {"ph": "X", "cat": "Operator", "name": "aten::to", "pid": 24572, "tid": "4093687616", "ts": 1606899466000100, "dur": 9,
   "args": {"Device": 24572, "External id": "2", "Input dims": [[8, 3]], "Input type": [], "Trace iteration": 0}},
  {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 24572, "tid": "4093687616", "ts": 1606899466000104, "dur": 4,
   "args": {"cbid": 211, "correlation": 334, "external id": 2, "external ts": 1606899466000100}},
  {"ph": "s", "id": 334, "pid": 24572, "tid": "4093687616", "ts": 1606899466000104, "cat": "async", "name": "launch"},
  {"ph": "X", "cat": "Kernel", "name": "k2", "pid": 1, "tid": "stream 20", "ts": 1606899466000210, "dur": 0,
   "args": {"queued": 0, "device": 1, "context": 1, "correlation": 334, "registers per thread": 16, "shared memory": 0, "grid": [2, 1, 1], "block": [64, 1, 1]}},
  {"ph": "X", "cat": "Kernel", "name": "k1", "pid": 1, "tid": "stream 7", "ts": 1606899466000110, "dur": 3,
   "args": {"queued": 0, "device": 1, "context": 1, "stream": 7, "correlation": 12, "grid": [1, 1, 1], "block": [32, 1, 1]}},
  {"ph": "X", "cat": "Memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 1, "tid": "stream 7", "ts": 1606899466000120, "dur": 2,
   "args": {"device": 1, "stream": 7, "correlation": 12, "bytes": 8}}
]}"#;

#[test]
fn the_oldest_traces_are_read() {
    let imported = import(OLDEST);
    imported.result.as_ref().expect("it is sound");
    let session = &imported.session;
    assert_eq!(session.passes.utc_origin, [Some(Ns::ZERO)], "times are UTC");
    assert_eq!(
        session.passes.rank,
        [Some(5)],
        "the manifest's word, where the trace has none"
    );
    assert_eq!(session.text(session.passes.producer[0]), "PyTorch profiler");
    let launches = &session.launches;
    assert_eq!(
        launches.start,
        [Ns(1_606_899_466_000_210_000), Ns(1_606_899_466_000_110_000)]
    );
    assert_eq!(
        launches.end,
        [Ns(1_606_899_466_000_210_000), Ns(1_606_899_466_000_113_000)]
    );
    assert_eq!(
        launches.stream,
        [20, 7],
        "from the lane where the arguments have none"
    );
    assert_eq!(session.gpus.ordinal[launches.gpu[0].index()], 1);
    assert_eq!(launches.registers, [Some(16), None]);
    assert_eq!(session.copies.bytes, [8]);
    assert_eq!(session.threads.tid, [4_093_687_616]);
    assert_eq!(session.operators.external, [Some(2)], "also as a string");
    assert_eq!(session.text(session.operators.shapes[0]), "[[8,3]]");
    // k1 and the copy.
    let lost = imported
        .diagnostic("torch/launch-without-call")
        .expect("there are");
    assert_eq!(lost.count, 2);
}

/// Reads a kernel with these times after the outer keys `head`.
fn one_kernel(head: &str, ts: &str, dur: &str) -> Imported {
    import(format!(
        r#"{{"schemaVersion": 1, {head} "traceEvents": [{{"ph": "X", "cat": "kernel", "name": "k",
        "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}, "args": {{"stream": 7, "correlation": 1}}}}]}}"#
    ))
}

#[test]
fn times_are_exact_in_all_generations() {
    const BASE: i64 = 1_719_853_884_000_000_000;
    let based = r#""baseTimeNanoseconds": 1719853884000000000,"#;
    let nanoseconds = r#""displayTimeUnit": "ns","#;
    for (head, ts, dur, start, length, origin) in [
        (
            based,
            "4212936085387.172",
            "115.414",
            4_212_936_085_387_172,
            115_414,
            Some(BASE),
        ),
        // Early 2024: epoch-absolute floats in microseconds, though the unit is called ns.
        (
            nanoseconds,
            "1712195495406753.0",
            "1.75",
            1_712_195_495_406_753_000,
            1_750,
            Some(0),
        ),
        (
            "",
            "1689180448563241",
            "595",
            1_689_180_448_563_241_000,
            595_000,
            Some(0),
        ),
        (
            "",
            "1.689180448563241e15",
            "5.95e2",
            1_689_180_448_563_241_000,
            595_000,
            Some(0),
        ),
        // Absolute times next to a base: the times win.
        (
            based,
            "1712195495406753.2",
            "1",
            1_712_195_495_406_753_200,
            1_000,
            Some(0),
        ),
        // Neither absolute nor based: the origin is unknown.
        ("", "12.5", "0.001", 12_500, 1, None),
    ] {
        let session = one_kernel(head, ts, dur).session;
        assert_eq!(session.launches.start, [Ns(start)], "{ts}");
        assert_eq!(session.launches.end, [Ns(start + length)], "{dur}");
        assert_eq!(session.passes.utc_origin, [origin.map(Ns)], "{ts}");
    }
}

#[test]
fn events_without_readable_times_are_told_as_lost() {
    let unreadable = [
        ("null", "1"),
        ("1", "null"),
        ("1", "-1"),
        ("9223372036854775.807", "1"),
        ("\"x\"", "1"),
    ];
    for (ts, dur) in unreadable {
        let imported = one_kernel("", ts, dur);
        assert_eq!(imported.session.launches.len(), 0);
        let lost = imported
            .diagnostic("torch/untimed-events")
            .expect("it is lost");
        assert_eq!((lost.severity, lost.count), (Severity::DataLoss, 1));
    }
}

#[test]
fn keys_after_the_events_are_read() {
    let imported = import(
        r#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 1}],
        "baseTimeNanoseconds": 1790857026000000000, "distributedInfo": {"rank": 0},
        "deviceProperties": [{"id": 3, "name": "", "numSms": 0}]}"#,
    );
    let session = &imported.session;
    assert_eq!(
        session.passes.utc_origin,
        [Some(Ns(1_790_857_026_000_000_000))]
    );
    assert_eq!(session.passes.rank, [Some(0)]);
    assert_eq!(session.gpus.ordinal, [3]);
    assert_eq!(
        session.gpus.sm_count,
        [None],
        "0 multiprocessors are none stated"
    );
    assert_eq!(imported.codes(), ["torch/no-gpu-work"]);
}

#[test]
fn flows_stand_in_for_missing_correlation_ids() {
    let imported = import(
        r#"{"traceEvents": [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 40, "tid": 41, "ts": 10, "dur": 4},
        {"ph": "s", "id": 77, "pid": 40, "tid": 41, "ts": 10, "cat": "ac2g", "name": "ac2g"},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20, "dur": 4},
        {"ph": "f", "id": 77, "pid": 0, "tid": 7, "ts": 20, "cat": "ac2g", "name": "ac2g", "bp": "e"}]}"#,
    );
    assert_eq!(imported.session.launches.correlation, [Some(77)]);
    assert_eq!(imported.session.api_calls.correlation, [Some(77)]);
    assert_eq!(imported.codes(), ["torch/correlated-by-flow"]);
}

/// A forward pass on one thread, its gradient on another; one node is older than the trace.
#[test]
fn backward_operators_know_their_forward_ones() {
    let operator = |name: &str, tid: u32, ts: u32, node: &str| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": {tid}, "ts": {ts}, "dur": 5, "args": {{{node}}}}}"#
        )
    };
    let node = |number: u32, thread: u32| {
        format!(r#""Sequence number": {number}, "Fwd thread id": {thread}"#)
    };
    let events = [
        operator("MmBackward0", 2, 50, &node(8, 1)),
        operator("TBackward0", 2, 60, &node(7, 1)),
        operator("OldBackward0", 2, 70, &node(3, 1)),
        operator("aten::t", 1, 10, &node(7, 0)),
        operator("aten::mm", 1, 20, &node(8, 0)),
        operator("aten::empty", 1, 30, ""),
    ];
    let imported = import(format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")));
    let session = &imported.session;
    let name = |id: &rooflens::session::OperatorId| {
        session.text(session.operators.name[id.index()]).to_owned()
    };
    let ties = &session.backward_operators;
    let ties: Vec<(String, String)> = ties
        .operator
        .iter()
        .zip(&ties.forward)
        .map(|(a, b)| (name(a), name(b)))
        .collect();
    let expected = [("MmBackward0", "aten::mm"), ("TBackward0", "aten::t")];
    assert_eq!(ties, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let lost = imported
        .diagnostic("torch/backward-without-forward")
        .expect("it is told");
    assert_eq!(lost.count, 1);
}

#[test]
fn work_belongs_to_the_process_that_called() {
    let event = |category: &str, pid: u32, id: u32| {
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "n", "pid": {pid}, "tid": 1, "ts": 1, "dur": 1, "args": {{"correlation": {id}}}}}"#
        )
    };
    let calls =
        [(10, 1), (20, 2), (20, 3), (10, 3)].map(|(pid, id)| event("cuda_runtime", pid, id));
    let kernels = [1, 2, 3, 4].map(|id| event("kernel", 0, id));
    let events = [calls, kernels].concat().join(",");
    let imported = import(format!(r#"{{"traceEvents": [{events}]}}"#));
    let session = &imported.session;
    let pids = session
        .launches
        .process
        .iter()
        .map(|id| session.processes.pid[id.index()]);
    // Both used id 3: the first caller's. None used id 4: of processes with equally many events the first.
    assert_eq!(pids.collect::<Vec<_>>(), [10, 20, 20, 10]);
    assert_eq!(
        imported.codes(),
        ["torch/launch-without-call", "torch/ambiguous-process"]
    );
}

#[test]
fn unknown_events_are_counted_in_one_message() {
    let imported = import(
        r#"{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"correlation": 1}},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "m", "ts": 1, "dur": 1},
        {"ph": "C", "name": "counter", "ts": 1}, {"ph": "C", "name": "counter", "ts": 2}, {}]}"#,
    );
    let unknown = imported
        .diagnostic("torch/unknown-events")
        .expect("there are");
    assert_eq!((unknown.severity, unknown.count), (Severity::Info, 4));
    assert_eq!(
        unknown.message,
        "events of unknown kinds are not used: 2 of phase \"C\", category \"\"; \
         1 of phase \"\", category \"\"; 1 of phase \"X\", category \"mtia_ccp_events\""
    );
}

#[test]
fn an_accelerator_that_is_not_read_is_named() {
    let imported = import(
        r#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "m", "ts": 1, "dur": 1}]}"#,
    );
    let told = imported
        .diagnostic("torch/other-device")
        .expect("it is told");
    assert!(told.message.contains("mtia_ccp_events"), "{}", told.message);
}

#[test]
fn an_empty_window_is_no_silent_success() {
    let imported = import(
        r#"{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 6, "tid": 6, "ts": 1.0, "dur": 42.914, "args": {"correlation": 4}},
        {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 9.0}]}"#,
    );
    imported.result.as_ref().expect("it is sound");
    let empty = imported
        .diagnostic("torch/empty-window")
        .expect("it is told");
    assert_eq!(empty.severity, Severity::DataLoss);
    assert!(empty.message.contains("among the 2 events"));
    assert_eq!(imported.session.api_calls.len(), 1);
    assert_eq!(
        import(r#"{"traceEvents": []}"#).codes(),
        ["torch/empty-window"]
    );
}

#[test]
fn damage_costs_what_it_hits() {
    let start = MODERN
        .find("\"ph\": \"X\", \"cat\": \"gpu_memset\"")
        .expect("it is there");
    let cut = import(&MODERN[..start + 40]);
    cut.result.as_ref().expect("what is whole is read");
    assert_eq!(
        (cut.session.launches.len(), cut.session.copies.len()),
        (1, 1)
    );
    let damage = cut.diagnostic("torch/damaged").expect("it is told");
    assert_eq!(damage.at, Location::Byte(start as u64 + 40));
    assert_eq!(damage.severity, Severity::DataLoss);

    let nan = import(MODERN.replace("15.515152", "NaN"));
    nan.result.as_ref().expect("the rest is read");
    assert_eq!(
        (nan.session.launches.len(), nan.session.copies.len()),
        (0, 2)
    );
    let invalid = nan.diagnostic("torch/invalid-events").expect("it is told");
    assert_eq!((invalid.severity, invalid.count), (Severity::DataLoss, 1));
    assert_eq!(nan.session.passes.rank, [Some(1)]);

    let mut bytes = MODERN.as_bytes().to_vec();
    let name = MODERN.find("void gemm").expect("it is there");
    bytes[name] = 0xff;
    let utf8 = import(bytes);
    assert_eq!(
        (utf8.session.launches.len(), utf8.session.copies.len()),
        (0, 2)
    );
    assert!(utf8.diagnostic("torch/invalid-events").is_some());
}

#[test]
fn packed_traces_are_read_and_broken_archives_told() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(MODERN.as_bytes()).expect("memory takes it");
    let packed = gzip.finish().expect("memory takes it");
    let whole = import(&packed);
    assert_eq!(
        (whole.session.launches.len(), whole.session.operators.len()),
        (1, 1)
    );
    let zstd = zstd::encode_all(MODERN.as_bytes(), 3).expect("memory takes it");
    assert_eq!(
        import(&zstd).session.launches.end,
        whole.session.launches.end
    );

    let cut = import(&packed[..packed.len() - 200]);
    cut.result.as_ref().expect("what is whole is read");
    assert_eq!(cut.session.operators.len(), 1);
    assert!(
        cut.diagnostic("torch/damaged")
            .expect("it is told")
            .message
            .contains("unpacked")
    );
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    let kind = |text: &str| import(text).result.expect_err("it is none").kind;
    assert!(matches!(
        kind("{\"traceEvents\": [{\"ph\": \"X"),
        IngestErrorKind::Truncated
    ));
    assert!(matches!(
        kind("{\"schemaVersion\": 1, \"traceEv"),
        IngestErrorKind::Truncated
    ));
    assert!(matches!(kind(""), IngestErrorKind::Truncated));
    assert!(matches!(
        kind(&"[".repeat(1_000_000)),
        IngestErrorKind::Truncated
    ));
    for key in ["a", "traceEvents"] {
        let nested = format!("{{\"{key}\": {}", "[".repeat(1_000_000));
        assert!(matches!(kind(&nested), IngestErrorKind::Truncated), "{key}");
    }
    let execution_trace = "{\"schema\": \"1.1.0\", \"pid\": 1, \"nodes\": []}";
    assert!(matches!(
        kind(execution_trace),
        IngestErrorKind::Value { .. }
    ));
    assert_eq!(
        import(execution_trace).session.passes.len(),
        0,
        "nothing is added"
    );
}

#[test]
fn only_traces_of_the_profiler_are_recognized() {
    let sniff = |text: &str| {
        (IMPORTER.sniff)(&Prefix {
            name: "a.json",
            bytes: text.as_bytes(),
            complete: true,
        })
    };
    for trace in [
        MODERN,
        OLDEST,
        r#"{"schemaVersion": 1, "distributedInfo": {"pg_config": [{"ranks": [0, 1, "#,
        r#"[{"name": "aten::mm", "ph": "X", "ts": 1, "dur": 1, "tid": 1, "pid": "CPU functions"}"#,
    ] {
        assert!(sniff(trace), "{trace}");
    }
    for other in [
        r#"{"schema": "1.1.0-chakra.0.0.4", "nodes": [{"name": "[pytorch|profiler|execution_trace|thread]"}]}"#,
        r#"{"rocprofiler-sdk-tool": [{"metadata": {}}]}"#,
        r#"{"traceEvents": [{"name": "Asub", "cat": "PERF", "ph": "B", "pid": 22630, "tid": 22630, "ts": 829}]}"#,
        r#"[{"name": "Asub", "cat": "PERF", "ph": "B", "pid": 22630, "tid": 22630, "ts": 829}]"#,
        "\u{0}\u{5}\u{16}\u{7}\u{0}\u{2}\u{0}\u{0}Mac OS X",
        "{\"architectures\": [\"LlamaForCausalLM\"]}",
        "",
    ] {
        assert!(!sniff(other), "{other}");
    }
}

/// Arguments as PyTorch 2.4 writes them: counts as numbers, ranks and split sizes as texts.
#[test]
fn kernels_of_collectives_say_what_they_move() {
    let kernel = |correlation: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)", "pid": 0, "tid": 17,
            "ts": {correlation}, "dur": 1, "args": {{"device": 0, "stream": 17, "correlation": {correlation}{args}}}}}"#
        )
    };
    let whole = r#", "Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 8000, "Group size": 8,
        "dtype": "BFloat16", "In split size": "[]", "Process Group Name": "3", "Process Group Ranks": "[0, 1, 2]", "Seq": 41"#;
    let unsized_type = r#", "Collective name": "allreduce", "In msg nelems": 10, "dtype": "Quantized", "Group size": -1"#;
    let [send, receive] = [("send", "Dst"), ("recv", "Src")].map(|(name, end)| {
        format!(r#", "Collective name": "{name}", "In msg nelems": 10, "dtype": "Float", "{end} Rank": 5"#)
    });
    let events = [
        kernel(1, ""),
        kernel(2, whole),
        kernel(3, unsized_type),
        kernel(4, &send),
        kernel(5, &receive),
    ];
    let events = events.join(", ");
    let imported = import(format!(
        r#"{{"schemaVersion": 1, "traceEvents": [{events}]}}"#
    ));
    imported.result.as_ref().expect("it is sound");
    let session = &imported.session;
    let table = &session.collectives;
    // The launch without arguments has no row; 2 bytes an element.
    assert_eq!(
        table
            .launch
            .iter()
            .map(|launch| launch.index())
            .collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert_eq!(
        (table.bytes_in[0], table.bytes_out[0]),
        (Some(2000), Some(16_000))
    );
    assert_eq!(
        (table.group_size[0], table.sequence[0]),
        (Some(8), Some(41))
    );
    let texts = [
        table.operation[0],
        table.group[0],
        table.ranks[0],
        table.dtype[0],
    ];
    assert_eq!(
        texts.map(|id| session.text(id)),
        ["_allgather_base", "3", "[0, 1, 2]", "BFloat16"]
    );
    assert_eq!(
        (table.bytes_in[1], table.group_size[1], table.sequence[1]),
        (None, None, None)
    );
    assert_eq!(table.peer, [None, None, Some(5), Some(5)]);
}

#[test]
fn more_recordings_than_a_thousand_are_left_out_and_said() {
    let trace = br#"{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"device":0}}]}"#;
    let mut temporary = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    temporary.write_all(trace).expect("it can be written");
    let file = |at: usize| ArtifactFile {
        path: format!("{at:04}.json"),
        location: temporary.path().to_owned(),
        kind: Some(rooflens_schemas::ArtifactKind::TorchTrace),
        pass: format!("{at:04}"),
        ..ArtifactFile::default()
    };
    let mut bundle = rooflens::bundle::Bundle::default();
    bundle.files = (0..1026).map(file).collect();
    let mut diagnostics = Diagnostics::default();
    let session = rooflens::ingest::import(&bundle, &mut diagnostics, &mut |_| ());
    assert_eq!((session.passes.len(), session.launches.len()), (1024, 1024));
    let lost = diagnostics.iter().filter(|one| one.code == "ingest/passes");
    let lost: Vec<_> = lost.filter_map(|one| one.artifact.as_deref()).collect();
    assert_eq!(lost, ["1024.json", "1025.json"]);
}
