//! The virtual tables: cells are read from the session when SQLite asks for them.
//!
//! The only `unsafe` of the analyzer: both structs promise to begin with SQLite's own, as `#[repr(C)]` has it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rooflens_session::table::{Cell, Kind};
use rooflens_session::view::ViewColumn;
use rooflens_session::{Session, TABLES, TableOf};
use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, CreateVTab, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection,
    VTabCursor, VTabKind, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};

use super::Described;
use super::index::{Index, Plan};

/// Declared type of columns of truth values.
pub(super) const BOOLEAN: &str = "BOOLEAN";

/// Makes each table of the session a virtual one, by a module of its own name.
pub(super) fn add(
    connection: &Connection,
    session: &Arc<Session>,
    tables: &[Described],
) -> Result<()> {
    for (table, described) in TABLES.iter().zip(tables) {
        let columns = described.columns.clone();
        let view = View {
            session: Arc::clone(session),
            table: *table,
            columns,
            indexes: Mutex::default(),
        };
        let name = described.name;
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
        self.columns
            .get(column)
            .map_or(Cell::Missing, |one| one.cell(&self.session, table, row))
    }

    /// Rows that have one value of that column, about.
    fn rows_of_a_value(&self, column: usize) -> f64 {
        let referred = |name| {
            TABLES
                .iter()
                .map(|table| table(&self.session))
                .find(|one| one.name() == name)
        };
        let values = match self.columns.get(column).map(|one| one.kind) {
            Some(Kind::Row(table)) => referred(table).map_or(1, |table| table.rows().max(1)),
            Some(Kind::Bool) => 2,
            Some(Kind::Text) => 50,
            _ => self.rows() / 4 + 1,
        };
        (self.rows() as f64 / values as f64).max(1.0)
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
        let made = indexes.entry(column).or_insert_with(|| {
            let keys = (0..self.rows()).map(|row| self.key(&self.cell(row, column)));
            Arc::new(Index::new(keys))
        });
        Arc::clone(made)
    }

    /// Ends between which the keys of cells lie that are equal to `value`; none if it is of no use for an index.
    fn keys_of(&self, column: usize, value: &Value) -> Option<(i64, i64)> {
        let is_text = self
            .columns
            .get(column)
            .is_some_and(|one| one.kind == Kind::Text);
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
        let column = |one: &ViewColumn| format!("\"{}\" {}", one.name, declared(one.kind));
        let columns: Vec<String> = view.columns.iter().map(column).collect();
        let name = String::from_utf8_lossy(name);
        let schema = CString::new(format!("create table {name}({})", columns.join(", ")))
            .map_err(|_| failed("a name with a zero"))?;
        let rows = Self {
            base: sqlite3_vtab::default(),
            view: Arc::clone(view),
        };
        Ok((Cow::Owned(schema), rows))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        use IndexConstraintOp as Op;
        let mut plan = Plan::default();
        let binary: Vec<bool> = (0..info.constraints().count())
            .map(|at| info.collation(at).is_ok_and(|name| name == "BINARY"))
            .collect();
        for (at, one) in info
            .constraints()
            .enumerate()
            .filter(|(_, one)| one.is_usable())
        {
            let Ok(column) = usize::try_from(one.column().max(0)) else {
                continue;
            };
            let kind = self.view.columns.get(column).map(|one| one.kind);
            let is_number = matches!(kind, Some(Kind::Int | Kind::Row(_)));
            let is_indexed = match kind {
                Some(Kind::Text) => binary[at],
                _ => is_number || kind == Some(Kind::Bool),
            };
            match one.operator() {
                Op::SQLITE_INDEX_CONSTRAINT_EQ if is_indexed => {
                    plan.equal(column, at, self.view.rows_of_a_value(column))
                }
                Op::SQLITE_INDEX_CONSTRAINT_GE | Op::SQLITE_INDEX_CONSTRAINT_GT if is_number => {
                    plan.above(column, at)
                }
                Op::SQLITE_INDEX_CONSTRAINT_LE | Op::SQLITE_INDEX_CONSTRAINT_LT if is_number => {
                    plan.below(column, at)
                }
                _ => {}
            }
        }
        let chosen = plan.choose(self.view.rows());
        for (argument, at) in (1..).zip(&chosen.constraints) {
            info.constraint_usage(*at).set_argv_index(argument);
        }
        info.set_idx_num(chosen.number);
        info.set_estimated_cost(chosen.rows * chosen.cost);
        info.set_estimated_rows(chosen.rows as i64 + 1);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor> {
        let view = Arc::clone(&self.view);
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            view,
            index: None,
            at: 0..0,
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
    at: Range<usize>,
}

impl Cursor {
    fn row(&self) -> usize {
        self.index
            .as_ref()
            .map_or(self.at.start, |index| index.row(self.at.start))
    }
}

unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, number: c_int, _: Option<&str>, values: &Filters<'_>) -> Result<()> {
        (self.index, self.at) = (None, 0..self.view.rows());
        let Some((column, ends)) = Plan::read(number) else {
            return Ok(());
        };
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        for (at, (is_low, is_high)) in ends.into_iter().enumerate() {
            let value: Value = values.get(at)?;
            if value == Value::Null {
                self.at = 0..0;
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
            self.at = end(low)..end(high.saturating_add(1)).max(end(low));
            return Ok(());
        }
        let index = self.view.index(column);
        self.at = index.between(low, high);
        self.index = Some(index);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at.start += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at.is_empty()
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
