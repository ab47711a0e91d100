//! Parquet files of results.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use polars_core::prelude::{
    Column as Series, DataFrame, DataType, Float64Chunked, Int64Chunked, IntoColumn,
    NewChunkedArray, StringChunked,
};
use polars_io::SerReader;
use polars_io::parquet::read::{ParallelStrategy, ParquetReader};
use polars_io::parquet::write::{
    BatchedWriter, KeyValueMetadata, ParquetCompression, ParquetWriter,
};
use rooflens_document::{Cell, Quantity};

use super::LakeError;
use super::schema::{Column, Kind, Table, VERSION};

/// Rows of a row group. Fixed, because the bytes of a file depend on it.
pub(crate) const ROW_GROUP: usize = 1 << 17;

/// Key of the version in the metadata of a file.
const SCHEMA: &str = "rooflens.results";

/// The rows of a table, column by column.
pub(crate) struct Rows {
    table: &'static Table,
    columns: Vec<(&'static Column, Values)>,
}

enum Values {
    Text(Vec<Option<String>>),
    Int(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
}

impl Values {
    /// Adds the value of a cell; gives back one that does not fit.
    fn push(&mut self, cell: Cell) -> Result<(), Cell> {
        match (self, cell) {
            (Self::Text(texts), Cell::Missing) => texts.push(None),
            (Self::Text(texts), cell) => texts.push(Some(cell.plain())),
            (Self::Int(integers), Cell::Missing) => integers.push(None),
            (Self::Int(integers), Cell::Int(value)) => integers.push(Some(value)),
            (Self::Int(integers), Cell::Float(value) | Cell::Quantity(Quantity { value, .. }))
                if value.fract() == 0.0 =>
            {
                integers.push(Some(value as i64));
            }
            (Self::Float(numbers), Cell::Missing) => numbers.push(None),
            (Self::Float(numbers), Cell::Int(value)) => numbers.push(Some(value as f64)),
            (Self::Float(numbers), Cell::Float(value) | Cell::Quantity(Quantity { value, .. })) => {
                numbers.push(Some(value))
            }
            (_, cell) => return Err(cell),
        }
        Ok(())
    }
}

impl Rows {
    /// No rows.
    pub(crate) fn new(table: &'static Table) -> Self {
        let mut columns = Vec::new();
        for column in table.all_columns() {
            let values = match column.kind {
                Kind::Text => Values::Text(Vec::new()),
                Kind::Int => Values::Int(Vec::new()),
                Kind::Float => Values::Float(Vec::new()),
            };
            columns.push((column, values));
        }
        Self { table, columns }
    }

    /// Adds a row: the key and the cells of the other columns.
    pub(crate) fn push(&mut self, key: &[Cell], cells: Vec<Cell>) -> Result<(), LakeError> {
        let cells = key.iter().cloned().chain(cells);
        for ((column, values), cell) in self.columns.iter_mut().zip(cells) {
            values.push(cell).map_err(|cell| LakeError::Cell {
                table: self.table.name,
                column: column.name,
                value: cell.plain(),
            })?;
        }
        Ok(())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.columns[0].1 {
            Values::Text(texts) => texts.is_empty(),
            Values::Int(integers) => integers.is_empty(),
            Values::Float(numbers) => numbers.is_empty(),
        }
    }
}

/// Rows as the bytes of a Parquet file.
pub(crate) fn write(rows: Rows) -> Result<Vec<u8>, LakeError> {
    let mut columns = Vec::new();
    for (column, values) in rows.columns {
        let name = column.name.into();
        columns.push(match values {
            Values::Text(texts) => {
                StringChunked::from_iter_options(name, texts.into_iter()).into_column()
            }
            Values::Int(integers) => {
                Int64Chunked::from_iter_options(name, integers.into_iter()).into_column()
            }
            Values::Float(numbers) => {
                Float64Chunked::from_iter_options(name, numbers.into_iter()).into_column()
            }
        });
    }
    let path = format!("{}.parquet", rows.table.name);
    let path = Path::new(&path);
    let frame = DataFrame::new_infer_height(columns);
    let frame = frame.map_err(|error| LakeError::damaged(path, &error))?;
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, path, frame)?.finish()?;
    Ok(bytes)
}

/// A file that is written a row group at a time.
pub(crate) struct Writer<W: Write> {
    writer: BatchedWriter<W>,
    path: PathBuf,
    /// Rows of the next row group.
    rows: DataFrame,
}

impl<W: Write> Writer<W> {
    /// A file with the version in its metadata.
    pub(crate) fn new(target: W, path: &Path, rows: DataFrame) -> Result<Self, LakeError> {
        // Not what each column means: a lake has thousands of files, and docs/data.md says it once.
        let about = vec![(SCHEMA.to_owned(), VERSION.to_string())];
        let writer = ParquetWriter::new(target)
            .with_compression(ParquetCompression::Zstd(None))
            .with_row_group_size(Some(ROW_GROUP))
            .set_parallel(false)
            .with_key_value_metadata(Some(KeyValueMetadata::from_static(about)))
            .batched(rows.schema());
        let path = path.to_owned();
        match writer {
            Ok(writer) => Ok(Self { writer, path, rows }),
            Err(error) => Err(LakeError::damaged(&path, &error)),
        }
    }

