//! Results of queries as plain data, and the ways to print them.

use std::cmp::Ordering;
use std::fmt;

use crate::render::csv::text_cell;
use crate::render::text::clean;

/// A plain table: what a query gives, and what callers may add to the tables of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`; `None` is a missing value, never 0.
    pub rows: Vec<Vec<Option<Value>>>,
}

/// A value of a plain table.
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
    /// A whole number or a truth value as 0 or 1.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Bool(value) => Some(i64::from(*value)),
            Self::Int(value) => Some(*value),
            Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// Any number.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Bool(_) | Self::Int(_) => self.as_int().map(|value| value as f64),
            Self::Text(_) => None,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_))
    }
}

/// Full precision, no unit.
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

impl Answer {
    /// CSV with a header line; missing values are empty fields.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let cell = |cell: &Option<Value>| match cell {
            Some(Value::Text(text)) => text_cell(text),
            other => shown(other),
        };
        let texts = |row: &Vec<Option<Value>>| row.iter().map(cell).collect::<Vec<_>>();
        let heads: Vec<String> = self.columns.iter().map(|name| text_cell(name)).collect();
        let lines = std::iter::once(heads).chain(self.rows.iter().map(texts));
        for line in lines {
            writer.write_record(line).expect("memory takes every byte, and rows are of one length");
        }
        let bytes = writer.into_inner().expect("memory takes every byte");
        String::from_utf8(bytes).expect("made of strings")
    }

    /// Aligned columns for a terminal: numbers to the right, texts longer than `width` characters cut in
    /// the middle, because the ends of kernel names tell them apart. Control characters are replaced.
    pub fn text(&self, width: usize) -> String {
        let cells: Vec<Vec<String>> = std::iter::once(self.columns.clone())
            .chain(self.rows.iter().map(|row| row.iter().map(shown).collect()))
            .map(|line: Vec<String>| line.iter().map(|cell| shortened(cell, width)).collect())
            .collect();
        let widest = |column: usize| {
            cells.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let right: Vec<bool> =
            (0..self.columns.len()).map(|column| self.is_numeric(column)).collect();
        cells.iter().map(|line| aligned(line, &widths, &right)).collect()
    }

    /// Sorts the rows by all columns, left to right; missing values first.
    pub(super) fn sort(&mut self) {
        self.rows.sort_by(|a, b| {
            let pairs = a.iter().zip(b).map(|(a, b)| compare(a.as_ref(), b.as_ref()));
            pairs.fold(Ordering::Equal, Ordering::then)
        });
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().filter_map(|row| row[column].as_ref()).all(Value::is_number)
    }
}

fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Int(a)), Some(Value::Int(b))) => a.cmp(b),
        (Some(Value::Text(a)), Some(Value::Text(b))) => a.cmp(b),
        (Some(a), Some(b)) => match (a.as_float(), b.as_float()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (number, other) => other.is_some().cmp(&number.is_some()),
        },
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn shown(cell: &Option<Value>) -> String {
    cell.as_ref().map(Value::to_string).unwrap_or_default()
}

fn shortened(text: &str, width: usize) -> String {
    let text = clean(text);
    let length = text.chars().count();
    if length <= width {
        return text.into_owned();
    }
    let (head, tail) = (width / 2, width.saturating_sub(width / 2 + 1));
    let start = text.chars().take(head);
    start.chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

fn aligned(line: &[String], widths: &[usize], right: &[bool]) -> String {
    let cell = |(column, text): (usize, &String)| {
        let width = widths[column];
        if right[column] { format!("{text:>width$}") } else { format!("{text:<width$}") }
    };
    let joined = line.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
    format!("{}\n", joined.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Answer {
        let row = |name: &str, n: Option<i64>, share: f64| {
            vec![Some(Value::Text(name.into())), n.map(Value::Int), Some(Value::Float(share))]
        };
        Answer {
            columns: ["name", "n", "share"].map(String::from).to_vec(),
            rows: vec![row("gemm, \"big\"", Some(10), 0.5), row("copy\u{1b}[2J", None, 0.25)],
        }
    }

    #[test]
    fn csv_quotes_and_leaves_missing_values_empty() {
        let expected = "name,n,share\n\"gemm, \"\"big\"\"\",10,0.5\ncopy\u{fffd}[2J,,0.25\n";
        assert_eq!(sample().csv(), expected);
    }

    #[test]
    fn text_aligns_and_shows_no_control_characters() {
        let expected =
            "name          n  share\ngemm, \"big\"  10    0.5\ncopy\u{fffd}[2J          0.25\n";
        assert_eq!(sample().text(40), expected);
    }

    #[test]
    fn long_cells_keep_both_ends() {
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghij", 1), "…");
        assert_eq!(shortened("äöüß", 3), "ä…ß");
    }

    #[test]
    fn rows_sort_by_all_columns_missing_first() {
        let row = |a: Option<i64>, b: f64| vec![a.map(Value::Int), Some(Value::Float(b))];
        let mut answer = Answer {
            columns: vec!["a".into(), "b".into()],
            rows: vec![row(Some(2), 0.0), row(Some(1), 2.0), row(Some(1), -1.0), row(None, 9.0)],
        };
        answer.sort();
        let expected = [row(None, 9.0), row(Some(1), -1.0), row(Some(1), 2.0), row(Some(2), 0.0)];
        assert_eq!(answer.rows, expected);
    }
}
