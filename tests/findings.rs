//! Rules and their documentation agree, and the SQL of findings gives their numbers on the raw exports.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use regex::Regex;
use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Findings, Inline};
use rooflens::hardware::Hardware;
use rooflens::rules::{self, RULES};
use rooflens::{bundle, ingest};
use rooflens_schemas::Metric;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn findings(fixture: &str) -> Findings {
    all(fixture).0
}

/// Findings of the rules, and the metrics that they could read.
fn all(fixture: &str) -> (Findings, Vec<Metric>) {
    let mut diagnostics = Diagnostics::default();
    let path = root().join("fixtures").join(fixture);
    let mut bundle = bundle::open(&[path], &mut diagnostics).unwrap();
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let analyses = analysis::run(&context);
    let found = rules::run(&context, &analyses);
    (found, analyses.into_iter().flat_map(|(_, one)| one.metrics).collect())
}

/// The entries of `docs/findings.md` by rule.
fn documented() -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join("docs/findings.md")).unwrap();
    let heading = Regex::new(r"(?m)^### `([a-z-]+)`$").unwrap();
    let ids = heading.captures_iter(&text).map(|found| found[1].to_owned());
    let entries = heading.split(&text).skip(1).map(ToOwned::to_owned);
    ids.zip(entries).collect()
}

#[test]
fn each_rule_has_an_entry_with_its_thresholds_and_each_entry_a_rule() {
    let documented = documented();
    let ids: Vec<&str> = documented.keys().map(String::as_str).collect();
    let mut rules: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    rules.sort_unstable();
    assert_eq!(ids, rules);
    for rule in RULES {
        for threshold in rule.thresholds {
            let value = threshold.value.to_string();
            assert!(documented[rule.id].contains(&value), "{}: no threshold of {value}", rule.id);
        }
    }
}

