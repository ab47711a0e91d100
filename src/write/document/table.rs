//! Data sets declared line by line: each column with its name, unit and cell.
//!
//! [`columns!`](crate::columns) is the declaration. A column declared elsewhere than its cell falls out of step with
//! it, and a closure per column hides the figure between its arguments. So a line is `id = expression on the row`. The
//! unit comes from the type of the expression, from the metric that the column shows, or is named in front of the id:
//!
//! ```
//! use rooflens_document::catalogue::LAUNCHES_PER_STEP;
//! use rooflens_document::{Catalogue, Dataset, Table, columns};
//! use rooflens_units::{Ns, Ratio};
//!
//! struct Context {
//!     text: &'static Catalogue,
//! }
//!
//! struct Launch {
//!     stage: String,
//!     kernel: &'static str,
//!     time: Ns,
//!     idle: Ns,
//!     per_step: Option<f64>,
//! }
//!
//! /// The columns that several data sets share.
//! fn stage(table: Table<'_, Launch>) -> Table<'_, Launch> {
//!     columns! { table, launch: &Launch => {
//!         text "stage" = launch.stage.as_str(), page;
//!     } }
//! }
//!
//! fn gaps(context: &Context, launches: &[Launch], run: Ns) -> Dataset {
//!     let several = launches.len() > 1;
//!     let table = columns! { context, "gaps", launch: &Launch => {
//!         let idle_share = launch.idle.0 as f64 / run.0 as f64;
//!         with stage() of launch;
//!         name "operator" = launch.kernel, page if several;
//!         "length_ns" = launch.time, page;
//!         share "idle_share" = idle_share;
//!         of LAUNCHES_PER_STEP "launches" = launch.per_step;
//!     } };
//!     table.rows(launches)
//! }
//!
//! let launch = Launch {
//!     stage: "decode".to_owned(),
//!     kernel: "gemm",
//!     time: Ns(90),
//!     idle: Ns(10),
//!     per_step: None,
//! };
//! let context = Context { text: Catalogue::english() };
//! let dataset = gaps(&context, &[launch], Ns(100));
//! let ids: Vec<&str> = dataset.columns.iter().map(|column| column.id).collect();
//! assert_eq!(ids, ["stage", "operator", "length_ns", "idle_share", "launches"]);
//! assert_eq!(dataset.columns[2].unit, rooflens_schemas::Unit::Nanoseconds);
//! assert_eq!(dataset.columns[4].unit, LAUNCHES_PER_STEP.unit);
//! let cells: Vec<String> = dataset.rows[0].iter().map(|cell| cell.plain()).collect();
//! assert_eq!(cells, ["decode", "gemm", "90", "0.1", ""]);
//! ```
//!
//! `let` names a part of the row and is computed once a row. `with` adds columns of a part of the row. An id that is
//! not a literal stands in parentheses. A `?` in an expression leaves the cell empty. What a line reads from around the declaration moves into it, so it must be `Copy`: a number or a reference.

use std::marker::PhantomData;

use rooflens_schemas::Unit;
use rooflens_units::{Ns, Seconds};

use super::dataset::{Cell, Column, Dataset, View};
use super::text::Catalogue;

/// How rows of type `R` become a data set.
pub struct Table<'t, R> {
    text: &'static Catalogue,
    id: &'static str,
    columns: Vec<TableColumn>,
    cells: Vec<Box<Cells<'t, R>>>,
}

/// Adds the cells of some columns to those of a row.
type Cells<'t, R> = dyn Fn(&R, &mut Vec<Cell>) + 't;

struct TableColumn {
    column: Column,
    on_page: bool,
}

