//! The footer of a Parquet file: its columns, and where they are.

use super::Fault;
use super::thrift::{TRUE, Thrift};

/// Columns beyond which a file is refused; SQLite takes no more.
const MAX_COLUMNS: usize = 512;

/// How values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Physical {
    Bool,
    Int32,
    Int64,
    Float,
    Double,
    Bytes,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) physical: Physical,
    /// Values may be absent.
    pub(super) is_optional: bool,
    /// Bytes are UTF-8.
    pub(super) is_text: bool,
    pub(super) is_unsigned: bool,
}

/// The values of a column in a group of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    pub(super) codec: i64,
    /// Where its first page begins, and the bytes of all.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// A group of rows.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) rows: u64,
    /// By column.
    pub(super) chunks: Vec<Chunk>,
}

/// The contents of a footer.
#[derive(Debug, Default)]
pub(super) struct Footer {
    pub(super) columns: Vec<Column>,
    pub(super) groups: Vec<Group>,
}

/// An element of the schema.
#[derive(Default)]
struct Element {
    name: String,
    physical: Option<i64>,
    repetition: i64,
    children: i64,
    converted: Option<i64>,
    is_string: bool,
    is_unsigned: bool,
}

impl Footer {
    /// Reads the bytes between the last page and the length of the footer.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let (mut footer, mut elements) = (Self::default(), Vec::new());
        Thrift::new(bytes, 0).fields(|thrift, number, _| {
            match number {
                2 => thrift.list(|thrift| {
                    elements.push(element(thrift)?);
                    let few = elements.len() <= MAX_COLUMNS + 1;
                    if few {
                        Ok(())
                    } else {
                        Err(Fault::Malformed("it has more than 512 columns"))
                    }
                })?,
                4 => thrift.list(|thrift| {
                    footer.groups.push(group(thrift)?);
                    Ok(())
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        // The first element is the row.
        footer.columns = elements
            .into_iter()
            .skip(1)
            .map(column)
            .collect::<Result<_, _>>()?;
        let width = footer.columns.len();
        if width == 0
            || footer
                .groups
                .iter()
                .any(|group| group.chunks.len() != width)
        {
            return Err(Fault::Malformed(
                "its rows do not have the columns of its schema",
            ));
        }
        Ok(footer)
    }
}

fn element(thrift: &mut Thrift<'_>) -> Result<Element, Fault> {
    let mut element = Element::default();
    thrift.fields(|thrift, number, _| {
        match number {
            1 => element.physical = Some(thrift.int()?),
            3 => element.repetition = thrift.int()?,
            4 => element.name = String::from_utf8_lossy(thrift.binary()?).into_owned(),
            5 => element.children = thrift.int()?,
            6 => element.converted = Some(thrift.int()?),
            // The logical type: 1 is a string, 10 an integer, whose field 2 says whether it has a sign.
            10 => thrift.fields(|thrift, kind, _| {
                element.is_string |= kind == 1;
                if kind != 10 {
                    return Ok(false);
                }
                element.is_unsigned = true;
                thrift.fields(|_, number, value| {
                    element.is_unsigned &= number != 2 || value != TRUE;
                    Ok(false)
                })?;
                Ok(true)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(element)
}

fn column(element: Element) -> Result<Column, Fault> {
    let unsupported = |fault: &str| Fault::Unsupported(format!("column {} {fault}", element.name));
    if element.children != 0 || element.repetition == 2 {
        return Err(unsupported("holds structures or lists"));
    }
    let physical = match element.physical {
        Some(0) => Physical::Bool,
        Some(1) => Physical::Int32,
        Some(2) => Physical::Int64,
        Some(4) => Physical::Float,
        Some(5) => Physical::Double,
        Some(6) => Physical::Bytes,
        _ => return Err(unsupported("is of a type that SQLite has not")),
    };
    Ok(Column {
        physical,
        is_optional: element.repetition != 0,
        // UTF8, ENUM, JSON.
        is_text: element.is_string || matches!(element.converted, Some(0 | 4 | 19)),
        // UINT_8 to UINT_64.
        is_unsigned: element.is_unsigned || matches!(element.converted, Some(11..=14)),
        name: element.name,
    })
}

fn group(thrift: &mut Thrift<'_>) -> Result<Group, Fault> {
    let mut group = Group::default();
    thrift.fields(|thrift, number, _| {
        match number {
            1 => thrift.list(|thrift| {
                group.chunks.push(chunk(thrift)?);
                Ok(())
            })?,
            3 => group.rows = unsigned(thrift)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(group)
}

fn chunk(thrift: &mut Thrift<'_>) -> Result<Chunk, Fault> {
    let mut chunk = Chunk::default();
    let mut dictionary = None;
    thrift.fields(|thrift, number, _| {
        // The chunk's metadata.
        if number != 3 {
            return Ok(false);
        }
        thrift.fields(|thrift, number, _| {
            match number {
                4 => chunk.codec = thrift.int()?,
                7 => chunk.bytes = unsigned(thrift)?,
                9 => chunk.start = unsigned(thrift)?,
                11 => dictionary = Some(unsigned(thrift)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(true)
    })?;
    // Some writers say 0 where there is none.
    chunk.start = dictionary
        .filter(|page| *page > 0)
        .map_or(chunk.start, |page| page.min(chunk.start));
    Ok(chunk)
}

fn unsigned(thrift: &mut Thrift<'_>) -> Result<u64, Fault> {
    u64::try_from(thrift.int()?).map_err(|_| Fault::Malformed("a size is negative"))
}
