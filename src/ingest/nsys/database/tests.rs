//! The own reader against SQLite on generated files, and against broken files.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{Value as SqlValue, ValueRef};

use super::record::Value;
use super::{Database, Want, quoted};
use crate::ingest::{IngestError, IngestErrorKind};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Of all types, integers of all widths, texts and blobs that now and then fill several pages.
    fn value(&mut self, page_size: u64) -> SqlValue {
        match self.below(8) {
            0 => SqlValue::Null,
            1 => SqlValue::Real((self.next() as i64) as f64 / 1024.0),
            2 => SqlValue::Real(self.below(1000) as f64),
            3 => SqlValue::Integer(self.below(3) as i64 - 1),
            4 => {
                let longest = if self.below(40) == 0 { 4 * page_size } else { 30 };
                let length = self.below(longest) as usize;
                SqlValue::Text("aé漢z".chars().cycle().skip(length % 4).take(length).collect())
            }
            5 if self.below(50) == 0 => SqlValue::Blob(vec![0xff; self.below(2000) as usize]),
            _ => {
                let bits = self.below(64);
                SqlValue::Integer(self.next() as i64 >> bits)
            }
        }
    }
}

/// One table of each kind that there is; rows are deleted again and grow, so that there are free pages,
/// free blocks, gaps in the rowids and leaves far from their neighbours.
fn generate(path: &Path, seed: u64, rows: u64) -> rusqlite::Result<()> {
    let mut random = Random(seed);
    let page_size = [512, 1024, 4096, 65536][(seed % 4) as usize];
    let mut database = Connection::open(path)?;
    database.execute_batch(&format!(
        "PRAGMA page_size = {page_size}; PRAGMA auto_vacuum = {}; PRAGMA synchronous = OFF;",
        seed % 3
    ))?;
    let columns = 1 + random.below(40) as usize;
    let types = ["INTEGER", "REAL", "TEXT", "BLOB", "", "NUMERIC"];
    let list = |random: &mut Random, first: &str| -> String {
        let column = |at: usize| format!(", c{at} {}", types[random.below(6) as usize]);
        first.to_owned() + &(0..columns).map(column).collect::<String>()
    };
    let sql = [
        format!("CREATE TABLE plain ({})", list(&mut random, "first")),
        format!("CREATE TABLE keyed ({}, id INTEGER PRIMARY KEY)", list(&mut random, "first")),
        format!("CREATE TABLE downward (id INTEGER PRIMARY KEY DESC{})", list(&mut random, "")),
        format!("CREATE TABLE texts (id TEXT PRIMARY KEY{}) WITHOUT ROWID", list(&mut random, "")),
        format!("CREATE TABLE made ({}, derived AS (c0 + 1), last)", list(&mut random, "first")),
        format!("CREATE TABLE empty ({})", list(&mut random, "first")),
    ];
    database.execute_batch(&sql.join(";\n"))?;
    let transaction = database.transaction()?;
    for row in 0..rows {
        for table in ["plain", "keyed", "downward", "texts", "made"] {
            let places = vec!["?"; columns + 1].join(", ");
            let names: String = (0..columns).map(|at| format!(", c{at}")).collect();
            let first = if ["downward", "texts"].contains(&table) { "id" } else { "first" };
            let sql = format!("INSERT INTO {table} ({first}{names}) VALUES ({places})");
            let mut values: Vec<_> = (0..=columns).map(|_| random.value(page_size)).collect();
            match table {
                "downward" => values[0] = SqlValue::Integer(row as i64 * 3),
                "texts" => values[0] = SqlValue::Text(format!("key {row}")),
                _ => {}
            }
            transaction.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(values))?;
        }
    }
    transaction.commit()?;
    database.execute_batch(
        "DELETE FROM plain WHERE rowid % 7 < 3; DELETE FROM keyed WHERE id % 5 = 0;
         UPDATE plain SET first = hex(zeroblob(200)) WHERE rowid % 11 = 0;
         UPDATE keyed SET id = -id WHERE id % 4 = 0;
         ALTER TABLE plain ADD COLUMN late INTEGER;
         ALTER TABLE keyed ADD COLUMN late INTEGER DEFAULT 5;
         CREATE INDEX by_first ON plain (first);",
    )
}

type Cells = Vec<Vec<SqlValue>>;

