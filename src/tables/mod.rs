//! The tables of a session, the data sets of a report and the answers of queries as Parquet files, through polars.
//!
//! No polars type leaves this module, and no number of a report comes out of it. Columns are those of
//! [`crate::model::view`].

mod frame;
mod parquet;

pub use parquet::{Files, parquet, parquet_of, parquet_of_answer};

/// A table does not fit a column type.
#[derive(Debug, thiserror::Error)]
#[error("cannot lay out table `{table}`: {reason}")]
pub struct TablesError {
    /// Name of the table.
    table: String,
    /// What polars says.
    reason: String,
}
