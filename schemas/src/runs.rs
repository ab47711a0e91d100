//! `runs.json`, version 1: the runs of a whole command in one pass.

use serde::{Deserialize, Serialize};

/// The version of the file that this crate reads and writes.
pub const VERSION: u32 = 1;

/// The file name in the folder of the pass.
pub const FILE_NAME: &str = "runs.json";

/// The runs in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRuns {
    /// Always 1; anything else is refused.
    pub version: u32,
    /// The runs.
    pub runs: Vec<CommandRun>,
}

/// One run of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// Whether it is warm-up, which does not count.
    #[serde(default)]
    pub warmup: bool,
    /// Exit code; 128 and the number of the signal if one ended it.
    pub exit_code: i32,
    /// Wall time in nanoseconds.
    pub wall_ns: u64,
    /// When it was started, nanoseconds since 1970 in UTC.
    #[serde(default)]
    pub started_utc_ns: u64,
}
