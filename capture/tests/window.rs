//! ncu where it matters: the kernels of the timeline, in one instance of each stage, and what becomes of passes whose time
//! is up.

mod machine;

use std::fs;
use std::time::{Duration, Instant};

use machine::{Machine, fakes, pass, text};

/// Three instances of `decode`, of which each launches `gemm` of two grids and `add`, on thread 2 of process 1, and an
/// `ncclDevKernel`. The first instance takes ten times as long: it is a cold start.
fn export() -> String {
    let mut sql = String::from(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         INSERT INTO StringIds VALUES (1, 'void gemm<float>(int)'), (2, 'gemm'), (3, '_Z4gemmIfEvi'), (4, 'add(int)'),
            (5, 'add'), (6, '_Z3addi'), (7, 'ncclDevKernel_AllReduce(x)'), (8, 'ncclDevKernel_AllReduce');
         CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
            nameId INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER);",
    );
    let (process, thread) = (1 << 24, (1 << 24) + 2);
    for instance in 0..5 {
        let (begin, scale) = (100_000 * (instance + 1), if instance == 0 { 10 } else { 1 });
        let end = begin + 5_000 * scale;
        sql.push_str(&format!(
            "INSERT INTO NVTX_EVENTS VALUES ({begin}, {end}, 59, 'decode', {thread});"
        ));
        // Names, time, grid.
        let kernels = [
            ((1, 2, 3), 900, 8),
            ((1, 2, 3), 100, 4),
            ((4, 5, 6), 300, 1),
            ((7, 8, 8), 2000, 1),
        ];
        for (index, ((name, short, mangled), time, grid)) in (0..).zip(kernels) {
            let (start, id) = (begin + 1_000 * index * scale, 10 * instance + index);
            // No two instances last equally long: their collectives differ.
            let end = start + time * scale + if index == 3 { 10 * instance } else { 0 };
            sql.push_str(&format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {start} + 10, {thread}, {id}, 0);
                 INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start} + 20, {end} + 20, 0, 7, {id}, {process}, {name}, {short},
                    {mangled}, {grid}, 1, 1);"
            ));
        }
    }
    sql
}

#[test]
fn the_list_is_made_of_the_export() {
    let machine = Machine::with(&export());
    let export = machine.folder().join("export.sqlite");
    let output = machine.plain(&[
        "kernels",
        export.to_str().expect("text"),
        "--stage",
        "decode",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Of 4 * (900 + 100 + 300) in the instances that count gemm has 4000; the collective is none of them. Launches of
    // gemm are 2 an instance; those with grid 8 have even numbers, and the cold instance's is not among them. With add
    // there are 3 an instance: the last of the second one is number 5, and the gemm after it is number 6.
    let expected = "# launches: numbers among all launches of the function, from 0\nkernels:\n  \
        - name: \"void gemm<float>(int)\"\n    regex: \"^gemm$\"\n    share: 0.769231\n    launches: [2, 4, 6]\n  \
        - name: \"add(int)\"\n    regex: \"^add$\"\n    share: 0.230769\n    launches: [1, 2, 3]\n\
        # launches of all these functions together that hold a typical one of each\n\
        window: {skip: 5, count: 2}\nname_base: function\n";
    assert_eq!(text(&output.stdout), expected);

    let missing = machine.plain(&[
        "kernels",
        export.to_str().expect("text"),
        "--stage",
        "prefill",
    ]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(text(&missing.stderr).contains("no stage prefill: there are decode"));
}

/// Kernels of a process without ranges, one letter each.
fn without_ranges(kernels: &str) -> String {
    let mut sql = String::from(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);",
    );
    for letter in 'a'..='z' {
        let id = letter as u32;
        sql.push_str(&format!("INSERT INTO StringIds VALUES ({id}, '{letter}');"));
    }
    for (index, letter) in kernels.chars().enumerate() {
        let (start, id) = (1000 * index, letter as u32);
        sql.push_str(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {start} + 900, 0, 7, {index}, 16777216, {id}, {id});"
        ));
    }
    sql
}

