//! The virtual tables: cells are read from the session when SQLite asks for them.
//!
//! The only `unsafe` of the analyzer: both structs promise to begin with SQLite's own, as `#[repr(C)]` has it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rooflens_session::table::{Cell, Kind};
use rooflens_session::view::{self, ViewColumn};
use rooflens_session::{Session, TABLES, TableOf};
use rooflens_units::Count;
use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, CreateVTab, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection,
    VTabCursor, VTabKind, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};

use super::index::{Index, Plan};

/// Declared type of columns of truth values.
pub(super) const BOOLEAN: &str = "BOOLEAN";

/// Makes each table of the session a virtual one, by a module of its own name.
pub(super) fn add(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    for table in TABLES {
        let name = table(session).name();
        let view = View {
            session: Arc::clone(session),
            table: *table,
            columns: view::columns(table(session)),
            indexes: Mutex::default(),
        };
        connection.create_module(
            name,
            const { &Module::<Rows>::read_only_module() },
            Some(Arc::new(view)),
        )?;
        connection.execute_batch(&format!("create virtual table {name} using {name}"))?;
    }
    Ok(())
}

/// The SQL type of a column.
pub const fn declared(kind: Kind) -> &'static str {
    match kind {
        Kind::Int | Kind::Row(_) | Kind::Dim3 => "INTEGER",
        Kind::Float => "REAL",
        Kind::Bool => BOOLEAN,
        Kind::Text => "TEXT",
    }
}

/// A table with its columns, and the indexes that queries made so far.
pub(super) struct View {
    session: Arc<Session>,
    table: TableOf,
    columns: Vec<ViewColumn>,
    indexes: Mutex<BTreeMap<usize, Arc<Index>>>,
}

impl View {
    fn rows(&self) -> usize {
        (self.table)(&self.session).rows()
    }

    fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        let table = (self.table)(&self.session);
        match self.columns.get(column) {
            Some(column) => column.cell(&self.session, table, row),
            None => Cell::Missing,
        }
    }

    fn kind(&self, column: usize) -> Option<Kind> {
        self.columns.get(column).map(|column| column.kind)
    }

    /// Rows that have one value of that column, about.
    fn rows_of_a_value(&self, column: usize) -> Count {
        let values = match self.kind(column) {
            Some(Kind::Row(table)) => self.rows_of_table(table).max(1),
            Some(Kind::Bool) => 2,
            Some(Kind::Text) => 50,
            _ => self.rows() / 4 + 1,
        };
        Count(self.rows() as f64 / values as f64).max(Count(1.0))
    }

    /// Rows of a table by its name.
    fn rows_of_table(&self, name: &str) -> usize {
        for table in TABLES {
            let table = table(&self.session);
            if table.name() == name {
                return table.rows();
            }
        }
        0
    }

    /// The key of a cell in an index: cells that are equal have the same.
    fn key(&self, cell: &Cell<'_>) -> Option<i64> {
        match cell {
            Cell::Int(value) => Some(*value),
            Cell::Bool(value) => Some(i64::from(*value)),
            Cell::Interned(id) => Some(i64::from(id.0)),
            Cell::Text(text) => self.session.strings.find(text).map(|id| i64::from(id.0)),
            Cell::Missing | Cell::Float(_) | Cell::Dim3(_) => None,
        }
    }

    fn index(&self, column: usize) -> Arc<Index> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let index = indexes.entry(column).or_insert_with(|| {
            let keys = (0..self.rows()).map(|row| self.key(&self.cell(row, column)));
            Arc::new(Index::new(keys))
        });
        Arc::clone(index)
    }

    /// Ends between which the keys of cells lie that are equal to `value`; none if it is of no use for an index.
    fn keys_of(&self, column: usize, value: &Value) -> Option<(i64, i64)> {
        let is_text = self.kind(column) == Some(Kind::Text);
        match value {
            Value::Integer(value) if !is_text => Some((*value, *value)),
            Value::Real(value) if !is_text => Some((value.floor() as i64, value.ceil() as i64)),
            // A text that is not interned may still be the word of a kind: each row is looked at.
            Value::Text(text) if is_text => {
                let key = i64::from(self.session.strings.find(text)?.0);
                Some((key, key))
            }
            _ => None,
        }
    }
}

/// A virtual table.
#[repr(C)]
pub(super) struct Rows {
    base: sqlite3_vtab,
    view: Arc<View>,
}

unsafe impl<'vtab> VTab<'vtab> for Rows {
    type Aux = Arc<View>;
    type Cursor = Cursor;

