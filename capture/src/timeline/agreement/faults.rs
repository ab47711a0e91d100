//! What is wrong with a generated export: values that make no sense, missing columns and tables.

use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::exports::TABLES;

/// A fault of an export.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// A value in a column of a row with this number, from the first row on around the table.
    Value {
        table: &'static str,
        column: &'static str,
        row: usize,
        value: Value,
    },
    NoColumn(&'static str, &'static str),
    NoTable(&'static str),
}

/// Mostly some values, and sometimes a table or a column that is missing.
pub(super) fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let values = proptest::collection::vec(value(), 0..4);
    let missing = proptest::option::weighted(0.4, missing());
    (values, missing).prop_map(|(mut faults, missing)| {
        faults.extend(missing);
        faults
    })
}

fn column() -> impl Strategy<Value = (&'static str, &'static str)> {
    let columns = |(table, columns): &(&'static str, &'static [&'static str])| {
        let table = *table;
        columns
            .iter()
            .map(move |column| (table, *column))
            .collect::<Vec<_>>()
    };
    select(TABLES.iter().flat_map(columns).collect::<Vec<_>>())
}

fn value() -> impl Strategy<Value = Fault> {
    let values = vec![
        Value::Null,
        Value::Null,
        Value::Integer(-1),
        Value::Integer(0),
        Value::Integer(300),
        Value::Integer(1 << 40),
        Value::Integer(i64::MAX),
        Value::Integer(i64::MIN),
        Value::Real(7.0),
        Value::Real(2.5),
        Value::Real(f64::INFINITY),
        Value::Text("soon".to_owned()),
        Value::Blob(vec![0xff, 0]),
    ];
    (column(), 0..50_usize, select(values)).prop_map(|((table, column), row, value)| Fault::Value {
        table,
        column,
        row,
        value,
    })
}

fn missing() -> impl Strategy<Value = Fault> {
    let tables: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    prop_oneof![
        1 => select(tables).prop_map(Fault::NoTable),
        2 => column().prop_map(|(table, column)| Fault::NoColumn(table, column)),
    ]
}

impl Fault {
    /// Changes the export. A table that it does not have, and a key that SQLite protects, stay as they are.
    pub(super) fn apply(&self, connection: &Connection) -> rusqlite::Result<()> {
        let has = |table: &str| {
            let sql = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
            connection
                .query_row(sql, [table], |row| row.get::<_, i64>(0))
                .map(|count| count > 0)
        };
        match self {
            Self::Value {
                table,
                column,
                row,
                value,
            } => {
                if !has(table)? {
                    return Ok(());
                }
                let sql = format!("SELECT rowid FROM {table}");
                let mut rows = connection.prepare(&sql)?;
                let rowids = rows.query_map([], |row| row.get::<_, i64>(0))?;
                let rowids: Vec<i64> = rowids.collect::<Result<_, _>>()?;
                if rowids.is_empty() {
                    return Ok(());
                }
                let rowid = rowids[row % rowids.len()];
                let sql = format!("UPDATE OR IGNORE {table} SET {column} = ?1 WHERE rowid = ?2");
                let changed = connection.execute(&sql, (value, rowid));
                assert!(changed.is_ok() || *column == "id", "{changed:?}");
            }
            Self::NoColumn(table, column) => {
                if has(table)? {
                    let sql = format!("ALTER TABLE {table} DROP COLUMN {column}");
                    let changed = connection.execute_batch(&sql);
                    let is_protected = matches!(*column, "id" | "utcEpochNs");
                    assert!(changed.is_ok() || is_protected, "{changed:?}");
                }
            }
            Self::NoTable(table) => {
                connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
            }
        }
        Ok(())
    }
}
