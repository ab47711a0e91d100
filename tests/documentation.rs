//! The documentation says what the code does: all metrics, all columns; its links lead somewhere, its examples run.
//!
//! `SNAPSHOTS=overwrite cargo test --test documentation` writes the generated parts of `docs/formats.md` and
//! `docs/methodology.md`.

#[path = "documentation/links.rs"]
mod links;
#[path = "documentation/tutorial.rs"]
mod tutorial;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use rooflens::findings::MetricDef;
use rooflens::findings::catalogue;
use rooflens::model::Session;
use rooflens::model::table::Values;
use rooflens_schemas::Unit;

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

/// Each row of a metric in `docs/methodology.md` is that of the catalogue, and all stand there in its order.
#[test]
fn the_methodology_has_the_metrics_of_the_catalogue() {
    let path = root().join("docs/methodology.md");
    let document = fs::read_to_string(&path).expect("readable");
    let mut defs = catalogue::ALL.iter();
    let line = |line: &str| match line.starts_with("| `") {
        true => defs.next().map_or_else(|| "(no metric is left)".to_owned(), |def| row(def)),
        false => line.to_owned(),
    };
    let expected: String = document.lines().map(line).map(|line| line + "\n").collect();
    let left: Vec<&str> = defs.map(|def| def.id).collect();
    assert!(left.is_empty(), "no row in docs/methodology.md for {left:?}");
    if std::env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
        fs::write(&path, &expected).expect("writable");
        return;
    }
    let differs = document.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(differs.is_none(), "docs/methodology.md: SNAPSHOTS=overwrite writes it: {differs:?}");
}

/// The row of a metric in the methodology.
fn row(def: &MetricDef) -> String {
    let unit = match def.unit {
        Unit::Nanoseconds => "ns",
        Unit::Ratio => "ratio",
        Unit::Count => "count",
        Unit::Bytes => "B",
        Unit::BytesPerSecond => "B/s",
        Unit::Flop => "FLOP",
        Unit::Watts => "W",
        Unit::Hertz => "Hz",
        Unit::Joules => "J",
        Unit::TokensPerSecond => "tokens/s",
        Unit::RequestsPerSecond => "requests/s",
        Unit::One => "1",
        other => panic!("{}: a symbol for {other:?}", def.id),
    };
    let cells = [&format!("`{}`", def.id), unit, def.formula, def.source];
    cells.iter().fold("|".to_owned(), |row, cell| match cell.is_empty() {
        true => row + " |",
        false => format!("{row} {cell} |"),
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