/// All columns of a table by `scan`.
fn scanned(database: &Database, table: &str) -> Result<Cells, IngestError> {
    let columns = &database.tables[table].columns;
    let wants: Vec<Want> =
        columns.iter().map(|column| Want::Need(column.name.clone().leak())).collect();
    let (parts, bad) = database.scan(table, &wants, |out: &mut Cells, row| {
        let cell = |(at, value): (usize, &Value)| match value {
            Value::Null => SqlValue::Null,
            Value::Int(value) => SqlValue::Integer(*value),
            Value::Real(value) => SqlValue::Real(*value),
            Value::Blob { .. } => SqlValue::Blob(row.blob(at).unwrap_or_default().to_vec()),
            Value::Text { .. } => SqlValue::Text(row.text(at).unwrap_or("?").to_owned()),
        };
        out.push(row.values.iter().enumerate().map(cell).collect());
        Ok(())
    })?;
    assert_eq!(bad.summary(), None);
    Ok(parts.into_iter().flatten().collect())
}

/// All columns of a table by SQLite, in the order in which it keeps them.
fn selected(path: &Path, table: &str) -> Cells {
    let database = Connection::open(path).unwrap();
    let mut statement = database.prepare(&format!("SELECT * FROM {}", quoted(table))).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let cell = |value: ValueRef<'_>| match value {
        ValueRef::Blob(blob) => SqlValue::Blob(blob.to_vec()),
        ValueRef::Text(text) => SqlValue::Text(std::str::from_utf8(text).unwrap_or("?").to_owned()),
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(value) => SqlValue::Integer(value),
        ValueRef::Real(value) => SqlValue::Real(value),
    };
    // Generated columns are in `*`; scans do not know them.
    let kept: Vec<usize> = (0..names.len()).filter(|at| names[*at] != "derived").collect();
    let row = |row: &rusqlite::Row<'_>| kept.iter().map(|at| Ok(cell(row.get_ref(*at)?))).collect();
    statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

/// A real column may store a whole number as an integer: to a reader that wants integers all the same.
fn is_same(ours: &SqlValue, theirs: &SqlValue) -> bool {
    match (ours, theirs) {
        (SqlValue::Integer(ours), SqlValue::Real(theirs)) => *ours as f64 == *theirs,
        _ => ours == theirs,
    }
}

