//! What is fuzzed: one function a target, of bytes. Each panics where something must not be.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rooflens::bundle::{self, ArtifactFile, PackOptions};
use rooflens::diagnostic::{Diagnostics, Severity};
use rooflens::document::Catalogue;
use rooflens::hardware::Hardware;
use rooflens::ingest::nsys;
use rooflens::pipeline::{LoadTests, Microbenchmarks};
use rooflens::query::{Database, MEMORY};
use rooflens::render::{Format, RenderOptions, render};
use rooflens::report::{Kind, Report};
use rooflens::serving::analysis::{Options as LoadOptions, Results};
use rooflens::session::Session;
use rooflens::session::budget::{Inflation, rows_of};
use rooflens::session::table::Cell;
use rooflens::{Analysis, Capture, Options, ingest};
use rooflens_sqlite_pages::{Error, Pages, Value};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

#[path = "../support/cpu.rs"]
mod cpu;

/// A target: its name and what it does with bytes.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All targets.
pub(crate) const ALL: &[Target] = &[
    ("import", import),
    ("report", report),
    ("blocks", blocks),
    ("pages", pages),
    ("archive", archive),
    ("manifest", manifest),
    ("workload", workload),
    ("redaction", redaction),
    ("faults", faults),
    ("query", query),
    ("parquet", parquet),
    ("serve-report", serve_report),
    ("bench-report", bench_report),
    ("validate", validate),
];

/// A trace that other targets have next to what they change.
const TRACE: &str = r#"{"schemaVersion":1,"deviceProperties":[],"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"decode","pid":1,"tid":1,"ts":0,"dur":50},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":20,"args":{"device":0,"stream":7,"correlation":1}}]}"#;

/// CPU time that no input of a fuzzer may take: they have some 100 KiB.
const LONGEST: Duration = Duration::from_secs(20);

/// Fails if so much CPU time went by since then.
fn check_time(began: Duration, action: &str) {
    let time = cpu::time("self").saturating_sub(began);
    assert!(time < LONGEST, "{action}: {time:?} of CPU time");
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("there is room for a file");
}

/// Opens and reads what is at a path, within its budget.
fn read(path: &Path) -> Option<Capture> {
    let began = cpu::time("self");
    let capture = rooflens::open([path]).ok()?;
    let tables = capture.session.tables();
    let rows: u64 = tables.iter().map(|table| table.bytes()).sum();
    let limit = rows_of(capture.bundle.input_bytes);
    assert!(
        rows <= 2 * limit,
        "{rows} bytes of rows, of {limit} at most"
    );
    check_time(began, "reading");
    Some(capture)
}

/// All analyses, sections and findings.
fn analyze(capture: &Capture) {
    let began = cpu::time("self");
    let analysis = Analysis::new(capture, Hardware::builtin(), Options::default());
    let _ = (analysis.findings(), analysis.sections());
    check_time(began, "analysis");
}

/// Any file: whatever importer takes it.
pub(crate) fn import(data: &[u8]) {
    let folder = folder();
    let path = folder.path().join("data.json");
    write(&path, data);
    read(&path);
}

/// The same, with all that follows from it.
pub(crate) fn report(data: &[u8]) {
    let folder = folder();
    let path = folder.path().join("data.json");
    write(&path, data);
    if let Some(capture) = read(&path) {
        analyze(&capture);
    }
}

/// The cells of all tables.
fn cells(session: &Session) -> Vec<String> {
    let tables = session.tables();
    let cells = tables.iter().flat_map(|table| {
        let columns = table.columns().len();
        let row = move |row| (0..columns).map(move |column| table.cell(row, column));
        (0..table.rows()).flat_map(row).map(|cell| match cell {
            Cell::Interned(id) => session.text(id).to_owned(),
            other => format!("{other:?}"),
        })
    });
    cells.collect()
}

