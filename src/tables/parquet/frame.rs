//! Tables as polars frames.

use std::borrow::Cow;
use std::ops::Range;

use polars_core::prelude::{
    BooleanChunked, Column, DataFrame, Float64Chunked, IdxCa, Int64Chunked, IntoColumn,
    NewChunkedArray, PlSmallStr, PolarsError, PolarsResult, StringChunked,
};

use super::TablesError;
use rooflens_document::Dataset;
use rooflens_query::{Answer, Value};
use rooflens_session::table::{Cell, Kind, Table};
use rooflens_session::view::{Values, ViewColumn};
use rooflens_session::{Session, Strings};

/// The session's interner as one column. Columns of interned texts are gathered from it: they share
/// its bytes, so that a kernel's name costs 16 bytes a launch and not its length.
pub(super) struct Texts(Column);

impl Texts {
    /// All strings of the interner, by id.
    pub(super) fn new(strings: &Strings) -> Self {
        let texts = StringChunked::from_iter_values(PlSmallStr::EMPTY, strings.iter());
        Self(texts.into_column())
    }

    /// The texts of ids as a column.
    fn gather(&self, name: &str, (ids, present): Values<u32>) -> PolarsResult<Column> {
        let rows = IdxCa::from_vec_validity(PlSmallStr::EMPTY, ids, present.map(Into::into));
        Ok(self.0.take(&rows)?.with_name(name.into()))
    }
}

/// Rows of a table as a frame of these columns.
pub(super) fn frame(
    session: &Session,
    table: &dyn Table,
    (columns, rows): (&[ViewColumn], Range<usize>),
    texts: &Texts,
) -> Result<DataFrame, TablesError> {
    let frame = || {
        let mut values = Vec::new();
        for column in columns {
            values.push(column_of(session, table, (column, rows.clone()), texts)?);
        }
        DataFrame::new(rows.len(), values)
    };
    frame().map_err(|error| layout(table.name(), &error))
}

/// The error of a table that polars does not take.
pub(super) fn layout(table: &str, error: &PolarsError) -> TablesError {
    TablesError {
        table: table.to_owned(),
        reason: error.to_string(),
    }
}

fn column_of(
    session: &Session,
    table: &dyn Table,
    (column, rows): (&ViewColumn, Range<usize>),
    texts: &Texts,
) -> PolarsResult<Column> {
    let name = PlSmallStr::from_str(&column.name);
    let cells = || rows.clone().map(|row| column.cell(session, table, row));
    Ok(match column.kind {
        Kind::Int | Kind::Row(_) | Kind::Dim3 => {
            let (values, present) = column.ints(session, table, rows);
            Int64Chunked::from_vec_validity(name, values, present.map(Into::into)).into_column()
        }
        Kind::Float => {
            let (values, present) = column.floats(session, table, rows);
            Float64Chunked::from_vec_validity(name, values, present.map(Into::into)).into_column()
        }
        Kind::Bool => BooleanChunked::from_iter_options(name, cells().map(truth)).into_column(),
        // A column has texts of its own or those of the interner, never both.
        Kind::Text if has_texts(cells()) => {
            StringChunked::from_iter_options(name, cells().map(text)).into_column()
        }
        Kind::Text => texts.gather(&column.name, column.ids(session, table, rows))?,
    })
}

fn has_texts<'a>(mut cells: impl Iterator<Item = Cell<'a>>) -> bool {
    let first = cells.find(|cell| *cell != Cell::Missing);
    matches!(first, Some(Cell::Text(_)))
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "columns call it with the cells of their rows"
)]
fn truth(cell: Cell<'_>) -> Option<bool> {
    match cell {
        Cell::Bool(value) => Some(value),
        _ => None,
    }
}

fn text(cell: Cell<'_>) -> Option<Cow<'_, str>> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

/// A data set as a frame.
pub(super) fn of_dataset(dataset: &Dataset) -> Result<DataFrame, TablesError> {
    let names = dataset.columns.iter().map(|column| column.id.to_owned());
    let mut answer = Answer {
        columns: names.collect(),
        ..Answer::default()
    };
    for row in &dataset.rows {
        answer.rows.push(row.iter().map(Value::of).collect());
    }
    from_answer(dataset.id, &answer)
}

/// A plain table as a frame: a column is of truth values, of integers, of numbers, or else of texts.
pub(super) fn from_answer(name: &str, answer: &Answer) -> Result<DataFrame, TablesError> {
    let mut columns = Vec::new();
    for (index, column) in answer.columns.iter().enumerate() {
        let mut values = Vec::with_capacity(answer.rows.len());
        for row in &answer.rows {
            values.push(row.get(index).and_then(Option::as_ref));
        }
        columns.push(plain_column(column, &values));
    }
    DataFrame::new(answer.rows.len(), columns).map_err(|error| layout(name, &error))
}

fn plain_column(name: &str, values: &[Option<&Value>]) -> Column {
    let name = PlSmallStr::from_str(name);
    let present = || values.iter().copied().flatten();
    let is_empty = present().next().is_none();
    let values = values.iter().copied();
    if !is_empty && present().all(is_truth) {
        let truths = values.map(|value| value.map(|value| *value == Value::Bool(true)));
        BooleanChunked::from_iter_options(name, truths).into_column()
    } else if present().all(is_integer) {
        let integers = values.map(|value| value.and_then(integer));
        Int64Chunked::from_iter_options(name, integers).into_column()
    } else if present().all(is_number) {
        let numbers = values.map(|value| value.and_then(Value::as_float));
        Float64Chunked::from_iter_options(name, numbers).into_column()
    } else {
        let texts = values.map(|value| value.map(Value::to_string));
        StringChunked::from_iter_options(name, texts).into_column()
    }
}

const fn is_truth(value: &Value) -> bool {
    matches!(value, Value::Bool(_))
}

const fn is_integer(value: &Value) -> bool {
    matches!(value, Value::Int(_))
}

const fn is_number(value: &Value) -> bool {
    value.as_float().is_some()
}

const fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(integer) => Some(*integer),
        _ => None,
    }
}
