//! `rooflens gate` and `rooflens baseline`: a made regression fails with one line, and the fixture passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::{path, rooflens, root};

const FIXTURE: &str = "h100-vit-train";
const LIMIT: &str = "stage_time@train_step:+30%";

/// The fixture as loose files, with all unprofiled times longer by a factor.
fn run(folder: &Path, name: &str, factor: f64) -> PathBuf {
    let run = folder.join(name);
    for (from, to) in [
        ("nsys/timeline.sqlite.zst", "nsys/timeline.sqlite.zst"),
        ("workload.toml", "workload.toml"),
    ] {
        let to = run.join(to);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a new folder");
        fs::copy(path(FIXTURE).join(from), to).expect("copied");
    }
    let timings = fs::read_to_string(path(FIXTURE).join("baseline/timings.json")).expect("timings");
    let mut timings: Value = serde_json::from_str(&timings).expect("JSON");
    let times = timings["stages"]["train_step"]["ms"]
        .as_array_mut()
        .expect("times");
    assert_eq!(times.len(), 11);
    for time in times {
        *time = (time.as_f64().expect("a number") * factor).into();
    }
    fs::create_dir(run.join("baseline")).expect("a new folder");
    fs::write(run.join("baseline/timings.json"), timings.to_string()).expect("written");
    run
}

