//! Against SQLite on generated files, and against broken files.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{Value as SqlValue, ValueRef};

use crate::{Error, Pages, Value};

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
                let longest = if self.below(40) == 0 {
                    4 * page_size
                } else {
                    30
                };
                let length = self.below(longest) as usize;
                SqlValue::Text(
                    "aé漢z"
                        .chars()
                        .cycle()
                        .skip(length % 4)
                        .take(length)
                        .collect(),
                )
            }
            5 if self.below(50) == 0 => SqlValue::Blob(vec![0xff; self.below(2000) as usize]),
            _ => {
                let bits = self.below(64);
                SqlValue::Integer(self.next() as i64 >> bits)
            }
        }
    }
}

/// Tables with and without rowids of their own, on pages of all kinds; rows are deleted again and grow, so that
/// there are free pages, free blocks, gaps in the rowids and leaves far from their neighbours.
fn generate(path: &Path, seed: u64, rows: u64) -> rusqlite::Result<()> {
    let mut random = Random(seed);
    let page_size = [512, 1024, 4096, 65536][(seed % 4) as usize];
    Connection::open(path)?.execute_batch(&format!(
        "PRAGMA page_size = {page_size}; PRAGMA auto_vacuum = {}; PRAGMA user_version = 1;",
        seed % 3
    ))?;
    reserve(
        path,
        page_size as usize,
        [0, 32, 7, 0, 12][(seed % 5) as usize],
    );
    let mut database = Connection::open(path)?;
    let columns = 1 + random.below(40) as usize;
    let types = ["INTEGER", "REAL", "TEXT", "BLOB", "", "NUMERIC"];
    let list = |random: &mut Random, first: &str| -> String {
        let column = |at: usize| format!(", c{at} {}", types[random.below(6) as usize]);
        first.to_owned() + &(0..columns).map(column).collect::<String>()
    };
    let sql = [
        "PRAGMA synchronous = OFF".to_owned(),
        format!("CREATE TABLE plain ({})", list(&mut random, "first")),
        format!(
            "CREATE TABLE keyed ({}, id INTEGER PRIMARY KEY)",
            list(&mut random, "first")
        ),
        format!(
            "CREATE TABLE downward (id INTEGER PRIMARY KEY DESC{})",
            list(&mut random, "")
        ),
        format!(
            "CREATE TABLE texts (id TEXT PRIMARY KEY{}) WITHOUT ROWID",
            list(&mut random, "")
        ),
        format!("CREATE TABLE empty ({})", list(&mut random, "first")),
    ];
    database.execute_batch(&sql.join(";\n"))?;
    let transaction = database.transaction()?;
    for row in 0..rows {
        for table in ["plain", "keyed", "downward", "texts"] {
            let places = vec!["?"; columns + 1].join(", ");
            let names: String = (0..columns).map(|at| format!(", c{at}")).collect();
            let first = if ["downward", "texts"].contains(&table) {
                "id"
            } else {
                "first"
            };
            let sql = format!("INSERT INTO {table} ({first}{names}) VALUES ({places})");
            let mut values: Vec<_> = (0..=columns).map(|_| random.value(page_size)).collect();
            match table {
                "downward" => values[0] = SqlValue::Integer(row as i64 * 3),
                "texts" => values[0] = SqlValue::Text(format!("key {row}")),
                _ => {}
            }
            transaction
                .prepare_cached(&sql)?
                .execute(rusqlite::params_from_iter(values))?;
        }
    }
    transaction.commit()?;
    database.execute_batch(
        "DELETE FROM plain WHERE rowid % 7 < 3; DELETE FROM keyed WHERE id % 5 = 0;
         UPDATE plain SET first = hex(zeroblob(200)) WHERE rowid % 11 = 0;
         UPDATE keyed SET id = -id WHERE id % 4 = 0;
         ALTER TABLE plain ADD COLUMN late INTEGER;
         CREATE INDEX by_first ON plain (first);",
    )
}

/// Makes SQLite leave bytes free at the end of each page: the file is one page of an empty schema.
fn reserve(path: &Path, page_size: usize, bytes: u8) {
    let mut file = std::fs::read(path).unwrap();
    assert_eq!(file.len(), page_size);
    file[20] = bytes;
    file[105..107].copy_from_slice(&((page_size - usize::from(bytes)) as u16).to_be_bytes());
    std::fs::write(path, file).unwrap();
}

