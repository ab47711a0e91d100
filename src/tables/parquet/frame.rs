//! Tables as polars frames.

use polars_core::prelude::{
    BooleanChunked, Column, DataFrame, Float64Chunked, IdxCa, Int64Chunked, IntoColumn,
    NewChunkedArray, PlSmallStr, PolarsError, PolarsResult, StringChunked,
};

use super::TablesError;
use rooflens_query::{Answer, Value};
use rooflens_session::table::{Cell, Kind, Table};
use rooflens_session::view::{Values, ViewColumn};
use rooflens_session::{Session, StrId, Strings};

/// The session's interner as one column. Columns of interned texts are gathered from it: they share
/// its bytes, so that a kernel's name costs 16 bytes a launch and not its length.
pub(super) struct Texts(Column);

impl Texts {
    /// All strings of the interner, by id.
    pub(super) fn new(strings: &Strings) -> Self {
        let all = (0..strings.len()).map(|index| strings.get(StrId::at(index)));
        Self(StringChunked::from_iter_values(PlSmallStr::EMPTY, all).into_column())
    }

    /// The texts of ids as a column.
    fn gather(&self, name: &str, (ids, present): Values<u32>) -> PolarsResult<Column> {
        let rows = IdxCa::from_vec_validity(PlSmallStr::EMPTY, ids, present.map(|all| all.into()));
        Ok(self.0.take(&rows)?.with_name(name.into()))
    }
}

/// A table as a frame of these columns.
pub(super) fn frame(
    session: &Session,
    table: &dyn Table,
    columns: &[ViewColumn],
    texts: &Texts,
) -> Result<DataFrame, TablesError> {
    let one = |column: &ViewColumn| values(session, table, column, texts);
    let columns: PolarsResult<Vec<Column>> = columns.iter().map(one).collect();
    let frame = columns.and_then(|columns| DataFrame::new(table.rows(), columns));
    frame.map_err(|error| layout(table.name(), &error))
}

/// The error of a table that polars does not take.
pub(super) fn layout(table: &str, error: &PolarsError) -> TablesError {
    TablesError {
        table: table.to_owned(),
        reason: error.to_string(),
    }
}

fn values(
    session: &Session,
    table: &dyn Table,
    column: &ViewColumn,
    texts: &Texts,
) -> PolarsResult<Column> {
    let name = PlSmallStr::from_str(&column.name);
    let cells = || (0..table.rows()).map(|row| column.cell(session, table, row));
    Ok(match column.kind {
        Kind::Int | Kind::Row(_) | Kind::Dim3 => {
            let (values, present) = column.ints(session, table);
            Int64Chunked::from_vec_validity(name, values, present.map(|all| all.into()))
                .into_column()
        }
        Kind::Float => {
            let (values, present) = column.floats(session, table);
            Float64Chunked::from_vec_validity(name, values, present.map(|all| all.into()))
                .into_column()
        }
        Kind::Bool => {
            let bool = |cell| {
                if let Cell::Bool(value) = cell {
                    Some(value)
                } else {
                    None
                }
            };
            BooleanChunked::from_iter_options(name, cells().map(bool)).into_column()
        }
        // A column has texts of its own or those of the interner, never both.
        Kind::Text
            if matches!(
                cells().find(|cell| *cell != Cell::Missing),
                Some(Cell::Text(_))
            ) =>
        {
            let text = |cell| {
                if let Cell::Text(text) = cell {
                    Some(text)
                } else {
                    None
                }
            };
            StringChunked::from_iter_options(name, cells().map(text)).into_column()
        }
        Kind::Text => texts.gather(&column.name, column.ids(session, table))?,
    })
}

/// A plain table as a frame: a column is of truth values, of integers, of numbers, or else of texts.
pub(super) fn from_answer(name: &str, answer: &Answer) -> Result<DataFrame, TablesError> {
    let column = |(index, column): (usize, &String)| {
        let cells = || {
            answer
                .rows
                .iter()
                .map(move |row| row.get(index).and_then(Option::as_ref))
        };
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
    let all = |is: fn(&Value) -> bool| cells().flatten().all(is);
    if cells().flatten().next().is_some() && all(|value| matches!(value, Value::Bool(_))) {
        let bool = |value: &Value| *value == Value::Bool(true);
        BooleanChunked::from_iter_options(name, cells().map(|value| value.map(bool))).into_column()
    } else if all(|value| matches!(value, Value::Int(_))) {
        let int = |value: &Value| {
            if let Value::Int(int) = value {
                Some(*int)
            } else {
                None
            }
        };
        Int64Chunked::from_iter_options(name, cells().map(|value| value.and_then(int)))
            .into_column()
    } else if all(|value| value.as_float().is_some()) {
        let floats = cells().map(|value| value.and_then(Value::as_float));
        Float64Chunked::from_iter_options(name, floats).into_column()
    } else {
        let texts = cells().map(|value| value.map(Value::to_string));
        StringChunked::from_iter_options(name, texts).into_column()
    }
}
