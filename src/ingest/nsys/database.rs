//! A hostile SQLite file, opened so that it can do nothing but be read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::ingest::{IngestError, IngestErrorKind};

/// Rows a chunk of a parallel scan holds.
const CHUNK_ROWS: i64 = 1 << 17;

/// Longest text or blob that is read.
const MAX_LENGTH: i32 = 64 << 20;

/// An export and what is in it.
pub(super) struct Database {
    path: PathBuf,
    tables: BTreeMap<String, Vec<String>>,
}

/// A column that a scan asks for.
#[derive(Clone, Copy)]
pub(super) enum Want {
    /// The table is useless without it.
    Need(&'static str),
    /// The first of these that the table has; `NULL` where it has none.
    May(&'static [&'static str]),
}

/// One row of a scan.
pub(super) struct Row<'a> {
    row: &'a rusqlite::Row<'a>,
    wants: &'a [Want],
}

/// Why a row makes no sense: the column and what stands there.
pub(super) type RowError = String;

/// Rows of a scan that were left out.
#[derive(Debug, Default)]
pub(super) struct BadRows {
    first: Option<String>,
    count: u64,
}

impl BadRows {
    /// The first bad row's reason, and how many there were.
    pub(super) fn summary(&self) -> Option<(&str, u64)> {
        self.first.as_deref().map(|first| (first, self.count))
    }

