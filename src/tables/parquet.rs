//! Tables as Parquet files.

use std::collections::BTreeMap;

use polars::prelude::DataFrame;
use polars_io::parquet::write::{KeyValueMetadata, ParquetCompression, ParquetWriter};

use super::TablesError;
use super::answer::{Answer, Value};
use super::frame::{Texts, frame, from_answer, layout};
use crate::findings::{Cell, Dataset, Quantity};
use crate::model::Session;
use crate::model::table::Table;

/// Contents by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Rows of a row group. Fixed, because the bytes of a file depend on it.
const ROW_GROUP: usize = 1 << 18;

/// The tables that have rows, as `tables/<name>.parquet`: Zstandard, the same bytes for the same session.
///
/// The file's key-value metadata holds what a row is (`rooflens.table`) and what each column is, with its
/// unit (`rooflens.column.<name>`).
pub fn parquet(session: &Session) -> Result<Files, TablesError> {
    let texts = Texts::new(&session.strings);
    let mut files = Files::new();
    for table in session.tables().into_iter().filter(|table| table.rows() > 0) {
        files.insert(format!("tables/{}.parquet", table.name()), file(table, &texts)?);
    }
    Ok(files)
}

/// Data sets that have rows, as `tables/<id>.parquet`, their columns with heading and unit in the metadata.
pub fn parquet_of(datasets: &[Dataset]) -> Result<Files, TablesError> {
    let mut files = Files::new();
    for dataset in datasets.iter().filter(|dataset| !dataset.rows.is_empty()) {
        let columns = dataset.columns.iter().map(|column| column.id.to_owned()).collect();
        let rows = dataset.rows.iter().map(|row| row.iter().map(value).collect()).collect();
        let frame = from_answer(dataset.id, &Answer { columns, rows })?;
        let of_columns = dataset.columns.iter().map(|column| {
            let unit = Quantity::new(0.0, column.unit).base();
            (format!("rooflens.column.{}", column.id), format!("{} [{unit}]", column.title))
        });
        let title = ("rooflens.table".to_owned(), dataset.title.clone());
        let about = std::iter::once(title).chain(of_columns).collect();
        files.insert(format!("tables/{}.parquet", dataset.id), write(dataset.id, frame, about)?);
    }
    Ok(files)
}

fn value(cell: &Cell) -> Option<Value> {
    Some(match cell {
        Cell::Text(text) | Cell::Name(text) => Value::Text(text.clone()),
        Cell::Int(value) => Value::Int(*value),
        Cell::Float(value) | Cell::Quantity(Quantity { value, .. }) => Value::Float(*value),
        Cell::Flag(holds) => Value::Bool(*holds),
        Cell::Missing => return None,
    })
}

fn file(table: &dyn Table, texts: &Texts) -> Result<Vec<u8>, TablesError> {
    write(table.name(), frame(table, texts)?, descriptions(table))
}

fn write(
    name: &str,
    mut frame: DataFrame,
    about: Vec<(String, String)>,
) -> Result<Vec<u8>, TablesError> {
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .with_compression(ParquetCompression::Zstd(None))
        .with_row_group_size(Some(ROW_GROUP))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(about)))
        .finish(&mut frame)
        .map_err(|error| layout(name, &error))?;
    Ok(bytes)
}

fn descriptions(table: &dyn Table) -> Vec<(String, String)> {
    let of_table = ("rooflens.table".to_owned(), table.doc().to_owned());
    let columns = table.columns().into_iter();
    let of_columns =
        columns.map(|column| (format!("rooflens.column.{}", column.name), column.doc.to_owned()));
    std::iter::once(of_table).chain(of_columns).collect()
}
