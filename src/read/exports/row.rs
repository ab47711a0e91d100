//! Rows with the columns that a reader asks for.

use rooflens_session::{MAX_DURATION, MAX_TIME, Ns};
use rooflens_sqlite_pages::{Record, Value};

/// A column that a scan asks for.
#[derive(Clone, Copy)]
pub enum Want {
    /// The table is useless without it.
    Need(&'static str),
    /// The first of these that the table has; `NULL` where it has none.
    May(&'static [&'static str]),
}

/// A column that a table lacks and cannot be read without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} of {table} is missing")]
pub struct MissingColumn {
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
}

/// The place of each wanted column among the columns of a table.
///
/// # Errors
/// The table lacks a needed one.
pub fn pick(
    table: &str,
    columns: &[String],
    wants: &[Want],
) -> Result<Vec<Option<usize>>, MissingColumn> {
    let find = |name: &str| columns.iter().position(|column| column == name);
    let mut picks = Vec::new();
    for want in wants {
        picks.push(match want {
            Want::May(names) => names.iter().find_map(|name| find(name)),
            Want::Need(name) => Some(find(name).ok_or_else(|| MissingColumn {
                table: table.to_owned(),
                column: (*name).to_owned(),
            })?),
        });
    }
    Ok(picks)
}

/// One row of a scan.
pub struct Row<'a> {
    /// Its values.
    pub cells: Cells<'a>,
    /// The columns that are wanted.
    pub wants: &'a [Want],
}

/// The source of a row.
pub enum Cells<'a> {
    /// A record of the file.
    Record {
        /// The record.
        record: &'a Record<'a>,
        /// The place of each wanted column.
        picks: &'a [Option<usize>],
        /// The column whose value is the rowid, which the record does not repeat.
        rowid: Option<usize>,
    },
    /// Another source.
    Selected(&'a dyn Selected),
}

/// Values in the order of the wants.
pub trait Selected {
    /// The value of a wanted column.
    fn value(&self, index: usize) -> Value<'_>;
}

/// Why a row makes no sense: the column and what stands there.
pub type RowError = String;

/// Rejected rows of a scan.
#[derive(Debug, Default)]
pub struct BadRows {
    first: Option<String>,
    count: u64,
}

impl BadRows {
    /// The first bad row's reason, and how many there were.
    pub fn summary(&self) -> Option<(&str, u64)> {
        self.first.as_deref().map(|first| (first, self.count))
    }

    /// What is said of them, and how many there were.
    pub fn message(&self, table: &str) -> Option<(String, u64)> {
        let (first, count) = self.summary()?;
        let message = format!("rows of {table} that make no sense are skipped; the first: {first}");
        Some((message, count))
    }

    /// Adds one.
    pub fn add(&mut self, rowid: i64, error: &RowError) {
        self.first
            .get_or_insert_with(|| format!("row {rowid}, {error}"));
        self.count += 1;
    }

    /// Adds those of the next part of the table.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

impl Row<'_> {
    /// What stands in column `index`.
    // A value that is returned in memory is read back before it is written.
    #[inline(always)]
    pub fn value(&self, index: usize) -> Value<'_> {
        match self.cells {
            Cells::Record {
                record,
                picks,
                rowid,
            } => match picks.get(index) {
                Some(&Some(column)) if rowid == Some(column) => Value::Int(record.rowid),
                Some(&Some(column)) => record.value(column),
                _ => Value::Null,
            },
            Cells::Selected(row) => row.value(index),
        }
    }

    /// The integer in column `index`, or `None` for `NULL`.
    #[inline]
    pub fn maybe(&self, index: usize) -> Result<Option<i64>, RowError> {
        match self.value(index) {
            Value::Int(value) => Ok(Some(value)),
            Value::Null => Ok(None),
            _ => self.whole(index),
        }
    }

    /// A real that is a whole number passes for an integer.
    #[cold]
    fn whole(&self, index: usize) -> Result<Option<i64>, RowError> {
        match self.value(index) {
            Value::Real(real) if real.trunc() == real && real.abs() < 9e15 => Ok(Some(real as i64)),
            _ => Err(self.complaint(index, &self.shown(index))),
        }
    }

    /// The integer in column `index`.
    #[inline]
    pub fn int(&self, index: usize) -> Result<i64, RowError> {
        self.maybe(index)?
            .ok_or_else(|| self.complaint(index, "NULL"))
    }

    /// The time in column `index`.
    #[inline]
    pub fn time(&self, index: usize) -> Result<Ns, RowError> {
        self.int(index).map(Ns)
    }

    /// The time in column `index`, or `None` for `NULL`.
    #[inline]
    pub fn maybe_time(&self, index: usize) -> Result<Option<Ns>, RowError> {
        Ok(self.maybe(index)?.map(Ns))
    }

    /// The integer in column `index`, which must fit the type.
    #[inline]
    pub fn fit<T: TryFrom<i64>>(&self, index: usize) -> Result<T, RowError> {
        self.maybe_fit(index)?
            .ok_or_else(|| self.complaint(index, "NULL"))
    }

    /// The same, with `NULL` allowed.
    #[inline]
    pub fn maybe_fit<T: TryFrom<i64>>(&self, index: usize) -> Result<Option<T>, RowError> {
        let convert =
            |value| T::try_from(value).map_err(|_| self.complaint(index, &value.to_string()));
        self.maybe(index)?.map(convert).transpose()
    }

    /// The text in column `index`, or `None` for anything else.
    #[inline]
    pub fn text(&self, index: usize) -> Option<&str> {
        self.value(index).text()
    }

    /// The blob in column `index`, or `None` for anything else.
    #[inline]
    pub fn blob(&self, index: usize) -> Option<&[u8]> {
        match self.value(index) {
            Value::Blob(blob) => Some(blob),
            _ => None,
        }
    }

    /// The start and end in columns 0 and 1; an end before the start makes no sense.
    #[inline]
    pub fn interval(&self) -> Result<(Ns, Ns), RowError> {
        let (start, end) = (self.time(0)?, self.time(1)?);
        if end < start {
            return Err(format!("end {} lies before start {}", end.0, start.0));
        }
        if start < -MAX_TIME || end > MAX_TIME || end - start > MAX_DURATION {
            return Err(format!("{} to {} is no time of a capture", start.0, end.0));
        }
        Ok((start, end))
    }

    fn shown(&self, index: usize) -> String {
        match self.value(index) {
            Value::Text(_) => format!("the text {:?}", self.text(index).unwrap_or("(not UTF-8)")),
            Value::Int(value) => value.to_string(),
            Value::Real(value) => value.to_string(),
            Value::Blob(_) => "a blob".to_owned(),
            Value::Null => "NULL".to_owned(),
        }
    }

    #[cold]
    fn complaint(&self, index: usize, found: &str) -> RowError {
        let name = match self.wants.get(index) {
            Some(Want::Need(name)) => name,
            Some(Want::May(names)) => names.first().copied().unwrap_or("?"),
            None => "?",
        };
        format!("{name} is {}", found.chars().take(80).collect::<String>())
    }
}
