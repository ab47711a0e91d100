//! Arguments, and nothing but arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  rooflens report fixtures/h200-llama-8b           every format, into h200-llama-8b-report/
  rooflens report run.tar.zst -o run.pdf           one PDF
  rooflens report timeline.sqlite -o -             Markdown on standard output
  rooflens inspect run/                            what is in there
  rooflens query run/ 'select name, count(*) n from launches group by name order by n desc limit 5'";

const PREDICT_EXAMPLES: &str = "\
Examples:
  rooflens predict --from run/ --graphs -o -           decode in CUDA graphs, Markdown on standard output
  rooflens predict --from run/ --gpu B200 --dtype fp8  another GPU and dtype, every format, into run-predicted/
  rooflens predict --from run/ --batch 32 -o csv/ --format csv";

/// Compiles reports from captured GPU-profiling artifacts, offline.
#[derive(Debug, Parser)]
#[command(name = "rooflens", version, after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
    /// Print errors only.
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Number of threads; results do not depend on it.
    #[arg(long, global = true, value_name = "N")]
    pub(super) threads: Option<NonZeroUsize>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write a report: PDF, HTML, Markdown, JSON, CSV, Parquet.
    Report(Report),
    /// Predict stage times of a measured bundle on another GPU, batch or dtype, or in CUDA graphs.
    Predict(Predict),
    /// Say what is in a bundle, an archive or a file.
    Inspect(Inspect),
    /// Print metrics.json.
    Metrics(Input),
    /// Print the kernel table.
    Kernels(Kernels),
    /// Run SQL over the tables of a bundle.
    Query(Query),
    /// Check a bundle: schema, hashes, completeness.
    Validate(Path),
    /// Pack a directory into one archive, without environment dumps.
    Pack(Pack),
    /// Unpack an archive.
    Unpack(Unpack),
    /// The templates of the PDF.
    #[command(subcommand)]
    Templates(Templates),
    /// Print the table of GPUs with the source of each peak.
    Gpus,
}

/// What to read, and how to understand it.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(super) struct Input {
    /// Bundle, archive, or files and directories of other tools.
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// GPU whose peaks count, instead of the recorded one, such as "H100 SXM".
    #[arg(long, value_name = "NAME")]
    pub(super) gpu: Option<String>,
    /// Model dimensions: a Hugging Face config.json.
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    /// Workload description, instead of the bundle's.
    #[arg(long, value_name = "FILE")]
    pub(super) workload: Option<PathBuf>,
    /// The analyst's notes, Markdown, instead of the bundle's notes.md.
    #[arg(long, value_name = "FILE")]
    pub(super) notes: Option<PathBuf>,
    /// A stage: its name, and a regular expression that the whole range name must match. Repeatable.
    #[arg(long = "stage", value_name = "NAME=REGEX")]
    pub(super) stages: Vec<String>,
    /// Rule for the bound classes of profiled kernels.
    #[arg(long, value_enum, default_value_t = Classifier::Rooflens)]
    pub(super) classifier: Classifier,
    /// Fail if data was lost or an artifact could not be read.
    #[arg(long)]
    pub(super) strict: bool,
}

/// `rooflens report`.
#[derive(Debug, ClapArgs)]
pub(super) struct Report {
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) output: Output,
}

