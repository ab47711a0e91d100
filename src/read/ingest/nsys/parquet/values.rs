//! The values of a column, one after another: no more of them is in memory than a page and its dictionary.

use rooflens_session::budget::Inflation;

use super::footer::{Chunk, Column, Physical};
use super::packing::unpack;
use super::runs::Runs;
use super::thrift::{TRUE, Thrift};
use super::{Cell, Fault};

/// A value: of bytes, where they stand.
#[derive(Clone, Copy, Debug)]
enum Value {
    Null,
    Int(i64),
    Real(f64),
    Bytes {
        at: usize,
        end: usize,
        is_of_dictionary: bool,
    },
}

/// How the values of a page are stored.
#[derive(Debug)]
enum Coding {
    /// One after another, from here on.
    Plain(usize),
    /// Truth values, of which the next is at this bit.
    Bits(usize),
    /// Numbers of entries of the dictionary, or truth values.
    Runs(Runs),
}

/// A column of a group of rows.
pub(super) struct Values<'a> {
    column: &'a Column,
    codec: i64,
    pages: &'a [u8],
    /// Where the next page begins.
    at: usize,
    inflation: &'a Inflation,
    page: Vec<u8>,
    /// Values left of the page, whether each is there, and how they are stored.
    left: u64,
    levels: Option<Runs>,
    coding: Coding,
    dictionary: Vec<u8>,
    entries: Vec<Value>,
    value: Value,
}

/// The head of a page.
#[derive(Debug, Default)]
struct Head {
    kind: i64,
    size: i64,
    packed_size: i64,
    values: i64,
    encoding: i64,
    /// Of a page of version 2: bytes of levels, which are not packed.
    repetition: i64,
    definition: i64,
    is_plain: bool,
}

impl<'a> Values<'a> {
    /// Those of the pages of a chunk.
    pub(super) const fn new(
        column: &'a Column,
        chunk: Chunk,
        pages: &'a [u8],
        inflation: &'a Inflation,
    ) -> Self {
        Self {
            column,
            codec: chunk.codec,
            pages,
            at: 0,
            inflation,
            page: Vec::new(),
            left: 0,
            levels: None,
            coding: Coding::Plain(0),
            dictionary: Vec::new(),
            entries: Vec::new(),
            value: Value::Null,
        }
    }

    /// Goes to the next value.
    pub(super) fn advance(&mut self) -> Result<(), Fault> {
        while self.left == 0 {
            self.next_page()?;
        }
        self.left -= 1;
        let is_there = match &mut self.levels {
            Some(levels) => levels.next(&self.page)? == 1,
            None => true,
        };
        self.value = if is_there { self.read()? } else { Value::Null };
        Ok(())
    }