/// A trace that `serde_json` reads gives the same tables as its text does with other blanks between the values.
pub(crate) fn blocks(data: &[u8]) {
    let folder = folder();
    let path = folder.path().join("trace.json");
    let read_text = |text: &[u8]| {
        write(&path, text);
        read(&path).map(|capture| {
            let mut diagnostics = capture.diagnostics.iter();
            let lost = diagnostics.any(|diagnostic| diagnostic.severity >= Severity::DataLoss);
            (cells(&capture.session), lost)
        })
    };
    // Raw values keep the digits, and what stands twice.
    let Ok(events) = serde_json::from_slice::<Trace<'_>>(data) else {
        return;
    };
    let spread: Vec<String> = events
        .events
        .iter()
        .map(|event| format!(" {}\r\n", event.get()))
        .collect();
    let spread = format!(
        "{{\"schemaVersion\":1,\"traceEvents\": [{}]\n}}",
        spread.join("\t,")
    );
    let tight: Vec<&str> = events.events.iter().map(|event| event.get()).collect();
    let tight = format!(
        "{{\"schemaVersion\":1,\"traceEvents\":[{}]}}",
        tight.join(",")
    );
    assert_eq!(read_text(tight.as_bytes()), read_text(spread.as_bytes()));
}

#[derive(serde::Deserialize)]
struct Trace<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<&'a serde_json::value::RawValue>,
}

/// A table of a Parquet export.
pub(crate) fn parquet(data: &[u8]) {
    let (folder, began) = (folder(), cpu::time("self"));
    let location = folder.path().join("StringIds.parquet");
    write(&location, data);
    let inflation = Some(Inflation::of(data.len() as u64));
    let file = ArtifactFile {
        location,
        inflation,
        ..ArtifactFile::default()
    };
    let made = folder.path().join("made.sqlite");
    let lost = &mut |_: &ArtifactFile, _| ();
    nsys::parquet::to_sqlite(&[("StringIds", &file)], &made, lost).expect("there is room");
    check_time(began, "reading");
}

/// Tables of an SQLite file as the scanner reads them are those that SQLite reads; damage that one sees may escape the
/// other, but rows that both read without a complaint are the same.
pub(crate) fn pages(data: &[u8]) {
    let folder = folder();
    let path = folder.path().join("data.sqlite");
    write(&path, data);
    let (Ok(pages), Ok(base)) = (Pages::open(&path), open_sqlite(&path)) else {
        return;
    };
    for (name, root) in tables(&base).unwrap_or_default() {
        let Ok(expected) = sqlite_rows(&base, &name) else {
            continue;
        };
        let Ok(Some(found)) = scanned_rows(&pages, root) else {
            continue;
        };
        assert_eq!(found.len(), expected.len(), "rows of {name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.0, expected.0, "rowids of {name}");
            // What is stored where the rowid represents a column is not looked at.
            let rowid = Some(found.0.to_le_bytes().to_vec());
            let mut cells = found.1.iter().zip(&expected.1);
            let same = cells.all(|(a, b)| a.is_none() || a == b || *b == rowid);
            assert!(
                same,
                "{name}, row {}: {:?} is not {:?}",
                found.0, found.1, expected.1
            );
        }
    }
}

/// A rowid, and bytes of texts and blobs and integers by column; none for what SQLite may show in another form.
type Row = (i64, Vec<Option<Vec<u8>>>);

fn open_sqlite(path: &Path) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?mode=ro&immutable=1", path.display());
    let base = Connection::open_with_flags(
        uri,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
    )?;
    base.execute_batch("PRAGMA cell_size_check = ON;")?;
    Ok(base)
}

