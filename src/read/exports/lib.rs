//! SQLite exports as the analyzer and the capture program both read them: what a row means, and which rows are refused.
//!
//! Both programs open an export in their own way: the analyzer with SQLite for the schema and on all cores, the capture
//! program with neither. Each once decoded rows itself, and they drifted: one refused a row that the other took, and ties
//! of stages and kernels fell differently. So both call this crate with the columns of a row.
//!
//! What must hold: a row is decoded as a whole before it changes a table, so that a refused row takes no id. Both programs
//! add kernels, copies, graphs, calls and ranges in this order, because ties are decided by ids.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod nsys;
mod row;

pub use row::{BadRows, Cells, MissingColumn, Row, RowError, Selected, Want, pick};

/// GPUs, and processes that use them, that an artifact may be of: more than any machine has.
pub const MAX_GPUS: usize = 256;
