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
    /// Tables of other kinds.
    pub(crate) unreadable: Vec<String>,
}

/// An ordinary table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    root: u32,
    /// Names of the columns.
    pub(crate) columns: Vec<String>,
}

impl Database {
    /// Opens a file that no one else writes.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let pages = Pages::open(path)?;
        if !pages.is_utf8 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its texts are not UTF-8",
            ));
        }
        Ok(Self {
            pages,
            file: OpenOptions::new().read(true).write(true).open(path)?,
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
        let own = Table {
            name: String::new(),
            root: 1,
            columns: Vec::new(),
        };
        let mut schema = Schema::default();
        self.rows(&own, |row| {
            let [kind, name, of, sql] = [0, 1, 2, 4].map(|column| row.value(column).text());
            let root = row
                .value(3)
                .int()
                .and_then(|root| u32::try_from(root).ok())
                .unwrap_or(0);
            let (name, of) = (name.unwrap_or_default().to_owned(), of.unwrap_or_default());
            match (kind, sql) {
                (Some("table"), Some(sql)) if root > 0 && self.pages.tree(root)?.is_some() => {
                    schema.tables.push(Table {
                        name,
                        root,
                        columns: columns(sql),
                    });
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
        mut each: impl FnMut(&Record<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(tree) = self.pages.tree(table.root)? else {
            return Ok(());
        };
        tree.chunks()
            .try_for_each(|leaves| tree.records(leaves, &mut each).map(drop))
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
    /// Where a column is.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.eq_ignore_ascii_case(name))
    }
}

/// Names of the columns of `CREATE TABLE name (column type, …)`. nsys explains its columns in comments.
fn columns(sql: &str) -> Vec<String> {
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
            ',' if !quoted && depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {}
        }
        part.push(if c == ',' && depth == 0 && !quoted {
            ' '
        } else {
            c
        });
    }
    parts.push(part);
    let name = |part: &String| {
        let word = part
            .split_whitespace()
            .next()?
            .trim_matches(['"', '`', '[', ']', ')']);
        let is_constraint = ["PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"]
            .iter()
            .any(|start| word.eq_ignore_ascii_case(start));
        (!word.is_empty() && !is_constraint).then(|| word.to_owned())
    };
    parts.iter().filter_map(name).collect()
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