/// Tables and rows of the file, and how many tables SQLite did not have to help with.
pub(super) fn compare(path: &Path) -> (usize, usize, usize) {
    let database = Database::open(path).unwrap();
    let (mut rows, mut own) = (0, 0);
    for (name, table) in &database.tables {
        let (ours, theirs) = (scanned(&database, name).unwrap(), selected(path, name));
        assert_eq!(ours.len(), theirs.len(), "{path:?} {name}");
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert!(ours.len() == theirs.len(), "{path:?} {name} row {at}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert!(is_same(ours, theirs), "{path:?} {name} row {at}: {ours:?} {theirs:?}");
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
    for seed in 0..24 {
        let path = folder.path().join(format!("{seed}.sqlite"));
        let rows = [1, 30, 400][(seed / 8) as usize];
        generate(&path, seed, rows).unwrap();
        let (tables, read, own) = compare(&path);
        // By SQLite: the index-organized, the one with a generated column, the one with a default.
        assert_eq!((tables, own), (6, 3), "seed {seed}");
        assert!(read as u64 >= 3 * rows, "seed {seed}");
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
    let read = Database::open(&path).unwrap();
    let tree = read.pages.tree(read.tables["t"].root).unwrap().unwrap();
    assert!(tree.chunks().len() > 1);
    let (parts, _) = read
        .scan("t", &[Want::Need("c"), Want::May(&["none"]), Want::Need("a")], |out, row| {
            let out: &mut Vec<(i64, Option<i64>, i64)> = out;
            out.push((row.int(0)?, row.maybe(1)?, row.int(2)?));
            Ok(())
        })
        .unwrap();
    assert_eq!(parts.len(), tree.chunks().len());
    let rows: Vec<_> = parts.into_iter().flatten().collect();
    assert!(rows.iter().copied().eq((0..200_000).map(|i| (-i * 1_000_003, None, i))));
}

#[test]
fn other_text_encodings_are_left_to_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.sqlite");
    let database = Connection::open(&path).unwrap();
    let sql = "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a, b); INSERT INTO t VALUES ('é', 7);";
    database.execute_batch(sql).unwrap();
    assert_eq!(compare(&path), (1, 1, 0));
    let read = Database::open(&path).unwrap();
    let expected = vec![vec![SqlValue::Text("é".to_owned()), SqlValue::Integer(7)]];
    assert_eq!(scanned(&read, "t").unwrap(), expected);
}

#[test]
fn a_journal_beside_the_file_is_seen_when_it_is_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    generate(&path, 0, 1).unwrap();
    let journal = folder.path().join("t.sqlite-wal");
    assert!(!Database::open(&path).unwrap().has_journal());
    std::fs::write(&journal, "").unwrap();
    assert!(!Database::open(&path).unwrap().has_journal());
    std::fs::write(&journal, "x").unwrap();
    assert!(Database::open(&path).unwrap().has_journal());
}

/// Bytes flipped and tails cut off: an error or rows, and an end. The schema is that of the sound file,
/// so that SQLite does not refuse most of the broken ones before the own reader sees them.
#[test]
fn broken_files_are_refused_or_read_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, path) = (folder.path().join("sound.sqlite"), folder.path().join("broken.sqlite"));
    let (mut refused, mut read, mut random) = (0, 0, Random(1));
    for seed in [0, 1, 4] {
        generate(&sound, seed, 60).unwrap();
        let bytes = std::fs::read(&sound).unwrap();
        let mut database = Database::open(&sound).unwrap();
        database.tables.retain(|_, table| table.is_plain);
        for _ in 0..1000 {
            let mut broken = bytes.clone();
            for _ in 0..=random.below(12) {
                // The first bytes of a page are the ones that matter most.
                let page = random.below(bytes.len() as u64 / 512) as usize * 512;
                let at = if random.below(2) == 0 { random.below(24) } else { random.below(512) };
                broken[page + at as usize] =
                    [0, 1, 5, 13, 255, random.next() as u8][random.below(6) as usize];
            }
            if random.below(10) == 0 {
                broken.truncate(random.below(bytes.len() as u64) as usize);
            }
            std::fs::write(&path, &broken).unwrap();
            match super::Pages::open(&path) {
                Ok(pages) => database.pages = pages,
                Err(_) => continue,
            }
            for table in ["plain", "keyed", "downward"].iter().filter(|t| database.has(t)) {
                match scanned(&database, table) {
                    Ok(_) => read += 1,
                    Err(error) => {
                        let told = error.to_string();
                        assert!(
                            told.contains("malformed at page") || told.contains("SQLite"),
                            "{told}"
                        );
                        refused += 1;
                    }
                }
            }
        }
        std::fs::remove_file(&sound).unwrap();
    }
    assert!(refused > 500 && read > 500, "{refused} {read}");
}

/// A file of three pages by hand: page 2 is made to be its own child.
#[test]
fn a_tree_that_contains_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cycle.sqlite");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);").unwrap();
    drop(database);
    let mut bytes = std::fs::read(&path).unwrap();
    // An interior page without cells whose rightmost child is page 2.
    bytes[4096..4096 + 12].copy_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    std::fs::write(&path, &bytes).unwrap();
    let error = scanned(&Database::open(&path).unwrap(), "t").unwrap_err();
    let what = "the table's tree is too deep";
    assert!(matches!(error.kind, IngestErrorKind::MalformedPage { page: 2, what: w } if w == what));
    // Two children that are the same page: the tree outgrows the file.
    bytes[4096..4096 + 14].copy_from_slice(&[5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0]);
    bytes[4096 + 256..4096 + 261].copy_from_slice(&[0, 0, 0, 2, 1]);
    std::fs::write(&path, &bytes).unwrap();
    let error = scanned(&Database::open(&path).unwrap(), "t").unwrap_err();
    assert!(error.to_string().contains("more pages than the file"), "{error}");
}

/// The change counters agree on the size, so the file is known to be cut.
#[test]
fn a_file_shorter_than_its_header_says_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.sqlite");
    generate(&path, 2, 100).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for length in [50, 100, 4096, bytes.len() - 4096, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = Database::open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(error.kind, IngestErrorKind::Truncated), "{length}: {error}");
    }
}
