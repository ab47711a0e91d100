//! A hostile SQLite file, of which chosen columns of tables are read in parallel.
//!
//! SQLite reads the schema. Rows are decoded straight from the pages of the file, because stepping through
//! them in SQLite costs more than all the rest of an import.
//!
//! SQLite alone was rejected as the reader of rows, and a reader without SQLite as the reader of schemas. Tables that the
//! page reader cannot take (views, tables without rowid, generated columns) are read through SQLite with the same `Want`s.
//! What must hold: both ways give the same rows in the same order, and a damaged page is an error, never a wrong value.

mod journal;
mod sqlite;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rooflens_exports::{Cells, Selected, pick};
use rooflens_sqlite_pages::{Pages, Tree, Value};
use rusqlite::types::ValueRef;

use crate::{IngestError, IngestErrorKind};
use sqlite::{Table, locked_connection, quoted};

pub(super) use journal::Settled;
pub(super) use rooflens_exports::{BadRows, Row, RowError, Want};

/// Rows that a thread reads before it counts them.
const ROWS_AT_ONCE: u64 = 256;

/// An export and what is in it.
pub(super) struct Database {
    path: PathBuf,
    pages: Pages,
    tables: BTreeMap<String, Table>,
    /// Rows that may still be read.
    rows: AtomicU64,
}

impl Database {
    /// Opens the file, of which no more than so many rows are read, and lists tables and columns.
    ///
    /// # Errors
    /// When the file cannot be read, is cut off, or has no sound schema.
    pub(super) fn open(path: &Path, rows: u64) -> Result<Self, IngestError> {
        let pages = Pages::open(path)?;
        let tables = sqlite::schema(path)?;
        Ok(Self {
            path: path.to_owned(),
            pages,
            tables,
            rows: AtomicU64::new(rows),
        })
    }

    /// True if the file has this table.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// What follows the prefix in the names of tables that begin with it, in order.
    pub(super) fn suffixes<'d>(&'d self, prefix: &'d str) -> impl Iterator<Item = &'d str> {
        let from = self.tables.range(prefix.to_owned()..);
        from.map_while(move |(name, _)| name.strip_prefix(prefix))
    }

    /// Reads a table in parallel; the parts come back in rowid order.
    ///
    /// `visit` is called once a row. A row for which it fails is skipped and counted. A table that is not
    /// there has no rows.
    ///
    /// # Errors
    /// When a needed column is missing or the file is malformed.
    // All that does not depend on the type of the parts is compiled once, not for each of 40 tables.
    pub(super) fn scan<T: Default + Send>(
        &self,
        table: &str,
        wants: &[Want],
        visit: impl Fn(&mut T, &Row<'_>) -> Result<(), RowError> + Sync,
    ) -> Result<(Vec<T>, BadRows), IngestError> {
        let Some(source) = self.source(table, wants)? else {
            return Ok((Vec::new(), BadRows::default()));
        };
        let parts: Vec<Mutex<T>> = (0..source.parts()).map(|_| Mutex::default()).collect();
        let bad = source.read(&|part, rows| {
            let mut out = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
            rows(&mut |row| visit(&mut out, row))
        })?;
        let unlocked = |part: Mutex<T>| part.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((parts.into_iter().map(unlocked).collect(), bad))
    }

    /// How a table is read.
    fn source<'d>(
        &'d self,
        table: &str,
        wants: &'d [Want],
    ) -> Result<Option<Source<'d>>, IngestError> {
        let Some(facts) = self.tables.get(table) else {
            return Ok(None);
        };
        let picks = pick(table, &facts.columns, wants).map_err(IngestErrorKind::from)?;
        let tree = match facts.is_plain && self.pages.is_utf8 {
            true => self.pages.tree(facts.root)?,
            false => None,
        };
        let rows = match tree {
            Some(tree) => Rows::Pages {
                tree,
                picks,
                rowid: facts.rowid,
            },
            None => Rows::Sql(facts.select(table, &picks)),
        };
        Ok(Some(Source {
            database: self,
            wants,
            rows,
        }))
    }

    /// Counts rows that were read.
    fn take_rows(&self, count: u64) -> Result<(), IngestError> {
        // How many are left does not depend on who takes which.
        let taken = self
            .rows
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(count));
        taken
            .map(|_| ())
            .map_err(|_| IngestErrorKind::Budget.into())
    }
}

/// The receiver of a row.
type Visit<'e> = dyn FnMut(&Row<'_>) -> Result<(), RowError> + 'e;

/// Calls what receives rows with those of a part.
type Part<'p> = dyn FnMut(&mut Visit<'_>) -> Result<(), IngestError> + 'p;

/// A table, of which columns are wanted.
struct Source<'d> {
    database: &'d Database,
    wants: &'d [Want],
    rows: Rows<'d>,
}

