//! Table b-trees: the pages that hold the rows of a table.
//!
//! Interior pages hold page numbers of children, leaves hold rows by ascending rowid, all leaves are equally
//! deep. A page begins with its type, the first free block at byte 1, the number of its cells at byte 3, the
//! start of their content at byte 5 and, on interior pages, the rightmost child at byte 8; then follow
//! two-byte offsets of the cells. A leaf's cell is the record's length, the rowid and the record, of which
//! what does not fit spills into a chain of overflow pages.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::pages::Window;
use crate::record::{list_columns, varint};
use crate::{Error, MAX_LENGTH, Pages, Record, malformed, u16_at, u32_at};

/// SQLite's own limit; 2^32 pages of four children each are not deeper.
const MAX_DEPTH: usize = 20;

/// Bytes that a chunk of a parallel scan spans.
const CHUNK_BYTES: usize = 1 << 20;

const INDEX_INTERIOR: u8 = 0x02;
const TABLE_INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// The pages of one table, to be scanned once.
#[derive(Debug)]
pub struct Tree<'a> {
    pages: &'a Pages,
    /// Level by level from the root.
    numbers: Vec<u32>,
    /// Where the leaves begin among them.
    leaves: usize,
    overflow_left: AtomicU32,
}

impl Pages {
    /// The table whose tree begins at page `root`; `None` if what begins there is an index.
    ///
    /// # Errors
    /// When a page cannot be read or makes no sense.
    pub fn tree(&self, root: u32) -> Result<Option<Tree<'_>>, Error> {
        let mut window = self.window()?;
        let (mut numbers, mut level) = (vec![root], 0);
        for depth in 0..MAX_DEPTH {
            match window
                .page(&numbers[level..])?
                .get(header_start(numbers[level]))
            {
                Some(&TABLE_LEAF) => {
                    let overflow_left = AtomicU32::new(self.count);
                    return Ok(Some(Tree {
                        pages: self,
                        numbers,
                        leaves: level,
                        overflow_left,
                    }));
                }
                Some(&(INDEX_INTERIOR | INDEX_LEAF)) if depth == 0 => return Ok(None),
                _ => {}
            }
            let end = numbers.len();
            for at in level..end {
                let (number, page) = (numbers[at], window.page(&numbers[at..end])?);
                self.add_children(page, number, &mut numbers)
                    .ok_or_else(|| malformed(number, "it is no sound interior page of a table"))?;
                if numbers.len() - end > self.count as usize {
                    return Err(malformed(number, "the table has more pages than the file"));
                }
            }
            level = end;
        }
        Err(malformed(root, "the table's tree is too deep"))
    }

    /// Where the cells of a page of this type begin. As in SQLite, each lies behind the page's header, and they are no
    /// more than fit.
    #[inline]
    fn cells<'a>(&self, page: &'a [u8], number: u32, kind: u8) -> Option<Cells<'a>> {
        let start = header_start(number);
        let is_interior = kind == TABLE_INTERIOR;
        let from = start + if is_interior { 12 } else { 8 };
        let count = u16_at(page, start + 3)?;
        let pointers = page.get(from..from + 2 * count)?;
        if page[start] != kind || count > (self.page_size - 8) / 6 {
            return None;
        }
        // The smallest cell has four bytes, or five.
        let last = page.len() - if is_interior { 5 } else { 4 };
        Some(Cells {
            pointers: pointers.as_chunks().0,
            places: from + 2 * count..=last,
        })
    }

    /// The children of an interior page: one a cell, and the rightmost of the header. Only the root of the schema may
    /// have no cell.
    fn add_children(&self, page: &[u8], number: u32, children: &mut Vec<u32>) -> Option<()> {
        let cells = self.cells(page, number, TABLE_INTERIOR)?;
        if cells.pointers.is_empty() && number != 1 {
            return None;
        }
        for cell in cells {
            let cell = cell?;
            varint(page, cell + 4)?;
            children.push(u32_at(page, cell)?);
        }
        children.push(u32_at(page, header_start(number) + 8)?);
        Some(())
    }

    /// Of a record of this length, the bytes that lie on the leaf itself.
    #[inline]
    const fn local_length(&self, length: usize) -> usize {
        let most = self.usable - 35;
        if length <= most {
            return length;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let local = least + (length - least) % (self.usable - 4);
        if local <= most { local } else { least }
    }
}

