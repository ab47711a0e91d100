//! Reports of the fixtures: the same bytes whoever asks, and the bytes that `reports/` holds.
//!
//! `SNAPSHOTS=overwrite cargo test --release --test all reports` renews `reports/` after an intended change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use rooflens_schemas::{MetricValue, MetricsFile};
use sha2::{Digest, Sha256};

use crate::support::{FIXTURES, root};

/// The fixture whose files stand in `reports/` as they are, next to the snapshots that all fixtures have.
const SHOWCASE: &str = "h200-llama-8b";

/// Files of the showcase that the repository does not hold: large, and made for programs.
const LARGE: [&str; 4] = [
    "tables/",
    "ncu_metrics.csv",
    "report.json",
    "stage_kernels.csv",
];

/// Formats that nobody reads as text. Their bytes are pinned by hash; what changed in them shows in the snapshots.
const HASHED: [&str; 4] = ["html", "json", "parquet", "pdf"];

/// The circumstances of a run, none of which may show.
struct Circumstances {
    threads: &'static str,
    zone: &'static str,
    home: &'static str,
}

const ONE: Circumstances = Circumstances {
    threads: "1",
    zone: "UTC",
    home: "/",
};
const TWO: Circumstances = Circumstances {
    threads: "3",
    zone: "Asia/Shanghai",
    home: "/nonexistent",
};

/// The files of the report of a fixture, by relative path.
fn report(fixture: &str, under: &Circumstances) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(fixture, under, folder.path(), "out", &[]);
    files(&folder.path().join("out"))
}

/// Summary and report of the showcase in Chinese.
fn in_chinese() -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for kind in ["summary", "report"] {
        let out = format!("out/zh/{kind}.pdf");
        write(
            SHOWCASE,
            &ONE,
            folder.path(),
            &out,
            &["--lang", "zh", "--kind", kind],
        );
    }
    files(&folder.path().join("out"))
}

fn write(fixture: &str, under: &Circumstances, folder: &Path, out: &str, more: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_rooflens"))
        .arg("report")
        .arg(root().join("fixtures").join(fixture))
        .arg("-o")
        .arg(folder.join(out))
        .args(more)
        .args(["--threads", under.threads, "--quiet"])
        .env("TZ", under.zone)
        .env("HOME", under.home)
        .env("POLARS_MAX_THREADS", under.threads)
        .current_dir(folder)
        .status()
        .expect("rooflens runs");
    assert!(status.success(), "{fixture}: {status}");
}

fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("it lies in the root");
                let name = name.to_string_lossy().replace('\\', "/");
                // The list of the others is no part of the report.
                if name != rooflens::bundle::REPORT_MARK {
                    found.insert(name, fs::read(&path).expect("a readable file"));
                }
            }
        }
    }
    found
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Names of the files that differ or that only one side has.
fn differing(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names = a.keys().chain(b.keys()).collect::<BTreeSet<_>>();
    names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .cloned()
        .collect()
}

#[test]
fn the_same_bundle_gives_the_same_bytes() {
    for fixture in [SHOWCASE, "h200x2-ddp"] {
        let differing = differing(&report(fixture, &ONE), &report(fixture, &TWO));
        assert!(differing.is_empty(), "{fixture}: {differing:?}");
    }
}

#[test]
fn a_packed_bundle_gives_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = folder.path().join("elsewhere.tar.zst");
    let fixture = root().join("fixtures/h200-qwen-0.5b");
    let run = |args: &[&std::ffi::OsStr]| {
        let status = Command::new(env!("CARGO_BIN_EXE_rooflens"))
            .args(args)
            .status();
        assert!(status.expect("rooflens runs").success());
    };
    run(&[
        "pack".as_ref(),
        fixture.as_ref(),
        "-o".as_ref(),
        archive.as_ref(),
        "-q".as_ref(),
    ]);
    // Of one name, which the links to charts have.
    let (a, b) = (
        folder.path().join("a/report.md"),
        folder.path().join("b/report.md"),
    );
    for path in [&a, &b] {
        fs::create_dir(path.parent().expect("a folder")).expect("writable");
    }
    run(&[
        "report".as_ref(),
        fixture.as_ref(),
        "-o".as_ref(),
        a.as_ref(),
        "-q".as_ref(),
    ]);
    run(&[
        "report".as_ref(),
        archive.as_ref(),
        "-o".as_ref(),
        b.as_ref(),
        "-q".as_ref(),
    ]);
    assert_eq!(
        fs::read_to_string(a).expect("written"),
        fs::read_to_string(b).expect("written")
    );
}