fn gate(run: &Path, baseline: &Path, more: &[&str]) -> Output {
    let [run, baseline] = [run, baseline].map(|path| path.to_str().expect("UTF-8"));
    rooflens(&[&["gate", run, "--baseline", baseline, "-q"], more].concat())
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_made_regression_fails_with_one_line_and_the_fixture_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (same, slow) = (
        run(folder.path(), "same", 1.0),
        run(folder.path(), "slow", 1.7),
    );
    let fixture = path(FIXTURE);
    let passed = gate(&same, &fixture, &["--max", LIMIT]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert!(text(&passed.stdout).starts_with("passed: "), "{passed:?}");
    let failed = gate(
        &slow,
        &fixture,
        &["--max", LIMIT, "--max", "launches_per_step@train_step:+0%"],
    );
    assert_eq!(failed.status.code(), Some(5), "{failed:?}");
    let lines = text(&failed.stdout).lines();
    let regressions: Vec<&str> = lines
        .filter(|line| line.starts_with("regression: "))
        .collect();
    // The median of eleven times is 25.2945 ms; 1.7 times that is 43.0.
    let [line] = regressions[..] else {
        panic!("{failed:?}")
    };
    for part in [
        "stage_time of train_step",
        "25.3 ms → 43.0 ms",
        "+70.0 %",
        "limit +30 %",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // The interval of 99 % of this run reaches from −20 to +25 %: it holds 3 %.
    for (strict, code) in [(&[][..], 0), (&["--strict"], 5)] {
        let open = gate(
            &same,
            &fixture,
            &[&["--max", "stage_time@train_step:+3%"], strict].concat(),
        );
        assert_eq!(open.status.code(), Some(code), "{open:?}");
        assert!(text(&open.stdout).starts_with("cannot tell: "), "{open:?}");
    }
}

#[test]
fn machine_formats_annotate_regressions_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = run(folder.path(), "slow", 1.7);
    let limits = folder.path().join("limits.toml");
    let count = "launches_per_step@train_step:+0%";
    fs::write(&limits, format!("max = [\"{LIMIT}\", \"{count}\"]")).expect("written");
    let limits = limits.to_str().expect("UTF-8");
    let output = |format: &str| {
        let output = gate(
            &slow,
            &path(FIXTURE),
            &["--thresholds", limits, "--format", format],
        );
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        let lines = text(&output.stderr).lines().count();
        assert_eq!(lines, 1, "{output:?}");
        text(&output.stdout).to_owned()
    };
    let annotations = output("github");
    assert_eq!(annotations.lines().count(), 1, "{annotations}");
    assert!(
        annotations.starts_with("::error title=stage_time of train_step::"),
        "{annotations}"
    );
    let sarif: Value = serde_json::from_str(&output("sarif")).expect("JSON");
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 1, "{sarif}");
    assert_eq!(results[0]["ruleId"], LIMIT);
    let junit = output("junit");
    assert!(
        junit.contains("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""),
        "{junit}"
    );
    let json: Value = serde_json::from_str(&output("json")).expect("JSON");
    let outcomes: Vec<_> = [0, 1]
        .map(|row| json["limits"][row]["outcome"].clone())
        .into();
    assert_eq!(outcomes, ["regression", "passed"]);
    let change = json["limits"][0]["change"].as_f64().expect("a number");
    assert!((change - 0.7).abs() < 1e-6, "{change}");
}

#[test]
fn baselines_are_found_by_workload_and_replaced_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (same, slow) = (
        run(folder.path(), "same", 1.0),
        run(folder.path(), "slow", 1.7),
    );
    let store = folder.path().join("baselines");
    let command = |words: &[&str]| {
        let store = ["--store", store.to_str().expect("UTF-8")];
        rooflens(&[&["baseline", "-q"], words, &store].concat())
    };
    let [same, slow] = [&same, &slow].map(|path| path.to_str().expect("UTF-8"));
    let code = |output: &Output| output.status.code();
    assert_eq!(
        code(&command(&["accept", same, "--reason", "first"])),
        Some(2)
    );
    assert_eq!(code(&command(&["add", same])), Some(0));
    assert_eq!(code(&command(&["add", slow])), Some(2));
    assert_eq!(fs::read_dir(&store).expect("a folder").count(), 1);
    let judged = |run: &str| code(&gate(Path::new(run), &store, &["--max", LIMIT]));
    assert_eq!([same, slow].map(judged), [Some(0), Some(5)]);
    assert_eq!(
        code(&command(&["accept", slow, "--reason", "larger images"])),
        Some(0)
    );
    assert_eq!([same, slow].map(judged), [Some(0), Some(0)]);
    let list = command(&["list"]);
    let key = text(&list.stdout).split_whitespace().next().expect("a key");
    let shown = command(&["show", key]);
    let record: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(record["accepted"][0]["reason"], "larger images");
    assert_eq!(
        record["accepted"][0]["replaced"].as_array().map(Vec::len),
        Some(1)
    );
    // A damaged file is not another workload.
    let file = fs::read_dir(&store).expect("a folder").next();
    let file = file.expect("a baseline").expect("a file").path();
    let whole = fs::read(&file).expect("a baseline");
    fs::write(&file, &whole[..whole.len() / 2]).expect("writable");
    for damaged in [
        command(&["list"]),
        gate(Path::new(same), &store, &["--max", LIMIT]),
    ] {
        assert_eq!(code(&damaged), Some(3));
        assert!(
            text(&damaged.stderr).contains("is no baseline"),
            "{damaged:?}"
        );
    }
    fs::write(&file, whole).expect("writable");
    let empty = path("edge-empty-window");
    let empty = command(&["add", empty.to_str().expect("UTF-8")]);
    assert_eq!(code(&empty), Some(3), "{empty:?}");
    // A load test has a baseline, too, by its model.
    let test = root().join("tests/data/serving/vllm_detailed.json");
    let test = test.to_str().expect("UTF-8");
    assert_eq!(code(&command(&["add", test])), Some(0));
    assert_eq!(code(&command(&["add", test])), Some(2));
    let limit = ["--max", "failed_requests@concurrency 8:+0%"];
    assert_eq!(code(&gate(Path::new(test), &store, &limit)), Some(0));
    // Another GPU is another workload.
    let other = path("h200-vit-train");
    assert_eq!(code(&gate(&other, &store, &["--max", LIMIT])), Some(3));
    assert_eq!(
        code(&gate(&other, &path(FIXTURE), &["--max", LIMIT])),
        Some(3)
    );
}
