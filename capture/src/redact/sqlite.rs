//! Tables of an SQLite file whose values are overwritten in place.
//!
//! An engine would be nine more crates and a megabyte of C; what is needed of one is to find the text of some columns
//! and to write as many other bytes over it, which changes no structure.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rooflens_sqlite_pages::{Pages, Record};

/// An SQLite file.
pub(crate) struct Database {
    pages: Pages,
    file: File,
}

/// What an SQLite file holds.
#[derive(Default)]
pub(crate) struct Schema {
    /// Ordinary tables: those with row ids.
    pub(crate) tables: Vec<Table>,
    /// Names in small letters of tables that have an index.
    pub(crate) indexed: Vec<String>,
    /// Tables of other kinds, and damaged ones.
    pub(crate) unreadable: Vec<String>,
}

/// An ordinary table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    root: u32,
    /// Names of the columns.
    pub(crate) columns: Vec<String>,
    /// The column whose value is the rowid, which records do not repeat.
    pub(crate) rowid: Option<usize>,
    /// Records hold the columns in this order, and one that is not there is `NULL`. Of others only SQLite knows all values.
    pub(crate) is_plain: bool,
}

impl Database {
    /// Opens a file to be overwritten, which no one else writes.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::with(path, OpenOptions::new().read(true).write(true))
    }

    /// Opens a file to be read.
    pub(crate) fn open_to_read(path: &Path) -> io::Result<Self> {
        Self::with(path, OpenOptions::new().read(true))
    }

    fn with(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let pages = Pages::open(path)?;
        if !pages.is_utf8 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its texts are not UTF-8",
            ));
        }
        Ok(Self {
            pages,
            file: options.open(path)?,
        })
    }

    /// Whether the file has pages that were given up, or bytes behind its pages: both may hold what was deleted.
    pub(crate) fn has_free_pages(&self) -> io::Result<bool> {
        let mut free = [0; 4];
        self.file.read_exact_at(&mut free, 36)?;
        Ok(u32::from_be_bytes(free) > 0 || self.file.metadata()?.len() > self.pages.length())
    }

    /// What the file says it holds.
    pub(crate) fn schema(&self) -> io::Result<Schema> {
        let of_schema = Table::new(String::new(), 1, "");
        let mut schema = Schema::default();
        self.rows(&of_schema, |row| {
            let [kind, name, of, sql] = [0, 1, 2, 4].map(|column| row.value(column).text());
            let root = row
                .value(3)
                .int()
                .and_then(|root| u32::try_from(root).ok())
                .unwrap_or(0);
            let (name, of) = (name.unwrap_or_default().to_owned(), of.unwrap_or_default());
            match (kind, sql) {
                (Some("table"), Some(sql)) if root > 0 && self.is_tree(root) => {
                    schema.tables.push(Table::new(name, root, sql));
                }
                (Some("view" | "trigger"), _) if root == 0 => {}
                (Some("index"), _) => schema.indexed.push(of.to_ascii_lowercase()),
                _ => schema.unreadable.push(name),
            }
            Ok(())
        })?;
        Ok(schema)
    }

    /// Calls for each row, in the order of row ids.
    pub(crate) fn rows(
        &self,
        table: &Table,
        each: impl FnMut(&Record<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.pages.tree(table.root)? {
            Some(tree) => tree.rows(each),
            None => Ok(()),
        }
    }

    /// Whether a table with row ids begins at this page.
    fn is_tree(&self, root: u32) -> bool {
        self.pages.tree(root).is_ok_and(|tree| tree.is_some())
    }

    /// Writes this byte over a value.
    pub(crate) fn overwrite(&self, row: &Record<'_>, column: usize, byte: u8) -> io::Result<()> {
        let mut places = row.places(column);
        places.try_for_each(|(at, length)| self.file.write_all_at(&vec![byte; length], at))
    }

    /// Clears the unused parts of a table's pages.
    pub(crate) fn clear_unused(&self, table: &Table) -> io::Result<()> {
        let Some(tree) = self.pages.tree(table.root)? else {
            return Ok(());
        };
        tree.unused(|offset, bytes| self.file.write_all_at(&vec![0; bytes.len()], offset))
    }
}

impl Table {
    /// The table of a `CREATE TABLE name (column type, …)`.
    fn new(name: String, root: u32, sql: &str) -> Self {
        let mut table = Self {
            name,
            root,
            columns: Vec::new(),
            rowid: None,
            is_plain: true,
        };
        for words in definitions(sql) {
            let Some((name, rest)) = words.split_first() else {
                continue;
            };
            let definition = rest.join(" ").to_ascii_uppercase();
            if ROWIDS.contains(&definition.as_str()) {
                table.rowid = Some(table.columns.len());
            } else {
                let is_known = |word: &String| !FOR_SQLITE.iter().any(|known| is(word, known));
                table.is_plain &= words.iter().all(is_known);
            }
            if !CONSTRAINTS.iter().any(|constraint| is(name, constraint)) {
                table.columns.push(name.clone());
            }
        }
        table
    }

