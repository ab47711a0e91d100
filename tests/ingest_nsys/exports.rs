//! The other exports of a report against its SQLite export: the same rows.

use std::fmt::Write as _;

use rooflens::ingest::nsys::parquet;
use rooflens::session::table::Cell;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use super::*;

const FIXTURE: &str = "fixtures/h200-graph-ranges/nsys-node/timeline.sqlite.zst";

/// The fixture, unpacked.
fn fixture() -> rooflens::bundle::content::PlainFile {
    let file = rooflens::bundle::ArtifactFile {
        location: Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE),
        ..Default::default()
    };
    let plain = file.content().and_then(|content| content.plain_file());
    plain.expect("the fixture unpacks")
}

/// The cells of a table of the session, names in place of their ids.
fn cells(session: &Session, name: &str) -> Vec<String> {
    let tables = session.tables();
    let table = tables
        .iter()
        .find(|table| table.name() == name)
        .expect("there is such a table");
    let rows = (0..table.rows()).map(|row| {
        let text = |cell| match cell {
            Cell::Interned(id) => session.text(id).to_owned(),
            other => format!("{other:?}"),
        };
        let row: Vec<String> = (0..table.columns().len())
            .map(|column| text(table.cell(row, column)))
            .collect();
        row.join(" ")
    });
    rows.collect()
}

/// The fields of a message: of columns that are not `NULL`, and numbers of 64 bits as texts.
fn message(row: &Row<'_>, fields: &[(&str, &str)]) -> Map<String, Value> {
    let mut message = Map::new();
    for (field, column) in fields {
        let value = match row.get_ref(*column) {
            Ok(ValueRef::Integer(value)) if i32::try_from(value).is_ok() => json!(value),
            Ok(ValueRef::Integer(value)) => json!(value.to_string()),
            Ok(ValueRef::Text(text)) => json!(str::from_utf8(text).expect("names are UTF-8")),
            _ => continue,
        };
        message.insert((*field).to_owned(), value);
    }
    message
}

const WORK: [(&str, &str); 9] = [
    ("startNs", "start"),
    ("endNs", "end"),
    ("correlationId", "correlationId"),
    ("deviceId", "deviceId"),
    ("contextId", "contextId"),
    ("streamId", "streamId"),
    ("globalPid", "globalPid"),
    ("graphNodeId", "graphNodeId"),
    ("graphId", "graphId"),
];

const KERNEL: [&str; 11] = [
    "demangledName",
    "shortName",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "registersPerThread",
];

/// The lines that nsys would export of the same report.
fn json_lines(database: &Connection) -> String {
    let mut lines = String::new();
    let mut each = |table: &str, line: &dyn Fn(&Row<'_>) -> Value| {
        let mut statement = database
            .prepare(&format!("SELECT * FROM {table}"))
            .expect("the table is there");
        let mut rows = statement.query([]).expect("it can be read");
        while let Some(row) = rows.next().expect("it is sound") {
            writeln!(lines, "{}", line(row)).expect("there is room");
        }
    };
    each("NVTX_EVENTS", &|row| {
        let fields = [
            ("Type", "eventType"),
            ("Timestamp", "start"),
            ("EndTimestamp", "end"),
            ("Text", "text"),
            ("TextId", "textId"),
            ("GlobalTid", "globalTid"),
            ("DomainId", "domainId"),
        ];
        let mut event = message(row, &fields);
        event.insert("NsTime".to_owned(), json!(true));
        json!({"Type": event["Type"], "NvtxEvent": event})
    });
    each("CUPTI_ACTIVITY_KIND_RUNTIME", &|row| {
        let fields = [
            ("startNs", "start"),
            ("endNs", "end"),
            ("correlationId", "correlationId"),
            ("eventClass", "eventClass"),
            ("name", "nameId"),
            ("globalTid", "globalTid"),
        ];
        json!({"Type": 48, "TraceProcessEvent": message(row, &fields)})
    });
    each("CUPTI_ACTIVITY_KIND_KERNEL", &|row| {
        let mut event = message(row, &WORK);
        event.insert(
            "kernel".to_owned(),
            message(row, &KERNEL.map(|name| (name, name))).into(),
        );
        json!({"Type": 79, "CudaEvent": event})
    });
    each("CUPTI_ACTIVITY_KIND_MEMCPY", &|row| {
        let fields = [
            ("sizebytes", "bytes"),
            ("copyKind", "copyKind"),
            ("srcKind", "srcKind"),
            ("dstKind", "dstKind"),
        ];
        let mut event = message(row, &WORK);
        event.insert("memcpy".to_owned(), message(row, &fields).into());
        json!({"Type": 80, "CudaEvent": event})
    });
    each("StringIds", &|row| {
        let mut event = message(row, &[("id", "id"), ("value", "value")]);
        event.insert("type".to_owned(), json!("String"));
        event.into()
    });
    lines
}

