//! The command line as scripts meet it: exit codes, standard output, messages.

mod comparisons;
mod config;
mod endings;
mod gate;
mod load_tests;
mod programs;

use std::path::PathBuf;
use std::process::Command;

use crate::support::{path as fixture, rooflens};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_shows_examples_and_every_command_has_help() {
    let help = rooflens(&["--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("Examples:"));
    for command in [
        "report",
        "predict",
        "serve-report",
        "bench-report",
        "inspect",
        "metrics",
        "predict",
        "kernels",
        "query",
        "lake",
        "validate",
        "pack",
        "unpack",
        "templates",
        "gpus",
        "completions",
        "man",
    ] {
        let help = rooflens(&[command, "--help"]);
        assert!(
            help.status.success() && !help.stdout.is_empty(),
            "{command}"
        );
    }
}

#[test]
fn gpus_are_found_by_parts_of_their_names() {
    let text = |args: &[&str]| {
        let output = rooflens(args);
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
        )
    };
    let (code, all) = text(&["gpus"]);
    // Datasheet: 132 SMs, 141 GB, 4.8 TB/s, 66.9 TFLOP/s, 989.4 and 1978.9 dense.
    let row = all
        .lines()
        .find(|line| line.starts_with("H200 SXM "))
        .expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(code, Some(0));
    assert_eq!(
        words[2..].join(" "),
        "132 141 GB 4.80 TB/s 66.9 TFLOP/s 989 TFLOP/s 1.98 PFLOP/s"
    );
    let (_, some) = text(&["gpus", "h100"]);
    assert_eq!(
        some.lines().filter(|line| !line.starts_with(' ')).count(),
        3,
        "{some}"
    );
    let (_, json) = text(&["gpus", "nvidia b300", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json[0]["name"], &json[0]["sm_count"]),
        (&"B300".into(), &148.into())
    );
    let output = rooflens(&["report", "fixtures", "--gpu", "h100"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("there are H100 SXM5 80GB, H100 PCIe 80GB, H100 NVL 94GB"),
        "{said}"
    );
}

#[test]
fn wrong_usage_is_2() {
    assert_eq!(rooflens(&["report"]).status.code(), Some(2));
    assert_eq!(rooflens(&["no-such-command"]).status.code(), Some(2));
    let path = fixture("h200x2-ddp");
    let path = path.to_str().expect("UTF-8");
    let unknown = rooflens(&["metrics", path, "--gpu", "H9000"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no GPU named H9000"));
    assert_eq!(
        rooflens(&["metrics", path, "--stage", "a=("]).status.code(),
        Some(2)
    );
}

#[test]
fn unusable_input_is_3_and_says_why() {
    let missing = rooflens(&["report", "/no/such/path"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("/no/such/path"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "nothing of a profiler").expect("writable");
    let useless = rooflens(&["report", file.to_str().expect("UTF-8")]);
    assert_eq!(useless.status.code(), Some(3));
    assert!(
        text(&useless.stderr).contains("nothing"),
        "{}",
        text(&useless.stderr)
    );
}

#[test]
fn metrics_on_standard_output_are_json_and_nothing_else() {
    let path = fixture("h200x2-ddp");
    let output = rooflens(&["metrics", path.to_str().expect("UTF-8")]);
    assert!(output.status.success());
    let metrics: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(metrics["version"], 1);
    assert!(
        metrics["metrics"]
            .as_array()
            .is_some_and(|list| list.len() > 20)
    );
}

#[test]
fn every_metric_is_told_apart_by_id_and_scope() {
    for name in ["h200x2-ddp", "h200-llama-1b", "h200-cuda-graph"] {
        let output = rooflens(&["metrics", fixture(name).to_str().expect("UTF-8")]);
        let file: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut seen = std::collections::BTreeSet::new();
        for metric in file["metrics"].as_array().expect("a list") {
            let key = format!("{} {}", metric["id"], metric["scope"]);
            assert!(seen.insert(key.clone()), "{name}: {key} twice");
        }
    }
}

#[test]
fn a_report_on_standard_output_is_markdown() {
    let path = fixture("h200x2-ddp");
    let output = rooflens(&["report", path.to_str().expect("UTF-8"), "-o", "-"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("# "));
}

#[test]
fn an_output_is_a_folder_unless_it_ends_like_a_format() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = fixture("edge-empty-window");
    let path = path.to_str().expect("UTF-8");
    let out = folder.path().join("qwen-0.5b");
    assert!(
        rooflens(&["report", path, "-o", out.to_str().expect("UTF-8")])
            .status
            .success()
    );
    assert!(out.join("report.md").is_file());
    let other = folder.path().join("report.docx");
    assert_eq!(
        rooflens(&["report", path, "-o", other.to_str().expect("UTF-8")])
            .status
            .code(),
        Some(2)
    );
}

#[test]
#[cfg(feature = "pdf")]
fn the_default_folder_has_the_name_of_the_input() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_rooflens"))
        .arg("report")
        .arg(fixture("edge-empty-window"))
        .current_dir(folder.path())
        .output()
        .expect("rooflens runs");
    assert!(output.status.success());
    assert!(
        folder
            .path()
            .join("edge-empty-window-report/report.pdf")
            .is_file()
    );
}

#[test]
fn a_stage_by_regular_expression_replaces_the_rules() {
    let path = fixture("h200x2-ddp");
    let path = path.to_str().expect("UTF-8");
    let output = rooflens(&["inspect", path, "--stage", "all of it=train_.*"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("all of it") && !shown.contains(" backward "),
        "{shown}"
    );
}

#[test]
fn strict_fails_where_data_was_lost() {
    let path = fixture("edge-empty-window");
    let output = rooflens(&["metrics", path.to_str().expect("UTF-8"), "--strict"]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_query_counts_kernels() {
    let path = fixture("h200-llama-8b");
    let sql = "select count(*) as n from launches where pass = 0";
    let output = rooflens(&["query", path.to_str().expect("UTF-8"), sql, "--csv"]);
    // 84 868 kernels: `select count(*) from CUPTI_ACTIVITY_KIND_KERNEL` over the export.
    assert_eq!(
        text(&output.stdout),
        "n\n84868\n",
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn validate_accepts_the_fixtures_and_refuses_a_changed_file() {
    let path = fixture("h200x2-ddp");
    assert!(
        rooflens(&["validate", path.to_str().expect("UTF-8")])
            .status
            .success()
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["manifest.json", "workload.toml"] {
        std::fs::copy(path.join(file), folder.path().join(file)).expect("copied");
    }
    // Its artifacts are missing.
    let output = rooflens(&["validate", folder.path().to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
}

/// The description of a fixture is distinguished from its traces alone, and is read back without a complaint.
#[test]
fn a_suggested_workload_is_that_of_the_run_and_is_accepted() {
    let run = fixture("h200-llama-8b");
    let paths = ["torch", "nsys", "config.json"].map(|name| run.join(name));
    let paths = paths.each_ref().map(|path| path.to_str().expect("UTF-8"));
    let output = rooflens(&[
        "inspect",
        paths[0],
        paths[1],
        paths[2],
        "--suggest-workload",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let read: rooflens_schemas::Workload = toml::from_str(&printed).expect(&printed);
    let written = std::fs::read_to_string(run.join("workload.toml")).expect("readable");
    let written: rooflens_schemas::Workload = toml::from_str(&written).expect("valid");
    assert_eq!(
        (read.batch, read.prompt_tokens),
        (written.batch, written.prompt_tokens)
    );
    assert_eq!((read.mode, &read.dtype), (written.mode, &written.dtype));
    let stages = |workload: &rooflens_schemas::Workload| -> Vec<String> {
        let mut names: Vec<_> = workload
            .stages
            .iter()
            .map(|stage| stage.name.clone())
            .collect();
        names.sort();
        names
    };
    assert_eq!(stages(&read), stages(&written));
    assert!(printed.contains("# warmup = "), "{printed}");
    // The command that reads descriptions takes it.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("workload.toml");
    std::fs::write(&file, &printed).expect("writable");
    let file = file.to_str().expect("UTF-8");
    let again = rooflens(&["inspect", paths[0], paths[2], "--workload", file]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(
        !text(&again.stdout).contains("unknown field"),
        "{}",
        text(&again.stdout)
    );
}

#[test]
fn notes_of_a_bundle_are_packed_and_stand_in_its_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let run = path("run");
    std::fs::create_dir_all(folder.path().join("run/torch")).expect("writable");
    let trace = fixture("edge-empty-window/torch/rank0.pt.trace.json.zst");
    std::fs::copy(trace, path("run/torch/rank0.pt.trace.json.zst")).expect("a copy");
    std::fs::write(path("run/notes.md"), "See **{{no_metric@x}}**.\n").expect("writable");
    // Not the analyst's: it lies below the root.
    std::fs::write(path("run/torch/notes.md"), "of another program").expect("writable");
    let archive = path("run.tar.zst");
    assert!(rooflens(&["pack", &run, "-o", &archive]).status.success());
    let inspected = text(&rooflens(&["inspect", &archive]).stdout);
    let line = |path: &str, kind: &str| {
        inspected
            .lines()
            .any(|line| line.trim().starts_with(path) && line.ends_with(kind))
    };
    assert!(line("notes.md", "analyst's notes") && line("torch/notes.md", "other file"));
    for kind in ["summary", "report"] {
        let output = rooflens(&["report", &archive, "--kind", kind, "-o", "-"]);
        assert!(output.status.success());
        assert!(
            text(&output.stdout).contains("> See **\\{\\{no\\_metric\\@x\\}\\}**."),
            "{kind}"
        );
        assert!(text(&output.stderr).contains("the notes refer to no_metric@x"));
    }
    std::fs::write(path("mine.md"), "*Mine*, instead.\n").expect("writable");
    let output = rooflens(&["report", &run, "--notes", &path("mine.md"), "-o", "-"]);
    let markdown = text(&output.stdout);
    assert!(markdown.contains("> Mine, instead.") && !markdown.contains("no\\_metric"));
}

#[cfg(feature = "pdf")]
#[test]
fn a_template_that_does_not_compile_is_wrong_usage() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(path("report.typ"), "#nothing").expect("writable");
    let (run, output) = (fixture("edge-empty-window"), path("report.pdf"));
    let run = run.to_str().expect("UTF-8");
    let broken = rooflens(&["report", run, "--templates", &path(""), "-o", &output]);
    assert_eq!(broken.status.code(), Some(2));
    assert!(text(&broken.stderr).contains("report.typ:1: unknown variable"));
    assert!(!PathBuf::from(&output).exists());
}

#[test]
fn templates_are_exported_once_and_a_brand_is_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let exported = path("templates");
    assert!(
        rooflens(&["templates", "export", &exported])
            .status
            .success()
    );
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates");
    let read = |path: PathBuf| std::fs::read(path).expect("readable");
    for name in [
        "report.typ",
        "lib/style.typ",
        "lib/blocks.typ",
        "lib/cover.typ",
        "README.md",
    ] {
        assert!(
            read(folder.path().join("templates").join(name)) == read(root.join(name)),
            "{name}"
        );
    }
    std::fs::write(path("templates/report.typ"), "mine").expect("writable");
    let again = rooflens(&["templates", "export", &exported]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("--force"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(read(folder.path().join("templates/report.typ")), b"mine");
    assert!(
        rooflens(&["templates", "export", &exported, "--force"])
            .status
            .success()
    );
    assert_ne!(read(folder.path().join("templates/report.typ")), b"mine");

    let run = fixture("edge-empty-window");
    let run = run.to_str().expect("UTF-8");
    let report = |brand: &str| rooflens(&["report", run, "--brand", brand, "-o", "-"]);
    assert!(
        report(root.join("brand-example.toml").to_str().expect("UTF-8"))
            .status
            .success()
    );
    std::fs::write(path("brand.toml"), "name = \"A\"\nlogo = \"none.png\"\n").expect("writable");
    let refused = report(&path("brand.toml"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("cannot read logo \"none.png\""));
}

#[test]
fn the_language_changes_words_and_no_number() {
    let path = fixture("h200x2-ddp");
    let path = path.to_str().expect("UTF-8");
    let written = |kind: &str, format: &str, lang: &str| {
        let output = rooflens(&[
            "report", path, "--kind", kind, "--format", format, "--lang", lang, "-o", "-", "-q",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(
        written("report", "metrics", "en"),
        written("report", "metrics", "zh")
    );
    let pattern = |pattern| regex::Regex::new(pattern).expect("a valid pattern");
    let (number, name) = (pattern(r"\d+(\.\d+)?"), pattern("`[^`\n]*`"));
    // Names from the data are shortened to the room that headings leave them.
    let numbers = |text: &str| -> Vec<String> {
        let text = text.replace('\\', "");
        let text = name.replace_all(&text, "");
        let mut all: Vec<String> = number
            .find_iter(&text)
            .map(|one| one.as_str().to_owned())
            .collect();
        all.sort_unstable();
        all
    };
    for (kind, heading) in [("report", "## 发现"), ("appendix", "## 方法")] {
        let [english, chinese] = ["en", "zh"].map(|lang| written(kind, "md", lang));
        assert!(
            chinese.contains(heading) && !english.contains(heading),
            "{kind}"
        );
        assert_eq!(numbers(&english), numbers(&chinese), "{kind}");
    }
}

/// A file of `tests/data/serving`.
fn load_test(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/serving")
        .join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_load_test_becomes_a_report() {
    let sweep = load_test("sweep.jsonl");
    let (predicted, dcgm) = (load_test("predicted.json"), load_test("dcgm.txt"));
    let limits = [
        "--slo",
        "ttft=100ms,tpot=25ms",
        "--predicted",
        &predicted,
        "--gpu-metrics",
        &dcgm,
    ];
    let report = rooflens(&[&["serve-report", &sweep, "-o", "-"], limits.as_slice()].concat());
    let page = text(&report.stdout);
    assert!(report.status.success(), "{}", text(&report.stderr));
    // expected.json: 99.69 tokens/s at 16 requests/s, 57 good requests in 7.652 s at 8.
    for words in [
        "the knee",
        "99.7 tokens/s",
        "7.45 requests/s",
        "Queueing is the bottleneck",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("metrics.json");
    let args = [
        "serve-report",
        &sweep,
        "--format",
        "metrics",
        "-o",
        out.to_str().expect("UTF-8"),
    ];
    assert!(rooflens(&args).status.success());
    let metrics: rooflens_schemas::MetricsFile =
        serde_json::from_slice(&std::fs::read(&out).expect("written")).expect("metrics");
    let knee = metrics
        .metrics
        .iter()
        .find(|one| one.id == "saturation_load")
        .expect("a knee");
    assert_eq!(knee.value.number(), Some(16.0));
}

#[test]
fn a_load_test_gives_its_report_and_other_commands_name_the_one_for_it() {
    let made = rooflens(&["report", &load_test("vllm.json"), "-o", "-"]);
    let same = rooflens(&["serve-report", &load_test("vllm.json"), "-o", "-"]);
    assert_eq!(
        (made.status.code(), text(&made.stdout)),
        (Some(0), text(&same.stdout))
    );
    assert!(
        text(&made.stderr).contains("rooflens serve-report"),
        "{}",
        text(&made.stderr)
    );
    let refused = rooflens(&["inspect", &load_test("vllm.json")]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(
        said.contains("vLLM bench serve") && said.contains("rooflens serve-report"),
        "{said}"
    );
    let capture = fixture("h200-llama-8b/workload.toml");
    let refused = rooflens(&["serve-report", capture.to_str().expect("UTF-8")]);
    assert_eq!(refused.status.code(), Some(3));
}

#[test]
fn wrong_arguments_of_serve_report_are_2_and_useless_files_3() {
    let result = load_test("vllm.json");
    for wrong in [
        ["--slo", "speed=3"],
        ["--predicted", "/no/such"],
        ["--thresholds", &result],
    ] {
        let output = rooflens(&[&["serve-report", &result, "-o", "-"], wrong.as_slice()].concat());
        assert_eq!(
            output.status.code(),
            Some(2),
            "{wrong:?}: {}",
            text(&output.stderr)
        );
    }
    let labels = [
        "serve-report",
        &result,
        "--label",
        "a",
        "--label",
        "b",
        "-o",
        "-",
    ];
    assert_eq!(rooflens(&labels).status.code(), Some(2));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let damaged = folder.path().join("cut.json");
    let whole = std::fs::read(&result).expect("readable");
    std::fs::write(&damaged, &whole[..whole.len() / 2]).expect("writable");
    let output = rooflens(&["serve-report", damaged.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("damaged"));
}

#[test]
fn setups_are_compared_with_the_first_that_is_given() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let whole = std::fs::read_to_string(load_test("vllm.json")).expect("readable");
    // The name that sorts last is given first.
    let files = [("z", "64", "51.0"), ("a", "128", "40.0")].map(|(name, sequences, ttft)| {
        let with = format!("{{\"max_num_seqs\": {sequences}, ");
        let text = whole.replacen('{', &with, 1).replacen(
            "\"median_ttft_ms\"",
            &format!("\"median_ttft_ms\": {ttft}, \"was\""),
            1,
        );
        let path = folder.path().join(name).with_extension("json");
        std::fs::write(&path, text).expect("writable");
        path.to_str().expect("UTF-8").to_owned()
    });
    let notes = folder.path().join("n.md");
    std::fs::write(&notes, "128 gave {{ttft/wide:p50}}.").expect("writable");
    let labels = [
        "--label",
        "narrow",
        "--label",
        "wide",
        "--notes",
        notes.to_str().expect("UTF-8"),
        "-o",
        "-",
    ];
    let output = rooflens(&[&["serve-report", &files[0], &files[1]], labels.as_slice()].concat());
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in [
        "1 worked against narrow",
        "max\\_num\\_seqs: 64 → 128",
        "128 gave 40.0 ms.",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn a_config_alone_gives_the_sizes_of_its_model_and_points_to_predict() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.json");
    // A layer: 2·64² + 2·64·32 + 3·64·128 + 2·64 = 36 992; embedding and head 2·64·100, a norm of 64: 86 848.
    let text_of = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "torch_dtype": "bfloat16"}"#;
    std::fs::write(&config, text_of).expect("written");
    let path = config.to_str().expect("UTF-8");
    let made = rooflens(&["report", path, "--gpu", "H200 SXM", "-o", "-"]);
    let said = text(&made.stdout);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    assert!(
        said.replace("**", "")
            .replace('\u{202f}', " ")
            .contains("86 848 parameters"),
        "{said}"
    );
    assert!(
        said.contains("rooflens predict") && said.contains("H200 SXM"),
        "{said}"
    );
    let quantization = folder.path().join("hf_quant_config.json");
    let nvfp4 = r#"{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}"#;
    std::fs::write(&quantization, nvfp4).expect("written");
    let alone = rooflens(&["report", quantization.to_str().expect("UTF-8"), "-o", "-"]);
    assert_eq!(alone.status.code(), Some(3));
    assert!(
        text(&alone.stderr).contains("config.json"),
        "{}",
        text(&alone.stderr)
    );
    let both = rooflens(&[
        "report",
        path,
        quantization.to_str().expect("UTF-8"),
        "-o",
        "-",
    ]);
    assert!(
        text(&both.stdout).contains("as nvfp4"),
        "{}",
        text(&both.stdout)
    );
}

#[cfg(unix)]
#[test]
fn a_report_of_nsys_is_exported_by_a_local_nsys_or_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("run.nsys-rep");
    std::fs::write(&report, b"NVIDIA Tegra Profiler Report rest").expect("written");
    let run = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
        let output = command
            .args(["report", report.to_str().expect("UTF-8"), "-o", "-"])
            .env("PATH", path)
            .output();
        let output = output.expect("rooflens runs");
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run("/nowhere");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("nsys export --type sqlite"), "{said}");
    let nsys = folder.path().join("nsys");
    let script = |body: &str| {
        std::fs::write(&nsys, format!("#!/bin/sh\n{body}\n")).expect("written");
        std::fs::set_permissions(&nsys, std::fs::Permissions::from_mode(0o755)).expect("changed");
    };
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    script("echo the report is damaged >&2; exit 1");
    let (code, said) = run(&path);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("the report is damaged"), "{said}");
    // Arguments: export --type sqlite --force-overwrite true --output TARGET REPORT.
    script("test \"$2$3\" = --typesqlite && printf 'SQLite format 3' > \"$7\"");
    let (_, said) = run(&path);
    assert!(
        said.contains("exported by") && said.contains("run.sqlite"),
        "{said}"
    );
}
