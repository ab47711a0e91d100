//! Arguments of `rooflens lake`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Subcommand;

use super::{Answers, Output};

const EXAMPLES: &str = "\
Examples:
  rooflens lake add lake/ run-1/ run-2.tar.zst    results of bundles, into lake/
  rooflens report run/ --format results -o out/   results where the capture is
  rooflens lake add lake/ out/                    and into the lake later
  rooflens lake compact lake/                     one folder a month, for fast queries
  rooflens lake query lake/ templates/queries/idle.sql
  rooflens lake query lake/ 'select model, gpu, count(*) n from captures group by model, gpu'
  rooflens lake report lake/ -o fleet.pdf         where GPU time goes, what findings could save, trends
  rooflens lake trend lake/ stage_time            when it changed, by model, GPU and stage

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
    /// Run SQL over the tables of the lake, in SQLite's dialect; a damaged file is named and skipped.
    Query {
        /// Folder of the lake.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// SQL, or a file whose name ends in .sql.
        #[arg(value_name = "SQL")]
        sql: String,
        #[command(flatten)]
        answers: Answers,
    },
    /// Write a report of all captures: where GPU time goes, findings with their captures, models, GPUs, labels, trends.
    Report {
        /// Folder of the lake.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Print when a metric changed, in each series of the same model, GPUs, sizes and stage: one row between changes.
    Trend {
        /// Folder of the lake.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Name of the metric, as docs/methodology.md lists it.
        #[arg(value_name = "METRIC")]
        metric: String,
        /// Least change that counts, in percent.
        #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
        least: f64,
        #[command(flatten)]
        answers: Answers,
    },
}
