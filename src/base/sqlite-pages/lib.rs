//! Rows of SQLite files, read from the pages: <https://www.sqlite.org/fileformat2.html>.
//!
//! A file is pages of one size, numbered from 1; the first begins with a header of 100 bytes. A table is a
//! b-tree of pages ([`Tree`]), and a row of it a [`Record`].
//!
//! The file may be hostile. Offsets are checked by slicing; no level of a tree may have more pages than the
//! file, nor all overflow chains of a table; and rowids must ascend, so that no page counts twice.

#![forbid(unsafe_code)]

mod journal;
mod pages;
mod record;
#[cfg(test)]
mod tests;
mod tree;

pub use journal::Journal;
pub use pages::Pages;
pub use record::{Record, Value};
pub use tree::Tree;

/// Longest row that is read, in bytes.
const MAX_LENGTH: usize = 256 << 20;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes could not be had.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is shorter than its header says.
    #[error("the file is cut off")]
    Truncated,
    /// A page breaks the rules of the format.
    #[error("the database is malformed at page {page}: {what}")]
    Malformed {
        /// Number of the page, from 1.
        page: u32,
        /// The rule.
        what: &'static str,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error,
            other => Self::new(std::io::ErrorKind::InvalidData, other),
        }
    }
}

#[cold]
fn malformed(page: u32, what: &'static str) -> Error {
    Error::Malformed { page, what }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(
        *bytes.get(at..)?.first_chunk()?,
    )))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
