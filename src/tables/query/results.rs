//! Data sets of a report as tables of the schema `report`.

use rooflens_document::{Cell, Dataset, Quantity};
use rooflens_session::table::Kind;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Result, params_from_iter};

use super::{Described, DescribedColumn, Value, vtab};

/// Schema of the tables. Without it, a name means the table of the session if there is one.
const SCHEMA: &str = "report";

pub(super) fn described(dataset: &Dataset) -> Described {
    let mut columns = Vec::new();
    for (index, column) in dataset.columns.iter().enumerate() {
        columns.push(DescribedColumn {
            name: column.id.to_owned(),
            doc: column.title.to_owned(),
            kind: kind(dataset, index),
            unit: Quantity::new(0.0, column.unit).base(),
        });
    }
    Described {
        name: format!("{SCHEMA}.{}", dataset.id),
        doc: dataset.title.clone(),
        rows: dataset.rows.len(),
        columns,
    }
}

/// What the first cell of a column is that is not missing.
fn kind(dataset: &Dataset, column: usize) -> Kind {
    let cells = dataset.rows.iter().filter_map(|row| row.get(column));
    match cells.into_iter().find_map(Value::of) {
        Some(Value::Bool(_)) => Kind::Bool,
        Some(Value::Int(_)) => Kind::Int,
        Some(Value::Float(_)) => Kind::Float,
        Some(Value::Text(_)) | None => Kind::Text,
    }
}

/// Copies the data sets, of which these are the tables: they are small.
pub(super) fn add(
    connection: &Connection,
    datasets: &[Dataset],
    tables: &[Described],
) -> Result<()> {
    connection.execute_batch(&format!("attach ':memory:' as {SCHEMA}; begin"))?;
    for (dataset, table) in datasets.iter().zip(tables) {
        let mut columns = Vec::new();
        for column in &table.columns {
            columns.push(format!(
                "\"{}\" {}",
                column.name,
                vtab::declared(column.kind)
            ));
        }
        // A name may be a word of SQL, such as `between`.
        let name = format!("{SCHEMA}.\"{}\"", dataset.id);
        let columns = columns.join(", ");
        connection.execute_batch(&format!("create table {name}({columns})"))?;
        let places = vec!["?"; table.columns.len()].join(", ");
        let mut insert = connection.prepare(&format!("insert into {name} values ({places})"))?;
        for row in &dataset.rows {
            insert.execute(params_from_iter(row.iter().map(stored)))?;
        }
    }
    connection.execute_batch("commit")
}

fn stored(cell: &Cell) -> SqlValue {
    match Value::of(cell) {
        Some(Value::Bool(holds)) => SqlValue::Integer(holds.into()),
        Some(Value::Int(value)) => SqlValue::Integer(value),
        Some(Value::Float(value)) => SqlValue::Real(value),
        Some(Value::Text(text)) => SqlValue::Text(text),
        None => SqlValue::Null,
    }
}