    /// What stands there.
    pub(super) fn cell(&self) -> Result<Cell<'_>, Fault> {
        Ok(match self.value {
            Value::Null => Cell::Null,
            Value::Int(value) => Cell::Int(value),
            Value::Real(value) => Cell::Real(value),
            Value::Bytes {
                at,
                end,
                is_of_dictionary,
            } => {
                let buffer = if is_of_dictionary {
                    &self.dictionary
                } else {
                    &self.page
                };
                let bytes = buffer.get(at..end).ok_or(Fault::Cut)?;
                if self.column.is_text {
                    let text = str::from_utf8(bytes);
                    Cell::Text(text.map_err(|_| Fault::Malformed("a text is not UTF-8"))?)
                } else {
                    Cell::Blob(bytes)
                }
            }
        })
    }

    fn read(&mut self) -> Result<Value, Fault> {
        let is_bool = self.column.physical == Physical::Bool;
        match &mut self.coding {
            Coding::Plain(at) => plain(self.column, &self.page, at, false),
            Coding::Bits(bit) => {
                let byte = *self.page.get(*bit >> 3).ok_or(Fault::Cut)?;
                *bit += 1;
                Ok(Value::Int(i64::from(byte >> ((*bit - 1) & 7) & 1)))
            }
            Coding::Runs(runs) if is_bool => {
                runs.next(&self.page).map(|bit| Value::Int(bit.into()))
            }
            Coding::Runs(runs) => {
                let entry = runs.next(&self.page)? as usize;
                let missing = Fault::Malformed("a value is none of its dictionary");
                self.entries.get(entry).copied().ok_or(missing)
            }
        }
    }

    fn next_page(&mut self) -> Result<(), Fault> {
        let (head, at) = head(self.pages, self.at)?;
        let size = usize::try_from(head.size).map_err(|_| Fault::Cut)?;
        let packed_size = usize::try_from(head.packed_size).map_err(|_| Fault::Cut)?;
        let end = at.checked_add(packed_size).ok_or(Fault::Cut)?;
        let packed = self.pages.get(at..end).ok_or(Fault::Cut)?;
        self.at = end;
        if !self.inflation.take(size as u64) {
            return Err(Fault::Budget);
        }
        match head.kind {
            0 => {
                self.page = unpack(self.codec, packed, size)?;
                self.levels = None;
                let mut start = 0;
                if self.column.is_optional {
                    let length = *self.page.first_chunk::<4>().ok_or(Fault::Cut)?;
                    start = 4 + u32::from_le_bytes(length) as usize;
                    self.levels = Some(Runs::new(4, start, 1)?);
                }
                self.begin(&head, start)
            }
            2 => {
                self.dictionary = unpack(self.codec, packed, size)?;
                let (mut at, mut entries) = (0, Vec::new());
                while at < self.dictionary.len() && (entries.len() as i64) < head.values {
                    entries.push(plain(self.column, &self.dictionary, &mut at, true)?);
                }
                self.entries = entries;
                Ok(())
            }
            3 => {
                let levels = head.repetition.checked_add(head.definition);
                let levels = usize::try_from(levels.ok_or(Fault::Cut)?).map_err(|_| Fault::Cut)?;
                let (plain, rest) = packed.split_at_checked(levels).ok_or(Fault::Cut)?;
                let codec = if head.is_plain || rest.is_empty() {
                    0
                } else {
                    self.codec
                };
                let length = size.checked_sub(levels).ok_or(Fault::Cut)?;
                self.page = [plain, &unpack(codec, rest, length)?].concat();
                let from = usize::try_from(head.repetition).map_err(|_| Fault::Cut)?;
                let is_optional = self.column.is_optional;
                self.levels = is_optional
                    .then(|| Runs::new(from, levels, 1))
                    .transpose()?;
                self.begin(&head, levels)
            }
            // Indexes of pages.
            _ => Ok(()),
        }
    }

    /// The values of a page begin at `at`.
    fn begin(&mut self, head: &Head, at: usize) -> Result<(), Fault> {
        let end = self.page.len();
        let is_bool = self.column.physical == Physical::Bool;
        self.coding = match head.encoding {
            0 if is_bool => Coding::Bits(at * 8),
            0 => Coding::Plain(at),
            // Behind the length of the runs.
            3 if is_bool => Coding::Runs(Runs::new(at + 4, end.max(at + 4), 1)?),
            2 | 8 if at == end => Coding::Plain(at),
            2 | 8 => {
                let width = *self.page.get(at).ok_or(Fault::Cut)?;
                Coding::Runs(Runs::new(at + 1, end, width.into())?)
            }
            other => return Err(Fault::Unsupported(format!("values in encoding {other}"))),
        };
        self.left = u64::try_from(head.values).map_err(|_| Fault::Cut)?;
        Ok(())
    }
}

/// The value at `at`, and goes behind it.
fn plain(
    column: &Column,
    bytes: &[u8],
    at: &mut usize,
    is_of_dictionary: bool,
) -> Result<Value, Fault> {
    let rest = bytes.get(*at..).ok_or(Fault::Cut)?;
    let four = || rest.first_chunk::<4>().copied().ok_or(Fault::Cut);
    let eight = || rest.first_chunk::<8>().copied().ok_or(Fault::Cut);
    let (value, length) = match column.physical {
        Physical::Int32 if column.is_unsigned => {
            (Value::Int(u32::from_le_bytes(four()?).into()), 4)
        }
        Physical::Int32 => (Value::Int(i32::from_le_bytes(four()?).into()), 4),
        // Without a sign: the bits that SQLite would store.
        Physical::Int64 => (Value::Int(i64::from_le_bytes(eight()?)), 8),
        Physical::Float => (Value::Real(f32::from_le_bytes(four()?).into()), 4),
        Physical::Double => (Value::Real(f64::from_le_bytes(eight()?)), 8),
        Physical::Bytes => {
            let length = u32::from_le_bytes(four()?) as usize;
            let start = *at + 4;
            (
                Value::Bytes {
                    at: start,
                    end: start.saturating_add(length),
                    is_of_dictionary,
                },
                4 + length,
            )
        }
        Physical::Bool => return Err(Fault::Malformed("truth values have a dictionary")),
    };
    *at = at
        .checked_add(length)
        .filter(|end| *end <= bytes.len())
        .ok_or(Fault::Cut)?;
    Ok(value)
}

/// The head of the page at `at`, and where the page begins.
fn head(pages: &[u8], at: usize) -> Result<(Head, usize), Fault> {
    let mut head = Head::default();
    let mut thrift = Thrift::new(pages, at);
    thrift.fields(|thrift, number, _| {
        match number {
            1 => head.kind = thrift.int()?,
            2 => head.size = thrift.int()?,
            3 => head.packed_size = thrift.int()?,
            // Of data, of a dictionary, of data in version 2.
            5 | 7 | 8 => {
                let is_second = number == 8;
                thrift.fields(|thrift, number, kind| {
                    match (number, is_second) {
                        (1, _) => head.values = thrift.int()?,
                        (2, false) | (4, true) => head.encoding = thrift.int()?,
                        (5, true) => head.definition = thrift.int()?,
                        (6, true) => head.repetition = thrift.int()?,
                        (7, true) => head.is_plain = kind != TRUE,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((head, thrift.at))
}
