//! An SQLite export that is made of another export of the same report, for the importer to read.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::{IngestError, IngestErrorKind};
use rooflens_session::budget::{INFLATED_FLOOR, INFLATED_RATIO, Inflation};

/// The value of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// An integer.
    Int(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Bytes charged for a row in addition to its cells, mostly for the time it takes.
const ROW_BYTES: u64 = 64;

/// An export that is being written. Its tables have the columns that they are given, without types.
pub struct MadeExport {
    connection: Connection,
    inflation: Inflation,
}

impl MadeExport {
    /// An empty one at `path`, where nothing is, whose cells take from what the input may inflate to.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, inflation: &Inflation) -> Result<Self, IngestError> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8192; BEGIN",
        )?;
        Ok(Self {
            connection,
            inflation: inflation.clone(),
        })
    }

    /// Adds a table.
    ///
    /// # Errors
    /// When the names are none that SQLite takes, or one comes twice.
    pub fn table(&self, table: &str, columns: &[&str]) -> Result<(), IngestError> {
        let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let sql = format!("CREATE TABLE {} ({})", quoted(table), columns.join(", "));
        Ok(self.connection.execute_batch(&sql)?)
    }

    /// Adds a row, a cell for each column of the table.
    ///
    /// # Errors
    /// When the row takes more than the input may, or cannot be written.
    pub fn row(&self, table: &str, cells: &[Cell<'_>]) -> Result<(), IngestError> {
        if !self
            .inflation
            .take(cells.iter().map(Cell::bytes).sum::<u64>() + ROW_BYTES)
        {
            return Err(beyond().into());
        }
        let places = vec!["?"; cells.len()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({places})", quoted(table));
        self.connection
            .prepare_cached(&sql)?
            .execute(params_from_iter(cells))?;
        Ok(())
    }

    /// Takes back a table of which not all could be written.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn forget(&self, table: &str) -> Result<(), IngestError> {
        Ok(self
            .connection
            .execute_batch(&format!("DROP TABLE IF EXISTS {}", quoted(table)))?)
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(self) -> Result<(), IngestError> {
        Ok(self.connection.execute_batch("COMMIT")?)
    }
}

impl Cell<'_> {
    /// Bytes that it takes at most, with what stands before it in a row.
    const fn bytes(&self) -> u64 {
        match self {
            Self::Null | Self::Int(_) | Self::Real(_) => 9,
            Self::Text(text) => text.len() as u64 + 9,
            Self::Blob(blob) => blob.len() as u64 + 9,
        }
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

/// The error of an input of which an export would take more than it may inflate to.
pub(super) fn beyond() -> IngestErrorKind {
    IngestErrorKind::Unsupported(format!(
        "its rows take more than {} MiB and {INFLATED_RATIO} bytes for each byte of the input",
        INFLATED_FLOOR >> 20
    ))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
