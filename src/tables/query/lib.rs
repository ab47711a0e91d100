//! SQL over the tables of a session: SQLite, in whose dialect the evidence under findings is printed.
//!
//! Every table is a virtual one, which reads the session where it lies; nothing is copied. Data sets of a report are
//! tables of the schema `report`. A statement reads and does nothing else: no file, no other database, no extension, no
//! change.
//!
//! The only crate of the analyzer with `unsafe`: see `vtab`.

#![deny(unsafe_code)]

mod answer;
mod error;
mod functions;
mod index;
mod results;
#[allow(unsafe_code, reason = "SQLite calls the virtual tables")]
mod vtab;

use std::sync::Arc;

use rooflens_document::Dataset;
use rooflens_session::table::{Kind, Table};
use rooflens_session::view;
use rooflens_session::{Session, TABLES};
use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Statement};

pub use answer::{Answer, Value};
pub use error::QueryError;
pub use vtab::declared;

/// The table that describes all others: one row a column.
pub const CATALOGUE: &str = "columns";

/// Instructions of SQLite's machine between two looks at whether to stop.
const STEPS: i32 = 10_000;

/// Bytes that a query takes at the most where nobody says otherwise: 4 GiB.
pub const MEMORY: u64 = 4 << 30;

/// Part of the memory that answers may take; SQLite sorts and groups in the rest.
const ANSWERS_PART: u64 = 3;

/// Longest text that a function may make, longest statement, in bytes.
const LIMITS: [(Limit, i32); 2] = [
    (Limit::SQLITE_LIMIT_LENGTH, 64 << 20),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
];

/// What statements may ask SQLite about itself: the columns of tables.
const PRAGMAS: [&str; 3] = ["table_info", "table_list", "table_xinfo"];

/// Functions that reach outside.
const FORBIDDEN: [&str; 2] = ["load_extension", "fts3_tokenizer"];

/// The tables of a session, ready to be asked.
pub struct Database {
    connection: Connection,
    tables: Vec<Described>,
    /// Bytes that answers may take.
    answers: usize,
}

/// A table as queries see it.
pub struct Described {
    /// Its name, with the schema if that is not the session's.
    pub name: String,
    /// What a row is.
    pub doc: String,
    /// Number of rows.
    pub rows: usize,
    /// Its columns.
    pub columns: Vec<DescribedColumn>,
}

/// A column as queries see it.
pub struct DescribedColumn {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub doc: String,
    /// What its cells are.
    pub kind: Kind,
    /// Symbol of its unit; empty if there is none.
    pub unit: &'static str,
}

/// A table that is copied before it is asked.
pub struct Copied<'a> {
    /// What it is; its rows are counted.
    pub table: Described,
    /// Its rows, each as long as the columns.
    pub rows: Box<dyn Iterator<Item = Vec<Option<Value>>> + 'a>,
}

impl Described {
    fn of(table: &dyn Table) -> Self {
        let mut columns = Vec::new();
        for column in view::columns(table) {
            columns.push(DescribedColumn {
                unit: column.unit(),
                name: column.name,
                doc: column.doc,
                kind: column.kind,
            });
        }
        Self {
            name: table.name().to_owned(),
            doc: table.doc().to_owned(),
            rows: table.rows(),
            columns,
        }
    }

    /// Whether it goes by this name, with or without its schema.
    pub fn is_named(&self, name: &str) -> bool {
        let (_, last) = self.name.rsplit_once('.').unwrap_or(("", &self.name));
        self.name.eq_ignore_ascii_case(name) || last.eq_ignore_ascii_case(name)
    }
}

