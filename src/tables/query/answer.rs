//! Results of queries as plain data.

use std::fmt;

use rooflens_document::{Cell, Quantity};

/// What a statement gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`; `None` is a missing value, never 0.
    pub rows: Vec<Vec<Option<Value>>>,
    /// There are more rows than were asked for.
    pub cut: bool,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Truth.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Words.
    Text(String),
}

impl Value {
    /// The value of a cell of a data set; `None` is a missing one.
    pub fn of(cell: &Cell) -> Option<Self> {
        Some(match cell {
            Cell::Text(text) | Cell::Name(text) => Self::Text(text.to_string()),
            Cell::Int(value) => Self::Int(*value),
            Cell::Float(value) | Cell::Quantity(Quantity { value, .. }) => Self::Float(*value),
            Cell::Flag(holds) => Self::Bool(*holds),
            Cell::Missing => return None,
        })
    }

    /// Any number.
    pub const fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

/// All digits, no unit.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Bytes that a cell takes.
pub(super) fn bytes(cell: &Option<Value>) -> usize {
    let text = match cell {
        Some(Value::Text(text)) => text.capacity(),
        _ => 0,
    };
    size_of::<Option<Value>>() + text
}
