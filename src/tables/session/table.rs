//! The `table!` macro: a struct of arrays with a row type, a typed id, and its own documentation.
//!
//! One definition gives the columns that analyses read, the rows that importers push, and the
//! description that Parquet files and `docs/data.md` show.

use std::borrow::Cow;

use super::Ns;
use super::ids::*;
use super::tables::Dim3;
use rooflens_units::{Percent, Time};

/// A column as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Column name.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub doc: &'static str,
    /// What its cells are.
    pub kind: Kind,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers: times, counts.
    Int,
    /// Row numbers of the table of that name.
    Row(&'static str),
    /// Floating-point numbers.
    Float,
    /// Truth values.
    Bool,
    /// Texts.
    Text,
    /// Grid or block dimensions.
    Dim3,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value, which is not 0.
    Missing,
    /// An integer or a row number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(Cow<'a, str>),
    /// A text of the session's interner, which repeats: by id, so that a reader resolves each once.
    Interned(StrId),
    /// Grid or block dimensions.
    Dim3(Dim3),
}

/// A type that can be a column.
pub trait Element {
    /// What its cells are.
    const KIND: Kind;
    /// The cell of this value.
    fn cell(&self) -> Cell<'_>;
}

/// A table, for code that treats all tables alike.
pub trait Table {
    /// Name in files and queries.
    fn name(&self) -> &'static str;
    /// What a row is.
    fn doc(&self) -> &'static str;
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Bytes that the rows take.
    fn bytes(&self) -> u64;
    /// The columns in declaration order.
    fn columns(&self) -> Vec<Column>;
    /// A cell by row and by number of the column in declaration order; missing where there is no such column.
    fn cell(&self, row: usize, column: usize) -> Cell<'_>;
}

impl<T: Element> Element for Option<T> {
    const KIND: Kind = T::KIND;

    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Missing, Element::cell)
    }
}

macro_rules! elements {
    ($($t:ty: $kind:expr, $value:ident => $cell:expr;)*) => {$(
        impl Element for $t {
            const KIND: Kind = $kind;

            #[inline]
            fn cell(&self) -> Cell<'_> {
                let $value = *self;
                $cell
            }
        }
    )*};
}
elements! {
    u8: Kind::Int, value => Cell::Int(i64::from(value));
    u16: Kind::Int, value => Cell::Int(i64::from(value));
    u32: Kind::Int, value => Cell::Int(i64::from(value));
    u64: Kind::Int, value => Cell::Int(value as i64);
    i64: Kind::Int, value => Cell::Int(value);
    Ns: Kind::Int, value => Cell::Int(value.0);
    f64: Kind::Float, value => Cell::Float(value);
    Time: Kind::Float, value => Cell::Float(value.0);
    Percent: Kind::Float, value => Cell::Float(value.0);
    bool: Kind::Bool, value => Cell::Bool(value);
    StrId: Kind::Text, value => Cell::Interned(value);
    Dim3: Kind::Dim3, value => Cell::Dim3(value);
}

/// Row numbers, each with the table that it counts in.
macro_rules! id_elements {
    ($($t:ty: $table:literal,)*) => {$(
        impl Element for $t {
            const KIND: Kind = Kind::Row($table);

            #[inline]
            fn cell(&self) -> Cell<'_> {
                Cell::Int(i64::from(self.0))
            }
        }
    )*};
}
id_elements! {
    PassId: "passes",
    GpuId: "gpus",
    ProcessId: "processes",
    ThreadId: "threads",
    KernelId: "kernels",
    LaunchId: "launches",
    CopyId: "copies",
    GraphLaunchId: "graph_launches",
    ApiCallId: "api_calls",
    RangeId: "ranges",
    OperatorId: "operators",
    FrameId: "frames",
    CallerId: "callers",
    ProfileId: "kernel_profiles",
    ProfileMetricId: "ncu_metrics",
    ProfileRuleId: "ncu_rules",
    GraphNodeId: "graph_nodes",
}

/// Makes a type with a `label()` method a text column.
macro_rules! label_element {
    ($t:ty) => {
        impl $crate::table::Element for $t {
            const KIND: $crate::table::Kind = $crate::table::Kind::Text;

            fn cell(&self) -> $crate::table::Cell<'_> {
                $crate::table::Cell::Text(self.label().into())
            }
        }
    };
}
pub(crate) use label_element;

/// Declares a table: `Table "name" { row: Row, id: Id, columns }`.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $table:ident $name:literal { row: $row:ident, id: $id:ident,
            $( $(#[doc = $column_doc:literal])+ $column:ident : $type:ty, )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default)]
        pub struct $table {
            $( $(#[doc = $column_doc])+ pub $column: Vec<$type>, )+
        }

        #[doc = concat!("One row of [`", stringify!($table), "`].")]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $( $(#[doc = $column_doc])+ pub $column: $type, )+
        }

        impl $table {
            /// Adds a row.
            #[inline]
            pub fn push(&mut self, row: $row) -> $id {
                let id = $id::at(self.len());
                $( self.$column.push(row.$column); )+
                id
            }

            /// Makes room for so many more rows.
            pub fn reserve(&mut self, rows: usize) {
                $( self.$column.reserve(rows); )+
            }

            /// Adds all rows of `other` after the own ones.
            pub fn append(&mut self, mut other: Self) {
                $( self.$column.append(&mut other.$column); )+
            }

            /// Number of rows.
            #[inline]
            pub fn len(&self) -> usize {
                [$( self.$column.len() ),+][0]
            }

            /// Whether there is no row.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The row `id`.
            #[inline]
            pub fn row(&self, id: $id) -> $row {
                $row { $( $column: self.$column[id.index()].clone(), )+ }
            }

            /// The ids of all rows.
            #[inline]
            pub fn ids(&self) -> impl DoubleEndedIterator<Item = $id> + ExactSizeIterator + use<> {
                (0..self.len()).map($id::at)
            }
        }

        impl $crate::table::Table for $table {
            fn name(&self) -> &'static str {
                $name
            }

            fn doc(&self) -> &'static str {
                concat!($($doc),+).trim()
            }

            fn rows(&self) -> usize {
                self.len()
            }

            fn bytes(&self) -> u64 {
                let row = [$( size_of::<$type>() ),+].iter().sum::<usize>();
                (self.len() * row) as u64
            }

            fn columns(&self) -> Vec<$crate::table::Column> {
                vec![ $( $crate::table::Column {
                    name: stringify!($column),
                    doc: concat!($($column_doc),+).trim(),
                    kind: <$type as $crate::table::Element>::KIND,
                }, )+ ]
            }

            #[allow(unused_assignments, reason = "nothing is counted after the last column")]
            fn cell(&self, row: usize, column: usize) -> $crate::table::Cell<'_> {
                let mut left = column;
                $(
                    if left == 0 {
                        return $crate::table::Element::cell(&self.$column[row]);
                    }
                    left -= 1;
                )+
                $crate::table::Cell::Missing
            }
        }
    };
}
pub(crate) use table;