/// Plain tables of UTF-8: name and root page.
fn tables(base: &Connection) -> rusqlite::Result<Vec<(String, u32)>> {
    if base.query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0))? != "UTF-8" {
        return Ok(Vec::new());
    }
    let plain = "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' AND rootpage > 1
        AND sql NOT LIKE '%VIRTUAL%' AND sql NOT LIKE '%GENERATED%' AND sql NOT LIKE '% AS %'
        AND sql NOT LIKE '%WITHOUT%' AND sql NOT LIKE '%DEFAULT%'";
    let mut list = base.prepare(plain)?;
    list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn sqlite_rows(base: &Connection, table: &str) -> rusqlite::Result<Vec<Row>> {
    let table = table.replace('"', "\"\"");
    let sql = format!("SELECT rowid, * FROM \"{table}\" NOT INDEXED ORDER BY rowid");
    let mut select = base.prepare(&sql)?;
    let columns = select.column_count();
    let mut rows = select.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let mut cells = Vec::new();
        for column in 1..columns {
            cells.push(match row.get_ref(column)? {
                ValueRef::Integer(value) => Some(value.to_le_bytes().to_vec()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
                ValueRef::Real(_) | ValueRef::Null => None,
            });
        }
        all.push((row.get(0)?, cells));
    }
    Ok(all)
}

fn scanned_rows(pages: &Pages, root: u32) -> Result<Option<Vec<Row>>, Error> {
    let Some(tree) = pages.tree(root)? else {
        return Ok(None);
    };
    let (mut rows, mut last) = (Vec::new(), None);
    for chunk in tree.chunks() {
        let bounds = tree.records(chunk, |record| {
            let cell = |column| match record.value(column) {
                Value::Text(bytes) | Value::Blob(bytes) => Some(bytes.to_vec()),
                // A column of reals holds whole ones as integers.
                Value::Int(_) | Value::Real(_) | Value::Null => None,
            };
            rows.push((record.rowid, (0..record.width()).map(cell).collect()));
            Ok::<_, Error>(())
        })?;
        if let Some((first, end)) = bounds {
            if last.is_some_and(|last| last >= first) {
                return Err(tree.disorder());
            }
            last = Some(end);
        }
    }
    Ok(Some(rows))
}

/// An archive: nothing is written outside of its folder, and what opens reads.
pub(crate) fn archive(data: &[u8]) {
    let folder = folder();
    let (path, out) = (folder.path().join("data.tar"), folder.path().join("out"));
    write(&path, data);
    let _ = bundle::unpack(&path, &out);
    let mut written: Vec<_> = std::fs::read_dir(folder.path())
        .expect("the folder is there")
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    // What does not unpack whole leaves nothing.
    written.retain(|name| name != "out");
    assert_eq!(written, ["data.tar"]);
    read(&path);
}

fn next_to_trace(name: &str, data: &[u8]) {
    let folder = folder();
    write(&folder.path().join("trace.json"), TRACE.as_bytes());
    write(&folder.path().join(name), data);
    if let Some(capture) = read(folder.path()) {
        analyze(&capture);
    }
}

/// A manifest.
pub(crate) fn manifest(data: &[u8]) {
    next_to_trace("manifest.json", data);
}

/// A description of the workload.
pub(crate) fn workload(data: &[u8]) {
    next_to_trace("workload.toml", data);
}

/// What is packed holds no environment, and opens again with as many files as were packed.
pub(crate) fn redaction(data: &[u8]) {
    let folder = folder();
    let (path, out) = (
        folder.path().join("data.sqlite"),
        folder.path().join("out.tar.zst"),
    );
    write(&path, data);
    let mut diagnostics = Diagnostics::default();
    let Ok(mut opened) = bundle::open(&[path], &mut diagnostics) else {
        return;
    };
    ingest::identify(&mut opened, &mut diagnostics);
    if bundle::pack(&opened, &out, PackOptions::default()).is_err() {
        return;
    }
    let unpacked = folder.path().join("unpacked");
    bundle::unpack(&out, &unpacked).expect("what was packed unpacks");
    for entry in std::fs::read_dir(&unpacked)
        .expect("the folder is there")
        .flatten()
    {
        if let Ok(found) = bundle::EnvironmentDump::find(&entry.path()) {
            assert_eq!(found.rows, 0, "an environment was packed");
        }
    }
}

