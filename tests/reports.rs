//! Reports of the fixtures: the same bytes whoever asks, and the bytes that `reports/` holds.
//!
//! `SNAPSHOTS=overwrite cargo test --release --test all reports` renews `reports/` after an intended change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

const FIXTURES: [&str; 14] = [
    "edge-empty-window",
    "h100-train",
    "h100-vit-train",
    "h100x2-parallel",
    "h200-cuda-graph",
    "h200-graph-ranges",
    "h200-llama-1b",
    "h200-llama-8b",
    "h200-llama-capture",
    "h200-qwen-0.5b",
    "h200-qwen3-compiled",
    "h200-vit-train",
    "h200x2-ddp",
    "h200x2-fsdp",
];

/// The fixture whose files stand in `reports/` whole; of the others only the hashes do.
const SHOWCASE: &str = "h200-llama-8b";

/// Files of the showcase that stand there only as hashes: large, and made for machines.
const BY_HASH_ONLY: [&str; 4] = [
    "tables/",
    "ncu_metrics.csv",
    "report.json",
    "stage_kernels.csv",
];

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

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

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
    let names = a
        .keys()
        .chain(b.keys())
        .collect::<std::collections::BTreeSet<_>>();
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

/// PDF bytes are promised for one platform only: typst's layout uses floating-point numbers.
#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn reports_are_those_that_the_repository_holds() {
    let reports = root().join("reports");
    let mut hashes = String::new();
    let mut showcase = BTreeMap::new();
    for fixture in FIXTURES {
        let mut made = report(fixture, &ONE);
        if fixture == SHOWCASE {
            made.extend(in_chinese());
        }
        for (name, bytes) in made {
            hashes.push_str(&format!("{}  {fixture}/{name}\n", hash(&bytes)));
            if fixture == SHOWCASE && !BY_HASH_ONLY.iter().any(|part| name.contains(part)) {
                showcase.insert(name, bytes);
            }
        }
    }
    let (list, folder) = (reports.join("hashes.txt"), reports.join(SHOWCASE));
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        let _ = fs::remove_dir_all(&folder);
        for (name, bytes) in &showcase {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("writable");
            fs::write(path, bytes).expect("writable");
        }
        fs::write(&list, &hashes).expect("writable");
    }
    let differing = differing(&files(&folder), &showcase);
    assert!(
        differing.is_empty(),
        "reports/{SHOWCASE} differs in {differing:?}"
    );
    let held = fs::read_to_string(&list).unwrap_or_default();
    let changed: Vec<&str> = hashes
        .lines()
        .filter(|line| !held.lines().any(|other| other == *line))
        .collect();
    assert!(
        changed.is_empty() && held.len() == hashes.len(),
        "hashes.txt differs: {changed:#?}"
    );
}
