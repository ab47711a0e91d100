//! The rows of a lake for SQL.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::{Path, PathBuf};

use polars_core::prelude::DataFrame;
use rooflens_query::{Copied, Described, DescribedColumn, Value};
use rooflens_session::table::Kind as Declared;

use super::LakeError;
use super::files::{parts, read_part};
use super::lake::Lake;
use super::schema::{Column, KEY, Kind, TABLES, Table, table};
use super::sums::{Sums, has_star, is_part, tokens};

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
        let words: BTreeSet<&str> = sql.split(|letter| !is_part(letter)).collect();
        let tokens = tokens(&sql);
        let has_star = has_star(&tokens);
        let mut copied = Vec::new();
        for table in TABLES {
            let columns: Vec<&'static Column> = table.all_columns().collect();
            let sums = Sums::of(&tokens).filter(|sums| sums.table.name == table.name);
            let rows: Box<dyn Iterator<Item = Row>> = match sums {
                Some(sums) => {
                    let frames = read_frames(self.files(table)?, sums.columns(), unread);
                    Box::new(sums.rows(frames))
                }
                None if words.contains(table.name) => {
                    // A frame without columns has no rows.
                    let is_wanted = |column: &&Column| {
                        has_star || words.contains(column.name) || column.name == KEY[0].name
                    };
                    let wanted = columns.iter().copied().filter(is_wanted).collect();
                    Box::new(read_rows(self.files(table)?, wanted, columns, unread))
                }
                None => Box::new(iter::empty()),
            };
            copied.push(Copied {
                table: described(table),
                rows,
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
    read_frames(files, wanted, unread).flat_map(move |frame| rows(&frame, &columns))
}

/// Some columns of files, a part of a file at a time.
fn read_frames<'a>(
    files: Vec<PathBuf>,
    columns: Vec<&'static Column>,
    unread: &'a Unread,
) -> impl Iterator<Item = DataFrame> + use<'a> {
    let parts = files.into_iter().flat_map(|path| {
        let parts = known(parts(&path), &path, unread).unwrap_or_default();
        parts.into_iter().map(move |part| (path.clone(), part))
    });
    parts.flat_map(move |(path, part)| known(read_part(&path, &columns, part), &path, unread))
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
