//! Arguments of the commands that print: `inspect`, `metrics`, `kernels`, `query`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::Input;

const INSPECTIONS: &str = "\
Examples:
  rooflens inspect run/                     artifacts, versions, rows, stages, data quality
  rooflens inspect run.tar.zst --json | jq .stages
  rooflens inspect run/ --suggest-workload > workload.toml";

/// `rooflens inspect`.
#[derive(Debug, ClapArgs)]
#[command(after_help = INSPECTIONS)]
pub(in crate::cli) struct Inspect {
    #[command(flatten)]
    pub(in crate::cli) input: Input,
    /// Print JSON.
    #[arg(long, conflicts_with = "suggest_workload")]
    pub(in crate::cli) json: bool,
    /// Print a workload description of what the artifacts tell, as TOML, with comments for what they do not.
    #[arg(long)]
    pub(in crate::cli) suggest_workload: bool,
}

const METRICS: &str = "\
Examples:
  rooflens metrics run/ | jq '.metrics[] | select(.id == \"mfu\")'
  rooflens metrics run/ --csv > metrics.csv";

/// `rooflens metrics`.
#[derive(Debug, ClapArgs)]
#[command(after_help = METRICS)]
pub(in crate::cli) struct Metrics {
    #[command(flatten)]
    pub(in crate::cli) input: Input,
    /// As CSV: one line a metric, without formulas and evidence.
    #[arg(long)]
    pub(in crate::cli) csv: bool,
}

const KERNELS: &str = "\
Examples:
  rooflens kernels run/ --top 20
  rooflens kernels run/ --stage decode --sort mean    of one stage, the longest first
  rooflens kernels run/ --csv > kernels.csv
  rooflens kernels run/ --yaml --stage decode         for rooflens-capture ncu --kernels FILE";

/// `rooflens kernels`. `--stage NAME` without a regular expression asks about that stage only.
#[derive(Debug, ClapArgs)]
#[command(after_help = KERNELS)]
pub(in crate::cli) struct Kernels {
    #[command(flatten)]
    pub(in crate::cli) input: Input,
    /// Only the first K kernels.
    #[arg(long, value_name = "K", visible_alias = "limit")]
    pub(in crate::cli) top: Option<NonZeroUsize>,
    /// What the table is sorted by.
    #[arg(long, value_enum, default_value_t, conflicts_with = "yaml")]
    pub(in crate::cli) sort: Sort,
    /// As CSV.
    #[arg(long, conflicts_with = "yaml")]
    pub(in crate::cli) csv: bool,
    /// As the list of kernels that `rooflens-capture ncu --kernels` takes: with `--stage NAME`, of one stage.
    #[arg(long)]
    pub(in crate::cli) yaml: bool,
}

const QUERIES: &str = "\
Examples:
  rooflens query run/                         typed queries, with history and completion
  rooflens query run/ .tables                 tables with their rows
  rooflens query run/ '.schema launches'      columns with type, unit and meaning
  rooflens query run/ 'select name, sum(duration) ns from launches group by name order by ns desc'
  rooflens query run/ -f slow.sql --csv > slow.csv
  echo 'select * from ranges' | rooflens query run/ --json
  rooflens query run/ --report 'select label, ns from report.account where parent = 0'

SQL is SQLite's, as under findings; it only reads. Times are nanoseconds.
docs/cookbook.md has 20 queries, docs/data.md all tables and columns.";

/// What kernels are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Sort {
    /// Sum of durations, the largest first.
    #[default]
    Total,
    /// Number of launches, the most first.
    Count,
    /// Mean duration, the longest first.
    Mean,
    /// Longest launch, the longest first.
    Max,
    /// Name.
    Name,
}

/// `rooflens query`.
#[derive(Debug, ClapArgs)]
#[command(after_help = QUERIES)]
pub(in crate::cli) struct Query {
    /// Bundle, archive or file.
    #[arg(value_name = "PATH")]
    pub(in crate::cli) path: PathBuf,
    /// SQL, or .tables, or .schema TABLE; without it, standard input is read.
    #[arg(value_name = "SQL")]
    pub(in crate::cli) sql: Option<String>,
    /// Read the SQL from a file.
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Add the data sets of the report, such as report.account and report.findings.
    #[arg(long)]
    pub(in crate::cli) report: bool,
    #[command(flatten)]
    pub(in crate::cli) answers: Answers,
}

/// How answers of queries are printed, and what they may take.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Answers {
    /// As CSV.
    #[arg(long, conflicts_with_all = ["json", "parquet"])]
    pub(in crate::cli) csv: bool,
    /// As a JSON list of objects.
    #[arg(long, conflicts_with = "parquet")]
    pub(in crate::cli) json: bool,
    /// Into a Parquet file.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) parquet: Option<PathBuf>,
    /// Rows of an answer at most. Default: 1000 for people, all for --csv, --json and --parquet.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) limit: Option<usize>,
    /// Seconds after which a query is stopped; 0 for never.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(in crate::cli) timeout: u64,
    /// Memory that SQLite and the answers may take together, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = crate::query::MEMORY >> 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::cli) memory: u64,
}
