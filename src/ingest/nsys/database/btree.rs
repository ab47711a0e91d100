//! Table b-trees: the pages of an SQLite file that hold the rows of a table.
//!
//! A file is pages of one size, numbered from 1. A table is a tree of them: interior pages hold page
//! numbers of children, leaves hold rows by ascending rowid, all leaves are equally deep. A page begins
//! with its type, the number of its cells at byte 3 and, on interior pages, the rightmost child at byte 8;
//! then follow two-byte offsets of the cells. A leaf's cell is the record's length, the rowid and the
//! record, of which what does not fit spills into a chain of overflow pages.
//!
//! The file may be hostile. Offsets are checked by slicing; no level of a tree may have more pages than the
//! file, nor all overflow chains of a table; and rowids must ascend, so that no page counts twice.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::record::{Record, varint};
use crate::ingest::{IngestError, IngestErrorKind};

/// Longest row that is read, in bytes.
pub(super) const MAX_LENGTH: u32 = 64 << 20;

/// SQLite's own limit; 2^32 pages of four children each are not deeper.
const MAX_DEPTH: usize = 20;

/// Bytes that are read at once, and that a chunk of a parallel scan spans.
const WINDOW_BYTES: usize = 256 << 10;
const CHUNK_BYTES: usize = 4 << 20;

/// Pages of others that are read along rather than skipped by another read.
const MAX_GAP: u32 = 4;

const INDEX_INTERIOR: u8 = 0x02;
const TABLE_INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// The file header's facts.
pub(super) struct Pages {
    path: PathBuf,
    page_size: usize,
    /// Bytes of a page that are SQLite's; an extension may reserve some at the end.
    usable: usize,
    count: u32,
    /// Texts are UTF-8.
    pub(super) is_utf8: bool,
}

/// The leaves of one table.
pub(super) struct Tree<'a> {
    pages: &'a Pages,
    root: u32,
    leaves: Vec<u32>,
    overflow_left: AtomicU32,
}

/// Consecutive pages in memory.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    first: u32,
}

impl Pages {
    /// Reads the header of the file.
    ///
    /// # Errors
    /// When it cannot be read, is no SQLite file, or is shorter than it says.
    pub(super) fn open(path: &Path) -> Result<Self, IngestError> {
        let mut file = File::open(path).map_err(IngestErrorKind::from)?;
        let length = file.metadata().map_err(IngestErrorKind::from)?.len();
        let mut header = [0; 100];
        file.read_exact(&mut header).map_err(|_| IngestErrorKind::Truncated)?;
        if !header.starts_with(b"SQLite format 3\0") {
            return Err(malformed(1, "it does not begin as an SQLite file does"));
        }
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 1 << 16,
            size @ 512.. if size.is_power_of_two() => usize::from(size),
            _ => return Err(malformed(1, "the page size is none of SQLite's")),
        };
        let usable = page_size - usize::from(header[20]);
        if usable < 480 {
            return Err(malformed(1, "too much of each page is reserved"));
        }
        let count = u32::try_from(length / page_size as u64).unwrap_or(u32::MAX);
        // The stated size counts if the two change counters say that its writer knew of it.
        let stated = u32_at(&header, 28).filter(|_| header[24..28] == header[92..96]);
        if stated.is_some_and(|stated| stated > count) {
            return Err(IngestErrorKind::Truncated.into());
        }
        let is_utf8 = u32_at(&header, 56) == Some(1);
        Ok(Self { path: path.to_owned(), page_size, usable, count, is_utf8 })
    }

    /// The table whose tree begins at page `root`; `None` if what begins there is an index.
    ///
    /// # Errors
    /// When a page cannot be read or makes no sense.
    pub(super) fn tree(&self, root: u32) -> Result<Option<Tree<'_>>, IngestError> {
        let file = self.file()?;
        let mut window = Window::default();
        let mut level = vec![root];
        for depth in 0..MAX_DEPTH {
            match window.page(self, &file, &level)?.first() {
                Some(&TABLE_LEAF) => {
                    let overflow_left = AtomicU32::new(self.count);
                    return Ok(Some(Tree { pages: self, root, leaves: level, overflow_left }));
                }
                Some(&(INDEX_INTERIOR | INDEX_LEAF)) if depth == 0 => return Ok(None),
                _ => {}
            }
            let mut children = Vec::new();
            for (at, number) in level.iter().enumerate() {
                let page = window.page(self, &file, &level[at..])?;
                add_children(page, &mut children)
                    .ok_or_else(|| malformed(*number, "it is no interior page of a table"))?;
                if children.len() > self.count as usize {
                    return Err(malformed(*number, "the table has more pages than the file"));
                }
            }
            level = children;
        }
        Err(malformed(root, "the table's tree is too deep"))
    }

    fn file(&self) -> Result<File, IngestError> {
        Ok(File::open(&self.path).map_err(IngestErrorKind::from)?)
    }

    /// Of a record of this length, the bytes that lie on the leaf itself.
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
    pub(super) fn chunks(&self) -> std::slice::Chunks<'_, u32> {
        self.leaves.chunks((CHUNK_BYTES / self.pages.page_size).max(1))
    }

    /// Calls `each` with the records on these leaves; its `None` says that a record is malformed.
    /// Gives the first and the last rowid.
    pub(super) fn records(
        &self,
        leaves: &[u32],
        mut each: impl FnMut(&Record<'_>) -> Option<()>,
    ) -> Result<Option<(i64, i64)>, IngestError> {
        let file = self.pages.file()?;
        let (mut window, mut spilled) = (Window::default(), Spilled::default());
        let mut bounds: Option<(i64, i64)> = None;
        for (at, number) in leaves.iter().enumerate() {
            let page = window.page(self.pages, &file, &leaves[at..])?;
            let cells = cells(page, TABLE_LEAF, 8)
                .ok_or_else(|| malformed(*number, "it is no leaf of a table"))?;
            for cell in cells {
                let outside = || malformed(*number, "a row lies outside of the page");
                let (length, rowid, start) = leaf_cell(page, cell).ok_or_else(outside)?;
                if length > MAX_LENGTH as usize {
                    return Err(malformed(*number, "a row is longer than 64 MiB"));
                }
                let end = start + self.pages.local_length(length);
                let mut record = Record { rowid, bytes: page, start, end };
                if end > page.len() {
                    return Err(outside());
                }
                if end < start + length {
                    self.unspill(&file, &record, length, &mut spilled)?;
                    record = Record { rowid, bytes: &spilled.record, start: 0, end: length };
                }
                if bounds.is_some_and(|(_, last)| last >= rowid) {
                    return Err(malformed(*number, "rowids do not ascend"));
                }
                bounds = Some((bounds.map_or(rowid, |(first, _)| first), rowid));
                each(&record).ok_or_else(|| malformed(*number, "a row contradicts its header"))?;
            }
        }
        Ok(bounds)
    }

    /// Puts together a record of `length` bytes whose first part is `local`. An overflow page is the number
    /// of the next one and content.
    fn unspill(
        &self,
        file: &File,
        local: &Record<'_>,
        length: usize,
        Spilled { record, window }: &mut Spilled,
    ) -> Result<(), IngestError> {
        record.clear();
        record.extend_from_slice(&local.bytes[local.start..local.end]);
        let mut next = u32_at(local.bytes, local.end);
        while record.len() < length {
            let take_one = |left: u32| left.checked_sub(1);
            let budget = &self.overflow_left;
            if budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_err() {
                return Err(malformed(
                    self.root,
                    "the table has more overflow pages than the file",
                ));
            }
            let number = next.ok_or_else(|| malformed(self.root, "a row is cut off"))?;
            let page = window.page(self.pages, file, &[number])?;
            let take = (length - record.len()).min(page.len() - 4);
            record.extend_from_slice(&page[4..4 + take]);
            next = u32_at(page, 0);
        }
        Ok(())
    }

    /// The error of rows that are not in the order of their rowids across `chunks`.
    pub(super) fn disorder(&self) -> IngestError {
        malformed(self.root, "rowids do not ascend")
    }
}