type Rows = Vec<(i64, Vec<SqlValue>)>;

fn sql_value(value: Value<'_>) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Int(value) => SqlValue::Integer(value),
        Value::Real(value) => SqlValue::Real(value),
        Value::Blob(blob) => SqlValue::Blob(blob.to_vec()),
        Value::Text(text) => SqlValue::Text(std::str::from_utf8(text).unwrap_or("?").to_owned()),
    }
}

/// The rows of the table at this page, if there is one, with as many columns as each record has.
fn read(pages: &Pages, root: u32, file: &[u8]) -> Result<Option<Rows>, Error> {
    let Some(tree) = pages.tree(root)? else {
        return Ok(None);
    };
    let mut rows = Vec::new();
    for leaves in tree.chunks() {
        tree.records(leaves, |record| {
            for column in 0..record.width() {
                if let Some(content) = record.value(column).bytes() {
                    let piece = |(at, length): (u64, usize)| &file[at as usize..][..length];
                    let pieces: Vec<_> = record.places(column).map(piece).collect();
                    assert_eq!(pieces.concat(), content);
                }
            }
            let values = (0..record.width())
                .map(|column| sql_value(record.value(column)))
                .collect();
            rows.push((record.rowid, values));
            Ok::<_, Error>(())
        })?;
    }
    Ok(Some(rows))
}

/// The rows by SQLite, in the order in which it keeps them.
fn selected(database: &Connection, table: &str) -> Rows {
    let mut statement = database
        .prepare(&format!("SELECT rowid, * FROM {table}"))
        .unwrap();
    let columns = 1..statement.column_count();
    let cell = |value: ValueRef<'_>| match value {
        ValueRef::Text(text) => SqlValue::Text(std::str::from_utf8(text).unwrap_or("?").to_owned()),
        value => value.try_into().unwrap(),
    };
    let row = |row: &rusqlite::Row<'_>| {
        let cells = columns
            .clone()
            .map(|at| rusqlite::Result::Ok(cell(row.get_ref(at)?)));
        Ok((row.get(0)?, cells.collect::<rusqlite::Result<_>>()?))
    };
    statement
        .query_map([], row)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// A real column may store a whole number as an integer; what represents the rowid is NULL.
fn is_same(ours: &SqlValue, theirs: &SqlValue, rowid: i64) -> bool {
    match (ours, theirs) {
        (SqlValue::Integer(ours), SqlValue::Real(theirs)) => *ours as f64 == *theirs,
        (SqlValue::Null, SqlValue::Integer(theirs)) => *theirs == rowid,
        _ => ours == theirs,
    }
}

/// Roots of tables and indexes by name.
fn roots(database: &Connection) -> Vec<(String, u32)> {
    let sql = "SELECT name, rootpage FROM sqlite_schema UNION ALL SELECT 'sqlite_schema', 1";
    let mut list = database.prepare(sql).unwrap();
    let roots = list
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    roots.collect::<Result<_, _>>().unwrap()
}

/// Compares all tables of the file with SQLite. Gives the names of those that are no tables, and how many rows
/// there were.
fn compare(path: &Path) -> (Vec<String>, usize) {
    let (pages, file) = (Pages::open(path).unwrap(), std::fs::read(path).unwrap());
    let database = Connection::open(path).unwrap();
    let (mut declined, mut count) = (Vec::new(), 0);
    for (name, root) in roots(&database) {
        let Some(ours) = read(&pages, root, &file).unwrap() else {
            declined.push(name);
            continue;
        };
        let theirs = selected(&database, &name);
        assert_eq!(ours.len(), theirs.len(), "{path:?} {name}");
        for ((rowid, ours), (expected, theirs)) in ours.iter().zip(&theirs) {
            assert_eq!(rowid, expected, "{path:?} {name}");
            for (at, theirs) in theirs.iter().enumerate() {
                // A record may be older than the last columns.
                let ours = ours.get(at).unwrap_or(&SqlValue::Null);
                assert!(
                    is_same(ours, theirs, *rowid),
                    "{path:?} {name} {rowid}: {ours:?} {theirs:?}"
                );
            }
        }
        count += ours.len();
    }
    declined.sort();
    (declined, count)
}