/// Where the rows of a table come from.
enum Rows<'d> {
    /// The pages of the file.
    Pages {
        tree: Tree<'d>,
        picks: Vec<Option<usize>>,
        rowid: Option<usize>,
    },
    /// SQL, which knows every kind of table.
    Sql(String),
}

impl Source<'_> {
    fn parts(&self) -> usize {
        if let Rows::Pages { tree, .. } = &self.rows {
            tree.chunks().count()
        } else {
            1
        }
    }

    /// Calls `part` with the number of each part and its rows.
    fn read(
        &self,
        part: &(dyn Fn(usize, &mut Part<'_>) -> Result<(), IngestError> + Sync),
    ) -> Result<BadRows, IngestError> {
        let mut bad = BadRows::default();
        match &self.rows {
            Rows::Pages { tree, picks, rowid } => {
                return self.read_pages(tree, (picks, *rowid), part);
            }
            Rows::Sql(sql) => part(0, &mut |visit| self.read_sql(sql, &mut bad, visit))?,
        }
        Ok(bad)
    }

    /// Reads rows by SQL; bad rows are numbered from 1.
    fn read_sql(
        &self,
        sql: &str,
        bad: &mut BadRows,
        visit: &mut Visit<'_>,
    ) -> Result<(), IngestError> {
        let connection = locked_connection(&self.database.path)?;
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut number = 0;
        while let Some(row) = rows.next()? {
            number += 1;
            if let Err(error) = visit(&Row {
                cells: Cells::Selected(&SqlRow(row)),
                wants: self.wants,
            }) {
                bad.add(number, &error);
            }
            self.database.take_rows(1)?;
        }
        Ok(())
    }

    fn read_pages(
        &self,
        tree: &Tree<'_>,
        picked: (&[Option<usize>], Option<usize>),
        part: &(dyn Fn(usize, &mut Part<'_>) -> Result<(), IngestError> + Sync),
    ) -> Result<BadRows, IngestError> {
        let read_chunk = |(number, leaves): (usize, &[u32])| {
            let (mut bad, mut bounds) = (BadRows::default(), None);
            part(number, &mut |visit| {
                bounds = self.read_leaves(tree, leaves, picked, &mut bad, visit)?;
                Ok(())
            })?;
            Ok((bad, bounds))
        };
        let chunks: Vec<(usize, &[u32])> = tree.chunks().enumerate().collect();
        // Results are merged in chunk order, so that the reported error does not depend on timing.
        let chunks: Vec<Result<_, IngestError>> = chunks.into_par_iter().map(read_chunk).collect();
        let (mut bad_rows, mut last_rowid) = (BadRows::default(), None);
        for chunk in chunks {
            let (bad, bounds) = chunk?;
            if let Some((first, last)) = bounds {
                if last_rowid.is_some_and(|before| before >= first) {
                    return Err(tree.disorder().into());
                }
                last_rowid = Some(last);
            }
            bad_rows.merge(bad);
        }
        Ok(bad_rows)
    }

    /// Reads the rows of some leaves. Gives the first and the last rowid.
    fn read_leaves(
        &self,
        tree: &Tree<'_>,
        leaves: &[u32],
        (picks, rowid): (&[Option<usize>], Option<usize>),
        bad: &mut BadRows,
        visit: &mut Visit<'_>,
    ) -> Result<Option<(i64, i64)>, IngestError> {
        let mut taken = 0;
        let bounds = tree.records(leaves, |record| {
            let cells = Cells::Record {
                record,
                picks,
                rowid,
            };
            if let Err(error) = visit(&Row {
                cells,
                wants: self.wants,
            }) {
                bad.add(record.rowid, &error);
            }
            taken += 1;
            // All threads count in one place: not at every row.
            if taken == ROWS_AT_ONCE {
                self.database.take_rows(std::mem::take(&mut taken))
            } else {
                Ok(())
            }
        })?;
        self.database.take_rows(taken)?;
        Ok(bounds)
    }
}

impl Table {
    /// SQL for these columns.
    fn select(&self, table: &str, picks: &[Option<usize>]) -> String {
        let name = |pick: &Option<usize>| {
            pick.map_or("NULL".to_owned(), |column| quoted(&self.columns[column]))
        };
        let list: Vec<_> = picks.iter().map(name).collect();
        format!("SELECT {} FROM {}", list.join(", "), quoted(table))
    }
}

/// A row of SQLite, which selects the columns in the order of the wants.
struct SqlRow<'a>(&'a rusqlite::Row<'a>);

impl Selected for SqlRow<'_> {
    fn value(&self, index: usize) -> Value<'_> {
        match self.0.get_ref(index) {
            Ok(ValueRef::Null) | Err(_) => Value::Null,
            Ok(ValueRef::Integer(value)) => Value::Int(value),
            Ok(ValueRef::Real(value)) => Value::Real(value),
            Ok(ValueRef::Text(text)) => Value::Text(text),
            Ok(ValueRef::Blob(blob)) => Value::Blob(blob),
        }
    }
}