    /// Adds rows.
    pub(crate) fn push(&mut self, rows: DataFrame) -> Result<(), LakeError> {
        let added = self.rows.vstack_mut_owned(rows);
        added.map_err(|error| LakeError::damaged(&self.path, &error))?;
        if self.rows.height() >= ROW_GROUP {
            let group = self.rows.clear();
            self.write(group)?;
        }
        Ok(())
    }

    /// Writes the rows so far as a row group; `next` are those that follow.
    fn write(&mut self, next: DataFrame) -> Result<(), LakeError> {
        let mut group = std::mem::replace(&mut self.rows, next);
        group.rechunk_mut();
        let written = self.writer.write_batch(&group);
        written.map_err(|error| LakeError::damaged(&self.path, &error))
    }

    /// Writes the rest and the footer.
    pub(crate) fn finish(mut self) -> Result<(), LakeError> {
        let nothing = self.rows.clear();
        self.write(nothing)?;
        let finished = self.writer.finish();
        finished
            .map(drop)
            .map_err(|error| LakeError::damaged(&self.path, &error))
    }
}

/// Opens a file and refuses one that is no table of this version.
fn open(path: &Path) -> Result<ParquetReader<File>, LakeError> {
    let file = File::open(path).map_err(LakeError::io(path))?;
    let mut reader = ParquetReader::new(file);
    let metadata = reader.get_metadata();
    let metadata = metadata.map_err(|error| LakeError::damaged(path, &error))?;
    let pairs = metadata.key_value_metadata().iter().flatten();
    let mut versions = pairs.filter(|pair| pair.key == SCHEMA);
    match versions.next().and_then(|pair| pair.value.as_deref()) {
        Some(version) if version == VERSION.to_string() => Ok(reader),
        Some(version) => {
            let reason = format!("is of version {version}, and {VERSION} is read");
            Err(LakeError::damaged(path, &reason))
        }
        None => Err(LakeError::damaged(path, "is no table of results")),
    }
}

/// Checks the footer of a file.
pub(crate) fn check(path: &Path) -> Result<(), LakeError> {
    open(path).map(drop)
}

/// The first row and the number of rows of each row group. A large one is several parts, which take less memory.
pub(crate) fn parts(path: &Path) -> Result<Vec<(usize, usize)>, LakeError> {
    let mut reader = open(path)?;
    let metadata = reader.get_metadata();
    let metadata = metadata.map_err(|error| LakeError::damaged(path, &error))?;
    let mut parts = Vec::new();
    let mut first = 0;
    for group in &metadata.row_groups {
        let end = first + group.num_rows();
        while first < end {
            let rows = (end - first).min(2 * ROW_GROUP);
            parts.push((first, rows));
            first += rows;
        }
    }
    Ok(parts)
}

/// The rows of a file in the declared columns; one that the file lacks is missing in all rows.
pub(crate) fn read(path: &Path, columns: &[&Column]) -> Result<DataFrame, LakeError> {
    read_part(path, columns, (0, usize::MAX))
}

/// As [`read`]: of the rows from the first of two numbers on, so many as the second says.
pub(crate) fn read_part(
    path: &Path,
    columns: &[&Column],
    part: (usize, usize),
) -> Result<DataFrame, LakeError> {
    let damaged = |error| LakeError::damaged(path, &error);
    let mut reader = open(path)?;
    let stored = reader.schema().map_err(damaged)?;
    let mut names = Vec::new();
    for column in columns {
        if stored.contains(column.name) {
            names.push(column.name.to_owned());
        }
    }
    let reader = reader.with_columns(Some(names)).with_slice(Some(part));
    // Most files are small: threads for their columns cost more than they save.
    let reader = reader.read_parallel(ParallelStrategy::None);
    let frame = reader.finish().map_err(damaged)?;
    let mut values = Vec::new();
    for column in columns {
        let kind = match column.kind {
            Kind::Text => DataType::String,
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float64,
        };
        values.push(match frame.column(column.name) {
            Ok(found) => found.cast(&kind).map_err(damaged)?,
            Err(_) => Series::full_null(column.name.into(), frame.height(), &kind),
        });
    }
    DataFrame::new(frame.height(), values).map_err(damaged)
}
