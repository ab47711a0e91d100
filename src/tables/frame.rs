//! Tables as polars frames and back.

use polars::prelude::{
    AnyValue, Column, DataFrame, Float64Chunked, IdxCa, Int64Chunked, IntoColumn, NewChunkedArray,
    PlSmallStr, PolarsError, PolarsResult, StringChunked,
};

use super::TablesError;
use super::answer::{Answer, Value};
use crate::model::table::{Table, Values};
use crate::model::{StrId, Strings};

/// The session's interner as one column. Columns of interned texts are gathered from it: they share
/// its bytes, so that a kernel's name costs 16 bytes a launch and not its length.
pub(super) struct Texts(Column);

impl Texts {
    /// All strings of the interner, by id.
    pub(super) fn new(strings: &Strings) -> Self {
        let all = (0..strings.len()).map(|index| strings.get(StrId::at(index)));
        Self(StringChunked::from_iter_values(PlSmallStr::EMPTY, all).into_column())
    }

    /// The texts of `ids` as a column.
    pub(super) fn gather(
        &self,
        name: &str,
        ids: impl Iterator<Item = Option<StrId>>,
    ) -> PolarsResult<Column> {
        // An id of another interner reads as the empty string, as in `Strings::get`.
        let row = |id: StrId| if id.index() < self.0.len() { id.0 } else { 0 };
        let rows = IdxCa::from_iter_options(PlSmallStr::EMPTY, ids.map(|id| id.map(row)));
        Ok(self.0.take(&rows)?.with_name(name.into()))
    }
}

/// A table as a frame: `id`, then its columns in declaration order.
pub(super) fn frame(table: &dyn Table, texts: &Texts) -> Result<DataFrame, TablesError> {
    let fallible = || {
        let mut columns = vec![row_numbers(table.rows())];
        for column in table.columns() {
            columns.push(values(column.name, column.values, texts)?);
        }
        DataFrame::new(table.rows(), columns)
    };
    fallible().map_err(|error| layout(table.name(), &error))
}

/// The error of a table that polars does not take.
pub(super) fn layout(table: &str, error: &PolarsError) -> TablesError {
    TablesError::Layout { table: table.to_owned(), reason: error.to_string() }
}

fn row_numbers(rows: usize) -> Column {
    Int64Chunked::from_iter_values("id".into(), 0..rows as i64).into_column()
}

fn values(name: &str, values: Values<'_>, texts: &Texts) -> PolarsResult<Column> {
    Ok(match values {
        Values::Int(values) => Int64Chunked::from_iter_options(name.into(), values).into_column(),
        Values::Float(values) => {
            Float64Chunked::from_iter_options(name.into(), values).into_column()
        }
        Values::Text(values) => StringChunked::from_iter_options(name.into(), values).into_column(),
        Values::Interned(ids) => texts.gather(name, ids)?,
    })
}

/// A plain table as a frame: a column is of integers, else of numbers, else of texts.
pub(super) fn from_answer(name: &str, answer: &Answer) -> Result<DataFrame, TablesError> {
    let column = |(index, column): (usize, &String)| {
        let cells = || answer.rows.iter().map(move |row| row.get(index).and_then(Option::as_ref));
        plain_column(column, &cells)
    };
    let columns = answer.columns.iter().enumerate().map(column).collect();
    DataFrame::new(answer.rows.len(), columns).map_err(|error| layout(name, &error))
}

fn plain_column<'a, I>(name: &str, cells: &dyn Fn() -> I) -> Column
where
    I: Iterator<Item = Option<&'a Value>>,
{
    let name = PlSmallStr::from_str(name);
    if cells().flatten().all(|value| matches!(value, Value::Int(_) | Value::Bool(_))) {
        let ints = cells().map(|value| value.and_then(Value::as_int));
        Int64Chunked::from_iter_options(name, ints).into_column()
    } else if cells().flatten().all(|value| value.as_float().is_some()) {
        let floats = cells().map(|value| value.and_then(Value::as_float));
        Float64Chunked::from_iter_options(name, floats).into_column()
    } else {
        let texts = cells().map(|value| value.map(Value::to_string));
        StringChunked::from_iter_options(name, texts).into_column()
    }
}

/// A frame as a plain table.
pub(super) fn to_answer(frame: &DataFrame) -> Answer {
    let columns = frame.get_column_names_owned().iter().map(ToString::to_string).collect();
    let mut rows = vec![Vec::with_capacity(frame.width()); frame.height()];
    for column in frame.columns() {
        let column = column.as_materialized_series().rechunk();
        for (row, value) in rows.iter_mut().zip(column.iter()) {
            row.push(plain_value(&value));
        }
    }
    Answer { columns, rows }
}

fn plain_value(value: &AnyValue<'_>) -> Option<Value> {
    match value {
        AnyValue::Null => None,
        AnyValue::Boolean(value) => Some(Value::Bool(*value)),
        AnyValue::String(text) => Some(Value::Text((*text).to_owned())),
        AnyValue::StringOwned(text) => Some(Value::Text(text.to_string())),
        value if value.is_integer() => Some(match value.extract::<i64>() {
            Some(int) => Value::Int(int),
            None => Value::Text(value.to_string()),
        }),
        value if value.is_float() => value.extract::<f64>().map(Value::Float),
        other => Some(Value::Text(other.to_string())),
    }
}