/// A file that is cut, or gone, between being looked at and being read is skipped.
pub(crate) fn faults(data: &[u8]) {
    let Some((&how, data)) = data.split_first() else {
        return;
    };
    let folder = folder();
    let (path, trace) = (
        folder.path().join("data.json"),
        folder.path().join("trace.json"),
    );
    write(&path, data);
    write(&trace, TRACE.as_bytes());
    let mut diagnostics = Diagnostics::default();
    let Ok(mut opened) = bundle::open(&[path.clone(), trace], &mut diagnostics) else {
        return;
    };
    ingest::identify(&mut opened, &mut diagnostics);
    match how % 3 {
        0 => write(&path, &data[..data.len() * usize::from(how) / 256]),
        1 => std::fs::remove_file(&path).expect("the file is there"),
        _ => {
            std::fs::remove_file(&path).expect("the file is there");
            std::fs::create_dir(&path).expect("the name is free");
        }
    }
    let session = ingest::import(&opened, &mut diagnostics, &mut |_| {});
    assert!(!session.launches.is_empty(), "the other file is read");
    let is_read = |file: &bundle::ArtifactFile| file.path == "data.json" && file.kind.is_some();
    if how % 3 > 0 && opened.files.iter().any(is_read) {
        let told = |one: &rooflens::diagnostic::Diagnostic| one.severity >= Severity::Notice;
        assert!(diagnostics.iter().any(told), "what is lost is said");
    }
}

/// A result of a load test, with its report.
pub(crate) fn serve_report(data: &[u8]) {
    let (folder, began) = (folder(), cpu::time("self"));
    let path = folder.path().join("data.json");
    write(&path, data);
    let Ok(tests) = LoadTests::open(&[path], &[], &[], None, &mut |_| ()) else {
        return;
    };
    if let Some(results) = Results::compute(&tests.input, &LoadOptions::default()) {
        print(&tests.report(&results, Catalogue::english(), None));
    }
    check_time(began, "a load test");
}

/// Microbenchmarks, with their report.
pub(crate) fn bench_report(data: &[u8]) {
    let (folder, began) = (folder(), cpu::time("self"));
    let path = folder.path().join("data.json");
    write(&path, data);
    let Ok(microbenchmarks) = Microbenchmarks::open(&[path]) else {
        return;
    };
    if !microbenchmarks.devices.is_empty() {
        print(&microbenchmarks.report(Catalogue::english(), None));
    }
    check_time(began, "microbenchmarks");
}

/// Pages and data of a report: no figure in them may be one that JSON cannot hold.
fn print(report: &Report) {
    for format in [Format::Markdown, Format::Json, Format::Html] {
        let options = RenderOptions::default();
        render(report, Kind::Report, format, &options).expect("a report has all formats");
    }
}

/// A manifest that is checked, with the file that it lists.
pub(crate) fn validate(data: &[u8]) {
    let (folder, began) = (folder(), cpu::time("self"));
    write(&folder.path().join("trace.json"), TRACE.as_bytes());
    write(&folder.path().join("manifest.json"), data);
    let _ = bundle::validate(&[folder.path().to_owned()]);
    check_time(began, "validation");
}

/// A query over a small session.
pub(crate) fn query(data: &[u8]) {
    let Ok(sql) = std::str::from_utf8(data) else {
        return;
    };
    let folder = folder();
    let path = folder.path().join("trace.json");
    write(&path, TRACE.as_bytes());
    let session = read(&path).expect("it is a trace").session;
    let started = Instant::now();
    let late = move || started.elapsed() > Duration::from_secs(2);
    let database = Database::new(&Arc::new(session), &[], MEMORY, late).expect("SQLite is set up");
    let _ = database.ask(sql, 1000);
}