/// And what no cell uses may be cleared without that SQLite misses it.
#[test]
fn generated_files_read_as_sqlite_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..60 {
        let path = folder.path().join(format!("{seed}.sqlite"));
        let rows = [1, 30, 150][(seed / 20) as usize];
        generate(&path, seed, rows).unwrap();
        let (declined, count) = compare(&path);
        // The primary key of `downward` is an index.
        assert_eq!(
            declined,
            ["by_first", "sqlite_autoindex_downward_1", "texts"],
            "seed {seed}"
        );
        assert!(count as u64 >= 2 * rows, "seed {seed}");

        let (pages, mut bytes) = (Pages::open(&path).unwrap(), std::fs::read(&path).unwrap());
        let database = Connection::open(&path).unwrap();
        for (_, root) in roots(&database) {
            let Some(tree) = pages.tree(root).unwrap() else {
                continue;
            };
            tree.unused(|at, unused| {
                bytes[at as usize..][..unused.len()].fill(0);
                Ok::<_, Error>(())
            })
            .unwrap();
        }
        drop(database);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(compare(&path), (declined, count), "seed {seed}");
        let database = Connection::open(&path).unwrap();
        let sound: String = database
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap();
        assert_eq!(sound, "ok", "seed {seed}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// Bytes flipped and tails cut off: an error or rows, and an end. The roots are those of the sound file.
#[test]
fn broken_files_are_refused_or_read_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, path) = (
        folder.path().join("sound.sqlite"),
        folder.path().join("broken.sqlite"),
    );
    let (mut refused, mut read_count, mut random) = (0, 0, Random(1));
    for seed in [0, 1, 4] {
        generate(&sound, seed, 60).unwrap();
        let bytes = std::fs::read(&sound).unwrap();
        let roots = roots(&Connection::open(&sound).unwrap());
        for _ in 0..1000 {
            let mut broken = bytes.clone();
            for _ in 0..=random.below(12) {
                // The first bytes of a page are the ones that matter most.
                let page = random.below(bytes.len() as u64 / 512) as usize * 512;
                let at = if random.below(2) == 0 {
                    random.below(24)
                } else {
                    random.below(512)
                };
                broken[page + at as usize] =
                    [0, 1, 5, 13, 255, random.next() as u8][random.below(6) as usize];
            }
            if random.below(10) == 0 {
                broken.truncate(random.below(bytes.len() as u64) as usize);
            }
            std::fs::write(&path, &broken).unwrap();
            let Ok(pages) = Pages::open(&path) else {
                continue;
            };
            for (_, root) in &roots {
                match read(&pages, *root, &broken) {
                    Ok(_) => read_count += 1,
                    Err(error) => {
                        let told = error.to_string();
                        assert!(told.contains("malformed at page"), "{told}");
                        refused += 1;
                    }
                }
                if let Ok(Some(tree)) = pages.tree(*root) {
                    let _ = tree.unused(|_, _| Ok::<_, Error>(()));
                }
            }
        }
        std::fs::remove_file(&sound).unwrap();
    }
    assert!(refused > 500 && read_count > 500, "{refused} {read_count}");
}

/// The rows by SQLite with the checks of importers; none if it calls the table malformed.
fn checked(database: &Connection, table: &str) -> Option<Rows> {
    let mut statement = database
        .prepare(&format!("SELECT rowid, * FROM {table} NOT INDEXED"))
        .ok()?;
    let width = statement.column_count();
    let (mut rows, mut read) = (statement.query([]).ok()?, Rows::new());
    while let Some(row) = rows.next().ok()? {
        let value = |at| row.get_ref(at).ok()?.try_into().ok();
        let cells = (1..width).map(|at| value(at).unwrap_or(SqlValue::Null));
        read.push((row.get(0).ok()?, cells.collect()));
    }
    Some(read)
}

