//! Figures of copies, synchronization, collectives and ranks of the fixtures against those that scripts under
//! `tests/reference` derived from the raw captures.

use std::path::PathBuf;

use rooflens::analysis::{ANALYSES, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Cell, Findings};
use rooflens::hardware::Hardware;
use rooflens::{bundle, ingest};

/// The findings of some analyses of a fixture, of which only files with this ending are read.
fn findings(fixture: &str, ending: &str, analyses: &[&str]) -> Findings {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("the fixture opens");
    bundle.files.retain(|file| file.path.ends_with(ending) || file.path.ends_with(".toml"));
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let mut all = Findings::default();
    for analysis in ANALYSES.iter().filter(|analysis| analyses.contains(&analysis.id)) {
        let found = (analysis.run)(&context);
        all.metrics.extend(found.metrics);
        all.datasets.extend(found.datasets);
    }
    all
}

/// A metric by pass, stage (empty: none) and rank.
fn metric(findings: &Findings, id: &str, pass: &str, stage: &str, rank: Option<u32>) -> f64 {
    let found = findings.metrics.iter().find(|metric| {
        metric.id == id
            && metric.scope.pass.as_deref() == Some(pass)
            && metric.scope.stage.as_deref().unwrap_or("") == stage
            && metric.scope.rank == rank
    });
    let found = found.unwrap_or_else(|| panic!("{id} of {stage:?}, rank {rank:?}"));
    found.value.number().unwrap_or_else(|| panic!("{id} has a number"))
}

/// `comm_time`, `comm_exposed`, `comm_wait`, `comm_transfer`.
fn communication(findings: &Findings, pass: &str, stage: &str, rank: u32) -> [f64; 4] {
    ["comm_time", "comm_exposed", "comm_wait", "comm_transfer"]
        .map(|id| metric(findings, id, pass, stage, Some(rank)))
}

/// `communication.py nsys/timeline.sqlite`.
#[test]
fn collectives_of_both_ranks_in_one_nsys_export() {
    let found = findings("h200x2-ddp", ".sqlite.zst", &["communication"]);
    let of = |stage, rank| communication(&found, "nsys", stage, rank);
    assert_eq!(of("", 0), [304_660_467.0, 58_601_842.0, 270_541_367.0, 34_119_100.0]);
    assert_eq!(of("", 1), [48_114_708.0, 23_085_901.0, 13_995_608.0, 34_119_100.0]);
    assert_eq!(of("train_step", 0), [59_818_449.0, 10_786_590.0, 54_505_246.0, 5_298_323.0]);
    assert_eq!(of("train_step", 1), [5_298_323.0, 447_711.0, 0.0, 5_298_323.0]);
    // 10 786 590 of 86 666 571 ns.
    let share = metric(&found, "comm_exposed_share", "nsys", "train_step", Some(0));
    assert!((share - 10_786_590.0 / 86_666_571.0).abs() < 1e-12);
    // Computing for 75 018 862 and 82 924 022 ns.
    let imbalance = metric(&found, "imbalance", "nsys", "train_step", None);
    assert!((imbalance - 82_924_022.0 / 78_971_442.0).abs() < 1e-12);
    assert_eq!(metric(&found, "clock_residual", "nsys", "", None), 3815.0);
}

