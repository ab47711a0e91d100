//! `rooflens compare` of load tests, of microbenchmarks, and of several captures on each side.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::text;
use crate::support::{path, rooflens, root};

/// A copy of a JSON file, changed.
fn edited(from: &Path, folder: &Path, edit: impl FnOnce(&mut Value)) -> PathBuf {
    let mut value: Value = serde_json::from_slice(&fs::read(from).expect("a file")).expect("JSON");
    edit(&mut value);
    let to = folder.join(from.file_name().expect("a name"));
    fs::write(&to, value.to_string()).expect("written");
    to
}

fn longer(times: &mut Value, factor: f64) {
    for time in times.as_array_mut().expect("a list") {
        *time = (time.as_f64().expect("a number") * factor).into();
    }
}

/// Rows of a data set by the names of their columns.
fn rows(captures: &[&Path], dataset: &str, more: &[&str]) -> Vec<csv::StringRecord> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("comparison");
    let mut arguments = vec![
        "compare",
        "-q",
        "-o",
        output.to_str().expect("UTF-8"),
        "--format",
        "csv",
    ];
    arguments.extend(more);
    arguments.extend(captures.iter().map(|path| path.to_str().expect("UTF-8")));
    let compared = rooflens(&arguments);
    assert_eq!(compared.status.code(), Some(0), "{compared:?}");
    let table = csv::Reader::from_path(output.join(dataset)).expect("a data set");
    table
        .into_records()
        .map(|row| row.expect("a row"))
        .collect()
}

#[test]
fn load_tests_compare_percentiles_at_equal_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = root().join("tests/data/serving/vllm_detailed.json");
    let after = edited(&before, folder.path(), |test| {
        longer(&mut test["ttfts"], 1.5)
    });
    let latencies = rows(&[&before, &after], "compare_latency.csv", &[]);
    // load, latency, percentile, n before and after, before, after, change, from, to, verdict
    let ttft = &latencies[0];
    let cells = [&ttft[1], &ttft[2], &ttft[3], &ttft[7], &ttft[10]];
    assert_eq!(cells, ["TTFT", "P50", "40", "0.5", "worse"]);
    let low: f64 = ttft[8].parse().expect("a number");
    assert!(low > 0.0, "{ttft:?}");
    // Two of forty values lie beyond the 95th percentile: too few.
    assert_eq!(
        (&latencies[2][2], &latencies[2][8], &latencies[2][10]),
        ("P95", "", "cannot tell")
    );
    let other = edited(&before, folder.path(), |test| {
        test["max_concurrency"] = 16.into();
    });
    let [before, other] = [&before, &other].map(|path| path.to_str().expect("UTF-8"));
    let refused = rooflens(&["compare", before, other, "-o", "-"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let loads = ["(concurrency 8,", "(concurrency 16,"];
    assert!(
        loads
            .iter()
            .all(|load| text(&refused.stderr).contains(load)),
        "{refused:?}"
    );
    // An option behind `--` is no capture.
    let misread = rooflens(&["compare", before, "--", before, "-o"]);
    assert_eq!(misread.status.code(), Some(2), "{misread:?}");
    let capture = path("h100-vit-train");
    let mixed = rooflens(&[
        "compare",
        before,
        capture.to_str().expect("UTF-8"),
        "-o",
        "-",
    ]);
    assert_eq!(mixed.status.code(), Some(3), "{mixed:?}");
}

#[test]
fn microbenchmarks_compare_operations_of_equal_sizes() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = root().join("src/studies/microbench/testdata/bench.json");
    let mut name = String::new();
    let after = edited(&before, folder.path(), |bench| {
        let case = &mut bench["cases"][0];
        for time in ["median_s", "min_s", "max_s", "p95_s", "mean_s"] {
            case[time] = (case[time].as_f64().expect("a time") * 0.5).into();
        }
        name = case["name"].as_str().unwrap_or_default().to_owned();
    });
    let operations = rows(&[&before, &after], "compare_operations.csv", &[]);
    // GPU, operation, implementations, times, figures, change, from, to, verdict
    let [first, second] = [&operations[0], &operations[1]];
    assert!(first[1].starts_with(&name), "{first:?} {name}");
    assert_eq!((&first[8], &first[11]), ("-0.5", "better"));
    assert_eq!(&second[8], "0");
    let other = edited(&before, folder.path(), |bench| {
        bench["gpu"] = "NVIDIA H200".into()
    });
    let [before, other] = [&before, &other].map(|path| path.to_str().expect("UTF-8"));
    let refused = rooflens(&["compare", before, other, "-o", "-"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("--allow gpu"), "{refused:?}");
}

#[test]
fn repeats_of_a_side_are_one_sample() {
    let fixture = path("h100-vit-train");
    let separator = Path::new("--");
    let times = rows(
        &[&fixture, &fixture, separator, &fixture],
        "compare_times.csv",
        &[],
    );
    // stage, unit, profiled, n before and after: eleven repeats each
    assert_eq!((&times[0][3], &times[0][4]), ("22", "11"));
    let name = fixture.to_str().expect("UTF-8");
    let alone = rooflens(&["compare", name, "-o", "-"]);
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
    // Repeats of one side are of one GPU.
    let other = path("h200-vit-train");
    let mixed = [
        "compare",
        name,
        other.to_str().expect("UTF-8"),
        "-o",
        "-",
        "--",
        name,
    ];
    let mixed = rooflens(&mixed);
    assert_eq!(mixed.status.code(), Some(3), "{mixed:?}");
}

#[test]
fn a_metrics_file_is_compared_by_its_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = folder.path().join("metrics.json");
    let fixture = path("h100-vit-train");
    let printed = rooflens(&["metrics", "-q", fixture.to_str().expect("UTF-8")]);
    fs::write(&before, &printed.stdout).expect("written");
    let edits = tempfile::tempdir().expect("a folder");
    let after = edited(&before, edits.path(), |file| {
        for metric in file["metrics"].as_array_mut().expect("a list") {
            let is_of_step = metric["scope"]["stage"] == "train_step";
            if is_of_step && metric["id"] == "launches_per_step" {
                let value = metric["value"]["value"].as_f64().expect("a number");
                metric["value"]["value"] = (value * 2.0).into();
            }
        }
    });
    // stage, metric, n before and after, before, after, change; the largest change first.
    let metrics = rows(&[&before, &after], "compare_metrics.csv", &[]);
    let first = [&metrics[0][0], &metrics[0][1], &metrics[0][6]];
    assert_eq!(first, ["train_step", "launches_per_step", "1"]);
    let mut others = metrics[1..].iter();
    assert!(others.all(|row| ["", "0"].contains(&&row[6])));
    // The capture itself states the same figures, and has eleven repeats where the file has their median.
    let times = rows(&[&before, &fixture], "compare_times.csv", &[]);
    let step = times.iter().find(|row| &row[0] == "train_step");
    let step = step.expect("the stage");
    let cells = [&step[2], &step[3], &step[4], &step[7], &step[12]];
    assert_eq!(cells, ["no", "1", "11", "0", "cannot tell"]);
    let limit = ["--max", "launches_per_step@train_step:+50%"];
    let [run, baseline] = [&after, &before].map(|path| path.to_str().expect("UTF-8"));
    let gated = rooflens(&[&["gate", run, "--baseline", baseline], &limit[..]].concat());
    assert_eq!(gated.status.code(), Some(5), "{gated:?}");
}