#[test]
fn without_ranges_the_sequence_that_repeats_is_profiled_or_the_whole_run() {
    let notes_of = |kernels: &str| {
        let machine = Machine::with(&without_ranges(kernels));
        let output = machine.run(&["all", "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let manifest = machine.manifest();
        let ncu = pass(&manifest, "ncu");
        let notes = ncu.notes.join("\n");
        let note = notes
            .lines()
            .find(|line| line.starts_with("no range marks a stage"));
        let note = note.expect("is noted").to_owned();
        assert!(said.contains(&note), "{said}");
        let list = fs::read_to_string(machine.bundle().join("kernels.yaml")).expect("is there");
        (note, list, ncu.command.join(" "))
    };
    // Two kernels of warm-up, then abc five times.
    let (note, list, line) = notes_of(&format!("xy{}", "abc".repeat(5)));
    assert!(note.contains("that repeats"), "{note}");
    assert!(
        list.contains("\"^a$\"") && !list.contains("\"^x$\""),
        "{list}"
    );
    // The second repeat begins after three launches of these kernels.
    assert!(line.contains("--launch-skip 3 --launch-count 3"), "{line}");
    let (note, list, _) = notes_of("abcdefgh");
    assert!(note.contains("the whole run is one stage"), "{note}");
    assert!(list.contains("\"^h$\""), "{list}");

    let machine = Machine::with(&without_ranges("abab"));
    let export = machine.folder().join("export.sqlite");
    let output = machine.plain(&["kernels", export.to_str().expect("text")]);
    assert!(text(&output.stderr).contains("the list is that of the whole run"));
}

#[test]
fn ncu_begins_and_ends_with_an_instance_of_the_stage() {
    let machine = Machine::with(&export());
    let (torch, cuda) = (fakes().join("torch"), machine.folder().join("cuda.txt"));
    let mut command = machine.command(&["all", "--", "python3"]);
    command
        .arg(torch.join("generate.py"))
        .env("PYTHONPATH", &torch)
        .env("FAKE_CUDA", &cuda)
        .env("FAKE_PROFILED", "_Z4gemmIfEvi");
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let ids: Vec<&str> = manifest
        .passes
        .iter()
        .map(|pass| pass.id.as_str())
        .collect();
    // Two early instances of at least four that count have stacks.
    assert_eq!(
        ids,
        [
            "snapshot",
            "baseline",
            "nsys",
            "torch",
            "torch-stacks",
            "ncu"
        ]
    );
    let ncu = pass(&manifest, "ncu");
    assert_eq!(ncu.exit_code, Some(0));
    let line = ncu.command.join(" ");
    assert!(
        line.contains(
            "--profile-from-start off --filter-mode per-launch-config --launch-count 1 --kernel-name-base mangled \
             --kernel-name regex:^_Z(3addi$|4gemmIfEvi$)"
        ),
        "{line}"
    );
    // The second instance is the first that counts. The workload pushes four, and ends after the second.
    let calls = fs::read_to_string(&cuda).expect("is there");
    assert_eq!(calls, "cudaProfilerStart\ncudaProfilerStop\n");
    let notes = ncu.notes.join("\n");
    assert!(
        notes.contains("profiled: range decode, instance 2 of its name"),
        "{notes}"
    );
    assert!(
        notes.contains("listed kernels that did not occur: add(int)"),
        "{notes}"
    );
}

/// A server computes in a thread of its own, which cannot stop the profiler of the main thread.
#[test]
fn ranges_of_another_thread_leave_the_profiler_running() {
    let machine = Machine::with(&export());
    let torch = fakes().join("torch");
    let mut command = machine.command(&["all", "--passes", "baseline,nsys,torch", "--", "python3"]);
    command
        .arg(torch.join("generate.py"))
        .arg("worker")
        .env("PYTHONPATH", &torch);
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let traces = manifest
        .artifacts
        .iter()
        .filter(|artifact| artifact.path.ends_with(".pt.trace.json.gz"));
    let traces: Vec<&str> = traces.map(|artifact| artifact.path.as_str()).collect();
    assert_eq!(traces, ["torch/trace.pt.trace.json.gz"]);
}

/// The export with a CUDA graph in each instance, which takes longer than the kernels.
fn export_with_graphs() -> String {
    let mut sql = export();
    sql.push_str(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, graphId INTEGER);",
    );
    let (process, thread) = (1 << 24, (1 << 24) + 2);
    for instance in 0..5 {
        let (start, id) = (100_000 * (instance + 1) + 4_500, 10 * instance + 9);
        sql.push_str(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {start} + 10, {thread}, {id}, 0);
             INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({start} + 90, {start} + 9000, 0, 7, {id}, {process}, 3);"
        ));
    }
    sql
}