/// `communication.py torch/rank0… torch/rank1…`: the window of rank 1 holds one collective more.
#[test]
fn collectives_of_one_pytorch_trace_a_rank() {
    let found = findings("h200x2-ddp", ".json.zst", &["communication"]);
    let of = |pass, rank| communication(&found, pass, "", rank);
    let expected = [173_047_952.0, 30_416_847.0, 157_406_582.0, 15_641_370.0];
    assert_eq!(of("torch · rank 0", 0), expected);
    let expected = [15_917_690.0, 1_329_412.0, 0.0, 15_641_370.0];
    assert_eq!(of("torch · rank 1", 1), expected);
    assert_eq!(metric(&found, "clock_residual", "torch", "", None), 2303.5);
    // 38 all-reduces of a recorded size: 2 417 197 056 B in 10 596 809 ns of transfer; factor 1 of two ranks.
    for rank in [0, 1] {
        let bus = metric(&found, "bus_bandwidth", "torch", "", Some(rank));
        assert!((bus / (2_417_197_056.0 / 10_596_809.0 * 1e9) - 1.0).abs() < 1e-12);
    }
    // H200: 900 GB/s of NVLink in both directions.
    let shares = column(&found, "collectives", "nvlink_share");
    let buses = column(&found, "collectives", "bus_bandwidth");
    assert!(shares.iter().zip(&buses).all(|(share, bus)| match (share, bus) {
        (Cell::Float(share), Cell::Float(bus)) => (share * 450e9 / bus - 1.0).abs() < 1e-12,
        (share, bus) => share == bus,
    }));
    assert!(buses.iter().any(|bus| **bus != Cell::Missing));
    assert_eq!(sum(&found, "collectives", "count"), 56 + 57);
}

/// One GPU has no collectives, and so neither section nor metrics.
#[test]
fn without_collectives_nothing_is_said() {
    let found = findings("h200-llama-1b", "nsys/timeline.sqlite.zst", &["communication"]);
    assert!(found.metrics.is_empty() && found.datasets.is_empty());
}

/// A column of a data set.
fn column<'a>(findings: &'a Findings, data: &str, column: &str) -> Vec<&'a Cell> {
    let data = findings.datasets.iter().find(|its| its.id == data).expect("it is there");
    let column = data.columns.iter().position(|its| its.id == column).expect("a column");
    data.rows.iter().map(|row| &row[column]).collect()
}

/// The sum of a column of whole numbers.
fn sum(findings: &Findings, data: &str, name: &str) -> i64 {
    column(findings, data, name)
        .iter()
        .map(|cell| if let Cell::Int(n) = cell { *n } else { 0 })
        .sum()
}

/// `synchronization.py nsys/timeline.sqlite`: three steps of each rank, of which the first waits for nothing.
#[test]
fn synchronizing_calls_of_two_ranks_and_what_they_cost() {
    let found = findings("h200x2-ddp", ".sqlite.zst", &["synchronization"]);
    let all = ["count", "time_ns", "idle_ns"].map(|column| sum(&found, "synchronization", column));
    assert_eq!(all, [466, 594_564_207, 1_000_642_557]);
    let of = |id, rank| metric(&found, id, "nsys", "train_step", Some(rank));
    assert_eq!(
        ["sync_calls", "sync_time", "sync_idle"].map(|id| of(id, 0)),
        [8.0, 57_232_003.0, 0.0]
    );
    assert_eq!(of("sync_time", 1), 57_942_708.0);
}

/// `synchronization.py nsys/node.sqlite`: one wait after all replays; kernels hide none of the copies.
#[test]
fn waits_and_copies_of_graph_replays() {
    let found = findings(
        "h200-cuda-graph",
        "nsys-node/timeline.sqlite.zst",
        &["synchronization", "copies"],
    );
    let all = ["count", "time_ns", "idle_ns"].map(|column| sum(&found, "synchronization", column));
    assert_eq!(all, [5, 24_399_137, 42_116_074]);
    assert_eq!(metric(&found, "sync_time", "nsys-node", "offload", None), 11_914_989.0);
    let direction = |id: &str, class: &str| {
        let own = found.metrics.iter().find(|metric| {
            let scope = &metric.scope;
            metric.id == id && scope.stage.is_none() && scope.class.as_deref() == Some(class)
        });
        own.and_then(|metric| metric.value.number()).expect("a number")
    };
    assert_eq!(direction("copy_bytes", "memcpy DtoH"), 268_435_460.0);
    assert_eq!(direction("copy_time", "memcpy DtoH"), 4_857_680.0);
    assert_eq!(direction("copy_exposed", "memcpy HtoD"), 4_844_784.0);
    let rate = direction("copy_bandwidth", "memcpy HtoD");
    assert!((rate / (268_435_456.0 / 4_844_784.0 * 1e9) - 1.0).abs() < 1e-12);
    let share =
        found.metrics.iter().find(|metric| metric.id == "pageable_share").expect("it is there");
    assert_eq!(share.value.number(), Some(0.0));
}