/// Metrics that a rule reads are those of the methodology.
#[test]
fn rules_read_metrics_that_are_documented() {
    let methodology = fs::read_to_string(root().join("docs/methodology.md")).unwrap();
    let ids = fs::read_to_string(root().join("src/analysis/rules/ids.rs")).unwrap();
    let metrics = ids.split("// Data sets").next().unwrap();
    let id = Regex::new(r#"= "([a-z_]+)";"#).unwrap();
    let read: Vec<&str> =
        id.captures_iter(metrics).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(read.len() > 30, "{read:?}");
    let unknown: Vec<_> =
        read.into_iter().filter(|id| !methodology.contains(&format!("| `{id}` |"))).collect();
    assert!(unknown.is_empty(), "not in docs/methodology.md: {unknown:?}");
}

/// The export of a fixture, unpacked.
fn export(path: &str) -> (tempfile::NamedTempFile, Connection) {
    let packed = fs::File::open(root().join("fixtures").join(path)).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let bytes = zstd::decode_all(packed).unwrap();
    file.write_all(&bytes).unwrap();
    let connection = Connection::open(file.path()).unwrap();
    (file, connection)
}

/// Exports of the fixtures, with the rules whose findings have SQL there.
const EXPORTS: [(&str, &str, &[&str]); 7] = [
    ("h200-llama-8b", "nsys", &["launch-bound", "host-pauses", "small-grids", "gemm-bandwidth"]),
    ("h200-llama-1b", "nsys", &["launch-bound", "host-pauses", "small-grids", "gemm-bandwidth"]),
    ("h200-llama-capture", "nsys", &["launch-bound", "host-pauses", "gemm-bandwidth"]),
    ("h200-qwen-0.5b", "nsys", &["launch-bound", "host-pauses", "gemm-bandwidth"]),
    ("h200-cuda-graph", "nsys-node", &["launch-bound", "allocator-stalls", "exposed-copies"]),
    ("h200-graph-ranges", "nsys-node", &["allocator-stalls", "queue-gaps", "short-kernels"]),
    ("h200x2-ddp", "nsys", &["gemm-roofline", "exposed-communication"]),
];

/// Each statement of SQL gives one number, and it is the one that the finding states, to the nanosecond.
#[test]
fn queries_give_the_numbers_of_findings() {
    for (fixture, pass, rules) in EXPORTS {
        let (_file, database) = export(&format!("{fixture}/{pass}/timeline.sqlite.zst"));
        let mut with_query = BTreeSet::new();
        for one in findings(fixture).observations {
            let Some(query) = &one.query else { continue };
            with_query.insert(one.id);
            let Some(Inline::Quantity(expected)) = query.gives.last() else {
                panic!("{}: no number", one.title)
            };
            let mut statement = database.prepare(&query.sql).unwrap();
            let rows = statement.query_map([], |row| {
                assert_eq!(row.as_ref().column_count(), 1);
                Ok(match row.get_ref(0)? {
                    ValueRef::Integer(value) => value as f64,
                    ValueRef::Real(value) => value,
                    other => panic!("{}: {other:?}", one.title),
                })
            });
            let rows: Vec<f64> = rows.unwrap().collect::<Result<_, _>>().unwrap();
            assert_eq!(rows, [expected.value], "{fixture}, {}: {}", one.title, query.sql);
            assert!(expected.value > 0.0, "{fixture}, {}: {}", one.title, query.sql);
        }
        assert!(with_query.contains("stage-busy"), "{fixture}");
        for rule in rules {
            assert!(with_query.contains(rule), "{fixture}: {rule}, of {with_query:?}");
        }
    }
}

/// A claim has evidence.
#[test]
fn findings_name_the_artifact_that_they_rest_on() {
    for fixture in ["h200-llama-8b", "h200-llama-1b", "h200-cuda-graph", "h200x2-ddp"] {
        for one in findings(fixture).observations {
            assert!(
                one.evidence.iter().any(|own| !own.artifact.is_empty()),
                "{fixture}: {}",
                one.title
            );
        }
    }
}

/// Time of matrix products beyond the bandwidth: the sum of the durations of kernels that NVTX puts into `decode`, mean
/// of its counted instances, read with `sqlite3` (nvjet, split-K and cutlass kernels whose launch call starts within the
/// range), minus the bytes of the model's products, operands and result once, at the bandwidth of `peaks.json`.
/// The head of the large model is faster than that copy and loses nothing: its three times, 11 457 203 ns, are left out.
#[test]
fn products_of_decode_lose_what_the_bytes_of_their_sizes_do_not_need() {
    // (rows, [(times in a step, columns, depth)], steps, mean time of an instance)
    let small =
        [(32, 8192, 2048), (32, 2048, 2048), (32, 512, 2048), (16, 2048, 8192), (1, 128_256, 2048)];
    let large = [(64, 14336, 4096), (64, 4096, 4096), (64, 1024, 4096), (32, 4096, 14336)];
    let small_ns = f64::from(8_370_265 + 8_378_743) / 2.0;
    let large_ns = f64::from(73_415_560 + 73_310_453 + 73_429_912 - 11_457_203) / 3.0;
    for (fixture, rows, products, steps, time) in
        [("h200-llama-1b", 4, &small[..], 8, small_ns), ("h200-llama-8b", 8, &large, 16, large_ns)]
    {
        let elements: i64 = products
            .iter()
            .map(|(n, columns, depth)| n * (rows * depth + columns * depth + rows * columns))
            .sum();
        let needed = (2 * steps * elements) as f64 / 4_251.937_542_577_025;
        let found = findings(fixture).observations;
        let one = found.iter().find(|one| one.id == "gemm-bandwidth").unwrap();
        let gain = one.gain.as_ref().unwrap();
        // The outer product of the rotary positions has 1 to 2 ns of bytes.
        assert!(
            (gain.saved_ns - (time - needed)).abs() < 3.0,
            "{fixture}: {gain:?}, {time} − {needed}"
        );
    }
}

/// The query of a finding about a product gives the time of its kernel: of instance 2, by the ranges, 1 362 722 ns.
#[test]
fn the_query_of_a_product_gives_the_time_of_its_kernel() {
    let (_file, database) = export("h200-llama-1b/nsys/timeline.sqlite.zst");
    let found = findings("h200-llama-1b").observations;
    let one = found.iter().find(|one| one.id == "gemm-bandwidth").unwrap();
    let sql = &one.query.as_ref().unwrap().sql;
    assert_eq!(database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 1_362_722);
}

/// Start-up counts to no stage. From the raw export with Python: operations whose call starts in a range `eager` or
/// `decode` last 1 091 455 ns, all operations 1 569 183 ns, those from the first of a stage on 1 107 807 ns.
#[test]
fn start_up_is_no_gap_in_the_stages() {
    let (_, metrics) = all("h200-graph-ranges");
    let value = |id: &str| {
        let of_pass =
            |one: &&Metric| one.id == id && one.scope.pass.as_deref() == Some("nsys-node");
        metrics.iter().find(of_pass).and_then(|one| one.value.number()).unwrap()
    };
    assert!((value("attributed_share") - 1_091_455.0 / 1_569_183.0).abs() < 1e-12);
    let from_first = value("attributed_share_from_first_stage");
    assert!((from_first - 1_091_455.0 / 1_107_807.0).abs() < 1e-12);
    let found = findings("h200-graph-ranges").observations;
    assert!(!found.iter().any(|one| one.id == "attribution-coverage"));
}

/// A power cap counts for the time in which the GPU worked. From nvml.csv with Python: Σ utilization of the samples with
/// bit 4 ÷ Σ utilization, and the clocks weighed by it.
#[test]
fn a_power_cap_is_weighed_by_utilization() {
    let found = findings("h200-llama-8b").observations;
    let one = found.iter().find(|one| one.id == "clock-limits").unwrap();
    let numbers: Vec<f64> = one
        .statement
        .iter()
        .filter_map(|inline| match inline {
            Inline::Quantity(quantity) => Some(quantity.value),
            _ => None,
        })
        .collect();
    let expected = [0.0, 0.486_054_241_533_792_4, 1_836_072_844.400_394_4, 1_967_421_032.899_052];
    for (number, expected) in numbers.iter().zip(expected) {
        assert!((number - expected).abs() <= 1e-9 * expected, "{numbers:?}");
    }
    assert_eq!(numbers.len(), expected.len());
}

/// What the captures are known to show; the numbers were read from the raw artifacts with `sqlite3`.
#[test]
fn the_captures_show_what_they_are_known_for() {
    let ids = |fixture: &str| -> Vec<(&'static str, String)> {
        let found = findings(fixture).observations;
        found.into_iter().map(|one| (one.id, one.scope.stage.unwrap_or_default())).collect()
    };
    let has = |list: &[(&str, String)], id: &str, stage: &str| {
        list.iter().any(|(own, about)| *own == id && about == stage)
    };
    let llama = ids("h200-llama-8b");
    for (id, stage) in [
        ("low-mfu", "prefill"),
        ("profiler-overhead", "decode"),
        ("host-pauses", "decode"),
        ("clock-limits", ""),
        ("small-grids", "decode"),
        ("gemm-bandwidth", "decode"),
        ("profile-coverage", ""),
        ("unrepresentative-profile", ""),
    ] {
        assert!(has(&llama, id, stage), "{id}: {llama:?}");
    }
    // Pauses explain the cold first repeat and the pace; small grids what kernels are bound by.
    for id in ["repeat-outliers", "uneven-pace", "profiled-bound", "short-kernels"] {
        assert!(!llama.iter().any(|(own, _)| *own == id), "{id}");
    }
    // The products of prefill take 1.25 to 1.35 times their roofline time, with tiles and waves nearly full.
    for id in ["gemm-roofline", "gemm-quantization", "gemm-alignment", "flop-coverage"] {
        assert!(!llama.iter().any(|(own, _)| *own == id), "{id}");
    }
    // prefill is as long without the profiler: 223.4 against 221.7 ms.
    assert!(!has(&llama, "profiler-overhead", "prefill"));
    assert!(has(&ids("h200-qwen-0.5b"), "stage-busy", "decode"));
    assert!(has(&ids("h200-cuda-graph"), "hidden-graphs", ""));
    assert!(has(&ids("h200-graph-ranges"), "queue-gaps", "decode"));
    assert!(has(&ids("h200-llama-1b"), "launch-bound", "decode"));
    assert!(has(&ids("h200x2-ddp"), "straggler", "train_step"));
    assert_eq!(ids("edge-empty-window"), []);
}
