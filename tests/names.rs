//! Names from artifacts that would act if they were printed as they are: in every position, in every output.

use std::fs;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag};

/// Drives a terminal by C0 and C1, reorders text, begins a line, a formula, a tag, a link, a table cell, code and math.
const HOSTILE: &str = "=cmd|' /C calc'!A0\u{1b}[31m\u{9b}2J\u{202e}\u{2066}\u{7f}\r\nerror: fake\n# h <script>alert(1)</script> [l](http://evil.example) `c` | $m$ &amp; <!--";

/// The name with a mark of where it stands.
fn named(position: &str) -> String {
    format!("{HOSTILE} {position}")
}

/// A bundle in which each name is a hostile one.
fn bundle(root: &Path) {
    let kernel = |at: u64, name: &str| {
        serde_json::json!({"ph": "X", "cat": "kernel", "name": named(name), "pid": 0, "tid": 7,
            "ts": 130 + 50 * at, "dur": 40, "args": {"External id": 7 + at, "correlation": 9 + at, "device": 0,
            "context": 1, "stream": 7, "grid": [1, 1, 1], "block": [128, 1, 1]}})
    };
    let launch = |at: u64| {
        serde_json::json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
            "ts": 112 + 20 * at, "dur": 5, "args": {"External id": 7 + at, "correlation": 9 + at}})
    };
    let host = |cat: &str, name: &str, ts: u64, dur: u64, id: u64| {
        serde_json::json!({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
            "args": {"External id": id, "Input Dims": [[64, 64], [64, 64]], "Input type": [named("dtype"), "float"]}})
    };
    let trace = serde_json::json!({
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": named("gpu"), "numSms": 132}],
        "distributedInfo": {"backend": named("backend"), "rank": 0, "world_size": 1},
        "traceEvents": [
            host("user_annotation", &named("range"), 100, 100, 1),
            host("cpu_op", &named("operator"), 110, 10, 7), launch(0), kernel(0, "kernel"),
            host("cpu_op", "aten::mm", 130, 12, 8), launch(1), kernel(1, "other kernel"),
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": named("process")}},
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": named("thread")}},
        ],
    });
    let quoted = |name: &str| serde_json::Value::from(named(name)).to_string();
    let environment = serde_json::json!({"version": 1, "entries": [
        {"subject": named("subject"), "key": named("key"), "value": named("value")},
        {"subject": "gpu", "key": "driver", "missing_reason": named("reason")},
    ]});
    let workload = format!(
        "name = {}\nmodel_parallel = 1\n[[stages]]\nname = {}\nmatch = '(?s).*range'\nkind = \"decode\"\n",
        quoted("workload"),
        quoted("stage")
    );
    let nvml = format!("{}\n1,2\n", named("column"));
    let write = |path: &str, bytes: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
        fs::write(path, bytes).expect("writable");
    };
    // A file name holds neither a slash nor what is in its way.
    let file = HOSTILE
        .replace('/', "")
        .chars()
        .take(60)
        .collect::<String>();
    write(&format!("{file}/trace.json"), trace.to_string().as_bytes());
    write("env.json", environment.to_string().as_bytes());
    write("workload.toml", workload.as_bytes());
    write(
        "notes.md",
        format!("{}\n\n<b onclick=x>{{{{no@{HOSTILE}}}}}", named("notes")).as_bytes(),
    );
    write("other.csv", nvml.as_bytes());
    write(&format!("{file}.sqlite"), b"SQLite format 3\0 and no more");
}

/// What the program prints and writes for these arguments, by name.
fn outputs(root: &Path, args: &[&str]) -> Vec<(String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
    let output = command
        .args(args)
        .current_dir(root)
        .output()
        .expect("rooflens runs");
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{args:?}: {code:?}");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    vec![
        (format!("{args:?}"), text(&output.stdout)),
        (format!("{args:?} 2>"), text(&output.stderr)),
    ]
}

/// What acts on a terminal or reorders the text around it.
fn acting(text: &str) -> Option<char> {
    let acts = |c: &char| {
        c.is_control() && *c != '\n'
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().find(acts)
}

#[test]
fn no_name_acts_in_any_output() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path();
    bundle(&root.join("run"));
    let mut all = Vec::new();
    for args in [
        &["inspect", "run"][..],
        &["inspect", "run", "--suggest-workload"],
        &["kernels", "run"],
        &["kernels", "run", "--csv"],
        &["kernels", "run", "--yaml"],
        &["metrics", "run"],
        &["report", "run", "-o", "-"],
        &["report", "run", "-o", "-", "--kind", "appendix"],
        &["report", "run", "-o", "-", "--format", "html"],
        &["report", "run", "-o", "-", "--format", "json"],
        &["report", "run", "-o", "out"],
        &["pack", "one", "-o", "packed.tar.zst"],
    ] {
        if args[0] == "pack" {
            fs::create_dir(root.join("one")).expect("writable");
            let trace = format!(
                "{}.json",
                HOSTILE
                    .replace('/', "")
                    .chars()
                    .take(60)
                    .collect::<String>()
            );
            fs::copy(root.join("run/env.json"), root.join("one").join(trace)).expect("a copy");
        }
        all.extend(outputs(root, args));
    }
    let mut folders = vec![root.join("out")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            match fs::read_to_string(&path) {
                Ok(text) => all.push((path.display().to_string(), text)),
                Err(_) if path.is_dir() => folders.push(path),
                Err(_) => {} // PDF and Parquet
            }
        }
    }
    assert!(all.iter().any(|(_, text)| text.contains("other kernel")));
    for (name, text) in &all {
        assert_eq!(acting(text), None, "{name}: {text}");
        assert!(
            !text.lines().any(|line| line.starts_with("error: fake")),
            "{name}: {text}"
        );
    }
    let of = |end: &str| {
        all.iter()
            .filter(|(name, _)| name.ends_with(end))
            .collect::<Vec<_>>()
    };
    for (name, text) in of(".csv") {
        formulas(name, text);
    }
    formulas(
        "kernels --csv",
        &all.iter()
            .find(|(name, _)| name.contains("--csv"))
            .expect("there")
            .1,
    );
    for (name, text) in of(".html") {
        assert!(
            !text.contains("<script>alert") && !text.contains("<b onclick"),
            "{name}"
        );
    }
    for (name, text) in of(".md") {
        markup(name, text);
    }
    for (name, text) in of(".json") {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        // Data keep the name as it was.
        let whole = value
            .to_string()
            .contains(&serde_json::Value::from(named("kernel")).to_string());
        assert!(whole || name.ends_with("metrics.json"), "{name}");
    }
}

/// No cell of a CSV file is a formula.
fn formulas(name: &str, text: &str) {
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    for row in rows.records() {
        for cell in &row.expect("rows of one length") {
            let starts = cell.starts_with(['=', '+', '-', '@']) && cell.len() > 1;
            assert!(!starts || cell.parse::<f64>().is_ok(), "{name}: {cell}");
        }
    }
}

/// No name in a Markdown file is markup.
fn markup(name: &str, text: &str) {
    for event in Parser::new_ext(text, Options::all()) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => panic!("{name}: {html}"),
            Event::Start(Tag::Link { dest_url, .. }) => panic!("{name}: {dest_url}"),
            Event::InlineMath(math) | Event::DisplayMath(math) => panic!("{name}: {math}"),
            _ => {}
        }
    }
}