#[test]
fn json_lines_say_what_the_sqlite_export_says() {
    let plain = fixture();
    let expected = super::read(&plain.path)
        .expect("the fixture is sound")
        .session;
    let lines = json_lines(&Connection::open(&plain.path).expect("it opens"));
    let read = import_bytes(lines.as_bytes())
        .expect("the lines are read")
        .session;
    for table in ["launches", "copies", "api_calls", "ranges"] {
        assert_eq!(cells(&read, table), cells(&expected, table), "{table}");
    }
    assert_eq!(
        (read.launches.len(), read.api_calls.len()),
        (534, 1727),
        "by sqlite3"
    );
}

/// All rows of a table, of which a file has the first 300.
fn rows(database: &Connection, table: &str) -> Vec<Vec<rusqlite::types::Value>> {
    let sql = format!("SELECT * FROM {table} LIMIT 300");
    let mut statement = database.prepare(&sql).expect("the table is there");
    let width = statement.column_count();
    let row = |row: &Row<'_>| (0..width).map(|column| row.get(column)).collect();
    let rows = statement.query_map([], row).and_then(Iterator::collect);
    rows.expect("the table is sound")
}

/// Files that Arrow wrote of tables of the fixture: all that a table may be packed by, pages of both versions, with and
/// without dictionaries, several groups and pages (`tests/reference/parquetdir.py`).
fn parquet_files() -> Vec<(String, ArtifactFile)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report_pqtdir");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let location = entry.expect("it can be listed").path();
        let table = location
            .file_stem()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        (
            table.clone(),
            ArtifactFile {
                path: table,
                location,
                ..ArtifactFile::default()
            },
        )
    };
    files.map(file).collect()
}

/// The SQLite export that is made of these files, and why tables are not in it.
fn made(files: &[(String, ArtifactFile)]) -> (tempfile::TempDir, Connection, Vec<String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("made.sqlite");
    let mut lost = Vec::new();
    let tables: Vec<_> = files
        .iter()
        .map(|(table, file)| (table.as_str(), file))
        .collect();
    let made = parquet::to_sqlite(&tables, &path, |file, error| {
        lost.push(format!("{}: {error}", file.path));
    });
    made.expect("there is room");
    let database = Connection::open(&path).expect("it opens");
    (folder, database, lost)
}

#[test]
fn tables_of_parquet_are_those_of_the_sqlite_export() {
    let plain = fixture();
    let expected = Connection::open(&plain.path).expect("it opens");
    let files = parquet_files();
    assert_eq!(files.len(), 6);
    let (_folder, database, lost) = made(&files);
    assert_eq!(lost, [""; 0]);
    for (table, _) in &files {
        assert_eq!(rows(&database, table), rows(&expected, table), "{table}");
    }
}

#[test]
fn a_damaged_table_costs_itself_and_no_byte_more_than_that() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (table, file) in parquet_files() {
        let bytes = std::fs::read(&file.location).expect("the file is there");
        let location = folder.path().join(&table);
        let damaged = ArtifactFile {
            location: location.clone(),
            ..file
        };
        // Each byte in turn, of the footer above all; and the file cut off.
        for at in (0..bytes.len())
            .step_by(bytes.len().div_ceil(12))
            .chain([bytes.len() - 5])
        {
            for flip in [0x01, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                std::fs::write(&location, bytes).expect("there is room");
                made(&[(table.clone(), damaged.clone())]);
            }
        }
        std::fs::write(&location, &bytes[..bytes.len() / 2]).expect("there is room");
        let (_folder, database, lost) = made(&[(table.clone(), damaged)]);
        assert_eq!(lost, [format!("{table}: the file is cut off")]);
        assert!(database.prepare(&format!("SELECT * FROM {table}")).is_err());
    }
}
