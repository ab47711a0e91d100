//! Tables as Parquet files.

use std::collections::BTreeMap;

use polars_io::parquet::write::{KeyValueMetadata, ParquetCompression, ParquetWriter};

use super::TablesError;
use super::frame::{Texts, frame};
use crate::model::Session;
use crate::model::table::Table;

/// Rows of a row group. Fixed, because the bytes of a file depend on it.
const ROW_GROUP: usize = 1 << 18;

/// The tables that have rows, as `tables/<name>.parquet`: Zstandard, the same bytes for the same session.
///
/// The file's key-value metadata holds what a row is (`rooflens.table`) and what each column is, with its
/// unit (`rooflens.column.<name>`).
pub fn parquet(session: &Session) -> Result<BTreeMap<String, Vec<u8>>, TablesError> {
    let texts = Texts::new(&session.strings);
    let mut files = BTreeMap::new();
    for table in session.tables().into_iter().filter(|table| table.rows() > 0) {
        files.insert(format!("tables/{}.parquet", table.name()), file(table, &texts)?);
    }
    Ok(files)
}

fn file(table: &dyn Table, texts: &Texts) -> Result<Vec<u8>, TablesError> {
    let mut frame = frame(table, texts)?;
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .with_compression(ParquetCompression::Zstd(None))
        .with_row_group_size(Some(ROW_GROUP))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(descriptions(table))))
        .finish(&mut frame)
        .map_err(|error| TablesError::Layout {
            table: table.name().to_owned(),
            reason: error.to_string(),
        })?;
    Ok(bytes)
}

fn descriptions(table: &dyn Table) -> Vec<(String, String)> {
    let of_table = ("rooflens.table".to_owned(), table.doc().to_owned());
    let columns = table.columns().into_iter();
    let of_columns =
        columns.map(|column| (format!("rooflens.column.{}", column.name), column.doc.to_owned()));
    std::iter::once(of_table).chain(of_columns).collect()
}