impl Database {
    /// Makes the tables of a session and data sets of its report known to SQLite. Queries take `memory` bytes at the most, of
    /// SQLite in the whole process. `stop` is asked now and then while a statement runs: true ends the statement.
    ///
    /// # Errors
    /// SQLite cannot be set up, which is a defect.
    pub fn new(
        session: &Arc<Session>,
        datasets: &[Dataset],
        memory: u64,
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self, QueryError> {
        let mut tables = Vec::new();
        for table in TABLES {
            tables.push(Described::of(table(session)));
        }
        tables.extend(datasets.iter().map(results::described));
        let open = || -> Result<Connection, rusqlite::Error> {
            let connection = connection()?;
            vtab::add(&connection, session)?;
            results::add(&connection, datasets, &tables[TABLES.len()..])?;
            limit_heap(&connection, memory)?;
            Ok(connection)
        };
        let connection = open().map_err(|error| error::setup(&error))?;
        Self::ready(connection, tables, memory, stop)
    }

    /// Copies tables into SQLite. All else is as in [`Self::new`].
    ///
    /// # Errors
    /// The rows take more memory than they may.
    pub fn of_rows(
        copied: Vec<Copied<'_>>,
        memory: u64,
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self, QueryError> {
        let connection = connection().map_err(|error| error::setup(&error))?;
        limit_heap(&connection, memory).map_err(|error| error::setup(&error))?;
        let mut tables = Vec::new();
        for Copied { mut table, rows } in copied {
            let count = results::copy(&connection, &table, rows);
            table.rows = count.map_err(|error| error::explained(error, "", &tables))?;
            tables.push(table);
        }
        Self::ready(connection, tables, memory, stop)
    }

    /// A database whose tables are there. From now on, statements only read.
    fn ready(
        mut connection: Connection,
        tables: Vec<Described>,
        memory: u64,
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self, QueryError> {
        let finish = || {
            describe(&connection, &tables)?;
            connection.progress_handler(STEPS, Some(stop))?;
            connection.authorizer(Some(allowed))
        };
        finish().map_err(|error| error::setup(&error))?;
        Ok(Self {
            connection,
            tables,
            answers: usize::try_from(memory / ANSWERS_PART).unwrap_or(usize::MAX),
        })
    }

    /// The tables, those without rows too.
    pub fn tables(&self) -> &[Described] {
        &self.tables
    }

    /// Answers the statements of a text, one after another; of each at most `limit` rows.
    ///
    /// # Errors
    /// A statement is wrong, does more than read, takes too much memory, or was stopped.
    pub fn ask(&self, sql: &str, limit: usize) -> Result<Vec<Answer>, QueryError> {
        let explained = |error| error::explained(error, sql, &self.tables);
        let mut answers = Vec::new();
        let mut batch = Batch::new(&self.connection, sql);
        let mut room = self.answers;
        while let Some(mut statement) = batch.next().map_err(explained)? {
            let answer = self.rows(&mut statement, limit, &mut room);
            answers.push(answer.map_err(explained)?);
        }
        Ok(answers)
    }

    /// The rows of a statement; `room` is what is left for the answers of all.
    fn rows(
        &self,
        statement: &mut Statement<'_>,
        limit: usize,
        room: &mut usize,
    ) -> Result<Answer, rusqlite::Error> {
        let mut answer = Answer::default();
        let mut bools = Vec::new();
        for column in statement.columns() {
            bools.push(column.decl_type() == Some(vtab::BOOLEAN));
            let name = distinct(column.name(), &answer.columns);
            answer.columns.push(name);
        }
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            answer.cut = answer.rows.len() == limit;
            if answer.cut {
                break;
            }
            let mut cells = Vec::with_capacity(bools.len());
            for (column, is_bool) in bools.iter().enumerate() {
                cells.push(value(row.get_ref(column)?, *is_bool));
            }
            let taken = cells.iter().map(answer::bytes).sum();
            *room = room.checked_sub(taken).ok_or_else(error::too_large)?;
            answer.rows.push(cells);
        }
        Ok(answer)
    }
}

/// A name that is not taken yet: a second `a` becomes `a_1`.
fn distinct(name: &str, taken: &[String]) -> String {
    let mut distinct = name.to_owned();
    let mut number = 0;
    while taken.contains(&distinct) {
        number += 1;
        distinct = format!("{name}_{number}");
    }
    distinct
}

fn value(cell: ValueRef<'_>, is_bool: bool) -> Option<Value> {
    Some(match cell {
        ValueRef::Null => return None,
        ValueRef::Integer(value) if is_bool => Value::Bool(value != 0),
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Float(value),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    })
}

/// A database without tables.
fn connection() -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    for (limit, value) in LIMITS {
        connection.set_limit(limit, value)?;
    }
    // An unknown "name" is an error and not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    // Sorting stays in memory: nothing is written anywhere.
    connection.execute_batch("pragma temp_store = memory; pragma trusted_schema = off;")?;
    functions::add(&connection)?;
    Ok(connection)
}

/// Sets the limit of all memory that SQLite takes, where answers take their part of `memory`.
fn limit_heap(connection: &Connection, memory: u64) -> Result<(), rusqlite::Error> {
    let bytes = memory - memory / ANSWERS_PART;
    connection.execute_batch(&format!("pragma hard_heap_limit = {bytes}"))
}

/// Fills the table of all columns.
fn describe(connection: &Connection, tables: &[Described]) -> Result<(), rusqlite::Error> {
    connection.execute_batch(&format!(
        "create table {CATALOGUE}(\"table\" text, \"column\" text, type text, unit text, description text); begin"
    ))?;
    let mut insert =
        connection.prepare(&format!("insert into {CATALOGUE} values (?, ?, ?, ?, ?)"))?;
    for table in tables {
        for column in &table.columns {
            let kind = vtab::declared(column.kind).to_lowercase();
            insert.execute((&table.name, &column.name, kind, column.unit, &column.doc))?;
        }
    }
    drop(insert);
    connection.execute_batch("commit")
}

fn allowed(context: AuthContext<'_>) -> Authorization {
    let is_read = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !FORBIDDEN.contains(&function_name),
        AuthAction::Pragma { pragma_name, .. } => PRAGMAS.contains(&pragma_name),
        _ => false,
    };
    if is_read {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}

#[cfg(test)]
mod tests;
