//! Passes from end to end, with fakes of the profilers: no GPU is needed.

mod leaks;
mod machine;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use machine::{ARGUMENT, Machine, TOKEN, contains, fakes, pass, text, unpacked};
use rooflens_schemas::workload::Mode;
use rooflens_schemas::{ArtifactKind, PassKind, StageKind, Workload};

#[test]
fn all_passes_make_one_bundle_without_secrets() {
    let machine = Machine::new();
    let output = machine.run(&[
        "all",
        "--gate",
        "decode",
        "--gemm-log",
        "--name",
        "Test",
        "--label",
        "ticket=1",
        "--",
        "workload",
        "0",
        "--token",
        ARGUMENT,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Standard output is the workload's own, of five runs: nothing of ours, nothing masked.
    assert_eq!(
        text(&output.stdout)
            .matches(&format!("output of the workload: {TOKEN}\n"))
            .count(),
        5
    );
    let manifest = machine.manifest();
    assert_eq!(
        (manifest.name.as_str(), manifest.labels["ticket"].as_str()),
        ("Test", "1")
    );
    let passes: Vec<&str> = manifest
        .passes
        .iter()
        .map(|pass| pass.id.as_str())
        .collect();
    assert_eq!(
        passes,
        ["snapshot", "baseline", "gemm-log", "nsys", "torch", "ncu"]
    );
    let masked = "*".repeat(ARGUMENT.len());
    for pass in &manifest.passes[1..] {
        assert_eq!(
            (pass.exit_code, pass.skipped.as_ref()),
            (Some(0), None),
            "{}",
            pass.id
        );
        assert!(pass.wall_ns.is_some_and(|wall| wall > 0) && pass.started_utc_ns.is_some());
        assert_eq!(pass.command.last(), Some(&masked));
    }
    let kinds: Vec<(&str, ArtifactKind)> = manifest
        .artifacts
        .iter()
        .map(|artifact| (artifact.path.as_str(), artifact.kind))
        .collect();
    for expected in [
        ("baseline/timings.json", ArtifactKind::Timings),
        ("config.json", ArtifactKind::ModelConfig),
        ("gemm-log/cublaslt.log.gz", ArtifactKind::GemmLog),
        ("ncu/kernels.details.csv", ArtifactKind::NcuCsv),
        ("ncu/kernels.ncu-rep", ArtifactKind::NcuReport),
        ("ncu/kernels.raw.csv", ArtifactKind::NcuCsv),
        ("nsys/timeline.sqlite", ArtifactKind::NsysSqlite),
        ("snapshot/env.json", ArtifactKind::Environment),
        ("torch/rank0.pt.trace.json.gz", ArtifactKind::TorchTrace),
        ("workload.toml", ArtifactKind::Workload),
    ] {
        assert!(kinds.contains(&expected), "{expected:?} in {kinds:?}");
    }
    let report = fs::read(machine.bundle().join("ncu/kernels.ncu-rep")).expect("is there");
    assert!(report.starts_with(b"NVR\0") && contains(&report, "/home/************/x"));
    let timeline = manifest
        .artifacts
        .iter()
        .find(|a| a.kind == ArtifactKind::NsysSqlite);
    let producer = timeline
        .and_then(|artifact| artifact.producer.as_ref())
        .expect("is known");
    assert_eq!(producer.name, "nsys");
}

#[test]
fn a_missing_tool_costs_its_pass_only() {
    let machine = Machine::new();
    let output = machine.run(&["all", "--nsys", "no-such-nsys", "--", "workload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let skipped = pass(&manifest, "nsys");
    assert_eq!(
        skipped.skipped.as_deref(),
        Some("no-such-nsys is not on the path")
    );
    assert_eq!(
        (skipped.kind, skipped.exit_code),
        (PassKind::Timeline, None)
    );
    assert_eq!(pass(&manifest, "ncu").exit_code, Some(0));

    // Without a timeline ncu takes what the gate and the count give; without torch there is no pass for it: both are said.
    assert!(
        pass(&manifest, "ncu")
            .notes
            .iter()
            .any(|note| note.starts_with("not the top kernels"))
    );
    let plain = Machine::new();
    let output = plain.run(&["all", "--nsys", "no-such-nsys", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = plain.manifest();
    let torch = pass(&manifest, "torch");
    assert_eq!(torch.exit_code, None);
    let reason = torch.skipped.as_deref().unwrap_or_default();
    assert!(reason.contains("ran no Python"), "{reason}");
    let python = Machine::new();
    let output = python.run(&["all", "--nsys", "no-such-nsys", "--", "python3", "-c", "0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let skipped = pass(&python.manifest(), "torch").skipped.clone();
    assert_eq!(
        skipped.as_deref(),
        Some("no process of the baseline imported torch")
    );

    let alone = Machine::new();
    let output = alone.run(&["nsys", "--nsys", "no-such-nsys", "--", "workload"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        text(&output.stderr),
        "rooflens-capture: error: no-such-nsys is not on the path\n"
    );
    assert!(!alone.bundle().exists());
}

#[test]
fn a_crash_of_the_workload_is_a_recorded_fact() {
    let machine = Machine::new();
    let output = machine.run(&["baseline", "--repeats", "2", "--", "workload", "3"]);
    assert_eq!(output.status.code(), Some(3));
    let manifest = machine.manifest();
    assert_eq!(pass(&manifest, "baseline").exit_code, Some(3));
    let runs = fs::read_to_string(machine.bundle().join("baseline/runs.json")).expect("is there");
    let runs: serde_json::Value = serde_json::from_str(&runs).expect("valid");
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(runs["runs"][1]["exit_code"], 3);

    // Another pass is added to the same bundle, once.
    let output = machine.run(&["nsys", "--", "workload", "0", "--token", ARGUMENT]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let ids: Vec<&str> = manifest
        .passes
        .iter()
        .map(|pass| pass.id.as_str())
        .collect();
    assert_eq!(ids, ["snapshot", "baseline", "nsys"]);
    let again = machine.run(&["nsys", "--", "workload", "0", "--token", ARGUMENT]);
    assert_eq!(again.status.code(), Some(125));
    assert!(text(&again.stderr).contains("for a single pass another --pass"));
    // All passes are refused before the first one runs.
    let all = machine.run(&["all", "--", "true"]);
    assert_eq!(all.status.code(), Some(125));
    assert!(
        !text(&all.stderr).contains("begins"),
        "{}",
        text(&all.stderr)
    );

    let machine = Machine::new();
    let crash = machine.run(&["baseline", "--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(crash.status.code(), Some(139));
    assert!(
        text(&crash.stderr).contains("exit code 139 (SIGSEGV) after"),
        "{}",
        text(&crash.stderr)
    );

    let machine = Machine::new();
    let absent = machine.run(&["baseline", "--", "no-such-workload"]);
    assert_eq!(absent.status.code(), Some(125));
    assert!(text(&absent.stderr).contains("cannot start no-such-workload"));
    assert_eq!(machine.manifest().passes.len(), 1, "the snapshot alone");
}

#[test]
fn a_signal_ends_the_workload_and_leaves_a_valid_bundle() {
    let machine = Machine::new();
    let started = machine.folder().join("started");
    let script = format!("touch {}; exec sleep 60", started.display());
    let mut command = machine.command(&["all", "--", "sh", "-c", &script]);
    let mut child = command.stderr(Stdio::null()).spawn().expect("starts");
    let begin = Instant::now();
    while !started.exists() && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.is_ok_and(|status| status.success()));
    let status = child.wait().expect("ends");
    // 128 and SIGINT.
    assert_eq!(status.code(), Some(130));
    assert!(
        begin.elapsed() < Duration::from_secs(40),
        "the workload was waited for"
    );
    let manifest = machine.manifest();
    let baseline = pass(&manifest, "baseline");
    assert_eq!(baseline.exit_code, Some(130));
    assert!(baseline.notes.contains(&"interrupted".to_owned()));
    for id in ["nsys", "ncu", "torch"] {
        assert_eq!(
            pass(&manifest, id).skipped.as_deref(),
            Some("interrupted before it")
        );
    }
}

#[test]
fn a_gate_that_never_matched_is_said_with_the_ranges_that_there_are() {
    let machine = Machine::new();
    let output = machine.run(&[
        "nsys", "--gate", "decoed", "--", "workload", "0", "--token", ARGUMENT,
    ]);
    assert_eq!(
        output.status.code(),
        Some(125),
        "the workload did well, the capture did not"
    );
    let manifest = machine.manifest();
    let nsys = pass(&manifest, "nsys");
    assert_eq!(nsys.exit_code, Some(0));
    let note = "range decoed did not occur, so that nsys recorded nothing; ranges there are: decode, prefill";
    assert!(nsys.notes.contains(&note.to_owned()), "{:?}", nsys.notes);
    assert!(text(&output.stderr).contains(note));

    let found = machine.run(&[
        "nsys", "--pass", "gated", "--gate", "decode", "--", "workload", "0", "--token", ARGUMENT,
    ]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let manifest = machine.manifest();
    assert!(
        pass(&manifest, "gated")
            .notes
            .contains(&"range decode occurred".to_owned())
    );
}

#[test]
fn a_dry_run_prints_the_plan_and_does_nothing() {
    let machine = Machine::new();
    let output = machine.run(&[
        "all",
        "--dry-run",
        "--gate",
        "decode",
        "--",
        "workload",
        "a b",
    ]);
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
    let plan = text(&output.stdout);
    for line in [
        "# baseline\nworkload 'a b'\n",
        "--nvtx-include decode/",
        "nsys export --type sqlite",
    ] {
        assert!(plan.contains(line), "{plan}");
    }
    assert!(!machine.bundle().exists());
}

#[test]
fn the_profiler_is_injected_around_the_chosen_instances() {
    let machine = Machine::new();
    let torch = fakes().join("torch");
    let mut command = machine.command(&[
        "torch",
        "--gate",
        "decode",
        "--window",
        "1:2",
        "--record",
        "shapes,memory",
        "--",
        "python3",
    ]);
    let output = command
        .arg(torch.join("generate.py"))
        .env("PYTHONPATH", &torch)
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    machine.manifest();
    let packed = fs::read(machine.bundle().join("torch/trace.pt.trace.json.gz")).expect("is there");
    let trace: serde_json::Value =
        serde_json::from_slice(&unpacked("x.gz", packed)).expect("valid");
    let expected = [
        "options profile_memory,record_shapes",
        "start",
        "enter decode",
        "enter step 1",
        "exit step 1",
        "exit decode",
        "enter decode",
        "enter step 2",
        "exit step 2",
        "exit decode",
        "stop",
    ];
    assert_eq!(trace["traceEvents"], serde_json::json!(expected));
}

#[test]
fn of_several_traces_those_without_an_operator_are_left_out() {
    let machine = Machine::new();
    let torch = fakes().join("torch");
    let mut command = machine.command(&["torch", "--", "python3"]);
    let command = command.arg(torch.join("generate.py")).arg("compiles");
    let output = command.env("PYTHONPATH", &torch).output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let taken = manifest
        .artifacts
        .iter()
        .filter(|a| a.kind == ArtifactKind::TorchTrace);
    let taken: Vec<&str> = taken.map(|artifact| artifact.path.as_str()).collect();
    assert_eq!(taken, ["torch/trace.pt.trace.json.gz"]);
}

#[test]
fn a_trace_is_written_to_its_end_when_the_time_is_up() {
    let machine = Machine::new();
    let torch = fakes().join("torch");
    let mut command = machine.command(&["torch", "--", "python3"]);
    let command = command.arg(torch.join("generate.py")).arg("late");
    let output = command.env("PYTHONPATH", &torch).output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let artifacts = machine.manifest().artifacts;
    let mut traces = artifacts
        .iter()
        .filter(|artifact| artifact.kind == ArtifactKind::TorchTrace);
    assert!(traces.next().is_some(), "{}", text(&output.stderr));
}

#[test]
fn a_trace_that_the_workload_writes_is_taken_if_it_is_new() {
    let machine = Machine::new();
    let traces = machine.folder().join("traces");
    fs::create_dir(&traces).expect("writable");
    fs::write(traces.join("old.pt.trace.json"), "{}").expect("writable");
    let script = format!(
        "echo '{{\"new\": 1}}' > {}/box17_99.123.pt.trace.json",
        traces.display()
    );
    let folder = traces.to_str().expect("text");
    let output = machine.run(&["torch", "--trace-dir", folder, "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    let taken = manifest
        .artifacts
        .iter()
        .filter(|a| a.kind == ArtifactKind::TorchTrace);
    // The name of the host is not taken.
    assert_eq!(
        taken.map(|a| a.path.as_str()).collect::<Vec<_>>(),
        ["torch/trace.pt.trace.json.gz"]
    );
}

/// Runs a Python workload that knows nothing of the capture, with stand-ins of torch, transformers and engines.
fn run_python(machine: &Machine, arguments: &[&str], workload: &str) -> String {
    let fakes = fakes().join("python");
    let mut command = machine.command(arguments);
    command
        .args(["--", "python3"])
        .arg(fakes.join("run.py"))
        .arg(workload);
    let output = command.env("PYTHONPATH", &fakes).output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        !text(&output.stderr).contains("rooflens_inject"),
        "{}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn described(machine: &Machine) -> (Workload, serde_json::Value) {
    let text = fs::read_to_string(machine.bundle().join("workload.toml")).expect("is there");
    (toml::from_str(&text).expect("valid"), timings(machine))
}

fn timings(machine: &Machine) -> serde_json::Value {
    let text = fs::read(machine.bundle().join("baseline/timings.json")).expect("is there");
    serde_json::from_slice(&text).expect("valid")
}

#[test]
fn a_workload_that_says_nothing_is_described_by_what_it_does() {
    let machine = Machine::new();
    run_python(&machine, &["baseline"], "ranges");
    machine.manifest();
    let (workload, timings) = described(&machine);
    assert_eq!(
        (workload.batch, workload.prompt_tokens),
        (Some(4), Some(16))
    );
    assert_eq!(
        (workload.output_tokens, workload.warmup),
        (Some(3), Some(1))
    );
    assert_eq!(
        (workload.dtype.as_deref(), workload.config.as_deref()),
        (Some("bf16"), Some("config.json"))
    );
    let kinds: Vec<_> = workload
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), stage.kind))
        .collect();
    // The longest first: 20 ms of prompts that count, 18 ms of tokens.
    let decode = ("decode loop", Some(StageKind::Decode));
    assert_eq!(kinds, [("prefill", Some(StageKind::Prefill)), decode]);
    assert!(workload.inferred.contains(&"batch".to_owned()));
    // The GPU works for 10 ms a prompt, 50 ms more in the first, and 2 ms a token.
    let expected = serde_json::json!({
        "decode loop": {"ms": [6.0, 6.0, 6.0], "steps": 3, "batch": 4, "tokens": 1},
        "prefill": {"ms": [10.0, 10.0], "batch": 4, "tokens": 16, "keys": 16, "left_out_ms": [60.0]},
    });
    assert_eq!(
        (&timings["stages"], &timings["measured_by"]),
        (&expected, &"cuda_events".into())
    );
    let config = fs::read_to_string(machine.bundle().join("config.json")).expect("is there");
    assert!(
        config.contains(&"*".repeat(TOKEN.len())) && config.contains("\"llama\""),
        "{config}"
    );

    // What a person edits stays, and what is not wanted is not written.
    fs::write(machine.bundle().join("workload.toml"), "batch = 9\n").expect("writable");
    run_python(&machine, &["baseline", "--pass", "again"], "ranges");
    assert_eq!(described(&machine).0.batch, Some(9));
    let plain = Machine::new();
    run_python(&plain, &["baseline", "--no-inject"], "ranges");
    let kinds = plain
        .manifest()
        .artifacts
        .into_iter()
        .map(|artifact| artifact.kind);
    let made = [
        ArtifactKind::Timings,
        ArtifactKind::Workload,
        ArtifactKind::ModelConfig,
    ];
    assert!(kinds.into_iter().all(|kind| !made.contains(&kind)));
}

#[test]
fn without_ranges_steps_are_timed_and_become_ranges_of_profiled_passes() {
    let machine = Machine::new();
    assert_eq!(run_python(&machine, &["baseline"], "train"), "ranges []\n");
    let (workload, timings) = described(&machine);
    // Two forward passes of 8 before each update, on a mesh of 2 times 4.
    assert_eq!(
        (workload.batch, workload.prompt_tokens),
        (Some(16), Some(32))
    );
    assert_eq!(
        (workload.mode, workload.model_parallel),
        (Some(Mode::Training), Some(4))
    );
    assert_eq!(workload.noted["optimizer"], "AdamW, 4 updates");
    assert_eq!(workload.noted["processes"], "8");
    let expected = serde_json::json!({"train_step":
        {"ms": [21.0, 21.0, 21.0, 21.0], "batch": 16, "tokens": 32, "keys": 32}});
    assert_eq!(timings["stages"], expected);
    let said = run_python(&machine, &["nsys"], "train");
    let step = "'train_step'";
    assert_eq!(said, format!("ranges [{}]\n", [step; 4].join(", ")));

    // A model of another package is described in the words of transformers.
    let images = Machine::new();
    run_python(&images, &["baseline"], "image");
    let config = fs::read(images.bundle().join("config.json")).expect("is there");
    let config: serde_json::Value = serde_json::from_slice(&config).expect("valid");
    assert_eq!(
        (&config["model_type"], &config["intermediate_size"]),
        (&"vit".into(), &8.into())
    );
    assert_eq!(described(&images).0.batch, Some(8));

    // So is a container of PyTorch, whose calls are steps.
    let containers = Machine::new();
    run_python(&containers, &["baseline"], "container");
    let forward = serde_json::json!({"ms": [2.0, 2.0, 2.0], "batch": 4});
    assert_eq!(described(&containers).1["stages"]["forward"], forward);

    let loops = Machine::new();
    run_python(&loops, &["baseline"], "generate");
    let (workload, timings) = described(&loops);
    assert_eq!(
        (
            workload.batch,
            workload.prompt_tokens,
            workload.output_tokens
        ),
        (Some(2), Some(8), Some(5))
    );
    let decode = serde_json::json!({"ms": [10.0, 10.0], "steps": 5, "batch": 2, "tokens": 1});
    assert_eq!(timings["stages"]["decode"], decode);
    let said = run_python(&loops, &["nsys"], "generate");
    let steps = "'decode_step', ".repeat(5);
    let once = format!("'prefill', 'decode', {steps}");
    assert_eq!(
        said,
        format!("ranges [{}]\n", once.repeat(2).trim_end_matches(", "))
    );
}

#[test]
fn iterations_of_different_sizes_are_timed_with_their_sizes() {
    let machine = Machine::new();
    run_python(&machine, &["baseline"], "sizes");
    let (workload, timings) = described(&machine);
    assert_eq!((workload.batch, workload.prompt_tokens), (Some(4), None));
    // 8 tokens take 1 ms. The last prompt, of 32 tokens, takes 4 ms: 64 take at most 8 ms, so that the 38 ms of the first
    // are warm-up. The 80 ms of the second are not.
    let expected = serde_json::json!({
        "prefill": {"ms": [80.0, 8.0, 40.0, 80.0, 4.0], "batch": [4, 4, 4, 4, 1],
            "tokens": [160, 16, 80, 160, 32], "keys": [160, 16, 80, 160, 32],
            "left_out_ms": [38.0]},
        "decode": {"ms": [1.0, 1.5, 2.5, 2.0], "steps": [2, 3, 5, 4], "batch": 4, "tokens": 1,
            "keys": [18, 19, 21, 20]},
    });
    assert_eq!(timings["stages"], expected);
}

#[test]
fn what_the_host_does_is_marked_under_profilers_alone() {
    let machine = Machine::new();
    let open = "open {}\n";
    assert_eq!(
        run_python(&machine, &["baseline"], "host"),
        format!("\n{open}")
    );
    let said = run_python(&machine, &["nsys"], "host");
    let next = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let expected = [
        // The first call tries whether ranges can be opened.
        "call",
        next,
        next,
        "gc generation 2",
        "torch.save",
        "empty_cache",
        "cuda graph capture",
        "cuda.synchronize at run.py:N",
        "Stream.synchronize at run.py:N",
        "float at run.py:N",
        "nonzero at run.py:N",
        "index at run.py:N",
        "cpu at run.py:N",
        "cpu at run.py:N",
        "new shape prefill batch=4 tokens=16 keys=16",
        "new shape prefill batch=4 tokens=12 keys=12",
        "call prefill batch=4 tokens=16 keys=16",
        "new shape decode batch=4 tokens=1 keys=17",
    ];
    let expected = expected.map(|name| format!("rooflens:{name}\n")).concat();
    assert_eq!(said, format!("{expected}{open}"));
    let without = run_python(&Machine::new(), &["nsys", "--no-inject"], "host");
    assert_eq!(without, format!("\n{open}"));

    // PyTorch's profiler shows loaders by itself.
    assert_eq!(
        run_python(&machine, &["torch"], "host"),
        format!("\n{open}")
    );
    let trace = machine.bundle().join("torch/trace.pt.trace.json.gz");
    let trace = unpacked("trace.gz", fs::read(trace).expect("is there"));
    let trace: serde_json::Value = serde_json::from_slice(&trace).expect("valid");
    let events = trace["traceEvents"].as_array().expect("a list");
    let events = events.iter().filter_map(serde_json::Value::as_str);
    let marks = events.filter_map(|event| event.strip_prefix("mark rooflens:"));
    let marks = marks.filter(|name| !name.starts_with("gc"));
    let marks = marks.map(|name| match name.rsplit_once(':') {
        Some((place, _)) => format!("{place}:N"),
        None => name.to_owned(),
    });
    let marks: Vec<String> = marks.collect();
    let expected = [
        "call",
        "torch.save",
        "empty_cache",
        "cuda graph capture",
        "cuda.synchronize at run.py:N",
        "Stream.synchronize at run.py:N",
        "float at run.py:N",
        "nonzero at run.py:N",
        "index at run.py:N",
        "cpu at run.py:N",
        "cpu at run.py:N",
        "new shape prefill batch=4 tokens=16 keys=16",
        "new shape prefill batch=4 tokens=12 keys=12",
        "call prefill batch=4 tokens=16 keys=16",
        "new shape decode batch=4 tokens=1 keys=17",
    ];
    assert_eq!(marks, expected);
}

#[test]
fn steps_are_found_by_updates_and_by_launches_of_graphs() {
    let machine = Machine::new();
    // From one update to the next it takes 3 ms; what precedes the first and follows the last is none.
    assert_eq!(
        run_python(&machine, &["baseline"], "updates"),
        "ranges []\n"
    );
    let expected = serde_json::json!({"train_step": {"ms": [3.0, 3.0, 3.0, 3.0]}});
    assert_eq!(timings(&machine)["stages"], expected);
    let said = run_python(&machine, &["nsys"], "updates");
    assert_eq!(
        said,
        format!("ranges [{}]\n", ["'train_step'"; 5].join(", "))
    );

    // Ranges of the workload represent themselves, unless steps are asked for.
    let ranges = Machine::new();
    assert_eq!(
        run_python(&ranges, &["baseline"], "graphs"),
        "ranges ['loop']\n"
    );
    assert!(timings(&ranges)["stages"].get("loop").is_some());
    assert_eq!(
        run_python(&ranges, &["nsys"], "graphs"),
        "ranges ['loop']\n"
    );
    let steps = Machine::new();
    assert_eq!(
        run_python(&steps, &["baseline", "--steps"], "graphs"),
        "ranges []\n"
    );
    let expected = serde_json::json!({"graph_launch": {"ms": [2.0, 2.0, 2.0, 2.0]}});
    assert_eq!(timings(&steps)["stages"], expected);
    let said = run_python(&steps, &["nsys", "--steps"], "graphs");
    assert_eq!(
        said,
        format!("ranges [{}]\n", ["'graph_launch'"; 4].join(", "))
    );
}

#[test]
fn a_server_is_loaded_by_its_client_and_ended_after_it() {
    let machine = Machine::new();
    let fakes = fakes().join("python");
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
    let port = free.expect("there is a port").port().to_string();
    // Two steps to warm up, then five; the result is a file.
    let client = format!(
        "curl -sf http://127.0.0.1:{port}/steps/2 && curl -sf http://127.0.0.1:{port}/steps/5 && \
         mkdir $ROOFLENS_OUT/a && echo '{{\"steps\": 5, \"token\": \"{TOKEN}\", \"login\": \"planted-login\"}}' \
         > $ROOFLENS_OUT/a/result.json; true --api-key planted-login"
    );
    let ready = format!("127.0.0.1:{port}/health");
    let mut command = machine.command(&["baseline", "--client", &client, "--ready", &ready]);
    command
        .args(["--", "python3"])
        .arg(fakes.join("engine.py"))
        .arg(&port)
        .env("PYTHONPATH", &fakes);
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = machine.manifest();
    assert_eq!(pass(&manifest, "baseline").exit_code, Some(0));
    let result = machine.bundle().join("baseline/client/a/result.json");
    assert_eq!(
        fs::metadata(&result)
            .expect("is there")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let (token, login) = ("*".repeat(TOKEN.len()), "*".repeat("planted-login".len()));
    let expected = format!("{{\"steps\": 5, \"token\": \"{token}\", \"login\": \"{login}\"}}\n");
    assert_eq!(fs::read_to_string(&result).expect("is there"), expected);
    // The worker is a process of a process: each step is a CUDA graph of 2 ms.
    let expected = serde_json::json!({"graph_launch": {"ms": [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]}});
    assert_eq!(timings(&machine)["stages"], expected);

    let alone = Machine::new();
    let output = alone.run(&[
        "baseline", "--client", "true", "--ready", &ready, "--", "false",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the server ended before its client"));
    let output = alone.run(&[
        "baseline",
        "--client",
        "true",
        "--ready",
        "localhost",
        "--",
        "false",
    ]);
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn arguments_of_engines_are_noted_without_their_keys() {
    for (engine, noted, parallel) in [
        ("vllm", "vllm tensor_parallel_size", 2),
        ("sglang", "sglang tp_size", 4),
    ] {
        let machine = Machine::new();
        run_python(&machine, &["baseline"], engine);
        machine.manifest();
        let (workload, timings) = described(&machine);
        assert_eq!(
            (workload.name.as_deref(), workload.model_parallel),
            (Some("Tiny"), Some(parallel))
        );
        assert_eq!(workload.noted[noted], parallel.to_string());
        assert!(
            workload
                .noted
                .keys()
                .all(|key| !key.contains("key") && !key.contains("token"))
        );
        assert_eq!(
            timings["stages"]["generate"]["ms"].as_array().map(Vec::len),
            Some(1)
        );
        assert!(machine.bundle().join("config.json").exists());
    }
}

#[test]
fn a_model_that_cannot_be_noted_is_said_and_its_own_error_comes_through() {
    let machine = Machine::new();
    let fakes = fakes().join("python");
    let mut command = machine.command(&["baseline", "--", "python3"]);
    command
        .arg(fakes.join("run.py"))
        .arg("hostile")
        .env("PYTHONPATH", &fakes);
    let output = command.output().expect("starts");
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "caught 'mine'\n".to_owned())
    );
    assert!(
        text(&output.stderr).contains("no parameters for you"),
        "{}",
        text(&output.stderr)
    );
}
