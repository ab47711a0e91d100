//! `rooflens predict --from` on two captures of one workload, the first eager, the second in CUDA graphs.
//!
//! Expected figures are those of `tests/reference/what_if_graphs.py` on the eager run's export.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/what-if")
        .join(name)
}

fn predict(from: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
    command
        .args(["predict", "-q", "--from"])
        .arg(from)
        .args(args);
    command.output().expect("rooflens runs")
}

/// Stage times of a prediction by column, of one stage.
fn stage(from: &Path, args: &[&str], stage: &str) -> impl Fn(&str) -> f64 + use<> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_str().expect("UTF-8");
    let done = predict(from, &[args, &["--format", "csv", "-o", out]].concat());
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let csv = fs::read_to_string(folder.path().join("predicted_stages.csv")).expect("written");
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let names = cells(csv.lines().next().expect("a head"));
    let row = csv
        .lines()
        .map(cells)
        .find(|row| row[0] == stage)
        .expect("the stage");
    move |name| {
        let column = names
            .iter()
            .position(|one| one == name)
            .expect("the column");
        row[column].parse().expect("a number")
    }
}

#[test]
fn decode_in_a_graph_lies_within_the_interval_of_the_eager_run() {
    let decode = stage(&capture("eager"), &["--graphs"], "decode");
    let near = |name: &str, expected: f64| (decode(name) - expected).abs() < 1.0;
    assert!(near("gpu_low_ns", 2_287_390.9), "{}", decode("gpu_low_ns"));
    assert!(
        near("gpu_high_ns", 3_313_128.1),
        "{}",
        decode("gpu_high_ns")
    );
    assert_eq!(decode("host_high_ns"), 0.0);
    // Median of 10 repeats of 16 steps in the graph's timings.json: 39.277792 ms.
    let measured = 39_277_792.0 / 16.0;
    assert!(decode("low_ns") < measured && measured < decode("high_ns"));
    assert!(decode("high_ns") < 2.0 * decode("low_ns"));
}

#[test]
fn a_graph_stays_what_it_is() {
    let decode = stage(&capture("graph"), &["--graphs"], "decode");
    assert!(
        (decode("speedup") - 1.0).abs() < 0.01,
        "{}",
        decode("speedup")
    );
}

#[test]
fn wrong_changes_are_2_and_say_what_is_known() {
    for (args, message) in [
        (&[][..], "nothing changes"),
        (&["--gpu", "H9000"], "no GPU named H9000"),
        (&["--dtype", "fp7"], "no dtype named fp7"),
        (
            &["--gpu", "A100-SXM4-80GB", "--dtype", "fp8"],
            "no specified rate of fp8",
        ),
        (&["--batch", "0"], "0 is not in 1.."),
    ] {
        let done = predict(&capture("eager"), args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn what_cannot_be_predicted_from_is_3() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let damaged = folder.path().join("timeline.sqlite");
    fs::write(&damaged, "SQLite format 3\0 and no more").expect("writable");
    assert_eq!(predict(&damaged, &["--graphs"]).status.code(), Some(3));
    // Without a workload description the batch is not known.
    let file = capture("eager").join("nsys/timeline.sqlite.zst");
    let done = predict(&file, &["--batch", "32"]);
    assert_eq!(done.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&done.stderr).contains("measured batch is not known"));
}