/// Declares the columns of a [`Table`], or adds some to one; [`table`](crate::table) shows how.
#[macro_export]
macro_rules! columns {
    ($table:expr, $row:tt : & $type:ty => { $($lines:tt)* }) => {
        $crate::columns!(@lines [$table] [[$row] $type] [] [] $($lines)*)
    };
    ($table:expr, $row:tt : $type:ty => { $($lines:tt)* }) => {
        $crate::columns!(@lines [$table] [[&$row] $type] [] [] $($lines)*)
    };
    ($context:expr, $id:expr, $row:tt : & $type:ty => { $($lines:tt)* }) => {
        $crate::columns!(@lines [$crate::Table::new($context.text, $id)] [[$row] $type] [] [] $($lines)*)
    };
    ($context:expr, $id:expr, $row:tt : $type:ty => { $($lines:tt)* }) => {
        $crate::columns!(@lines [$crate::Table::new($context.text, $id)] [[&$row] $type] [] [] $($lines)*)
    };

    // Line by line: the table so far, the row's pattern and type, its parts, and the columns that are not in the table yet.
    (@lines $table:tt $row:tt $parts:tt $columns:tt) => {
        $crate::columns!(@table $table $row $parts $columns)
    };
    (@lines $table:tt $row:tt [$($parts:tt)*] $columns:tt
        let $part:pat = $value:expr; $($lines:tt)*) => {
        $crate::columns!(@lines $table $row [$($parts)* let $part = (|| $value)();] $columns $($lines)*)
    };
    (@lines $table:tt [[$($row:tt)*] $type:ty] [$($parts:tt)*] $columns:tt
        with $($more:ident)::+ ( $($argument:expr),* $(,)? ) of $part:expr; $($lines:tt)*) => {
        $crate::columns!(@lines
            [{
                let table = $crate::columns!(@table $table [[$($row)*] $type] [$($parts)*] $columns);
                let part = $($more)::+($($argument,)* table.part());
                #[allow(unused_variables, clippy::redundant_closure_call)]
                let table = table.with_part(part, move |$($row)*: &$type| { $($parts)* $part });
                table
            }]
            [[$($row)*] $type] [$($parts)*] [] $($lines)*)
    };
    (@lines $table:tt $row:tt $parts:tt [$($columns:tt)*]
        $unit:ident ($id:expr) = $value:expr; $($lines:tt)*) => {
        $crate::columns!(@lines $table $row $parts
            [$($columns)* { column [$unit] [$id] [] [$value] }] $($lines)*)
    };
    (@lines $table:tt $row:tt $parts:tt [$($columns:tt)*]
        $($unit:ident)* $id:literal = $value:expr $(, $page:ident $(if $shown:expr)?)?; $($lines:tt)*) => {
        $crate::columns!(@lines $table $row $parts
            [$($columns)* { column [$($unit)*] [$id] [$($page $(if $shown)?)?] [$value] }] $($lines)*)
    };

    (@table [$($table:tt)*] [[$($row:tt)*] $type:ty] [$($parts:tt)*]
        [$({ $column:ident $unit:tt [$id:expr] $page:tt [$value:expr] })*]) => {{
        $(
            #[allow(unused_variables, clippy::let_unit_value)]
            let $column = $crate::columns!(@type $unit);
        )*
        #[allow(unused_variables, clippy::redundant_closure_call)]
        let table = $crate::Table::<'_, $type>::cells($($table)*, move |$($row)*: &$type, cells: &mut Vec<$crate::Cell>| {
            $($parts)*
            $(cells.push($crate::columns!(@cell $column $unit $value));)*
        });
        $(let table = table.heading($id, $crate::columns!(@unit $column $unit), $crate::columns!(@page $page));)*
        table
    }};

    (@type []) => { $crate::table::ColumnType::new() };
    (@type $unit:tt) => { () };

    (@cell $column:ident [] $value:expr) => { $column.cell((|| $value)()) };
    (@cell $column:ident [name] $value:expr) => { $crate::Cell::from((|| $value)()).into_name() };
    (@cell $column:ident $unit:tt $value:expr) => { $crate::Cell::from((|| $value)()) };

    (@unit $column:ident []) => { $column.unit() };
    (@unit $column:ident [of $metric:ident]) => { $metric.unit };
    (@unit $column:ident [name]) => { $crate::Unit::One };
    (@unit $column:ident [text]) => { $crate::Unit::One };
    (@unit $column:ident [count]) => { $crate::Unit::Count };
    (@unit $column:ident [time]) => { $crate::Unit::Nanoseconds };
    (@unit $column:ident [bytes]) => { $crate::Unit::Bytes };
    (@unit $column:ident [share]) => { $crate::Unit::Ratio };
    (@unit $column:ident [$unit:ident]) => { $crate::Unit::$unit };

    (@page []) => { false };
    (@page [page]) => { true };
    (@page [page if $shown:expr]) => { $shown };
}

/// A type whose values have one unit.
pub trait Figure {
    /// The unit.
    const UNIT: Unit;
}

/// The units of floating-point numbers.
macro_rules! figures_of_measures {
    ($($measure:ident)*) => {
        $(impl Figure for rooflens_units::$measure {
            const UNIT: Unit = <Self as rooflens_units::Measure>::UNIT;
        })*
    };
}
rooflens_units::for_each_measure!(figures_of_measures);

/// The units of other types.
macro_rules! figures {
    ($($figure:ty: $unit:ident;)*) => {
        $(impl Figure for $figure {
            const UNIT: Unit = Unit::$unit;
        })*
    };
}

figures! {
    Ns: Nanoseconds;
    Seconds: Nanoseconds;
    u32: Count;
    u64: Count;
    usize: Count;
}

impl<F: Figure> Figure for Option<F> {
    const UNIT: Unit = F::UNIT;
}

/// The type of the expression of a column whose unit is not named.
pub struct ColumnType<C>(PhantomData<fn(C)>);

impl<C> Clone for ColumnType<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for ColumnType<C> {}

impl<C: Figure + Into<Cell>> ColumnType<C> {
    /// A type that the column's first use infers.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// The cell of a value.
    pub fn cell(self, value: C) -> Cell {
        value.into()
    }

    /// The unit of the type.
    pub const fn unit(self) -> Unit {
        C::UNIT
    }
}