/// Three experiments of load tests: another time to first token, and longer prompts.
#[test]
fn load_tests_are_runs_of_a_ledger() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = root().join("tests/data/serving/vllm_detailed.json");
    let [slow, long] = ["slow", "long"].map(|name| {
        let to = folder.path().join(name);
        fs::create_dir(&to).expect("a folder");
        to
    });
    let slow = edited(&before, &slow, |test| longer(&mut test["ttfts"], 1.5));
    let long = edited(&before, &long, |test| {
        longer(&mut test["ttfts"], 1.5);
        let twice = |tokens: &Value| Value::from(2 * tokens.as_u64().expect("a number"));
        test["total_input_tokens"] = twice(&test["total_input_tokens"]);
        for tokens in test["input_lens"].as_array_mut().expect("a list") {
            *tokens = twice(tokens);
        }
    });
    let ledger = folder.path().join("ledger.toml");
    let experiment =
        |label: &str, run: &Path| format!("[[experiment]]\nlabel = {label:?}\nruns = [{run:?}]\n");
    let head = "rooflens_ledger = 1\nname = \"made\"\ngoal = \"ttft@concurrency 8, p50\"\n";
    let experiments = [
        experiment("first", &before),
        experiment("slow", &slow),
        experiment("long", &long),
    ];
    fs::write(&ledger, head.to_owned() + &experiments.concat()).expect("written");
    let output = folder.path().join("out");
    let [ledger, to] = [&ledger, &output].map(|path| path.to_str().expect("UTF-8"));
    let made = rooflens(&["experiments", "-q", ledger, "--format", "csv", "-o", to]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let table = csv::Reader::from_path(output.join("experiments.csv")).expect("a data set");
    let rows: Vec<_> = table
        .into_records()
        .map(|row| row.expect("a row"))
        .collect();
    // experiment, against, settings, outcome
    let mut outcomes: Vec<_> = rows.iter().map(|row| (&row[0], &row[3])).collect();
    outcomes.sort_unstable();
    let expected = [
        ("first", "reference"),
        ("long", "cannot tell"),
        ("slow", "worse by few values"),
    ];
    assert_eq!(outcomes, expected);
}
