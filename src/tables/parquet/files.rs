//! Tables as Parquet files.

use std::collections::BTreeMap;

use polars_core::prelude::{DataFrame, SchemaRef};
use polars_io::parquet::write::{KeyValueMetadata, ParquetCompression, ParquetWriter};

use super::TablesError;
use super::frame::{Texts, frame, from_answer, layout, of_dataset};
use rooflens_document::{Dataset, Quantity};
use rooflens_query::Answer;
use rooflens_session::table::Table;
use rooflens_session::view::{self, ViewColumn};
use rooflens_session::{Session, TABLES};

/// Contents by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Rows of a row group. Fixed, because the bytes of a file depend on it.
const ROW_GROUP: usize = 1 << 18;

/// The tables that have rows, as `tables/<name>.parquet`: Zstandard, the same bytes for the same session.
///
/// The file's key-value metadata holds what a row is (`rooflens.table`), what each column is
/// (`rooflens.column.<name>`), and its unit where it has one (`rooflens.unit.<name>`).
pub fn parquet(session: &Session) -> Result<Files, TablesError> {
    let texts = Texts::new(&session.strings);
    let mut files = Files::new();
    for table in TABLES {
        let table = table(session);
        if table.rows() == 0 {
            continue;
        }
        let columns = view::columns(table);
        let groups = (0..table.rows()).step_by(ROW_GROUP).map(|start| {
            let rows = start..table.rows().min(start + ROW_GROUP);
            frame(session, table, (&columns, rows), &texts)
        });
        let bytes = write(table.name(), groups, descriptions(table, &columns))?;
        files.insert(format!("tables/{}.parquet", table.name()), bytes);
    }
    Ok(files)
}

/// Data sets that have rows, as `tables/<id>.parquet`, their columns with heading (`rooflens.column.<name>`) and unit
/// (`rooflens.unit.<name>`) in the metadata.
pub fn parquet_of(datasets: &[Dataset]) -> Result<Files, TablesError> {
    let mut files = Files::new();
    for dataset in datasets {
        if dataset.rows.is_empty() {
            continue;
        }
        let mut metadata = vec![("rooflens.table".to_owned(), dataset.title.clone())];
        for column in &dataset.columns {
            let unit = Quantity::new(0.0, column.unit).base();
            metadata.extend(about(column.id, column.title, unit));
        }
        let frame = of_dataset(dataset)?;
        let bytes = write(dataset.id, [Ok(frame)], metadata)?;
        files.insert(format!("tables/{}.parquet", dataset.id), bytes);
    }
    Ok(files)
}

/// The answer of a query as one file.
pub fn parquet_of_answer(answer: &Answer) -> Result<Vec<u8>, TablesError> {
    write("answer", [from_answer("answer", answer)], Vec::new())
}

/// Writes frames of the same columns one after the other.
fn write(
    name: &str,
    frames: impl IntoIterator<Item = Result<DataFrame, TablesError>>,
    about: Vec<(String, String)>,
) -> Result<Vec<u8>, TablesError> {
    let failed = |error| layout(name, &error);
    let mut bytes = Vec::new();
    let writer = ParquetWriter::new(&mut bytes)
        .with_compression(ParquetCompression::Zstd(None))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(about)));
    let mut frames = frames.into_iter().peekable();
    let schema = match frames.peek() {
        Some(Ok(frame)) => frame.schema().clone(),
        _ => SchemaRef::default(),
    };
    let mut writer = writer.batched(&schema).map_err(failed)?;
    for frame in frames {
        writer.write_batch(&frame?).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

fn descriptions(table: &dyn Table, columns: &[ViewColumn]) -> Vec<(String, String)> {
    let mut metadata = vec![("rooflens.table".to_owned(), table.doc().to_owned())];
    for column in columns {
        metadata.extend(about(&column.name, &column.doc, column.unit()));
    }
    metadata
}

/// What the metadata says of a column.
fn about(name: &str, doc: &str, unit: &str) -> impl Iterator<Item = (String, String)> + use<> {
    let doc = (format!("rooflens.column.{name}"), doc.to_owned());
    let unit = (!unit.is_empty()).then(|| (format!("rooflens.unit.{name}"), unit.to_owned()));
    std::iter::once(doc).chain(unit)
}
