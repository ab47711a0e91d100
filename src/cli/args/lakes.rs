//! Arguments of `rooflens lake`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  rooflens lake add lake/ run-1/ run-2.tar.zst    results of bundles, into lake/
  rooflens report run/ --format results -o out/   results where the capture is
  rooflens lake add lake/ out/                    and into the lake later
  rooflens lake compact lake/                     one folder a month, for fast queries

docs/scale.md has the layout, docs/data.md all tables and columns.";

/// `rooflens lake`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) enum Lake {
    /// Add results of captures; those that are there are skipped. Several writers may add at once.
    Add {
        /// Folder of the lake; made if it is not there.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Bundles, archives, files, or folders with results.
        #[arg(required = true, value_name = "BUNDLE")]
        bundles: Vec<PathBuf>,
        /// Captures that are read at a time.
        #[arg(long, value_name = "N", default_value = "1")]
        jobs: NonZeroUsize,
    },
    /// Merge the folders of each month into one, and remove what killed writers left.
    Compact {
        /// Folder of the lake.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
    },
}