#[test]
fn kernels_in_graphs_are_recorded_in_a_second_timeline() {
    let machine = Machine::with(&export_with_graphs());
    // Otherwise warm-up is inferred from times, which differ from run to run.
    fs::create_dir_all(machine.bundle()).expect("writable");
    fs::write(machine.bundle().join("workload.toml"), "warmup = 1\n").expect("writable");
    let (torch, cuda) = (fakes().join("torch"), machine.folder().join("cuda.txt"));
    let mut command = machine.command(&["all", "--", "python3"]);
    command
        .arg(torch.join("generate.py"))
        .env("PYTHONPATH", &torch)
        .env("FAKE_CUDA", &cuda)
        .env("FAKE_PROFILED", "_Z4gemmIfEvi");
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let line_of = |id: &str| pass(&manifest, id).command.join(" ");
    let (whole, nodes) = (line_of("nsys"), line_of("nsys-nodes"));
    assert!(whole.contains("--cuda-graph-trace=graph"), "{whole}");
    assert!(!whole.contains("--capture-range"), "{whole}");
    let window = "--cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop";
    assert!(nodes.contains(window), "{nodes}");
    // The first instance does not count. Nodes are recorded without a pause from the second to the third, then ncu
    // profiles the first instance of the timeline of nodes, which is the second of the run.
    let calls = fs::read_to_string(&cuda).expect("is there");
    assert_eq!(calls, "cudaProfilerStart\ncudaProfilerStop\n".repeat(2));
    let notes_of = |id: &str| pass(&manifest, id).notes.join("\n");
    let notes = notes_of("nsys-nodes");
    assert!(notes.contains("decode 2, decode 3"), "{notes}");
    let notes = notes_of("ncu");
    assert!(
        notes.contains("range decode, instance 2 of its name"),
        "{notes}"
    );
    assert!(machine.bundle().join("nsys-nodes/timeline.sqlite").exists());
}

#[test]
fn ncu_is_stopped_when_it_has_enough_of_a_stage() {
    let machine = Machine::with(&export());
    let (torch, cuda) = (fakes().join("torch"), machine.folder().join("cuda.txt"));
    // And loaders pin nothing while it profiles.
    let script = "
import os, time, torch
from torch.cuda import nvtx
from torch.utils.data import DataLoader
loader = DataLoader([], 8, pin_memory=True)
assert loader.batch_size == 8 and loader.pin_memory == ('ROOFLENS_INSTANCES' not in os.environ)
for step in range(3):
    nvtx.range_push('decode')
    time.sleep(1)
    if 'ROOFLENS_INSTANCES' in os.environ:
        open(os.environ['FAKE_CUDA'], 'a').write(f'end of {step}\\n')
    nvtx.range_pop()
";
    let mut command = machine.command(&["all", "--", "python3", "-c", script]);
    // Until add, gemm has two grids.
    command
        .env("PYTHONPATH", &torch)
        .env("FAKE_CUDA", &cuda)
        .env("FAKE_PROFILED", "_Z4gemmIfEvi _Z4gemmIfEvi _Z3addi");
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let calls = fs::read_to_string(&cuda).expect("is there");
    assert_eq!(
        calls,
        "end of 0\ncudaProfilerStart\ncudaProfilerStop\nend of 1\n"
    );
}

#[test]
fn a_pass_whose_time_is_up_ends_early_and_what_it_has_is_kept() {
    let machine = Machine::with(&export());
    let begin = Instant::now();
    let script = "[ -n \"$ROOFLENS_RANGES\" ] && exec sleep 60; sleep 1";
    let output = machine.run(&["all", "--budget", "24s", "--", "sh", "-c", script]);
    assert!(
        begin.elapsed() < Duration::from_secs(50),
        "the workload was waited for"
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    assert_eq!(pass(&manifest, "baseline").cut, None);
    let nsys = pass(&manifest, "nsys");
    assert_eq!(nsys.exit_code, None);
    assert!(
        nsys.cut
            .as_ref()
            .is_some_and(|reason| reason.contains("--budget")),
        "{nsys:?}"
    );
    assert!(
        manifest
            .artifacts
            .iter()
            .any(|artifact| artifact.path == "nsys/timeline.sqlite")
    );
}

#[test]
fn ncu_ends_at_its_deadline_with_what_it_has() {
    let machine = Machine::with(&export());
    let (torch, cuda) = (fakes().join("torch"), machine.folder().join("cuda.txt"));
    let script = "
import os, time, torch
from torch.cuda import nvtx
for step in range(3):
    nvtx.range_push('decode')
    try:
        time.sleep(100 if step == 1 and 'ROOFLENS_INSTANCES' in os.environ else 0)
    except KeyboardInterrupt:
        open(os.environ['FAKE_CUDA'], 'a').write('interrupted')
    nvtx.range_pop()
";
    let begin = Instant::now();
    let mut command = machine.command(&["all", "--budget", "30s", "--", "python3", "-c", script]);
    // Three launches are planned, of which each takes 7 s.
    command
        .env("PYTHONPATH", &torch)
        .env("FAKE_CUDA", &cuda)
        .env("FAKE_LAUNCH", "7")
        .env("FAKE_PROFILED", "_Z4gemmIfEvi _Z4gemmIfEvi _Z3addi");
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        begin.elapsed() < Duration::from_secs(40),
        "{}",
        text(&output.stderr)
    );
    let manifest = machine.manifest();
    let ncu = pass(&manifest, "ncu");
    assert_eq!(ncu.exit_code, Some(0));
    let reason = ncu.cut.as_deref().unwrap_or_default();
    assert!(reason.contains("its time was up"), "{ncu:?}");
    let notes = ncu.notes.join("\n");
    assert!(notes.contains(" of 3 planned launches"), "{notes}");
    let report = "ncu/kernels.ncu-rep";
    assert!(
        manifest
            .artifacts
            .iter()
            .any(|artifact| artifact.path == report)
    );
    // The module stopped ncu and ended the workload, and no signal did.
    let calls = fs::read_to_string(&cuda).expect("is there");
    assert_eq!(calls, "cudaProfilerStart\ncudaProfilerStop\n");
}

