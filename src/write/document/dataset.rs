//! Tables of results: whole in CSV, as views on pages.

use std::fmt::{self, Write};
use std::ops::Range;

use ecow::EcoString;
use rooflens_schemas::Unit;
use rooflens_units::{Ns, Seconds};
use serde::Serialize;

use super::Quantity;

/// A table of results.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dataset {
    /// File name without extension: `kernels` becomes `kernels.csv`.
    pub id: &'static str,
    /// Title.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`, in the order in which they are shown.
    pub rows: Vec<Vec<Cell>>,
}

impl Dataset {
    /// The position of a column.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// Those of the columns in which one of some rows holds something.
    pub fn filled(&self, rows: Range<usize>, columns: &[&'static str]) -> Vec<&'static str> {
        let rows = self.rows.get(rows).unwrap_or_default();
        let holds = |id: &&&'static str| {
            let column = self.position(id);
            column.is_some_and(|column| rows.iter().any(|row| row[column] != Cell::Missing))
        };
        columns.iter().filter(holds).copied().collect()
    }
}

/// A column of a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Name in CSV, with the base unit as suffix where there is one: `total_ns`.
    pub id: &'static str,
    /// Heading on pages.
    pub title: &'static str,
    /// Unit of its numbers; decides how pages show them.
    pub unit: Unit,
}

impl Column {
    /// A column of numbers.
    pub const fn new(id: &'static str, title: &'static str, unit: Unit) -> Self {
        Self { id, title, unit }
    }

    /// A column of texts.
    pub const fn text(id: &'static str, title: &'static str) -> Self {
        Self {
            id,
            title,
            unit: Unit::One,
        }
    }
}

/// A cell of a data set. Data sets of all metrics have millions: texts of up to 15 bytes take no memory of their own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Text(EcoString),
    /// A name from the data; long ones are shortened on pages, whole in files.
    Name(EcoString),
    /// A whole number in the column's unit.
    Int(i64),
    /// A number in the column's unit.
    Float(f64),
    /// A number with a unit of its own, in a column that has none.
    Quantity(Quantity),
    /// Whether something holds; becomes "yes" or "no" where it is shown.
    #[serde(serialize_with = "flag")]
    Flag(bool),
    /// Not available; never shown as 0.
    Missing,
}

impl Cell {
    /// A text as a name from the data, which pages may shorten.
    #[must_use]
    pub fn into_name(self) -> Self {
        match self {
            Self::Text(text) => Self::Name(text),
            cell => cell,
        }
    }

    /// The cell as pages show it in a column of this unit.
    pub fn show(&self, unit: Unit) -> String {
        match self {
            Self::Text(text) | Self::Name(text) => text.to_string(),
            Self::Int(value) => Quantity::new(*value as f64, unit).to_string(),
            Self::Float(value) => Quantity::new(*value, unit).to_string(),
            Self::Quantity(quantity) => quantity.to_string(),
            Self::Flag(holds) => yes_or_no(*holds).to_owned(),
            Self::Missing => "–".to_owned(),
        }
    }

    /// The cell as files hold it: no unit, empty if missing; numbers in the 15 digits that a double carries, without
    /// the noise of the arithmetic behind them.
    pub fn plain(&self) -> String {
        let mut text = String::new();
        self.write_plain(&mut text);
        text
    }

    /// Appends what [`Self::plain`] gives.
    pub fn write_plain(&self, out: &mut String) {
        let written = match self {
            Self::Text(text) | Self::Name(text) => out.write_str(text),
            Self::Int(value) => write!(out, "{value}"),
            Self::Float(value) | Self::Quantity(Quantity { value, .. }) => {
                write_rounded(*value, out)
            }
            Self::Flag(holds) => out.write_str(yes_or_no(*holds)),
            Self::Missing => Ok(()),
        };
        debug_assert!(written.is_ok(), "a string takes every text");
    }
}

/// Appends the shortest text of a number rounded to 15 significant digits.
fn write_rounded(value: f64, out: &mut String) -> fmt::Result {
    // Whole numbers of at most 15 digits need no rounding, and integers are faster to write.
    let is_short =
        value.fract() == 0.0 && value.abs() < 1e15 && value.to_bits() != (-0.0_f64).to_bits();
    if is_short {
        return write!(out, "{}", value as i64);
    }
    let rounded: f64 = format!("{value:.14e}").parse().unwrap_or(value);
    write!(out, "{rounded}")
}

/// The words of a flag.
const fn yes_or_no(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

fn flag<S: serde::Serializer>(holds: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(yes_or_no(*holds))
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for Cell {
    fn from(holds: bool) -> Self {
        Self::Flag(holds)
    }
}

/// A number of a unit, in the base unit that files hold.
macro_rules! cells_of_measures {
    ($($measure:ident)*) => {$(
        impl From<rooflens_units::$measure> for Cell {
            fn from(measure: rooflens_units::$measure) -> Self {
                Self::Float(rooflens_units::Measure::number(measure))
            }
        }
    )*};
}
rooflens_units::for_each_measure!(cells_of_measures);

impl From<Seconds> for Cell {
    fn from(time: Seconds) -> Self {
        Self::Float(time.time().0)
    }
}

impl From<Ns> for Cell {
    fn from(time: Ns) -> Self {
        Self::Int(time.0)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// Counts beyond 2⁶³ − 1 stop there.
impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Int(i64::from(value))
    }
}

/// Nothing is missing, not 0.
impl<C: Into<Self>> From<Option<C>> for Cell {
    fn from(value: Option<C>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// How a page shows a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// The data set's id.
    pub dataset: &'static str,
    /// Caption.
    pub caption: String,
    /// Columns to show, by id, in order; the first is the row's name.
    pub columns: Vec<&'static str>,
    /// First row to show.
    pub skip: usize,
    /// Rows to show at most; what is excluded is said beneath the table.
    pub limit: usize,
    /// Rows of the group that the view is of; none if it is of all rows.
    #[serde(skip)]
    pub group: Option<usize>,
}

impl View {
    /// A view of the first `limit` rows.
    pub fn new(
        dataset: &'static str,
        caption: impl Into<String>,
        columns: &[&'static str],
        limit: usize,
    ) -> Self {
        Self {
            dataset,
            caption: caption.into(),
            columns: columns.to_vec(),
            skip: 0,
            limit,
            group: None,
        }
    }

    /// The same view of a group: so many rows from the first one on.
    #[must_use]
    pub fn of_group(self, first: usize, rows: usize) -> Self {
        Self {
            skip: first,
            limit: self.limit.min(rows),
            group: Some(rows),
            ..self
        }
    }
}
