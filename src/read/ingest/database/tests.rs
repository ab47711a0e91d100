//! Scans against SQLite: tables that are read from the pages, and tables that SQLite reads.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{Value as SqlValue, ValueRef};

use rooflens_sqlite_pages::Value;

use super::{Database, Want, quoted};
use crate::IngestError;

/// One table of each kind that there is, with values of all types, texts that fill several pages, and records
/// that are older than a column.
fn generate(path: &Path, page_size: u32, rows: u32) -> rusqlite::Result<()> {
    let database = Connection::open(path)?;
    database.execute_batch(&format!(
        "PRAGMA page_size = {page_size}; PRAGMA synchronous = OFF;
         CREATE TABLE plain (c0, c1 TEXT, c2 REAL);
         CREATE TABLE keyed (c0, c1 BLOB, c2 INTEGER, id INTEGER PRIMARY KEY);
         CREATE TABLE downward (c0 INTEGER PRIMARY KEY DESC, c1 NUMERIC, c2);
         CREATE TABLE texts (c0 TEXT PRIMARY KEY, c1, c2) WITHOUT ROWID;
         CREATE TABLE made (c0, c1, derived AS (c0 + 1), c2);
         CREATE TABLE empty (c0);"
    ))?;
    for table in ["plain", "keyed", "downward", "texts", "made"] {
        database.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO {table} (c0, c1, c2) SELECT i * 3,
               CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN -i * 1000003 WHEN 2 THEN 'aé漢z' ELSE x'ff00' END,
               CASE i % 3 WHEN 0 THEN i / 7.0 WHEN 1 THEN i ELSE hex(zeroblob(7 * i)) END FROM n"
        ))?;
    }
    database.execute_batch(
        "DELETE FROM plain WHERE rowid % 7 < 3; UPDATE keyed SET id = -id WHERE id % 4 = 0;
         ALTER TABLE plain ADD COLUMN late INTEGER;
         ALTER TABLE keyed ADD COLUMN late INTEGER DEFAULT 5;",
    )
}

type Cells = Vec<Vec<SqlValue>>;

/// All columns of a table by `scan`.
fn scanned(database: &Database, table: &str) -> Result<Cells, IngestError> {
    let columns = &database.tables[table].columns;
    let wants: Vec<Want> = columns
        .iter()
        .map(|column| Want::Need(column.clone().leak()))
        .collect();
    let (parts, bad) = database.scan(table, &wants, |out: &mut Cells, row| {
        let cell = |column| match row.value(column) {
            Value::Null => SqlValue::Null,
            Value::Int(value) => SqlValue::Integer(value),
            Value::Real(value) => SqlValue::Real(value),
            Value::Blob(blob) => SqlValue::Blob(blob.to_vec()),
            Value::Text(_) => SqlValue::Text(row.text(column).unwrap_or("?").to_owned()),
        };
        out.push((0..wants.len()).map(cell).collect());
        Ok(())
    })?;
    assert_eq!(bad.summary(), None);
    Ok(parts.into_iter().flatten().collect())
}

/// All columns of a table by SQLite, in the order in which it keeps them.
fn selected(path: &Path, table: &str) -> Cells {
    let database = Connection::open(path).unwrap();
    let mut statement = database
        .prepare(&format!("SELECT * FROM {}", quoted(table)))
        .unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let cell = |value: ValueRef<'_>| match value {
        ValueRef::Blob(blob) => SqlValue::Blob(blob.to_vec()),
        ValueRef::Text(text) => SqlValue::Text(std::str::from_utf8(text).unwrap_or("?").to_owned()),
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(value) => SqlValue::Integer(value),
        ValueRef::Real(value) => SqlValue::Real(value),
    };
    // Generated columns are in `*`; scans do not know them.
    let kept: Vec<usize> = (0..names.len())
        .filter(|column| names[*column] != "derived")
        .collect();
    let row = |row: &rusqlite::Row<'_>| {
        kept.iter()
            .map(|column| Ok(cell(row.get_ref(*column)?)))
            .collect()
    };
    statement
        .query_map([], row)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// A real column may store a whole number as an integer: to a reader that wants integers all the same.
fn is_same(ours: &SqlValue, theirs: &SqlValue) -> bool {
    match (ours, theirs) {
        (SqlValue::Integer(ours), SqlValue::Real(theirs)) => *ours as f64 == *theirs,
        _ => ours == theirs,
    }
}

/// Tables and rows of the file, and how many tables SQLite did not have to help with.
fn compare(path: &Path) -> (usize, usize, usize) {
    let database = Database::open(path, u64::MAX).unwrap();
    let (mut rows, mut own) = (0, 0);
    for (name, table) in &database.tables {
        let (ours, theirs) = (scanned(&database, name).unwrap(), selected(path, name));
        assert_eq!(ours.len(), theirs.len(), "{path:?} {name}");
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert!(ours.len() == theirs.len(), "{path:?} {name} row {at}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert!(
                    is_same(ours, theirs),
                    "{path:?} {name} row {at}: {ours:?} {theirs:?}"
                );
            }
        }
        rows += ours.len();
        let is_tree = database.pages.tree(table.root).unwrap().is_some();
        own += usize::from(table.is_plain && database.pages.is_utf8 && is_tree);
    }
    (database.tables.len(), rows, own)
}

#[test]
fn generated_files_read_as_sqlite_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    for (page_size, rows) in [(512, 400), (4096, 30), (65536, 1)] {
        let path = folder.path().join(format!("{page_size}.sqlite"));
        generate(&path, page_size, rows).unwrap();
        let (tables, read, own) = compare(&path);
        // By SQLite: the index-organized, the one with a generated column, the one with a default.
        assert_eq!((tables, own), (6, 3), "{page_size}");
        assert!(read as u32 >= 3 * rows, "{page_size}");
    }
}

/// 200 000 rows of some 20 bytes on pages of 512 bytes: leaves of some 20 rows, interior pages of some 60
/// children, so that the tree is four levels deep; and more than one chunk of 4 MiB.
#[test]
fn deep_trees_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.sqlite");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "PRAGMA page_size = 512; PRAGMA synchronous = OFF; CREATE TABLE t (a, b TEXT, c);
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199999)
             INSERT INTO t SELECT i, 'some text', -i * 1000003 FROM n;",
        )
        .unwrap();
    let read = Database::open(&path, u64::MAX).unwrap();
    let tree = read.pages.tree(read.tables["t"].root).unwrap().unwrap();
    assert!(tree.chunks().len() > 1);
    let (parts, _) = read
        .scan(
            "t",
            &[Want::Need("c"), Want::May(&["none"]), Want::Need("a")],
            |out, row| {
                let out: &mut Vec<(i64, Option<i64>, i64)> = out;
                out.push((row.int(0)?, row.maybe(1)?, row.int(2)?));
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(parts.len(), tree.chunks().len());
    let rows: Vec<_> = parts.into_iter().flatten().collect();
    assert!(
        rows.iter()
            .copied()
            .eq((0..200_000).map(|i| (-i * 1_000_003, None, i)))
    );
}

#[test]
fn other_text_encodings_are_left_to_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.sqlite");
    let database = Connection::open(&path).unwrap();
    let sql = "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a, b); INSERT INTO t VALUES ('é', 7);";
    database.execute_batch(sql).unwrap();
    assert_eq!(compare(&path), (1, 1, 0));
    let read = Database::open(&path, u64::MAX).unwrap();
    let expected = vec![vec![SqlValue::Text("é".to_owned()), SqlValue::Integer(7)]];
    assert_eq!(scanned(&read, "t").unwrap(), expected);
}
