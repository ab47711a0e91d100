//! Results of captures and lakes: what the tables hold, and that a killed writer loses and doubles nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rooflens::Options;
use rooflens::document::{Column, Dataset, Quantity};
use rooflens::lake::{self, Lake, schema};
use rooflens::report::{Meta, Report};

use crate::support::{path, rooflens};

/// The columns of the tables are those of the data sets, with the same unit.
#[test]
fn the_columns_of_results_are_those_of_the_data_sets() {
    let mut missing = BTreeMap::new();
    for name in ["h200-llama-8b", "h200x2-ddp"] {
        let capture = rooflens::open([path(name)]).expect("the fixture opens");
        let analysis = capture
            .analyze(&Options::default())
            .expect("it has measurements");
        for dataset in analysis.datasets() {
            let table = schema::TABLES
                .iter()
                .find(|table| table.dataset == dataset.id);
            for column in table.into_iter().flat_map(|table| table.columns) {
                let place = format!("{}.{}", dataset.id, column.name);
                let Some(found) = dataset.columns.iter().find(|one| one.id == column.name) else {
                    missing.insert(place, ());
                    continue;
                };
                if column.unit == "ns" {
                    assert_eq!(Quantity::new(0.0, found.unit).base(), "ns", "{place}");
                }
            }
        }
    }
    let missing: Vec<String> = missing.into_keys().collect();
    assert_eq!(missing, ["kernels.counted", "kernels.once"]);
}

#[test]
fn bundles_and_their_results_are_the_same_capture() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (lake, out) = (place("lake"), place("out"));
    let bundle = path("h200-graph-ranges").display().to_string();
    let wrote = rooflens(&["report", &bundle, "--format", "results", "-o", &out]);
    assert!(wrote.status.success(), "{wrote:?}");
    for (added, source) in [("1 added, 0 known", &out), ("0 added, 1 known", &bundle)] {
        let end = rooflens(&["lake", "add", &lake, source]);
        let text = String::from_utf8_lossy(&end.stderr).into_owned();
        assert!(end.status.success() && text.contains(added), "{text}");
    }
    // What fails costs nothing else, and is named.
    fs::write(folder.path().join("out/results/kernels.parquet"), b"PAR1").expect("writable");
    let other = path("h200-cuda-graph").display().to_string();
    let second = place("second");
    let end = rooflens(&["lake", "add", &second, &out, &other]);
    let text = String::from_utf8_lossy(&end.stderr).into_owned();
    assert_eq!(end.status.code(), Some(1), "{text}");
    assert!(
        text.contains("1 added") && text.contains("kernels.parquet"),
        "{text}"
    );
}

#[test]
fn a_lake_has_a_report_in_each_language_and_names_what_it_cannot_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (lake, page) = (place("lake"), place("fleet.md"));
    let added = ["h200-graph-ranges", "h200x2-ddp"].map(|name| path(name).display().to_string());
    let end = rooflens(&["lake", "add", &lake, &added[0], &added[1]]);
    assert!(end.status.success(), "{end:?}");
    let pages = ["en", "zh"].map(|lang| {
        let end = rooflens(&["lake", "report", &lake, "-o", &page, "--lang", lang]);
        assert!(end.status.success(), "{end:?}");
        fs::read_to_string(&page).expect("a page")
    });
    assert_ne!(pages[0], pages[1]);
    for text in pages {
        for part in [
            "fleet-models.svg",
            "Encoder training with DDP",
            "NVIDIA H200",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    for seen in seen(Path::new(&lake)) {
        fs::write(seen.join("findings.parquet"), b"PAR1").expect("writable");
    }
    let end = rooflens(&["lake", "report", &lake, "-o", &page]);
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    let text = fs::read_to_string(&page).expect("a page");
    assert!(text.contains("findings.parquet"), "{text}");
    let end = rooflens(&["lake", "report", &place("none"), "-o", &page]);
    assert!(!end.status.success() && end.stdout.is_empty(), "{end:?}");
}

/// Folders with results of one kernel each.
fn folders(root: &Path, count: usize) -> Vec<PathBuf> {
    let kernels = |number: usize| Dataset {
        id: "kernels",
        title: String::new(),
        columns: vec![Column::text("short", "")],
        rows: vec![vec![format!("kernel {number}").into()]],
    };
    let mut folders = Vec::new();
    for number in 0..count {
        let report = Report {
            meta: Meta {
                bundle_id: format!("{number:064x}"),
                captured_at: Some(format!("2026-{:02}-01T00:00:00Z", 1 + number % 3)),
                ..Meta::default()
            },
            datasets: vec![kernels(number)],
            ..Report::default()
        };
        let folder = root.join(number.to_string());
        for (path, bytes) in lake::results(&report).expect("results") {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            fs::write(path, bytes).expect("writable");
        }
        folders.push(folder);
    }
    folders
}

/// Two writers add the same captures and are killed after some time, until both come to their end.
fn kill(kills: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folders = folders(folder.path(), 300);
    let root = folder.path().join("lake");
    for round in 0..=kills {
        let mut writers = Vec::new();
        for _ in 0..2 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
            command.args(["lake", "add"]).arg(&root).args(&folders);
            writers.push(
                command
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("rooflens runs"),
            );
        }
        if round < kills {
            thread::sleep(Duration::from_micros(37 * (round as u64 * 7919 % 4001)));
            for writer in &mut writers {
                writer.kill().expect("killed, or at its end");
            }
        }
        for writer in &mut writers {
            let end = writer.wait().expect("it ends");
            assert!(round < kills || end.success(), "{end}");
        }
        // Each folder that is seen is whole.
        for seen in seen(&root) {
            let tables = ["captures", "kernels"].map(|table| seen.join(format!("{table}.parquet")));
            assert!(
                tables.iter().all(|table| table.is_file()),
                "{}",
                seen.display()
            );
        }
    }
    assert_eq!(seen(&root).len(), folders.len());
    Lake::compact(&root).expect("compacts");
    assert_eq!(seen(&root).len(), 3);
    let left = fs::read_dir(root.join("_staging")).expect("a folder");
    assert_eq!(left.count(), 0);
    let captures = Lake::open(&root).and_then(|lake| lake.captures());
    assert_eq!(captures.expect("readable").len(), folders.len());
}

/// The folders that readers see.
fn seen(root: &Path) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    for month in fs::read_dir(root).into_iter().flatten().flatten() {
        if month.file_name().to_string_lossy().starts_with("month=") {
            let folders = fs::read_dir(month.path()).expect("a folder").flatten();
            seen.extend(folders.map(|folder| folder.path()));
        }
    }
    seen
}

#[test]
fn killed_writers_lose_nothing_and_double_nothing() {
    kill(20);
}

#[test]
#[ignore = "a minute"]
fn writers_killed_a_hundred_times_lose_nothing_and_double_nothing() {
    kill(100);
}