/// Of pages with bytes flipped where the tree is described, no row is lost in silence: what SQLite calls malformed is
/// refused, and what it reads is refused or read in full.
#[test]
fn no_damage_that_sqlite_sees_is_overlooked() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, path) = (
        folder.path().join("sound.sqlite"),
        folder.path().join("broken.sqlite"),
    );
    let (mut both, mut equal, mut random) = (0, 0, Random(7));
    for seed in [0, 1, 4, 5] {
        generate(&sound, seed, 60).unwrap();
        let bytes = std::fs::read(&sound).unwrap();
        let size = [512, 1024, 4096, 65536][(seed % 4) as usize];
        let tables: Vec<_> = roots(&Connection::open(&sound).unwrap());
        for _ in 0..150 {
            let mut broken = bytes.clone();
            // Not the first page, which has the schema.
            let page = (1 + random.below((bytes.len() / size - 1) as u64) as usize) * size;
            let at = random.below(40) as usize;
            broken[page + at] = [0, 1, 5, 13, 255, random.next() as u8][random.below(6) as usize];
            std::fs::write(&path, &broken).unwrap();
            let (pages, database) = (
                Pages::open(&path).unwrap(),
                Connection::open(&path).unwrap(),
            );
            database
                .execute_batch("PRAGMA cell_size_check = ON")
                .unwrap();
            // The schema, which lies on several pages, is read by SQLite alone.
            if database.prepare("SELECT rowid FROM plain").is_err() {
                continue;
            }
            for (name, root) in tables
                .iter()
                .filter(|(name, _)| ["plain", "keyed"].contains(&&**name))
            {
                let Ok(Some(ours)) = read(&pages, *root, &broken) else {
                    both += usize::from(checked(&database, name).is_none());
                    continue;
                };
                let theirs = checked(&database, name).expect("SQLite calls it malformed");
                let rowids = |rows: &Rows| rows.iter().map(|row| row.0).collect::<Vec<_>>();
                assert_eq!(
                    rowids(&ours),
                    rowids(&theirs),
                    "{name}, page offset {page}, byte {at}"
                );
                equal += 1;
            }
        }
        std::fs::remove_file(&sound).unwrap();
    }
    assert!(both > 20 && equal > 300, "{both} {equal}");
}

/// A leaf that lost its cells, below a root that has them.
#[test]
fn an_empty_leaf_that_is_not_the_root_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leaf.sqlite");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "PRAGMA page_size = 512; CREATE TABLE t (a TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
             INSERT INTO t SELECT 'some text of a row ' || i FROM n;",
        )
        .unwrap();
    drop(database);
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(
        read(&Pages::open(&path).unwrap(), 2, &bytes)
            .unwrap()
            .unwrap()
            .len(),
        40
    );
    let leaf = (2..bytes.len() / 512)
        .find(|page| bytes[page * 512] == 13)
        .unwrap();
    bytes[leaf * 512 + 3..leaf * 512 + 5].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let error = read(&Pages::open(&path).unwrap(), 2, &bytes).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a leaf that is not the root is empty"),
        "{error}"
    );
    let database = Connection::open(&path).unwrap();
    let sqlite = database.query_row("SELECT count(*) FROM t NOT INDEXED", [], |r| {
        r.get::<_, i64>(0)
    });
    assert!(sqlite.unwrap_err().to_string().contains("malformed"));
}

/// A file of three pages by hand: page 2 is made to be its own child.
#[test]
fn a_tree_that_contains_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cycle.sqlite");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
        .unwrap();
    drop(database);
    let mut bytes = std::fs::read(&path).unwrap();
    // An interior page without cells whose rightmost child is page 2.
    bytes[4096..4096 + 12].copy_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    std::fs::write(&path, &bytes).unwrap();
    let error = Pages::open(&path).unwrap().tree(2).unwrap_err();
    assert!(matches!(error, Error::Malformed { page: 2, .. }), "{error}");
    // Two children that are the same page: the tree outgrows the file.
    bytes[4096..4096 + 14].copy_from_slice(&[5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0]);
    bytes[4096 + 256..4096 + 261].copy_from_slice(&[0, 0, 0, 2, 1]);
    std::fs::write(&path, &bytes).unwrap();
    let error = Pages::open(&path).unwrap().tree(2).unwrap_err();
    assert!(
        error.to_string().contains("more pages than the file"),
        "{error}"
    );
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
        let error = Pages::open(&path).unwrap_err();
        assert!(matches!(error, Error::Truncated), "{length}: {error}");
    }
}
