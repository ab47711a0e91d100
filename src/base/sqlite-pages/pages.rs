//! The file: its header, and pages in memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{Error, malformed, u16_at, u32_at};

/// Bytes that are read at once.
const WINDOW_BYTES: usize = 256 << 10;

/// Pages of others that are read along rather than skipped by another read.
const MAX_GAP: u32 = 4;

/// An SQLite file.
#[derive(Debug)]
pub struct Pages {
    path: PathBuf,
    pub(crate) page_size: usize,
    /// Bytes of a page that are SQLite's; an extension may reserve some at the end.
    pub(crate) usable: usize,
    pub(crate) count: u32,
    /// Whether texts are UTF-8.
    pub is_utf8: bool,
}

/// Consecutive pages in memory.
pub(crate) struct Window<'a> {
    pages: &'a Pages,
    file: File,
    bytes: Vec<u8>,
    first: u32,
}

impl Pages {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// When it cannot be read, is no SQLite file, or is shorter than it says.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut header = [0; 100];
        file.read_exact(&mut header).map_err(|_| Error::Truncated)?;
        if !header.starts_with(b"SQLite format 3\0") {
            return Err(malformed(1, "it does not begin as an SQLite file does"));
        }
        let page_size = match u16_at(&header, 16) {
            Some(1) => 1 << 16,
            Some(size @ 512..) if size.is_power_of_two() => size,
            _ => return Err(malformed(1, "the page size is none of SQLite's")),
        };
        let usable = page_size - usize::from(header[20]);
        if usable < 480 {
            return Err(malformed(1, "too much of each page is reserved"));
        }
        let count = u32::try_from(length / page_size as u64).unwrap_or(u32::MAX);
        // The stated size counts if the two change counters say that its writer knew of it.
        let stated = u32_at(&header, 28).filter(|_| header[24..28] == header[92..96]);
        let stated = stated.filter(|stated| *stated > 0);
        if stated.is_some_and(|stated| stated > count) {
            return Err(Error::Truncated);
        }
        // What lies behind is none of the database's.
        let count = stated.unwrap_or(count);
        let is_utf8 = u32_at(&header, 56) == Some(1);
        Ok(Self {
            path: path.to_owned(),
            page_size,
            usable,
            count,
            is_utf8,
        })
    }

    /// Bytes of all pages: what lies behind them is none of the database's.
    pub fn length(&self) -> u64 {
        u64::from(self.count) * self.page_size as u64
    }

    /// Offset of a page in the file.
    #[inline]
    pub(crate) fn offset(&self, number: u32) -> u64 {
        u64::from(number.saturating_sub(1)) * self.page_size as u64
    }

    pub(crate) fn window(&self) -> Result<Window<'_>, Error> {
        Ok(Window {
            pages: self,
            file: File::open(&self.path)?,
            bytes: Vec::new(),
            first: 0,
        })
    }
}

impl Window<'_> {
    /// The usable part of page `numbers[0]`. The pages to be asked for next are read along where they lie
    /// close behind.
    pub(crate) fn page(&mut self, numbers: &[u32]) -> Result<&[u8], Error> {
        let (number, size) = (numbers.first().copied().unwrap_or(0), self.pages.page_size);
        let held = (self.bytes.len() / size) as u32;
        if number < self.first || number - self.first >= held {
            if number == 0 || number > self.pages.count {
                return Err(malformed(number, "there is no such page"));
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
            self.bytes
                .resize((last.min(self.pages.count) - number + 1) as usize * size, 0);
            self.file.seek(SeekFrom::Start(self.pages.offset(number)))?;
            self.file.read_exact(&mut self.bytes)?;
        }
        let start = (number - self.first) as usize * size;
        Ok(&self.bytes[start..start + self.pages.usable])
    }
}