#[test]
fn a_program_that_is_not_python_is_ended_by_signals_with_what_ncu_has() {
    let machine = Machine::with(&export());
    let script = "[ -n \"$ROOFLENS_DEADLINE\" ] && exec sleep 100; true";
    let mut command = machine.command(&["all", "--budget", "26s", "--", "sh", "-c", script]);
    command
        .env("FAKE_LAUNCH", "5")
        .env("FAKE_PROFILED", "gemm gemm gemm gemm gemm");
    let begin = Instant::now();
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        begin.elapsed() < Duration::from_secs(40),
        "{}",
        text(&output.stderr)
    );
    let manifest = machine.manifest();
    let ncu = manifest
        .passes
        .iter()
        .find(|pass| pass.id.starts_with("ncu"));
    let ncu = ncu.expect("is there");
    assert!(ncu.cut.is_some() && ncu.exit_code.is_none(), "{ncu:?}");
    let is_report = |path: &str| path.starts_with("ncu") && path.ends_with(".ncu-rep");
    assert!(
        manifest
            .artifacts
            .iter()
            .any(|artifact| is_report(&artifact.path))
    );
}

#[test]
fn of_a_server_the_steps_of_the_window_are_recorded_and_then_it_is_ended() {
    let machine = Machine::with(&export());
    let (fakes, cuda) = (fakes().join("python"), machine.folder().join("cuda.txt"));
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
    let port = free.expect("there is a port").port().to_string();
    let (ready, client) = (
        format!("127.0.0.1:{port}/health"),
        format!("while curl -sf http://127.0.0.1:{port}/generate/8; do :; done"),
    );
    let server = ["--client", &client, "--ready", &ready, "--", "python3"];
    let mut command = machine.command(&["nsys", "--steps", "--window", "6:4"]);
    command
        .args(server)
        .arg(fakes.join("async_engine.py"))
        .arg(&port);
    command.env("PYTHONPATH", &fakes).env("FAKE_CUDA", &cuda);
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // A request is a prompt and seven decode steps: the seventh step to the tenth are two of these, a prompt, and one.
    // Graphs that are launched before the server is ready, and batches without tokens, are no steps.
    let steps = "decode_step decode_step decode_step";
    let expected = format!(
        "cudaProfilerStart after {steps} decode_step\ncudaProfilerStop after decode_step decode_step prefill decode_step\n"
    );
    assert_eq!(fs::read_to_string(&cuda).expect("is there"), expected);
    let manifest = machine.manifest();
    let notes = pass(&manifest, "nsys").notes.join("\n");
    assert!(notes.contains("window: 4 steps after 6"), "{notes}");
    assert!(
        notes.contains("it and its client were ended when all was recorded"),
        "{notes}"
    );

    // A window before which the workload ends, and one of a workload that is none of a server.
    let run = |pass: &str, window: &str| {
        let arguments = ["torch", "--pass", pass, "--window", window, "--", "python3"];
        let mut command = machine.command(&arguments);
        command
            .arg(fakes.join("run.py"))
            .arg("updates")
            .env("PYTHONPATH", &fakes);
        command.output().expect("starts")
    };
    let late = run("late", "9:1");
    assert_eq!(late.status.code(), Some(125));
    assert!(
        text(&late.stderr).contains("choose a smaller SKIP"),
        "{}",
        text(&late.stderr)
    );
    assert_eq!(run("torch", "1:2").status.code(), Some(0));
    let packed = fs::read(machine.bundle().join("torch/trace.pt.trace.json.gz")).expect("is there");
    let trace: serde_json::Value =
        serde_json::from_slice(&machine::unpacked("x.gz", packed)).expect("valid");
    // What is between two updates is a step; the first one begins after the first update.
    let events = trace["traceEvents"].as_array().expect("a list");
    let events = events.iter().filter_map(serde_json::Value::as_str);
    let events: Vec<&str> = events.filter(|event| !event.contains("mark")).collect();
    assert_eq!(events, ["options record_shapes", "start", "stop"]);
}
