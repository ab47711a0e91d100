//! `rooflens.toml` as the analyzer reads it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::programs::ONE_KERNEL;
use super::text;

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
    command
        .current_dir(folder)
        .args(args)
        .output()
        .expect("rooflens runs")
}

fn project(file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("rooflens.toml"), file).expect("writable");
    folder
}

#[test]
fn a_report_has_the_language_and_the_notes_of_the_file() {
    let folder = project("[report]\nlang = \"zh\"\nnotes = \"mine.md\"\n");
    fs::write(folder.path().join("mine.md"), "a sentence of the analyst").expect("writable");
    let below = folder.path().join("below");
    fs::create_dir(&below).expect("writable");
    let report = |args: &[&str]| {
        let output = run(&below, &[&["report", ONE_KERNEL, "-o", "-"], args].concat());
        assert!(output.status.success(), "{output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    let is_chinese = |text: &str| text.contains('的');
    let (chinese, said) = report(&[]);
    assert!(is_chinese(&chinese) && chinese.contains("a sentence of the analyst"));
    let file = folder.path().join("rooflens.toml");
    assert!(
        said.contains(&format!("options from {}", file.display())),
        "{said}"
    );
    let (english, _) = report(&["--lang", "en"]);
    assert!(!is_chinese(&english) && english.contains("a sentence of the analyst"));
    let (plain, said) = report(&["--no-config"]);
    assert!(!is_chinese(&plain) && !plain.contains("a sentence of the analyst"));
    assert!(!said.contains("options from"), "{said}");
}

#[test]
fn other_commands_share_the_options_with_the_same_meaning() {
    let folder = project(
        "[report]\ngpu = \"H200 SXM\"\nlang = \"zh\"\nnotes = \"n.md\"\nthreads = 2\n\
         [predict]\nbatch = [1, 8]\n[serve-report]\nslo = \"ttft=200ms\"\n",
    );
    let shown = |command: &str| text(&run(folder.path(), &[command, "--show-config"]).stdout);
    let has = |text: &str, option: &str, source: &str| {
        let mut lines = text
            .lines()
            .map(|line| line.split_once("  # ").unwrap_or_default());
        lines.any(|(known, from)| known.trim_end() == option && from == source)
    };
    let metrics = shown("metrics");
    assert!(
        has(&metrics, "gpu = \"H200 SXM\"", "rooflens.toml:2"),
        "{metrics}"
    );
    assert!(has(&metrics, "threads = 2", "rooflens.toml:5"), "{metrics}");
    // The GPU of a prediction is another question, and so are the notes of a load test.
    let predict = shown("predict");
    assert!(has(&predict, "# gpu", "default"), "{predict}");
    assert!(
        has(&predict, "lang = \"zh\"", "rooflens.toml:3"),
        "{predict}"
    );
    assert!(
        has(&predict, "batch = [1, 8]", "rooflens.toml:7"),
        "{predict}"
    );
    let serving = shown("serve-report");
    assert!(
        has(&serving, "slo = \"ttft=200ms\"", "rooflens.toml:9"),
        "{serving}"
    );
    assert!(has(&serving, "# notes", "default"), "{serving}");
}

#[test]
fn a_wrong_file_is_wrong_usage() {
    for (file, message) in [
        (
            "[report]\nlanguage = \"zh\"",
            "rooflens.toml:2: unknown key 'language'; the nearest key is 'lang'",
        ),
        (
            "[report]\nlang = \"fr\"",
            "rooflens.toml:2: 'lang': invalid value 'fr'",
        ),
        (
            "[report]\nstrict = 1",
            "rooflens.toml:2: 'strict': expected true or false",
        ),
        (
            "[report]\nlang = [\"en\"]",
            "rooflens.toml:2: 'lang': expected a string or a number",
        ),
        (
            "[predict]\nbatch = \"many\"",
            "rooflens.toml:2: 'batch': invalid value 'many'",
        ),
        (
            "lang = \"zh\"",
            "rooflens.toml:1: unknown key 'lang'; tables are",
        ),
        ("[report", "rooflens.toml:1: "),
    ] {
        let folder = project(file);
        let output = run(folder.path(), &["report", ONE_KERNEL, "-o", "-"]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(output.stdout.is_empty());
        let said = text(&output.stderr);
        assert!(said.contains(message), "{said}");
    }
    // Commands without a table do not read the file.
    let folder = project("[captur]");
    assert!(run(folder.path(), &["gpus", "h100"]).status.success());
    assert!(run(folder.path(), &["report", "--help"]).status.success());
}

#[test]
fn the_example_is_valid() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/rooflens.toml");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for command in ["report", "serve-report", "predict"] {
        let output = run(
            folder.path(),
            &[command, "--show-config", "--config", example],
        );
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output.stdout).contains(example));
    }
}
