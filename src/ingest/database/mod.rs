//! A hostile SQLite file, of which chosen columns of tables are read in parallel.
//!
//! SQLite reads the schema. Rows are decoded straight from the pages of the file, because stepping through
//! them in SQLite costs more than all the rest of an import.

mod journal;
mod row;
mod sqlite;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rooflens_sqlite_pages::{Pages, Tree};

use crate::{IngestError, IngestErrorKind};
use sqlite::{Table, locked_connection, quoted};

pub(super) use journal::{Journal, Settled};
use row::Cells;
pub(super) use row::{BadRows, Row, RowError, Want};

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
        Ok(Self { path: path.to_owned(), pages, tables, rows: AtomicU64::new(rows) })
    }

    /// Whether the file has this table.
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
    /// `each` is called once a row. A row for which it fails is left out and counted. A table that is not
    /// there has no rows.
    ///
    /// # Errors
    /// When a needed column is missing or the file is malformed.
    pub(super) fn scan<T: Default + Send>(
        &self,
        table: &str,
        wants: &[Want],
        each: impl Fn(&mut T, &Row<'_>) -> Result<(), RowError> + Sync,
    ) -> Result<(Vec<T>, BadRows), IngestError> {
        let Some(facts) = self.tables.get(table) else {
            return Ok((Vec::new(), BadRows::default()));
        };
        let picks = facts.pick(table, wants)?;
        if facts.is_plain
            && self.pages.is_utf8
            && let Some(tree) = self.pages.tree(facts.root)?
        {
            return self.scan_tree(&tree, &picks, facts.rowid, wants, each);
        }
        let name =
            |pick: &Option<usize>| pick.map_or("NULL".to_owned(), |at| quoted(&facts.columns[at]));
        let list: Vec<_> = picks.iter().map(name).collect();
        let sql = format!("SELECT {} FROM {}", list.join(", "), quoted(table));
        let (part, bad) = self.scan_by_sqlite(&sql, wants, each)?;
        Ok((vec![part], bad))
    }

    /// Reads rows by SQL, which knows every kind of table; bad rows are numbered from 1.
    fn scan_by_sqlite<T: Default>(
        &self,
        sql: &str,
        wants: &[Want],
        each: impl Fn(&mut T, &Row<'_>) -> Result<(), RowError>,
    ) -> Result<(T, BadRows), IngestError> {
        let (mut out, mut bad) = (T::default(), BadRows::default());
        let connection = locked_connection(&self.path)?;
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut number = 0;
        while let Some(row) = rows.next()? {
            number += 1;
            if let Err(error) = each(&mut out, &Row { cells: Cells::Sql(row), wants }) {
                bad.add(number, &error);
            }
            self.take_row()?;
        }
        Ok((out, bad))
    }

    fn scan_tree<T: Default + Send>(
        &self,
        tree: &Tree<'_>,
        picks: &[Option<usize>],
        rowid: Option<usize>,
        wants: &[Want],
        each: impl Fn(&mut T, &Row<'_>) -> Result<(), RowError> + Sync,
    ) -> Result<(Vec<T>, BadRows), IngestError> {
        let scan_chunk = |leaves: &[u32]| {
            let (mut out, mut bad) = (T::default(), BadRows::default());
            let bounds = tree.records(leaves, |record| {
                let cells = Cells::Record { record, picks, rowid };
                if let Err(error) = each(&mut out, &Row { cells, wants }) {
                    bad.add(record.rowid, &error);
                }
                self.take_row()
            })?;
            Ok((out, bad, bounds))
        };
        let chunks: Vec<&[u32]> = tree.chunks().collect();
        // Results are looked at in order, so that of several errors always the same one is told.
        let chunks: Vec<Result<_, IngestError>> = chunks.into_par_iter().map(scan_chunk).collect();
        let (mut parts, mut bad_rows, mut last_rowid) = (Vec::new(), BadRows::default(), None);
        for chunk in chunks {
            let (part, bad, bounds) = chunk?;
            if let Some((first, last)) = bounds {
                if last_rowid.is_some_and(|before| before >= first) {
                    return Err(tree.disorder().into());
                }
                last_rowid = Some(last);
            }
            parts.push(part);
            bad_rows.merge(bad);
        }
        Ok((parts, bad_rows))
    }

    /// Counts a row that was read.
    fn take_row(&self) -> Result<(), IngestError> {
        // How many are left does not depend on who takes which.
        let taken = self.rows.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        taken.map(|_| ()).map_err(|_| IngestErrorKind::Budget.into())
    }
}

impl Table {
    /// The column of each want.
    fn pick(&self, table: &str, wants: &[Want]) -> Result<Vec<Option<usize>>, IngestError> {
        let find = |name: &str| self.columns.iter().position(|column| column == name);
        let pick = |want: &Want| match want {
            Want::May(names) => Ok(names.iter().find_map(|name| find(name))),
            Want::Need(name) => find(name).map(Some).ok_or_else(|| {
                let (table, column) = (table.to_owned(), (*name).to_owned());
                IngestErrorKind::MissingColumn { table, column }.into()
            }),
        };
        wants.iter().map(pick).collect()
    }
}
