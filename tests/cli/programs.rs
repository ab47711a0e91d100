//! What programs, shells and pipes meet.

use std::process::{Command, Stdio};

use super::{rooflens, text};

/// A trace of one kernel of 40 µs.
pub(super) const ONE_KERNEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/one_kernel.json");

#[test]
fn shells_and_manuals_know_the_commands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let completions = rooflens(&["completions", "bash"]);
    assert!(
        text(&completions.stdout).contains("serve-report"),
        "{completions:?}"
    );
    let pages = folder.path().join("man");
    assert!(
        rooflens(&["man", pages.to_str().expect("UTF-8")])
            .status
            .success()
    );
    let page = std::fs::read_to_string(pages.join("rooflens-query.1")).expect("a page");
    assert!(page.contains(".TH rooflens-query 1"), "{page}");
    assert!(page.contains("\\-\\-timeout"), "{page}");
}

#[test]
fn a_pipe_is_an_input() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
    let mut child = command
        .args([
            "query",
            "-",
            "select name, duration from launches",
            "--json",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rooflens runs");
    let trace = std::fs::read(ONE_KERNEL).expect("readable");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), &trace)
        .expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        text(&output.stdout),
        "[{\"name\":\"gemm_kernel\",\"duration\":40000}]\n"
    );
}

#[test]
fn programs_read_what_is_printed() {
    let inspected = rooflens(&["inspect", ONE_KERNEL, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&inspected.stdout).expect("JSON");
    assert_eq!(
        (&json["tables"]["launches"], &json["passes"][0]["kind"]),
        (&1.into(), &"operators".into())
    );
    let metrics = text(&rooflens(&["metrics", ONE_KERNEL, "--csv"]).stdout);
    assert!(
        metrics.starts_with("metric,pass,stage,gpu,rank,class,value,unit,kind,reason\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("\nstage_time,one_kernel,train_step,,,,40000,nanoseconds,derived,\n"),
        "{metrics}"
    );
    let annotations = rooflens(&["report", ONE_KERNEL, "--format", "github", "-o", "-"]);
    assert!(annotations.status.success());
    let lines = text(&annotations.stdout);
    assert!(
        lines.lines().all(|line| line.starts_with("::notice title=")
            || line.starts_with("::warning title=")
            || line.starts_with("::error title=")),
        "{lines}"
    );
}

#[test]
fn colours_are_as_asked() {
    let said = |color: &str| {
        let output = rooflens(&["query", ONE_KERNEL, "select nowhere", "--color", color]);
        text(&output.stderr)
    };
    assert!(
        said("always").starts_with("\u{1b}[31;1merror\u{1b}[0m: "),
        "{:?}",
        said("always")
    );
    assert!(said("never").starts_with("error: ") && said("auto").starts_with("error: "));
}

#[test]
fn kernels_are_sorted_by_what_is_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = std::fs::read_to_string(ONE_KERNEL).expect("readable");
    let event = |name: &str, ts: u32, dur: u32| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"stream":7,"device":0}}}}"#
        )
    };
    // b runs thrice for 30 µs, a once for 40: b has more time, a the longer mean.
    let events = [
        event("a", 1000, 40),
        event("b", 1100, 30),
        event("b", 1200, 30),
        event("b", 1300, 30),
    ];
    let head = trace.split("\"traceEvents\"").next().expect("a head");
    let path = folder.path().join("trace.json");
    std::fs::write(
        &path,
        format!("{head}\"traceEvents\": [{}]}}", events.join(",")),
    )
    .expect("writable");
    let path = path.to_str().expect("UTF-8");
    let first = |sort: &str| {
        let output = rooflens(&["kernels", path, "--sort", sort, "--limit", "1"]);
        let line = text(&output.stdout).lines().nth(1).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{output:?}"))
            .split_whitespace()
            .last()
            .expect("a name")
            .to_owned()
    };
    assert_eq!(
        ["total", "count", "mean", "max", "name"].map(first),
        ["b", "b", "a", "a", "a"]
    );
}

/// The same training on an H100 and an H200 is refused, and compared by the word of the user.
#[test]
fn captures_of_other_gpus_are_compared_only_if_that_is_allowed() {
    let [before, after] = ["h100-vit-train", "h200-vit-train"]
        .map(|name| format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR")));
    let refused = rooflens(&["compare", &before, &after, "-o", "-"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("--allow gpu"), "{refused:?}");
    assert!(refused.stdout.is_empty());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("comparison");
    let output = output.to_str().expect("UTF-8");
    let allowed = ["--allow", "gpu", "--allow", "workload"];
    let arguments = [
        &["compare", &before, &after, "-o", output, "--format", "csv"],
        &allowed[..],
    ];
    let compared = rooflens(&arguments.concat());
    assert_eq!(compared.status.code(), Some(0), "{compared:?}");
    let read = |name: &str| {
        let path = folder.path().join("comparison").join(name);
        std::fs::read_to_string(path).expect("a data set")
    };
    // The parts of both captures sum to the difference of the captured times.
    let mut lines =
        csv::Reader::from_reader(read("compare_account.csv").into_bytes().leak() as &[u8]);
    let heads = lines.headers().expect("a head").clone();
    let place = |name: &str| {
        heads
            .iter()
            .position(|head| head == name)
            .expect("a column")
    };
    let places = [
        "captured_before_ns",
        "captured_after_ns",
        "captured_difference_ns",
    ]
    .map(place);
    let mut sums = [0_i64; 3];
    for row in lines.records() {
        let row = row.expect("a row");
        for (sum, place) in sums.iter_mut().zip(places) {
            *sum += row[place].parse::<i64>().expect("a whole number");
        }
    }
    assert_eq!(sums[1] - sums[0], sums[2]);
    for (input, sum) in [(&before, sums[0]), (&after, sums[1])] {
        let sql = "select sum(ns) from report.account where parent is null";
        let whole = rooflens(&["query", "--report", input, sql, "--csv"]);
        assert_eq!(
            text(&whole.stdout).lines().nth(1),
            Some(sum.to_string().as_str())
        );
    }
}

/// Two hundred thousand rows of some 100 bytes, sorted and then kept.
const LARGE: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) \
    select printf('%0100d', i) as text from n order by text desc";

#[test]
fn a_query_takes_no_more_memory_than_it_may() {
    let ask = |memory: &str| rooflens(&["query", ONE_KERNEL, LARGE, "--csv", "--memory", memory]);
    let small = ask("8");
    assert_eq!(small.status.code(), Some(2));
    let message = String::from_utf8_lossy(&small.stderr);
    assert!(message.contains("--memory"), "{message}");
    let large = ask("512");
    assert_eq!(large.status.code(), Some(0));
    assert_eq!(
        large.stdout.iter().filter(|byte| **byte == b'\n').count(),
        200_001
    );
    let late =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";
    let late = rooflens(&["query", ONE_KERNEL, late, "--timeout", "1"]);
    assert_eq!(late.status.code(), Some(2));
    let message = String::from_utf8_lossy(&late.stderr);
    assert!(message.contains("--timeout"), "{message}");
}
