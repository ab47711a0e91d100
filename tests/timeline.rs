//! Timeline, concurrency, pace and synchronizing calls of real captures, against numbers derived outside of this program.

use std::path::Path;

use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Cell, Findings};
use rooflens::hardware::Hardware;
use rooflens::{bundle, ingest};

/// The findings of all analyses for a fixture.
fn findings(fixture: &str) -> Vec<Findings> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("a fixture opens");
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    analysis::run(&context).into_iter().map(|(_, findings)| findings).collect()
}

/// The value of a metric of a stage in a pass, and its basis.
fn metric(
    findings: &[Findings],
    id: &str,
    pass: &str,
    stage: Option<&str>,
    gpu: Option<u32>,
) -> (f64, String) {
    let mut all = findings.iter().flat_map(|one| &one.metrics);
    let found = all.find(|metric| {
        let scope = &metric.scope;
        metric.id == id
            && scope.pass.as_deref() == Some(pass)
            && scope.stage.as_deref() == stage
            && scope.gpu == gpu
    });
    let found = found.unwrap_or_else(|| panic!("no {id} of {stage:?} in {pass}"));
    (found.value.number().unwrap_or(f64::NAN), found.basis.clone())
}

/// Sums and numbers of samples with sqlite3 and Python over the raw export, whose counters the fixture holds untrimmed:
/// ranges by name, operations whose API call starts in a range on its thread, their first start and last end, and
/// `SELECT metricId, count(*), sum(value) FROM GPU_METRICS WHERE timestamp BETWEEN first AND last GROUP BY 1`.
#[test]
fn gpu_metrics_are_those_of_the_raw_file() {
    let findings = findings("h200-cuda-graph");
    // Stage, samples, sums of SMs active, tensor active, DRAM read, DRAM write in percent.
    let expected = [
        ("eager", 16, [471, 40, 390, 16]),
        ("decode", 134, [9_576, 773, 7_803, 134]),
        ("decode_step", 133, [9_511, 768, 7_749, 133]),
        ("offload", 125, [1_920, 159, 1_632, 88]),
    ];
    for (stage, count, [sm, tensor, read, write]) in expected {
        let mean = |sum: i32| f64::from(sum) / f64::from(count) / 100.0;
        let ids = [
            ("sm_active", mean(sm)),
            ("tensor_active", mean(tensor)),
            ("dram_bandwidth_share", mean(read + write)),
        ];
        for (id, value) in ids {
            let (found, basis) = metric(&findings, id, "nsys-graph", Some(stage), None);
            assert!((found - value).abs() < 1e-12, "{id} of {stage}: {found} instead of {value}");
            assert!(basis.contains(&format!("mean of {count} samples")), "{basis}");
        }
    }
}

/// With a sweep in Python over kernels, copies and memsets of the raw export by device: time with two or more, and with
/// one or more operations.
#[test]
fn concurrency_of_two_ranks_is_that_of_the_raw_file() {
    let findings = findings("h200x2-ddp");
    for (gpu, concurrent, busy) in [(0, 255_356_288, 769_605_228), (1, 26_959_619, 796_795_205)] {
        let (share, basis) = metric(&findings, "concurrent_share", "nsys", None, Some(gpu));
        assert!((share - f64::from(concurrent) / f64::from(busy)).abs() < 1e-12, "{share}");
        assert!(
            basis.contains(&format!("{concurrent} ns")) && basis.contains(&format!("{busy} ns"))
        );
    }
}

/// With Python over the raw export: projections of the ranges `decode_step` in order of their start without the four of the
/// declared warm-up; medians of the first 16 and the last 16, and the pairs that rise and fall.
#[test]
fn the_pace_of_decode_steps_is_that_of_the_raw_file() {
    let findings = findings("h200-llama-8b");
    let stage = Some("decode_step");
    let (drift, _) = metric(&findings, "pace_drift", "nsys", stage, None);
    assert!((drift - (25_209_710.5 / 56_276_042.5 - 1.0)).abs() < 1e-12, "{drift}");
    let (z, _) = metric(&findings, "pace_trend_z", "nsys", stage, None);
    assert!((z - -4.488_460_381_438_682).abs() < 1e-9, "{z}");
}

/// With Python over the raw exports: length of the union of kernels, copies, memsets and whole graphs by device, cut to
/// the window from the stages' first start to their last end.
#[test]
fn the_stretches_of_real_captures_add_up_to_busy_time() {
    let expected: [(&str, &str, &[i64]); 3] = [
        ("h200x2-ddp", "nsys", &[496_542_717, 520_096_736]),
        ("h200-llama-8b", "nsys", &[1_506_244_453]),
        ("h200-cuda-graph", "nsys-graph", &[26_407_094]),
    ];
    for (fixture, pass, busy) in expected {
        let findings = findings(fixture);
        let mut datasets = findings.iter().flat_map(|one| &one.datasets);
        let timeline = datasets.find(|dataset| dataset.id == "timeline").expect("a timeline");
        for (gpu, busy) in busy.iter().enumerate() {
            let own = |row: &&Vec<Cell>| {
                row[0] == Cell::Name(pass.to_owned()) && row[1] == Cell::Int(gpu as i64)
            };
            let times = timeline.rows.iter().filter(own).flat_map(|row| &row[4..]);
            let sum: i64 =
                times.map(|cell| if let Cell::Int(time) = cell { *time } else { 0 }).sum();
            assert_eq!(sum, *busy, "GPU {gpu} of {fixture}");
        }
    }
}

/// Number and time of the calls that `tests/reference/synchronization.py` finds in the ranges of the raw export:
/// 8 calls in each of the three `train_step` of both ranks, 40 in the `forward` before them, 466 in all.
#[test]
fn waits_in_stages_are_those_of_the_raw_file() {
    let findings = findings("h200x2-ddp");
    let mut datasets = findings.iter().flat_map(|one| &one.datasets);
    let calls = datasets.find(|dataset| dataset.id == "synchronization").expect("the waits");
    let at = |id: &str| calls.columns.iter().position(|one| one.id == id).expect("a column");
    let sum = |stage: Option<&str>, id: &str| -> i64 {
        let own = |row: &&Vec<Cell>| {
            row[at("pass")] == Cell::Text("nsys".to_owned())
                && stage.is_none_or(|stage| row[at("stage")] == Cell::Name(stage.to_owned()))
        };
        let cells = calls.rows.iter().filter(own).map(|row| &row[at(id)]);
        cells.map(|cell| if let Cell::Int(number) = cell { *number } else { 0 }).sum()
    };
    let train_step = 18_992 + 18_286 + 57_232_003 + 57_942_708 + 61_500_261 + 62_147_622;
    let forward = 2_489_369 + 1_435_643 + 51_590_505 + 49_075_418;
    for (stage, count, time) in [
        (Some("train_step"), 48, train_step),
        (Some("forward"), 40, forward),
        (Some("backward"), 0, 0),
        (None, 466, 594_564_207),
    ] {
        assert_eq!((sum(stage, "count"), sum(stage, "time_ns")), (count, time), "{stage:?}");
    }
    let outside = calls.rows.iter().take_while(|row| row[at("pass")] == calls.rows[0][at("pass")]);
    let outside: Vec<bool> = outside.map(|row| row[at("stage")] == Cell::Missing).collect();
    assert!(outside.is_sorted() && outside.contains(&true), "those outside come last");
}
