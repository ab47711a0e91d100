//! The tables of a session outside of reports: Parquet files and SQL queries, through polars.
//!
//! No polars type leaves this module, and no number of a report comes out of it: the order of a
//! group-by, and with it the last bits of a sum of floats, depends on the number of threads.
//!
//! Every table begins with `id`, the row number that columns of other tables refer to:
//! `launches.kernel` is `kernels.id`.

mod answer;
mod frame;
mod parquet;
mod query;

pub use answer::{Answer, Value};
pub use parquet::{Files, parquet, parquet_of};
pub use query::query;

/// Why tables could not be written or asked.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// The query names a table that is not there.
    #[error("there is no table `{name}`; the tables are {}", known.join(", "))]
    UnknownTable {
        /// Name in the query.
        name: String,
        /// Names of all tables, sorted.
        known: Vec<String>,
    },
    /// The query names a column that is not there.
    #[error("there is no column `{name}`{}", listed(known))]
    UnknownColumn {
        /// Name in the query.
        name: String,
        /// The tables that the query names, with their columns.
        known: Vec<(String, Vec<String>)>,
    },
    /// The query is not one that can be answered: syntax, types, functions.
    #[error("cannot answer the query: {0}")]
    Query(String),
    /// Two tables of one name.
    #[error("table `{0}` is given twice")]
    Duplicate(String),
    /// A table does not fit a column type.
    #[error("cannot lay out table `{table}`: {reason}")]
    Layout {
        /// Name of the table.
        table: String,
        /// What polars says.
        reason: String,
    },
}

/// `; kernels has id, name; gpus has id`, or nothing.
fn listed(known: &[(String, Vec<String>)]) -> String {
    let one =
        |(table, columns): &(String, Vec<String>)| format!("; {table} has {}", columns.join(", "));
    known.iter().map(one).collect()
}
