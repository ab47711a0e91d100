//! The tables of a session, the data sets of a report and the answers of queries as Parquet files and as streams of Arrow,
//! through polars.
//!
//! No polars type leaves this crate, and no number of a report comes out of it. Columns are those of
//! [`rooflens_session::view`].

#![forbid(unsafe_code)]

mod arrow;
mod files;
mod frame;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use arrow::{Frame, Stream};
pub use files::{Files, parquet, parquet_of, parquet_of_answer};

/// A table does not fit a column type.
#[derive(Debug, thiserror::Error)]
#[error("cannot lay out table `{table}`: {reason}")]
pub struct TablesError {
    /// Name of the table.
    table: String,
    /// What polars says.
    reason: String,
}
