//! CUDA calls.

use rooflens_session::{ApiLevel, Ns};

use crate::Want::{May, Need};
use crate::{Row, RowError, Want};

/// The table of CUDA calls.
pub const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// Its columns.
pub const CALL_COLUMNS: [Want; 6] = [
    Need("start"),
    Need("end"),
    May(&["eventClass"]),
    Need("globalTid"),
    May(&["correlationId"]),
    Need("nameId"),
];

/// Event class of driver calls; every other class of the table is the runtime's.
const DRIVER_CLASS: i64 = 1;

/// A CUDA call.
#[derive(Clone, Copy, Debug)]
pub struct CallRow {
    /// Start.
    pub start: Ns,
    /// End.
    pub end: Ns,
    /// Runtime or driver.
    pub level: ApiLevel,
    /// Global id of the thread.
    pub thread: i64,
    /// Joins with work of the same process.
    pub correlation: Option<i64>,
    /// Id of the name.
    pub name: i64,
}

impl CallRow {
    /// Decodes a row.
    ///
    /// # Errors
    /// A value makes no sense.
    #[inline]
    pub fn read(row: &Row<'_>) -> Result<Self, RowError> {
        let (start, end) = row.interval()?;
        let level = match row.maybe(2)? {
            Some(DRIVER_CLASS) => ApiLevel::Driver,
            _ => ApiLevel::Runtime,
        };
        Ok(Self {
            start,
            end,
            level,
            thread: row.int(3)?,
            correlation: row.maybe(4)?,
            name: row.int(5)?,
        })
    }
}
