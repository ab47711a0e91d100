//! Results of captures as Parquet files, and many of them in one folder, a lake.
//!
//! [`results`] writes the rows of one report. [`Lake`] keeps those of many captures, and [`report`] shows all of them:
//!
//! ```text
//! LAKE/month=2026-11/<capture>/kernels.parquet      results of one capture, as they were added
//! LAKE/month=2026-11/compact-<hash>/kernels.parquet results of many captures, after compaction
//! LAKE/_staging/                                    files that no reader sees yet
//! ```
//!
//! One rename of a folder makes all tables of a capture visible, so a reader sees a capture whole or not at all, and a
//! writer that is killed leaves nothing but files in `_staging`. Names come from the content, so writers do not meet:
//! the second rename of the same capture fails. The first design had a folder per table, in which a reader could see
//! the kernels of a capture before its findings.
//!
//! No polars type leaves this crate.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod compact;
mod files;
mod fleet;
mod lake;
mod present;
mod query;
mod results;
pub mod schema;
mod sums;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use compact::Compacted;
pub use fleet::Fleet;
pub use lake::{Added, Lake, Staged, results_folder};
pub use present::report;
pub use query::Unread;
pub use results::{FOLDER, Files, results};

/// Why results are not written, added or read.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// A report is not of one capture.
    #[error("no results: the report is not of one capture, so that no hash identifies it")]
    NoCapture,
    /// A cell has another type than its column.
    #[error("results: column `{column}` of `{table}` cannot hold {value}")]
    Cell {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
        /// The value.
        value: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file is not a Parquet file of results.
    #[error("{}: {reason}; write it again: rooflens report RUN --format results", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A folder is not there, or is no lake.
    #[error("{}: no lake is there; make one: rooflens lake add {} RUN", path.display(), path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// Another process holds the lake.
    #[error("{}: writers are at work; compact the lake when they are done", path.display())]
    Busy {
        /// The lake.
        path: PathBuf,
    },
}

impl LakeError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }

    fn damaged(path: &Path, reason: &(impl ToString + ?Sized)) -> Self {
        let (path, reason) = (path.to_owned(), reason.to_string());
        Self::Damaged { path, reason }
    }
}