/// `synchronization.py nsys/timeline.sqlite`: copies within a GPU, of which kernels hide half.
#[test]
fn copies_of_both_ranks() {
    let found = findings("h200x2-ddp", ".sqlite.zst", &["copies"]);
    let whole = |id: &str, class: Option<&str>| {
        let own = found.metrics.iter().find(|metric| {
            let scope = &metric.scope;
            metric.id == id && scope.stage.is_none() && scope.class.as_deref() == class
        });
        own.and_then(|metric| metric.value.number()).expect("a number")
    };
    assert_eq!(whole("copy_time", Some("memcpy DtoD")), 21_221_262.0);
    assert_eq!(whole("copy_exposed", Some("memcpy DtoD")), 10_877_683.0);
    assert_eq!(whole("copy_exposed", Some("memcpy HtoD")), 538_508_118.0);
    // 4 834 465 024 B up and 7456 B down through pageable memory, 32 B down into pinned memory.
    let share = 4_834_472_480.0 / 4_834_472_512.0;
    assert!((whole("pageable_share", None) - share).abs() < 1e-15);
}

/// `critical_path.py`, nanoseconds by category, which add up to the step.
fn assert_path(found: &Findings, pass: &str, stage: &str, expected: [(&str, f64); 8]) {
    let of = |id: &str| metric(found, id, pass, stage, None);
    let length = of("critical_path");
    assert_eq!(length, expected.iter().map(|(_, time)| time).sum::<f64>());
    for (category, time) in expected {
        let share = of(&format!("critical_path_share_{category}"));
        assert!((share * length - time).abs() < 1e-3, "{category}: {}", share * length);
    }
}

/// `critical_path.py nsys/timeline.sqlite train_step`.
#[test]
fn the_critical_path_of_a_training_step_on_two_ranks() {
    let found = findings("h200x2-ddp", ".sqlite.zst", &["critical-path"]);
    let expected = [
        ("compute", 83_642_570.0),
        ("communication", 754_425.0),
        ("copy", 1_097_983.0),
        ("gap", 1_657_470.0),
        ("launch", 51_874.0),
        ("calls", 33_488.0),
        ("host", 282_382.0),
        ("unknown", 0.0),
    ];
    assert_path(&found, "nsys", "train_step", expected);
    assert_eq!(sum(&found, "critical_path", "time_ns"), 87_520_192);
}

/// `critical_path.py nsys-node/timeline.sqlite decode`: the replays were issued before the first of them ran.
#[test]
fn the_critical_path_of_graph_replays() {
    let path = |compute, gap| {
        let names =
            ["compute", "gap", "communication", "copy", "launch", "calls", "host", "unknown"];
        let mut times = names.map(|name| (name, 0.0));
        (times[0].1, times[1].1) = (compute, gap);
        times
    };
    let of = |fixture| findings(fixture, "nsys-node/timeline.sqlite.zst", &["critical-path"]);
    assert_path(&of("h200-cuda-graph"), "nsys-node", "decode", path(13_359_408.0, 259_548.0));
    assert_path(&of("h200-graph-ranges"), "nsys-node", "decode", path(992_703.0, 206_464.0));
}

/// `critical_path.py nsys/timeline.sqlite decode 2`: each step waits for the host.
#[test]
fn the_critical_path_of_eager_decoding() {
    let found = findings("h200-llama-8b", "nsys/timeline.sqlite.zst", &["critical-path"]);
    let expected = [
        ("compute", 276_512.0),
        ("gap", 1_408.0),
        ("launch", 119_882_196.0),
        ("calls", 3_709_331.0),
        ("host", 345_598_192.0),
        ("communication", 0.0),
        ("copy", 0.0),
        ("unknown", 0.0),
    ];
    assert_path(&found, "nsys", "decode", expected);
}