    fn connect(
        _: &mut VTabConnection,
        view: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        name: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let view = view.ok_or_else(|| failed("no table"))?;
        let mut columns = Vec::new();
        for column in &view.columns {
            columns.push(format!("\"{}\" {}", column.name, declared(column.kind)));
        }
        let name = String::from_utf8_lossy(name);
        let schema = format!("create table {name}({})", columns.join(", "));
        let schema = CString::new(schema).map_err(|_| failed("a name with a zero"))?;
        let rows = Self {
            base: sqlite3_vtab::default(),
            view: Arc::clone(view),
        };
        Ok((Cow::Owned(schema), rows))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        use IndexConstraintOp as Op;
        let mut plan = Plan::default();
        for (number, constraint) in info.constraints().enumerate() {
            let Ok(column) = usize::try_from(constraint.column().max(0)) else {
                continue;
            };
            if !constraint.is_usable() {
                continue;
            }
            let kind = self.view.kind(column);
            let is_number = matches!(kind, Some(Kind::Int | Kind::Row(_)));
            let is_indexed = match kind {
                // The index has texts by their bytes.
                Some(Kind::Text) => info.collation(number).is_ok_and(|name| name == "BINARY"),
                _ => is_number || kind == Some(Kind::Bool),
            };
            match constraint.operator() {
                Op::SQLITE_INDEX_CONSTRAINT_EQ if is_indexed => {
                    plan.equal(column, number, self.view.rows_of_a_value(column))
                }
                Op::SQLITE_INDEX_CONSTRAINT_GE | Op::SQLITE_INDEX_CONSTRAINT_GT if is_number => {
                    plan.above(column, number)
                }
                Op::SQLITE_INDEX_CONSTRAINT_LE | Op::SQLITE_INDEX_CONSTRAINT_LT if is_number => {
                    plan.below(column, number)
                }
                _ => {}
            }
        }
        let path = plan.choose(self.view.rows());
        for (argument, constraint) in (1..).zip(&path.constraints) {
            info.constraint_usage(*constraint).set_argv_index(argument);
        }
        info.set_idx_num(path.number);
        info.set_estimated_cost(path.cost().0);
        info.set_estimated_rows(path.rows.0 as i64 + 1);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor> {
        let view = Arc::clone(&self.view);
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            view,
            index: None,
            rows: 0..0,
        })
    }
}

impl CreateVTab<'_> for Rows {
    const KIND: VTabKind = VTabKind::Default;
}

/// A walk over rows: those of a range of the table, or of a range of an index.
#[repr(C)]
pub(super) struct Cursor {
    base: sqlite3_vtab_cursor,
    view: Arc<View>,
    index: Option<Arc<Index>>,
    /// Rows to come: of the index if there is one, else of the table.
    rows: Range<usize>,
}

impl Cursor {
    fn row(&self) -> usize {
        match &self.index {
            Some(index) => index.row(self.rows.start),
            None => self.rows.start,
        }
    }
}

unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, number: c_int, _: Option<&str>, values: &Filters<'_>) -> Result<()> {
        (self.index, self.rows) = (None, 0..self.view.rows());
        let Some((column, ends)) = Plan::read(number) else {
            return Ok(());
        };
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        for (number, (is_low, is_high)) in ends.into_iter().enumerate() {
            let value: Value = values.get(number)?;
            if value == Value::Null {
                self.rows = 0..0;
                return Ok(());
            }
            let Some((floor, ceil)) = self.view.keys_of(column, &value) else {
                continue;
            };
            low = if is_low { floor } else { low };
            high = if is_high { ceil } else { high };
        }
        if (low, high) == (i64::MIN, i64::MAX) {
            // Compared with what no key is made of: SQLite compares each row.
            return Ok(());
        }
        if column == 0 {
            // Row numbers need no index.
            let end = |key: i64| usize::try_from(key).unwrap_or(0).min(self.view.rows());
            self.rows = end(low)..end(high.saturating_add(1)).max(end(low));
            return Ok(());
        }
        let index = self.view.index(column);
        self.rows = index.between(low, high);
        self.index = Some(index);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.rows.start += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.rows.is_empty()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        match self.view.cell(self.row(), column) {
            Cell::Missing => context.set_result(rusqlite::types::Null),
            Cell::Int(value) => context.set_result(value),
            Cell::Float(value) => context.set_result(value),
            Cell::Bool(value) => context.set_result(value),
            Cell::Text(text) => context.set_result(text.as_ref()),
            Cell::Interned(id) => context.set_result(self.view.session.text(id)),
            Cell::Dim3(size) => context.set_result(size.to_string()),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.row() as i64)
    }
}

fn failed(what: &str) -> Error {
    Error::ModuleError(what.to_owned())
}
