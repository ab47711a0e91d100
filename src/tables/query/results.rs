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
    connection.execute_batch(&format!("attach ':memory:' as {SCHEMA}"))?;
    for (dataset, table) in datasets.iter().zip(tables) {
        let row = |row: &Vec<Cell>| row.iter().map(Value::of).collect();
        copy(connection, table, dataset.rows.iter().map(row))?;
    }
    Ok(())
}

/// Makes a table and copies its rows; gives back their number.
pub(super) fn copy(
    connection: &Connection,
    table: &Described,
    rows: impl Iterator<Item = Vec<Option<Value>>>,
) -> Result<usize> {
    let mut columns = Vec::new();
    for column in &table.columns {
        let kind = vtab::declared(column.kind);
        columns.push(format!("\"{}\" {kind}", column.name));
    }
    // A name may be a word of SQL, such as `between`.
    let name = match table.name.split_once('.') {
        Some((schema, name)) => format!("{schema}.\"{name}\""),
        None => format!("\"{}\"", table.name),
    };
    let columns = columns.join(", ");
    connection.execute_batch(&format!("begin; create table {name}({columns})"))?;
    let places = vec!["?"; table.columns.len()].join(", ");
    let mut insert = connection.prepare(&format!("insert into {name} values ({places})"))?;
    let mut count = 0;
    for row in rows {
        insert.execute(params_from_iter(row.into_iter().map(stored)))?;
        count += 1;
    }
    drop(insert);
    connection.execute_batch("commit")?;
    Ok(count)
}

fn stored(value: Option<Value>) -> SqlValue {
    match value {
        Some(Value::Bool(holds)) => SqlValue::Integer(holds.into()),
        Some(Value::Int(value)) => SqlValue::Integer(value),
        Some(Value::Float(value)) => SqlValue::Real(value),
        Some(Value::Text(text)) => SqlValue::Text(text),
        None => SqlValue::Null,
    }
}
