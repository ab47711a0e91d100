//! Bundles of load tests, as `rooflens-capture serve` leaves them.

use std::fs;
use std::path::{Path, PathBuf};

use super::{rooflens, text};

/// A bundle with one result: ten requests, 20 ms per token with 8 sequences and 10 ms with 16.
fn bundle(folder: &Path, name: &str, sequences: u32) -> PathBuf {
    let bundle = folder.join(name);
    fs::create_dir_all(bundle.join("serving")).expect("writable");
    let header = format!(
        r#"{{"schema":"rooflens.serving.v1","model":"m","mode":"open","rate":1.0,"settings":{{"max-num-seqs":"{sequences}"}}}}"#
    );
    let end = 0.1 + 7.0 * 0.16 / f64::from(sequences);
    let request = |id: u32| {
        let start = f64::from(id);
        format!(
            r#"{{"id":{id},"scheduled_s":{start},"start_s":{start},"first_token_s":{},"end_s":{},"prompt_tokens":9,"output_tokens":8,"status":"ok"}}"#,
            start + 0.1,
            start + end
        )
    };
    let lines: Vec<String> = std::iter::once(header)
        .chain((0..10).map(request))
        .collect();
    fs::write(bundle.join("serving/open-1.jsonl"), lines.join("\n")).expect("writable");
    let manifest =
        format!(r#"{{"version":1,"name":"{name}","tool":{{"name":"rooflens-capture"}}}}"#);
    fs::write(bundle.join("manifest.json"), manifest).expect("writable");
    bundle
}

#[test]
fn two_bundles_are_reported_together_with_the_setting_that_differs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bundles = [
        bundle(folder.path(), "a", 8),
        bundle(folder.path(), "b", 16),
    ];
    let paths = bundles
        .each_ref()
        .map(|bundle| bundle.to_str().expect("UTF-8"));
    let output = rooflens(&["serve-report", paths[0], paths[1], "-o", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    let mut rows = report.lines().filter(|line| line.starts_with('|'));
    // 10 ms instead of 20 ms per token.
    let is_change = |row: &str| row.contains("max-num-seqs: 8 → 16") && row.contains("| -50.0 |");
    assert!(
        rows.any(|row| is_change(row) && row.contains("| worked |")),
        "{report}"
    );
}

/// A file of this name that is no manifest is a file like any other.
#[test]
fn a_damaged_manifest_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bundles = [
        bundle(folder.path(), "a", 8),
        bundle(folder.path(), "b", 16),
    ];
    fs::write(bundles[1].join("manifest.json"), "{\"version\": 1}").expect("writable");
    let paths = bundles
        .each_ref()
        .map(|bundle| bundle.to_str().expect("UTF-8"));
    let output = rooflens(&["serve-report", paths[0], paths[1], "-o", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("b/manifest.json"),
        "{}",
        text(&output.stderr)
    );
}