/// `rooflens predict`.
#[derive(Debug, ClapArgs)]
#[command(after_help = PREDICT_EXAMPLES)]
pub(super) struct Predict {
    /// Measured bundle, archive, or files and directories of other tools.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub(super) from: Vec<PathBuf>,
    /// GPU to predict for, such as "B200".
    #[arg(long, value_name = "NAME")]
    pub(super) gpu: Option<String>,
    /// Sequences in a batch, per GPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) batch: Option<u64>,
    /// Operands of linear layers, such as fp8.
    #[arg(long, value_name = "DTYPE")]
    pub(super) dtype: Option<String>,
    /// Launch stages of static shapes (all but prefill) as CUDA graphs.
    #[arg(long)]
    pub(super) graphs: bool,
    /// Model dimensions: a Hugging Face config.json.
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    /// Workload description, instead of the bundle's.
    #[arg(long, value_name = "FILE")]
    pub(super) workload: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What to write, and where.
#[derive(Debug, ClapArgs)]
pub(super) struct Output {
    /// File or folder to write; `-` is standard output. Repeatable. Default: a folder named after the input.
    #[arg(short, long = "output", value_name = "OUT")]
    pub(super) outputs: Vec<PathBuf>,
    /// Document to write as PDF, HTML or Markdown. Default: the report, as HTML with the appendix; into a folder, all.
    #[arg(long, value_enum)]
    pub(super) kind: Option<Kind>,
    /// Output format (default: from the file extension).
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// Language of the documents; data files keep their names and numbers.
    #[arg(long, value_enum, default_value_t = Lang::En)]
    pub(super) lang: Lang,
    /// Folder with templates that replace the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub(super) templates: Option<PathBuf>,
    /// Look of the PDF: a TOML with name, logo, accent colour and footer.
    #[arg(long, value_name = "FILE")]
    pub(super) brand: Option<PathBuf>,
}

/// `rooflens templates`.
#[derive(Debug, Subcommand)]
pub(super) enum Templates {
    /// Write the built-in templates, and a README of what they read, to start one's own from.
    Export {
        /// Folder to write to, for `rooflens report --templates`.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Overwrite files that exist.
        #[arg(long)]
        force: bool,
    },
}

/// `rooflens inspect`.
#[derive(Debug, ClapArgs)]
pub(super) struct Inspect {
    #[command(flatten)]
    pub(super) input: Input,
    /// Print a workload description of what the artifacts tell, as TOML, with comments for what they do not.
    #[arg(long)]
    pub(super) suggest_workload: bool,
}

/// `rooflens kernels`. `--stage NAME` without a regular expression asks about that stage only.
#[derive(Debug, ClapArgs)]
pub(super) struct Kernels {
    #[command(flatten)]
    pub(super) input: Input,
    /// Only the K kernels with the most time.
    #[arg(long, value_name = "K")]
    pub(super) top: Option<usize>,
    /// As CSV.
    #[arg(long, conflicts_with = "yaml")]
    pub(super) csv: bool,
    /// As the list of kernels that `rooflens-capture ncu --kernels` takes: with `--stage NAME`, of one stage.
    #[arg(long)]
    pub(super) yaml: bool,
}

/// `rooflens query`.
#[derive(Debug, ClapArgs)]
pub(super) struct Query {
    /// Bundle, archive or file.
    #[arg(value_name = "PATH")]
    pub(super) path: PathBuf,
    /// One SELECT; `show tables` lists the tables.
    #[arg(value_name = "SQL")]
    pub(super) sql: String,
    /// As CSV.
    #[arg(long)]
    pub(super) csv: bool,
}

/// A command over one path.
#[derive(Debug, ClapArgs)]
pub(super) struct Path {
    /// Bundle or archive.
    #[arg(value_name = "BUNDLE")]
    pub(super) path: PathBuf,
}

/// `rooflens pack`.
#[derive(Debug, ClapArgs)]
pub(super) struct Pack {
    /// Directory to pack.
    #[arg(value_name = "DIR")]
    pub(super) path: PathBuf,
    /// Archive to write. Default: DIR.tar.zst.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Keep the dumps of environment variables that nsys leaves in its exports, and the names of host and user that ncu
    /// leaves in its reports.
    #[arg(long)]
    pub(super) keep_environment: bool,
}

/// `rooflens unpack`.
#[derive(Debug, ClapArgs)]
pub(super) struct Unpack {
    /// Archive to unpack.
    #[arg(value_name = "FILE")]
    pub(super) path: PathBuf,
    /// Directory to make. Default: the archive's name without extension.
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
}

/// Documents that `report` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Two pages: conclusion, figures, actions.
    Summary,
    /// The summary, the findings, and what they rest on.
    Report,
    /// Evidence, methods, and all that the report leaves out.
    Appendix,
}

/// Languages of the documents that `report` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Lang {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// Formats that `report` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// PDF.
    Pdf,
    /// One HTML file.
    Html,
    /// Markdown with SVG charts.
    Md,
    /// The document as JSON.
    Json,
    /// The metrics as JSON.
    Metrics,
    /// One CSV a data set.
    Csv,
    /// One Parquet file a table.
    Parquet,
}

/// Rules for bound classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Classifier {
    /// By latency, compute, DRAM, L2 and L1.
    #[default]
    Rooflens,
    /// SM % minus DRAM % against ±5 points.
    Seed,
}