/// The readable part of a report, and hashes of the rest: `report.md`, one line per metric, one line per column.
fn snapshots(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    let text = |name: &str| String::from_utf8(files[name].clone()).expect("UTF-8");
    let mut hashes = String::new();
    let mut datasets = String::new();
    for (name, bytes) in files {
        let extension = name.rsplit('.').next().expect("a name");
        if name != "metrics.json" && HASHED.contains(&extension) {
            hashes.push_str(&format!("{}  {name}\n", hash(bytes)));
        }
        if extension == "csv" {
            datasets.push_str(&dataset(name, bytes));
        }
    }
    BTreeMap::from([
        ("report.md".to_owned(), text("report.md")),
        ("metrics.txt".to_owned(), metrics(&text("metrics.json"))),
        ("datasets.txt".to_owned(), datasets),
        ("hashes.txt".to_owned(), hashes),
    ])
}

/// One line per metric: id, scope, and value with its unit. The basis repeats the numbers and is not here.
fn metrics(json: &str) -> String {
    let file: MetricsFile = serde_json::from_str(json).expect("metrics.json is valid");
    let mut lines = String::new();
    for metric in file.metrics.iter() {
        let scope = serde_json::to_value(&metric.scope).expect("a scope");
        let scope = scope.as_object().expect("an object");
        let scope: Vec<String> = scope
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let unit = serde_json::to_value(metric.unit).expect("a unit");
        let value = match &metric.value {
            MetricValue::Measured { value } => format!("{value} {unit} (measured)"),
            MetricValue::Derived { value } => format!("{value} {unit}"),
            MetricValue::Assumed { value, .. } => format!("{value} {unit} (assumed)"),
            MetricValue::Unavailable { reason } => format!("unavailable: {reason}"),
        };
        lines.push_str(&format!("{} {}: {value}\n", metric.id, scope.join(" ")));
    }
    lines
}

/// A line per data set with its number of rows, and one per column: the sum of its numbers, and a hash of its cells.
/// A figure that changes names its column here; the showcase and `report.md` show the figure itself.
fn dataset(name: &str, bytes: &[u8]) -> String {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let header = reader.headers().expect("a header").clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let mut lines = format!("{name}: {} rows\n", rows.len());
    for (index, column) in header.iter().enumerate() {
        let mut cells = String::new();
        let mut sum = 0.0;
        for row in &rows {
            let cell = row.get(index).unwrap_or_default();
            sum += cell.parse::<f64>().unwrap_or_default();
            cells.push_str(cell);
            cells.push('\n');
        }
        let cells = &hash(cells.as_bytes())[..8];
        lines.push_str(&format!("  {column}: sum {sum}, cells {cells}\n"));
    }
    lines
}

/// Lines that only one of two texts has: `-` of the first, `+` of the second.
fn changed_lines(held: &str, made: &str) -> Vec<String> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (held.lines().collect(), made.lines().collect());
    let gone = held
        .lines()
        .filter(|line| !after.contains(line))
        .map(|line| format!("- {line}"));
    let new = made
        .lines()
        .filter(|line| !before.contains(line))
        .map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

/// A line may be long and a failing test may have thousands of them.
const SHOWN_LINES: usize = 60;

/// PDF bytes are promised for one platform only: typst's layout uses floating-point numbers.
#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn reports_are_those_that_the_repository_holds() {
    let reports = root().join("reports");
    let overwrite = std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    let mut faults = Vec::new();
    for fixture in FIXTURES {
        let folder = reports.join(fixture);
        let mut made = report(fixture, &ONE);
        if fixture == SHOWCASE {
            made.extend(in_chinese());
        }
        let mut expected: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (name, text) in snapshots(&made) {
            let held = fs::read_to_string(folder.join(&name)).unwrap_or_default();
            for line in changed_lines(&held, &text) {
                faults.push(format!("{fixture}/{name}: {line}"));
            }
            expected.insert(name, text.into_bytes());
        }
        if fixture == SHOWCASE {
            made.retain(|name, _| !LARGE.iter().any(|part| name.contains(part)));
            expected.extend(made);
        }
        if overwrite {
            write_all(&folder, &expected);
        }
        for name in differing(&files(&folder), &expected) {
            faults.push(format!("{fixture}/{name} differs"));
        }
    }
    if !overwrite {
        let shown = faults.len().min(SHOWN_LINES);
        assert!(
            faults.is_empty(),
            "{} changes:\n{}",
            faults.len(),
            faults[..shown].join("\n")
        );
    }
}

/// Replaces a folder by these files.
fn write_all(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let _ = fs::remove_dir_all(folder);
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("writable");
        fs::write(path, bytes).expect("writable");
    }
}

#[test]
fn a_changed_figure_names_its_column_and_a_changed_sentence_its_text() {
    let before = dataset("a.csv", b"stage,time_ns\ndecode,10\nprefill,5\n");
    let after = dataset("a.csv", b"stage,time_ns\ndecode,10\nprefill,6\n");
    let lines = changed_lines(&before, &after);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("-   time_ns: sum 15,"), "{lines:?}");
    assert!(lines[1].starts_with("+   time_ns: sum 16,"), "{lines:?}");
    assert_eq!(changed_lines("a\nb\n", "a\nc\n"), ["- b", "+ c"]);
}
