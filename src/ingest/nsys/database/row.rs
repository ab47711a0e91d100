//! Rows as importers see them.

use super::record::Value;
use crate::model::{MAX_DURATION, MAX_TIME};

/// A column that a scan asks for.
#[derive(Clone, Copy)]
pub(in crate::ingest::nsys) enum Want {
    /// The table is useless without it.
    Need(&'static str),
    /// The first of these that the table has; `NULL` where it has none.
    May(&'static [&'static str]),
}

/// One row of a scan.
pub(in crate::ingest::nsys) struct Row<'a> {
    pub(super) values: &'a [Value],
    /// What texts and blobs point into.
    pub(super) bytes: &'a [u8],
    pub(super) wants: &'a [Want],
}

/// Why a row makes no sense: the column and what stands there.
pub(in crate::ingest::nsys) type RowError = String;

/// Rows of a scan that were left out.
#[derive(Debug, Default)]
pub(in crate::ingest::nsys) struct BadRows {
    first: Option<String>,
    count: u64,
}

impl BadRows {
    /// The first bad row's reason, and how many there were.
    pub(in crate::ingest::nsys) fn summary(&self) -> Option<(&str, u64)> {
        self.first.as_deref().map(|first| (first, self.count))
    }

    pub(super) fn add(&mut self, rowid: i64, error: &RowError) {
        self.first.get_or_insert_with(|| format!("row {rowid}, {error}"));
        self.count += 1;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

impl Row<'_> {
    /// The integer in column `index`, or `None` for `NULL`.
    #[inline]
    pub(in crate::ingest::nsys) fn maybe(&self, index: usize) -> Result<Option<i64>, RowError> {
        match self.values.get(index) {
            Some(Value::Int(value)) => Ok(Some(*value)),
            Some(Value::Null) => Ok(None),
            _ => self.whole(index),
        }
    }

    /// A real that is a whole number passes for an integer.
    #[cold]
    fn whole(&self, index: usize) -> Result<Option<i64>, RowError> {
        match self.values.get(index) {
            Some(Value::Real(real)) if libm::trunc(*real) == *real && real.abs() < 9e15 => {
                Ok(Some(*real as i64))
            }
            _ => Err(self.complaint(index, &self.shown(index))),
        }
    }

    /// The integer in column `index`.
    #[inline]
    pub(in crate::ingest::nsys) fn int(&self, index: usize) -> Result<i64, RowError> {
        self.maybe(index)?.ok_or_else(|| self.complaint(index, "NULL"))
    }

    /// The integer in column `index`, which must fit the type.
    #[inline]
    pub(in crate::ingest::nsys) fn fit<T>(&self, index: usize) -> Result<T, RowError>
    where
        T: TryFrom<i64>,
    {
        let value = self.int(index)?;
        T::try_from(value).map_err(|_| self.complaint(index, &value.to_string()))
    }

    /// The same, with `NULL` allowed.
    #[inline]
    pub(in crate::ingest::nsys) fn maybe_fit<T>(&self, index: usize) -> Result<Option<T>, RowError>
    where
        T: TryFrom<i64>,
    {
        let convert =
            |value| T::try_from(value).map_err(|_| self.complaint(index, &value.to_string()));
        self.maybe(index)?.map(convert).transpose()
    }

    /// The text in column `index`, or `None` for anything else.
    pub(in crate::ingest::nsys) fn text(&self, index: usize) -> Option<&str> {
        let Some(Value::Text { start, end }) = self.values.get(index) else { return None };
        std::str::from_utf8(self.bytes.get(*start as usize..*end as usize)?).ok()
    }

    /// The blob in column `index`, or `None` for anything else.
    pub(in crate::ingest::nsys) fn blob(&self, index: usize) -> Option<&[u8]> {
        let Some(Value::Blob { start, end }) = self.values.get(index) else { return None };
        self.bytes.get(*start as usize..*end as usize)
    }

    /// The start and end in columns 0 and 1; an end before the start makes no sense.
    #[inline]
    pub(in crate::ingest::nsys) fn interval(&self) -> Result<(i64, i64), RowError> {
        let (start, end) = (self.int(0)?, self.int(1)?);
        if end < start {
            return Err(format!("end {end} lies before start {start}"));
        }
        if start < -MAX_TIME || end > MAX_TIME || end - start > MAX_DURATION {
            return Err(format!("{start} to {end} is no time of a capture"));
        }
        Ok((start, end))
    }

    fn shown(&self, index: usize) -> String {
        match self.values.get(index) {
            Some(Value::Text { .. }) => {
                format!("the text {:?}", self.text(index).unwrap_or("(not UTF-8)"))
            }
            Some(Value::Int(value)) => value.to_string(),
            Some(Value::Real(value)) => value.to_string(),
            Some(Value::Blob { .. }) => "a blob".to_owned(),
            Some(Value::Null) | None => "NULL".to_owned(),
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