    fn add(&mut self, error: RowError) {
        self.first.get_or_insert(error);
        self.count += 1;
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

impl Database {
    /// Opens the file and lists tables and columns. Views are not tables: tools leave views of their own.
    pub(super) fn open(path: &Path) -> Result<Self, IngestError> {
        let connection = connect(path)?;
        let mut tables = BTreeMap::new();
        let mut list = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let names = list.query_map([], |row| row.get::<_, String>(0))?;
        for name in names.collect::<Result<Vec<_>, _>>()? {
            let mut info = connection.prepare("SELECT name FROM pragma_table_info(?)")?;
            let columns = info.query_map([&name], |row| row.get::<_, String>(0))?;
            tables.insert(name, columns.collect::<Result<_, _>>()?);
        }
        Ok(Self { path: path.to_owned(), tables })
    }

    /// Whether the file has this table.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Reads a table in parallel by rowid ranges; chunks come back in rowid order.
    ///
    /// `each` is called once a row. A row for which it fails is left out and counted. A table that is not
    /// there has no rows.
    ///
    /// # Errors
    /// When a needed column is missing or SQLite cannot read the file.
    pub(super) fn scan<T: Default + Send>(
        &self,
        table: &str,
        wants: &[Want],
        each: impl Fn(&mut T, &Row<'_>) -> Result<(), RowError> + Sync,
    ) -> Result<(Vec<T>, BadRows), IngestError> {
        let Some(columns) = self.tables.get(table) else {
            return Ok((Vec::new(), BadRows::default()));
        };
        let sql = select(table, columns, wants)?;
        let scan_range = |(low, high): (i64, i64)| -> Result<(T, BadRows), IngestError> {
            let (mut out, mut bad) = (T::default(), BadRows::default());
            let connection = self.locked_connection()?;
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([low, high])?;
            while let Some(row) = rows.next()? {
                if let Err(error) = each(&mut out, &Row { row, wants }) {
                    bad.add(error);
                }
            }
            Ok((out, bad))
        };
        let chunks: Vec<_> =
            self.rowid_ranges(table)?.into_par_iter().map(scan_range).collect::<Result<_, _>>()?;
        let mut bad_rows = BadRows::default();
        let mut parts = Vec::with_capacity(chunks.len());
        for (part, bad) in chunks {
            parts.push(part);
            bad_rows.merge(bad);
        }
        Ok((parts, bad_rows))
    }

    /// Half-open rowid ranges (low, high] that cover the table.
    fn rowid_ranges(&self, table: &str) -> Result<Vec<(i64, i64)>, IngestError> {
        let connection = self.locked_connection()?;
        let bound = |end: &str| -> rusqlite::Result<Option<i64>> {
            connection.query_row(
                &format!("SELECT {end}(rowid) FROM {}", quoted(table)),
                [],
                |row| row.get(0),
            )
        };
        let (Some(low), Some(high)) = (bound("min")?, bound("max")?) else { return Ok(Vec::new()) };
        // Rowids of an export are dense; a hostile file's need not be, so the number of chunks is bounded.
        let low = low.saturating_sub(1);
        let chunks = (high.saturating_sub(low) / CHUNK_ROWS).clamp(0, 1 << 16) + 1;
        let step = high.saturating_sub(low) / chunks + 1;
        let edge = |chunk: i64| low.saturating_add(step.saturating_mul(chunk)).min(high);
        Ok((0..chunks).map(|chunk| (edge(chunk), edge(chunk + 1))).filter(|(a, b)| a < b).collect())
    }

    fn locked_connection(&self) -> Result<Connection, IngestError> {
        let mut connection = connect(&self.path)?;
        lock(&mut connection)?;
        Ok(connection)
    }
}

impl Row<'_> {
    /// The integer in column `index`, or `None` for `NULL`.
    pub(super) fn maybe(&self, index: usize) -> Result<Option<i64>, RowError> {
        match self.row.get_ref(index) {
            Ok(ValueRef::Integer(value)) => Ok(Some(value)),
            Ok(ValueRef::Null) => Ok(None),
            Ok(ValueRef::Real(value)) if libm::trunc(value) == value && value.abs() < 9e15 => {
                Ok(Some(value as i64))
            }
            other => Err(self.complaint(index, &format!("{other:?}"))),
        }
    }

    /// The integer in column `index`.
    pub(super) fn int(&self, index: usize) -> Result<i64, RowError> {
        self.maybe(index)?.ok_or_else(|| self.complaint(index, "NULL"))
    }

    /// The integer in column `index`, which must fit the type.
    pub(super) fn fit<T: TryFrom<i64>>(&self, index: usize) -> Result<T, RowError> {
        let value = self.int(index)?;
        T::try_from(value).map_err(|_| self.complaint(index, &value.to_string()))
    }

    /// The same, with `NULL` allowed.
    pub(super) fn maybe_fit<T: TryFrom<i64>>(&self, index: usize) -> Result<Option<T>, RowError> {
        let convert =
            |value| T::try_from(value).map_err(|_| self.complaint(index, &value.to_string()));
        self.maybe(index)?.map(convert).transpose()
    }

    /// The text in column `index`, or `None` for anything else.
    pub(super) fn text(&self, index: usize) -> Option<&str> {
        match self.row.get_ref(index) {
            Ok(ValueRef::Text(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The start and end in columns 0 and 1; an end before the start makes no sense.
    pub(super) fn interval(&self) -> Result<(i64, i64), RowError> {
        let (start, end) = (self.int(0)?, self.int(1)?);
        if end < start || end.checked_sub(start).is_none() {
            return Err(format!("end {end} lies before start {start}"));
        }
        Ok((start, end))
    }

    fn complaint(&self, index: usize, found: &str) -> RowError {
        let name = match self.wants.get(index) {
            Some(Want::Need(name)) => name,
            Some(Want::May(names)) => names.first().copied().unwrap_or("?"),
            None => "?",
        };
        format!("{name} is {}", found.chars().take(80).collect::<String>())
    }
}

/// A read-only connection to a file that is taken as immutable: no lock, no journal, no shared memory.
fn connect(path: &Path) -> Result<Connection, IngestError> {
    let uri = format!("file:{}?mode=ro&immutable=1", percent_encoded(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(uri, flags)?;
    for (option, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(option, on)?;
    }
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON;")?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_LENGTH),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 16),
        (Limit::SQLITE_LIMIT_COLUMN, 512),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 32),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 4),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(connection)
}

/// From here on the connection can select and nothing else.
fn lock(connection: &mut Connection) -> Result<(), IngestError> {
    let allow = |context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Function { .. } => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    };
    connection.authorizer(Some(allow))?;
    Ok(())
}

fn select(table: &str, columns: &[String], wants: &[Want]) -> Result<String, IngestError> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    let mut list = Vec::with_capacity(wants.len());
    for want in wants {
        list.push(match want {
            Want::Need(name) if has(name) => quoted(name),
            Want::Need(name) => {
                let (table, column) = (table.to_owned(), (*name).to_owned());
                return Err(IngestErrorKind::MissingColumn { table, column }.into());
            }
            Want::May(names) => {
                names.iter().find(|name| has(name)).map_or("NULL".to_owned(), |name| quoted(name))
            }
        });
    }
    let list = list.join(", ");
    Ok(format!("SELECT {list} FROM {} WHERE rowid > ?1 AND rowid <= ?2", quoted(table)))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The path as the path of a `file:` URI.
fn percent_encoded(path: &Path) -> String {
    let mut out = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                out.push(char::from(*byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
