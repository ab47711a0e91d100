//! Parquet exports of Nsight Systems (`nsys export --type parquetdir`): a file a table, with the columns of the SQLite export.
//!
//! Read is what such tables need: flat columns of numbers, texts and bytes, plain or with a dictionary, in pages of both
//! versions, unpacked or packed by Snappy, gzip or Zstandard. Anything else refuses the table. The files are hostile: sizes
//! that they state are never reserved, values are read one after another, and what they unpack to and fill is taken from the
//! input's allowance. That is why this is no library's: those reserve what a footer says.
//!
//! The tables become an SQLite export that the importer then reads, so Parquet adds no second meaning of any column.

mod footer;
mod packing;
mod runs;
mod thrift;
mod values;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::made::{Cell, MadeExport, beyond};
use crate::{IngestError, IngestErrorKind};
use footer::{Footer, Group};
use rooflens_bundle::ArtifactFile;
use rooflens_session::budget::Inflation;
use values::Values;

/// With these bytes a file begins and ends.
const MAGIC: &[u8; 4] = b"PAR1";

/// Bytes beyond which a footer is refused.
const MAX_FOOTER: u64 = 64 << 20;

/// Why a table cannot be read.
#[derive(Debug)]
enum Fault {
    /// It ends in the middle of something.
    Cut,
    Malformed(&'static str),
    Unsupported(String),
    Budget,
}

impl From<Fault> for IngestErrorKind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Cut => Self::Truncated,
            Fault::Malformed(what) => {
                Self::Unsupported(format!("its Parquet is malformed: {what}"))
            }
            Fault::Unsupported(what) => {
                Self::Unsupported(format!("its Parquet is not read: {what}"))
            }
            Fault::Budget => beyond(),
        }
    }
}

/// Makes an SQLite export at `path` of tables, each with its name.
///
/// # Errors
/// When the export cannot be written. A table that cannot be read is skipped: `lost` receives its file and the reason.
pub fn to_sqlite(
    tables: &[(&str, &ArtifactFile)],
    path: &Path,
    mut lost: impl FnMut(&ArtifactFile, IngestError),
) -> Result<(), IngestError> {
    let shared = tables.iter().find_map(|(_, file)| file.inflation.clone());
    let inflation = shared.unwrap_or_else(|| Inflation::of(0));
    let export = MadeExport::create(path, &inflation)?;
    for (table, file) in tables {
        if let Err(error) = add(&export, table, file, &inflation) {
            export.forget(table)?;
            lost(file, error);
        }
    }
    export.finish()
}

fn add(
    export: &MadeExport,
    table: &str,
    file: &ArtifactFile,
    inflation: &Inflation,
) -> Result<(), IngestError> {
    let content = file.content().map_err(IngestErrorKind::from)?;
    let plain = content.plain_file().map_err(IngestErrorKind::from)?;
    let mut source = File::open(&plain.path).map_err(IngestErrorKind::from)?;
    let footer = footer(&mut source)?;
    let names: Vec<&str> = footer
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    export.table(table, &names)?;
    for group in &footer.groups {
        add_group(export, table, &mut source, (&footer, group), inflation)?;
    }
    Ok(())
}

/// The footer, whose length stands before the last four bytes.
fn footer(source: &mut File) -> Result<Footer, IngestError> {
    let length = source.metadata().map_err(IngestErrorKind::from)?.len();
    let tail = length.checked_sub(8).ok_or(IngestErrorKind::Truncated)?;
    let end = read(source, tail, 8)?;
    let [a, b, c, d, magic @ ..] = &end[..] else {
        return Err(IngestErrorKind::Truncated.into());
    };
    if magic != MAGIC {
        return Err(IngestErrorKind::Truncated.into());
    }
    let size = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
    let start = tail.checked_sub(size).filter(|_| size <= MAX_FOOTER);
    let bytes = read(source, start.ok_or(IngestErrorKind::Truncated)?, size)?;
    Ok(Footer::read(&bytes).map_err(IngestErrorKind::from)?)
}

/// So many bytes from `start`; they are there, or the file is cut off.
fn read(source: &mut File, start: u64, length: u64) -> Result<Vec<u8>, IngestError> {
    let mut bytes = Vec::new();
    source
        .seek(SeekFrom::Start(start))
        .map_err(IngestErrorKind::from)?;
    source
        .take(length)
        .read_to_end(&mut bytes)
        .map_err(IngestErrorKind::from)?;
    let is_whole = bytes.len() as u64 == length;
    if is_whole {
        Ok(bytes)
    } else {
        Err(IngestErrorKind::Truncated.into())
    }
}

fn add_group(
    export: &MadeExport,
    table: &str,
    source: &mut File,
    (footer, group): (&Footer, &Group),
    inflation: &Inflation,
) -> Result<(), IngestError> {
    let mut pages = Vec::new();
    for chunk in &group.chunks {
        // Chunks may overlap in a hostile file, and be many.
        if !inflation.take(chunk.bytes) {
            return Err(beyond().into());
        }
        pages.push(read(source, chunk.start, chunk.bytes)?);
    }
    let columns = footer.columns.iter().zip(&group.chunks).zip(&pages);
    let mut columns: Vec<Values<'_>> = columns
        .map(|((column, chunk), pages)| Values::new(column, *chunk, pages, inflation))
        .collect();
    for _ in 0..group.rows {
        columns
            .iter_mut()
            .try_for_each(Values::advance)
            .map_err(IngestErrorKind::from)?;
        let cells: Result<Vec<Cell<'_>>, Fault> = columns.iter().map(Values::cell).collect();
        export.row(table, &cells.map_err(IngestErrorKind::from)?)?;
    }
    Ok(())
}