impl<'t, R> Table<'t, R> {
    /// A data set without columns yet; `id` names its file. The catalogue has its title and the headings of columns.
    pub fn new(text: &'static Catalogue, id: &'static str) -> Self {
        Self {
            text,
            id,
            columns: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// A table of a part of the row, under the same id.
    pub fn part<P>(&self) -> Table<'t, P> {
        Table::new(self.text, self.id)
    }

    /// Adds the columns of a part of the row.
    #[must_use]
    pub fn with_part<P: 't>(
        mut self,
        columns: Table<'t, P>,
        part: impl for<'r> Fn(&'r R) -> &'r P + 't,
    ) -> Self {
        let Table {
            columns: headings,
            cells,
            ..
        } = columns;
        self.columns.extend(headings);
        self.cells(move |row, row_cells| {
            let part = part(row);
            for columns in &cells {
                columns(part, row_cells);
            }
        })
    }

    /// Adds the cells of columns, whose headings follow.
    #[must_use]
    pub fn cells(mut self, cells: impl Fn(&R, &mut Vec<Cell>) + 't) -> Self {
        self.cells.push(Box::new(cells));
        self
    }

    /// Adds the heading of a column.
    #[must_use]
    pub fn heading(mut self, id: &'static str, unit: Unit, on_page: bool) -> Self {
        let column = Column::new(id, self.text.column(self.id, id), unit);
        self.columns.push(TableColumn { column, on_page });
        self
    }

    /// Adds a column.
    #[must_use]
    pub fn column<C: Into<Cell>>(
        self,
        id: &'static str,
        unit: Unit,
        cell: impl Fn(&R) -> C + 't,
    ) -> Self {
        self.cells(move |row, cells| cells.push(cell(row).into()))
            .heading(id, unit, false)
    }

    /// Adds a column of words or plain numbers.
    #[must_use]
    pub fn text<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::One, cell)
    }

    /// Adds a column of names from the data, which pages may shorten.
    #[must_use]
    pub fn name<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::One, move |row| cell(row).into().into_name())
    }

    /// Adds a column of counts.
    #[must_use]
    pub fn count<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Count, cell)
    }

    /// Adds a column of times in nanoseconds.
    #[must_use]
    pub fn time<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Nanoseconds, cell)
    }

    /// Adds a column of bytes.
    #[must_use]
    pub fn bytes<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Bytes, cell)
    }

    /// Adds a column of shares between 0 and 1.
    #[must_use]
    pub fn share<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Ratio, cell)
    }

    /// Shows the last column on pages, after those that were marked before.
    #[must_use]
    pub fn on_page(self) -> Self {
        self.on_page_if(true)
    }

    /// Shows the last column on pages if there is something to tell apart or to see in it.
    #[must_use]
    pub fn on_page_if(mut self, shown: bool) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.on_page = shown;
        }
        self
    }

    /// Shows all columns so far on pages.
    #[must_use]
    pub fn all_on_page(mut self) -> Self {
        self.columns
            .iter_mut()
            .for_each(|column| column.on_page = true);
        self
    }

    /// Adds columns that several data sets share.
    #[must_use]
    pub fn with(self, more: impl FnOnce(Self) -> Self) -> Self {
        more(self)
    }

    /// The data set of these rows.
    pub fn rows<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Dataset
    where
        R: 'r,
    {
        let cells = |row: &R| {
            let mut cells = Vec::with_capacity(self.columns.len());
            for columns in &self.cells {
                columns(row, &mut cells);
            }
            cells
        };
        let columns = self.columns.iter();
        Dataset {
            id: self.id,
            title: self.text.title(self.id),
            columns: columns.map(|column| column.column.clone()).collect(),
            rows: rows.into_iter().map(cells).collect(),
        }
    }

    /// A view of the first `limit` rows with the columns that are marked for pages.
    pub fn view(&self, caption: impl Into<String>, limit: usize) -> View {
        let shown = self.columns.iter().filter(|column| column.on_page);
        let columns: Vec<&'static str> = shown.map(|column| column.column.id).collect();
        View::new(self.id, caption, &columns, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_and_its_cell_stand_together() {
        type Row = (u64, Option<f64>);
        let table = columns! { Table::new(Catalogue::english(), "kernels"), (count, share): &Row => {
            "count" = *count, page;
            share "share" = *share;
            text "stage" = *count % 2 == 0, page;
        } };
        let dataset = table.rows(&[(2, None), (3, Some(0.5))]);
        let ids: Vec<&str> = dataset.columns.iter().map(|column| column.id).collect();
        assert_eq!(ids, ["count", "share", "stage"]);
        assert_eq!(
            dataset.rows[0],
            [Cell::Int(2), Cell::Missing, Cell::Flag(true)]
        );
        assert_eq!(
            dataset.rows[1],
            [Cell::Int(3), Cell::Float(0.5), Cell::Flag(false)]
        );
        assert_eq!(dataset.rows[0][2].plain(), "yes");
        assert_eq!(table.view("Some", 1).columns, ["count", "stage"]);
    }
}