impl Tree<'_> {
    /// The leaves in rowid order, in parts for parallel workers.
    pub fn chunks(&self) -> std::slice::Chunks<'_, u32> {
        self.numbers[self.leaves..].chunks((CHUNK_BYTES / self.pages.page_size).max(1))
    }

    /// Calls `each` with all records, in the order of their rowids.
    ///
    /// # Errors
    /// When a page cannot be read or makes no sense, and those of `each`.
    pub fn rows<E: From<Error>>(
        &self,
        mut each: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last = None;
        for leaves in self.chunks() {
            let Some((first, end)) = self.records(leaves, &mut each)? else {
                continue;
            };
            if last.is_some_and(|last| last >= first) {
                return Err(self.disorder().into());
            }
            last = Some(end);
        }
        Ok(())
    }

    /// Calls `each` with the records on these leaves. Gives the first and the last rowid.
    ///
    /// # Errors
    /// When a page cannot be read or makes no sense, and those of `each`.
    pub fn records<E: From<Error>>(
        &self,
        leaves: &[u32],
        mut each: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<Option<(i64, i64)>, E> {
        let (mut window, mut overflow) = (self.pages.window()?, self.pages.window()?);
        let (mut spilled, mut pieces, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        let mut bounds: Option<(i64, i64)> = None;
        for (at, &number) in leaves.iter().enumerate() {
            let page = window.page(&leaves[at..])?;
            let cells = self
                .pages
                .cells(page, number, TABLE_LEAF)
                .ok_or_else(|| malformed(number, "it is no leaf of a table"))?;
            if cells.pointers.is_empty() && number != self.numbers[0] {
                return Err(malformed(number, "a leaf that is not the root is empty").into());
            }
            for cell in cells {
                let outside = || malformed(number, "a row lies outside of the page");
                let cell = cell.and_then(|cell| leaf_cell(page, cell));
                let (length, rowid, start) = cell.ok_or_else(outside)?;
                if length > MAX_LENGTH {
                    return Err(malformed(number, "a row is longer than 256 MiB").into());
                }
                let local = self.pages.local_length(length);
                let mut bytes = page.get(start..).ok_or_else(outside)?;
                let content = bytes.get(..local).ok_or_else(outside)?;
                pieces.clear();
                pieces.push((self.pages.offset(number) + start as u64, local));
                if local < length {
                    spilled.clear();
                    spilled.extend_from_slice(content);
                    let next = u32_at(bytes, local).ok_or_else(outside)?;
                    self.unspill(next, length, &mut overflow, &mut spilled, &mut pieces)?;
                    bytes = &spilled;
                }
                if bounds.is_some_and(|(_, last)| last >= rowid) {
                    return Err(malformed(number, "rowids do not ascend").into());
                }
                bounds = Some((bounds.map_or(rowid, |(first, _)| first), rowid));
                let columns = list_columns(bytes, length, &mut columns)
                    .ok_or_else(|| malformed(number, "a row contradicts its header"))?;
                each(&Record {
                    rowid,
                    bytes,
                    columns,
                    pieces: &pieces,
                })?;
            }
        }
        Ok(bounds)
    }

    /// Calls `each` with the offset in the file and the bytes of what no cell uses, where they are not zeros:
    /// deleted rows stay there, and a page that was split still holds the rows that moved elsewhere.
    ///
    /// # Errors
    /// When a page cannot be read or makes no sense, and those of `each`.
    pub fn unused<E: From<Error>>(
        &self,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut window = self.pages.window()?;
        for (at, &number) in self.numbers.iter().enumerate() {
            let page = window.page(&self.numbers[at..])?;
            let ranges = unused(page, header_start(number))
                .ok_or_else(|| malformed(number, "a free block lies outside of the page"))?;
            for (start, end) in ranges {
                if let Some(bytes) = page.get(start..end).filter(|b| b.iter().any(|b| *b != 0)) {
                    each(self.pages.offset(number) + start as u64, bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Adds what lies on overflow pages to a record. Such a page is the number of the next one and content.
    fn unspill(
        &self,
        mut next: u32,
        length: usize,
        window: &mut Window<'_>,
        record: &mut Vec<u8>,
        pieces: &mut Vec<(u64, usize)>,
    ) -> Result<(), Error> {
        while record.len() < length {
            let take_one = |left: u32| left.checked_sub(1);
            let budget = &self.overflow_left;
            if budget
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one)
                .is_err()
            {
                let what = "the table has more overflow pages than the file";
                return Err(malformed(self.numbers[0], what));
            }
            let (number, page) = (next, window.page(&[next])?);
            let take = (length - record.len()).min(page.len() - 4);
            record.extend_from_slice(&page[4..4 + take]);
            pieces.push((self.pages.offset(number) + 4, take));
            next = u32_at(page, 0).unwrap_or(0);
        }
        Ok(())
    }

    /// The error of rows that are not in the order of their rowids across `chunks`.
    pub fn disorder(&self) -> Error {
        malformed(self.numbers[0], "rowids do not ascend")
    }
}

/// Where the page's header begins: the first page begins with the header of the file.
#[inline]
const fn header_start(number: u32) -> usize {
    if number == 1 { 100 } else { 0 }
}

/// Offsets of the cells of a page; none for one that lies where no cell can.
struct Cells<'a> {
    pointers: &'a [[u8; 2]],
    places: RangeInclusive<usize>,
}

impl Iterator for Cells<'_> {
    type Item = Option<usize>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (first, rest) = self.pointers.split_first()?;
        self.pointers = rest;
        let cell = usize::from(u16::from_be_bytes(*first));
        Some(Some(cell).filter(|cell| self.places.contains(cell)))
    }
}

/// Length of the record, rowid, and where the record begins.
#[inline]
fn leaf_cell(page: &[u8], cell: usize) -> Option<(usize, i64, usize)> {
    let (length, at) = varint(page, cell)?;
    let (rowid, at) = varint(page, at)?;
    Some((usize::try_from(length).ok()?, rowid as i64, at))
}

/// Starts and ends of the gap between the cells' offsets and the cells, and of the free blocks among these
/// without their heads, which link them.
fn unused(page: &[u8], start: usize) -> Option<Vec<(usize, usize)>> {
    let header = if page[start] == TABLE_INTERIOR { 12 } else { 8 };
    let content = match u16_at(page, start + 5)? {
        0 => 1 << 16,
        content => content,
    };
    let mut ranges = vec![(start + header + 2 * u16_at(page, start + 3)?, content)];
    let mut block = u16_at(page, start + 1)?;
    while block != 0 {
        let (next, size) = (u16_at(page, block)?, u16_at(page, block + 2)?);
        ranges.push((block + 4, block + size));
        // They lie in order: anything else is a cycle.
        block = if next > block { next } else { 0 };
    }
    Some(ranges)
}