/// A record that was spread over pages, and the last of them.
#[derive(Default)]
struct Spilled {
    record: Vec<u8>,
    window: Window,
}

impl Window {
    /// The usable part of page `numbers[0]`. The pages to be asked for next are read along where they lie
    /// close behind.
    fn page(&mut self, pages: &Pages, file: &File, numbers: &[u32]) -> Result<&[u8], IngestError> {
        let (number, size) = (numbers.first().copied().unwrap_or(0), pages.page_size);
        let held = (self.bytes.len() / size) as u32;
        if number < self.first || number - self.first >= held {
            // Page 1 is the schema's, and SQLite keeps no table there.
            if number < 2 || number > pages.count {
                return Err(malformed(number, "there is no such page for a table"));
            }
            let most = (WINDOW_BYTES / size).max(1) as u32;
            let mut last = number;
            for next in numbers {
                if *next < last || next - last > MAX_GAP || next - number >= most {
                    break;
                }
                last = *next;
            }
            self.first = number;
            self.bytes.resize((last.min(pages.count) - number + 1) as usize * size, 0);
            let mut file = file;
            file.seek(SeekFrom::Start(u64::from(number - 1) * size as u64))
                .and_then(|_| file.read_exact(&mut self.bytes))
                .map_err(IngestErrorKind::from)?;
        }
        let start = (number - self.first) as usize * size;
        Ok(&self.bytes[start..start + pages.usable])
    }
}

/// Offsets of the cells of a page of this type, whose header has this length.
fn cells(page: &[u8], kind: u8, header: usize) -> Option<impl Iterator<Item = usize>> {
    let count = usize::from(u16::from_be_bytes([*page.get(3)?, *page.get(4)?]));
    let pointers = page.get(header..header + 2 * count).filter(|_| page[0] == kind)?;
    let (pairs, _) = pointers.as_chunks::<2>();
    Some(pairs.iter().map(|pair| usize::from(u16::from_be_bytes(*pair))))
}

/// The children of an interior page: one a cell, and the rightmost of the header.
fn add_children(page: &[u8], children: &mut Vec<u32>) -> Option<()> {
    for cell in cells(page, TABLE_INTERIOR, 12)? {
        children.push(u32_at(page, cell)?);
    }
    children.push(u32_at(page, 8)?);
    Some(())
}

/// Length of the record, rowid, and where the record begins.
#[inline]
fn leaf_cell(page: &[u8], cell: usize) -> Option<(usize, i64, usize)> {
    let (length, at) = varint(page, cell)?;
    let (rowid, at) = varint(page, at)?;
    Some((usize::try_from(length).ok()?, rowid as i64, at))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn malformed(page: u32, what: &'static str) -> IngestError {
    IngestErrorKind::MalformedPage { page, what }.into()
}
