//! The documentation says what the code does: all metrics, all columns.
//!
//! `SNAPSHOTS=overwrite cargo test --test documentation` writes the generated part of `docs/formats.md`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::hardware::Hardware;
use rooflens::model::Session;
use rooflens::model::table::Values;
use rooflens::{bundle, ingest};

/// What follows this line in `docs/formats.md` is generated.
const MARKER: &str = "<!-- Generated from src/model/tables by tests/documentation.rs. -->\n";

#[test]
fn all_columns_are_in_the_formats_document() {
    let path = root().join("docs/formats.md");
    let document = fs::read_to_string(&path).expect("readable");
    let (written, _) = document.split_once(MARKER).expect("the marker is there");
    let expected = format!("{written}{MARKER}{}", columns());
    if std::env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
        fs::write(&path, &expected).expect("writable");
        return;
    }
    let differs = document.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(document == expected, "docs/formats.md: SNAPSHOTS=overwrite writes it: {differs:?}");
}

fn columns() -> String {
    let session = Session::default();
    let mut text = String::new();
    for table in session.tables() {
        write!(text, "\n### {}\n\n{}\n\n", table.name(), table.doc()).expect("memory");
        text.push_str("| column | type | meaning |\n|---|---|---|\n");
        for column in table.columns() {
            let kind = match column.values {
                Values::Int(_) => "integer",
                Values::Float(_) => "number",
                Values::Text(_) | Values::Interned(_) => "text",
            };
            let doc = column.doc.replace('|', "\\|");
            writeln!(text, "| `{}` | {kind} | {doc} |", column.name).expect("memory");
        }
    }
    text
}

#[test]
fn all_metrics_are_in_the_methodology() {
    let documented = documented();
    let mut produced = metrics_in_the_code();
    for fixture in fs::read_dir(root().join("fixtures")).expect("a folder") {
        let path = fixture.expect("readable").path();
        if path.join("manifest.json").is_file() {
            produced.extend(metrics_of(&path));
        }
    }
    let missing: Vec<_> = produced.difference(&documented).collect();
    assert!(missing.is_empty(), "no row in docs/methodology.md for the metrics {missing:?}");
}

#[test]
fn the_methodology_documents_no_metric_that_is_gone() {
    // Rules name metrics that others make.
    let code: String = rust_files("src/analysis")
        .iter()
        .filter(|file| !file.starts_with(root().join("src/analysis/rules")))
        .map(|f| fs::read_to_string(f).expect("readable"))
        .collect();
    let documented = documented();
    assert!(documented.len() > 20, "{documented:?}");
    let gone: Vec<_> =
        documented.iter().filter(|id| !code.contains(&format!("\"{id}\""))).collect();
    assert!(
        gone.is_empty(),
        "docs/methodology.md describes metrics that nothing produces: {gone:?}"
    );
}

/// The metrics with a row in a table of `docs/methodology.md`.
fn documented() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/methodology.md")).expect("readable");
    captures(r"(?m)^\| `([a-z0-9_]+)` \|", &text)
}

/// The metrics whose ids are written where they are made.
fn metrics_in_the_code() -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for file in rust_files("src/analysis") {
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        ids.extend(captures(r#"\b(?:measured|derived|unavailable)\(\s*"([a-z0-9_]+)""#, code));
    }
    assert!(ids.len() > 5, "{ids:?}");
    ids
}

/// The metrics that the analyses give for a bundle.
fn metrics_of(path: &Path) -> BTreeSet<String> {
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path.to_owned()], &mut diagnostics).expect("a fixture opens");
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let findings = analysis::run(&context);
    findings.into_iter().flat_map(|(_, one)| one.metrics).map(|metric| metric.id).collect()
}

fn captures(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a valid pattern");
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