    /// Where a column is.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.eq_ignore_ascii_case(name))
    }
}

/// Words that begin a constraint of a table.
const CONSTRAINTS: [&str; 5] = ["PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"];

/// Columns whose value is the rowid.
const ROWIDS: [&str; 2] = ["INTEGER PRIMARY KEY", "INTEGER NOT NULL PRIMARY KEY"];

/// Words of columns that records may lack, or that may be the rowid in another way.
const FOR_SQLITE: [&str; 4] = ["PRIMARY", "DEFAULT", "GENERATED", "AS"];

fn is(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

/// The words of each definition of a column or constraint in `CREATE TABLE name (…)`, without quotes and parentheses.
/// nsys explains its columns in comments.
fn definitions(sql: &str) -> Vec<Vec<String>> {
    let lines = sql
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default());
    let mut sql = lines.collect::<Vec<_>>().join(" ");
    while let Some((before, rest)) = sql.split_once("/*") {
        sql = format!(
            "{before} {}",
            rest.split_once("*/").map_or("", |(_, after)| after)
        );
    }
    let inner = sql.split_once('(').map_or("", |(_, inner)| inner);
    let (mut depth, mut quoted, mut part, mut parts) = (0, false, String::new(), Vec::new());
    for c in inner.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if c == ',' && !quoted && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else if matches!(c, '(' | ')') {
            part.push(' ');
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    let words = |part: &String| {
        let words = part.split_whitespace();
        let plain = words.map(|word| word.trim_matches(['"', '`', '[', ']']).to_owned());
        plain.collect()
    };
    parts.iter().map(words).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn database(sql: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        Connection::open(file.path())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        file
    }

    #[test]
    fn rows_are_those_that_sqlite_wrote() {
        let file = database(
            "CREATE TABLE a ( -- it's (first,
                id INTEGER PRIMARY KEY, \"text\" TEXT, -- a, b
                n INTEGER DEFAULT (1+1), UNIQUE (n));
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 5000)
             INSERT INTO a SELECT i, printf('row %d %s', i, hex(zeroblob(i))), i*i*(CASE WHEN i%2 THEN -1 ELSE 1 END) FROM c;
             CREATE VIEW v AS SELECT * FROM a; CREATE TABLE w (k TEXT PRIMARY KEY) WITHOUT ROWID;",
        );
        let db = Database::open(file.path()).unwrap();
        let schema = db.schema().unwrap();
        let tables = schema.tables;
        assert_eq!(schema.unreadable, ["w"]);
        assert_eq!(
            tables.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(),
            ["a"]
        );
        assert_eq!(tables[0].columns, ["id", "text", "n"]);
        let mut expected = 1;
        db.rows(&tables[0], |row| {
            let zeros = "0".repeat(2 * expected as usize);
            assert_eq!(row.rowid, expected);
            assert_eq!(
                row.value(1).text(),
                Some(format!("row {expected} {zeros}").as_str())
            );
            let sign = if expected % 2 == 1 { -1 } else { 1 };
            assert_eq!(row.value(2).int(), Some(sign * expected * expected));
            expected += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(expected, 5001);
    }

    #[test]
    fn a_value_is_overwritten_on_all_its_pages_and_the_file_stays_sound() {
        let file = database(
            "CREATE TABLE a (name TEXT, value TEXT);
             INSERT INTO a VALUES ('keep', 'kept'), ('gone', replace(hex(zeroblob(10000)), '0', 's')), ('x', 'y');",
        );
        let db = Database::open(file.path()).unwrap();
        let table = &db.schema().unwrap().tables[0];
        db.rows(table, |row| {
            if row.value(0).text() == Some("gone") {
                db.overwrite(row, 1, b'*')
            } else {
                Ok(())
            }
        })
        .unwrap();
        db.clear_unused(table).unwrap();
        let sqlite = Connection::open(file.path()).unwrap();
        let sound: String = sqlite
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        let value: String = sqlite
            .query_row("SELECT value FROM a WHERE name = 'gone'", [], |r| r.get(0))
            .unwrap();
        assert_eq!(value, "*".repeat(20_000));
        let rest: String = sqlite
            .query_row(
                "SELECT group_concat(value) FROM a WHERE name <> 'gone'",
                [],
                |r| r.get(0),
            )
            .unwrap();
        assert_eq!(rest, "kept,y");
    }

    #[test]
    fn broken_files_are_errors() {
        let file = database("CREATE TABLE a (x TEXT); INSERT INTO a VALUES ('abc')");
        let bytes = std::fs::read(file.path()).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut broken = bytes.clone();
            broken[at] ^= 0xff;
            std::fs::write(file.path(), &broken).unwrap();
            let Ok(db) = Database::open(file.path()) else {
                continue;
            };
            for table in db.schema().unwrap_or_default().tables {
                // An error or rows: no panic, no endless walk.
                let _ = db.rows(&table, |_| Ok(()));
            }
        }
    }
}
