//! The `table!` macro: a struct of arrays with a row type, a typed id, and its own documentation.
//!
//! One definition gives the columns that analyses read, the rows that importers push, and the
//! description that Parquet files and `docs/formats.md` show.

use std::borrow::Cow;

use super::ids::*;

/// One column, ready to be written out.
pub struct Column<'a> {
    /// Column name.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub doc: &'static str,
    /// Its values.
    pub values: Values<'a>,
}

/// The values of a column in one of the types that files know.
pub enum Values<'a> {
    /// Integers: times, counts, row numbers.
    Int(Box<dyn Iterator<Item = Option<i64>> + 'a>),
    /// Floating-point numbers.
    Float(Box<dyn Iterator<Item = Option<f64>> + 'a>),
    /// Texts.
    Text(Box<dyn Iterator<Item = Option<Cow<'a, str>>> + 'a>),
    /// Texts of the session's interner, which repeat: by id, so that a reader resolves each once.
    Interned(Box<dyn Iterator<Item = Option<StrId>> + 'a>),
}

/// A type that can be a column.
pub trait Element: Sized {
    /// The column of these values.
    fn values(column: &[Self]) -> Values<'_>;
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
    fn columns(&self) -> Vec<Column<'_>>;
}

macro_rules! int_elements {
    ($($t:ty),*) => {$(
        impl Element for $t {
            fn values(column: &[Self]) -> Values<'_> {
                Values::Int(Box::new(column.iter().map(|v| Some(*v as i64))))
            }
        }
        impl Element for Option<$t> {
            fn values(column: &[Self]) -> Values<'_> {
                Values::Int(Box::new(column.iter().map(|v| v.map(|v| v as i64))))
            }
        }
    )*};
}
int_elements!(u8, u16, u32, u64, i64);

macro_rules! id_elements {
    ($($t:ty),*) => {$(
        impl Element for $t {
            fn values(column: &[Self]) -> Values<'_> {
                Values::Int(Box::new(column.iter().map(|v| Some(i64::from(v.0)))))
            }
        }
        impl Element for Option<$t> {
            fn values(column: &[Self]) -> Values<'_> {
                Values::Int(Box::new(column.iter().map(|v| v.map(|v| i64::from(v.0)))))
            }
        }
    )*};
}
id_elements!(
    PassId,
    GpuId,
    ProcessId,
    ThreadId,
    KernelId,
    LaunchId,
    CopyId,
    GraphLaunchId,
    ApiCallId,
    RangeId,
    OperatorId,
    FrameId,
    ProfileId,
    ProfileMetricId,
    ProfileRuleId,
    GraphNodeId
);

impl Element for bool {
    fn values(column: &[Self]) -> Values<'_> {
        Values::Int(Box::new(column.iter().map(|v| Some(i64::from(*v)))))
    }
}

impl Element for Option<bool> {
    fn values(column: &[Self]) -> Values<'_> {
        Values::Int(Box::new(column.iter().map(|v| v.map(i64::from))))
    }
}

impl Element for f64 {
    fn values(column: &[Self]) -> Values<'_> {
        Values::Float(Box::new(column.iter().map(|v| Some(*v))))
    }
}

impl Element for Option<f64> {
    fn values(column: &[Self]) -> Values<'_> {
        Values::Float(Box::new(column.iter().copied()))
    }
}

impl Element for StrId {
    fn values(column: &[Self]) -> Values<'_> {
        Values::Interned(Box::new(column.iter().map(|v| Some(*v))))
    }
}

impl Element for Option<StrId> {
    fn values(column: &[Self]) -> Values<'_> {
        Values::Interned(Box::new(column.iter().copied()))
    }
}

/// Makes a type with a `label()` method a text column.
macro_rules! label_element {
    ($t:ty) => {
        impl $crate::table::Element for $t {
            fn values(column: &[Self]) -> $crate::table::Values<'_> {
                $crate::table::Values::Text(Box::new(column.iter().map(|v| Some(v.label().into()))))
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
        #[derive(Clone, Debug)]
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

            fn columns(&self) -> Vec<$crate::table::Column<'_>> {
                vec![ $( $crate::table::Column {
                    name: stringify!($column),
                    doc: concat!($($column_doc),+).trim(),
                    values: $crate::table::Element::values(&self.$column),
                }, )+ ]
            }
        }
    };
}
pub(crate) use table;
