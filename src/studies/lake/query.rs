//! The rows of a lake for SQL.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use polars_core::prelude::DataFrame;
use rooflens_query::{Copied, Described, DescribedColumn, Value};
use rooflens_session::table::Kind as Declared;

use super::LakeError;
use super::files::{ROW_GROUP, height, read_part};
use super::lake::Lake;
use super::schema::{Column, KEY, Kind, TABLES, Table, table};

/// Files that cannot be read, and why: their rows are missing.
pub type Unread = RefCell<BTreeMap<PathBuf, LakeError>>;

pub(crate) type Row = Vec<Option<Value>>;

impl Lake {
    /// The tables, with the rows of those that a statement names, and with values in the columns that it names.
    ///
    /// # Errors
    /// The lake cannot be listed.
    pub fn copied<'a>(&self, sql: &str, unread: &'a Unread) -> Result<Vec<Copied<'a>>, LakeError> {
        let sql = sql.to_lowercase();
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let words: BTreeSet<&str> = sql.split(|letter| !is_part(letter)).collect();
        let has_star = has_star(&sql);
        let mut copied = Vec::new();
        for table in TABLES {
            // A frame without columns has no rows.
            let is_wanted = |column: &&Column| {
                has_star || words.contains(column.name) || column.name == KEY[0].name
            };
            let wanted: Vec<&'static Column> = table.all_columns().filter(is_wanted).collect();
            let files = match words.contains(table.name) {
                true => self.files(table)?,
                false => Vec::new(),
            };
            let columns: Vec<&'static Column> = table.all_columns().collect();
            copied.push(Copied {
                table: described(table),
                rows: Box::new(read_rows(files, wanted, columns, unread)),
            });
        }
        Ok(copied)
    }

    /// The rows of a table in some of its columns, a part of a file at a time.
    pub(crate) fn scan<'a>(
        &self,
        name: &str,
        columns: &[&str],
        unread: &'a Unread,
    ) -> Result<impl Iterator<Item = Row> + use<'a>, LakeError> {
        let mut files = Vec::new();
        let mut wanted = Vec::new();
        if let Some(table) = table(name) {
            files = self.files(table)?;
            for name in columns {
                wanted.extend(table.all_columns().find(|column| column.name == *name));
            }
        }
        Ok(read_rows(files, wanted.clone(), wanted, unread))
    }

    /// The files of a table.
    fn files(&self, table: &Table) -> Result<Vec<PathBuf>, LakeError> {
        let batches = self.batches()?;
        let files = batches.iter().map(|batch| batch.file(table));
        Ok(files.filter(|file| file.is_file()).collect())
    }
}

/// The rows of files in some columns, with values in those that are wanted.
fn read_rows<'a>(
    files: Vec<PathBuf>,
    wanted: Vec<&'static Column>,
    columns: Vec<&'static Column>,
    unread: &'a Unread,
) -> impl Iterator<Item = Row> + use<'a> {
    let parts = files.into_iter().flat_map(|path| parts(path, unread));
    parts.flat_map(move |(path, first)| {
        let frame = read_part(&path, &wanted, (first, ROW_GROUP));
        known(frame, &path, unread).map_or_else(Vec::new, |frame| rows(&frame, &columns))
    })
}

/// A result; of an error that the file has one.
fn known<T>(result: Result<T, LakeError>, path: &Path, unread: &Unread) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            unread.borrow_mut().entry(path.to_owned()).or_insert(error);
            None
        }
    }
}

/// The places of a file from which parts of it are read, each as large as a row group.
fn parts(path: PathBuf, unread: &Unread) -> impl Iterator<Item = (PathBuf, usize)> + use<> {
    let height = known(height(&path), &path, unread).unwrap_or(0);
    let places = (0..height).step_by(ROW_GROUP);
    places.map(move |first| (path.clone(), first))
}

/// The rows of a frame in some columns.
fn rows(frame: &DataFrame, columns: &[&Column]) -> Vec<Row> {
    let mut rows = vec![vec![None; columns.len()]; frame.height()];
    for (place, column) in columns.iter().enumerate() {
        let Ok(values) = frame.column(column.name) else {
            continue;
        };
        match column.kind {
            Kind::Text => {
                let texts = values.str().into_iter().flat_map(|texts| texts.iter());
                fill(&mut rows, place, texts, |text| Value::Text(text.to_owned()));
            }
            Kind::Int => {
                let numbers = values.i64().into_iter().flat_map(|numbers| numbers.iter());
                fill(&mut rows, place, numbers, Value::Int);
            }
            Kind::Float => {
                let numbers = values.f64().into_iter().flat_map(|numbers| numbers.iter());
                fill(&mut rows, place, numbers, Value::Float);
            }
        }
    }
    rows
}

fn fill<T>(
    rows: &mut [Row],
    place: usize,
    values: impl Iterator<Item = Option<T>>,
    value: impl Fn(T) -> Value,
) {
    for (row, one) in rows.iter_mut().zip(values) {
        row[place] = one.map(&value);
    }
}

fn described(table: &Table) -> Described {
    let mut columns = Vec::new();
    for column in table.all_columns() {
        columns.push(DescribedColumn {
            name: column.name.to_owned(),
            doc: column.doc.to_owned(),
            kind: match column.kind {
                Kind::Text => Declared::Text,
                Kind::Int => Declared::Int,
                Kind::Float => Declared::Float,
            },
            unit: column.unit,
        });
    }
    Described {
        name: table.name.to_owned(),
        doc: table.doc.to_owned(),
        rows: 0,
        columns,
    }
}

/// Whether a statement asks for all columns: a star that no operand and no parenthesis is before.
fn has_star(sql: &str) -> bool {
    const BEFORE: [&str; 5] = [",", ".", "select", "distinct", "all"];
    let is_before = |(place, _): (usize, &str)| {
        let before = sql[..place].trim_end();
        BEFORE.iter().any(|word| before.ends_with(word))
    };
    sql.match_indices('*').any(is_before)
}

#[cfg(test)]
mod tests {
    use super::has_star;

    #[test]
    fn a_star_of_columns_is_no_product_and_no_count() {
        for all in ["select * from a", "select b, * from a", "select a.* from a"] {
            assert!(has_star(all), "{all}");
        }
        for product in ["select count(*) from a", "select 2 * b from a", "select b"] {
            assert!(!has_star(product), "{product}");
        }
    }
}
