//! Arguments, and nothing but arguments.

mod lakes;
mod looking;

use std::num::{NonZeroUsize, ParseFloatError};
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use rooflens_units::{Ratio, Time};

use crate::compare::Pair;
use crate::compare::conditions::Subject;
use crate::compare::gate::Limit;

pub(super) use lakes::Lake;
pub(super) use looking::{Answers, Inspect, Kernels, Metrics, Query, Sort};

const EXAMPLES: &str = "\
Examples:
  rooflens report fixtures/h200-llama-8b           every format, into h200-llama-8b-report/
  rooflens report run.tar.zst -o run.pdf           one PDF
  rooflens report timeline.sqlite -o -             Markdown on standard output
  rooflens inspect run/                            what is in there
  rooflens query run/ 'select name, count(*) n from launches group by name order by n desc limit 5'
  rooflens completions bash > ~/.local/share/bash-completion/completions/rooflens

Each command has examples: rooflens COMMAND --help
Options of a project: rooflens.toml, see docs/configuration.md

Exit codes:
  0  done
  1  done, but some of it was an error (an artifact that cannot be read, a figure above its peak), or a bundle is not valid
  2  wrong usage: nothing was written
  3  the input cannot be used, or --strict and something was lost: nothing was written
  4  the output could not be written: what was there before stays
  5  rooflens gate: a figure changed beyond its limit, or --strict and the values cannot tell";

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
    /// Number of threads, 1024 at most; results do not depend on it.
    #[arg(long, global = true, value_name = "N")]
    pub(super) threads: Option<NonZeroUsize>,
    /// Colours of messages. Auto: on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true
    )]
    pub(super) color: Color,
    #[command(flatten)]
    pub(super) config: rooflens_config::ConfigFlags,
}

impl Command {
    /// The first file or folder that a report is written to, if one is named.
    pub(super) fn output(&self) -> Option<&std::path::Path> {
        let output = match self {
            Self::Report(args) => &args.output,
            Self::Compare(args) => &args.output,
            Self::Experiments(args) => &args.output,
            Self::Predict(args) => &args.output,
            Self::ServeReport(args) => &args.output,
            Self::BenchReport(args) => &args.output,
            Self::Lake(Lake::Report { output, .. }) => output,
            _ => return None,
        };
        output.outputs.first().map(PathBuf::as_path)
    }
}

/// When messages have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write a report: PDF, HTML, Markdown, JSON, CSV, Parquet.
    Report(Report),
    /// Compare captures before and after a change: times, where the time went, kernels, findings, settings.
    Compare(Compare),
    /// Compare a run with a baseline by limits: exit code 5 if a figure is beyond its limit.
    Gate(Gate),
    /// Keep figures of accepted runs in a folder, one file per workload.
    #[command(subcommand)]
    Baseline(Baseline),
    /// Write a report of experiments: what worked, what did not, errors, the configuration to copy, trends over commits.
    Experiments(Experiments),
    /// Predict a model's times on GPUs: bounds from its config.json, or from a measured bundle after a change.
    Predict(Box<Predict>),
    /// Write a report of load tests: results of vLLM, SGLang, AIPerf, GenAI-Perf, InferenceX, trtllm-bench and others.
    ServeReport(ServeReport),
    /// Write a report of microbenchmarks: bench.json and peaks.json of rooflens-capture.
    BenchReport(BenchReport),
    /// Show the contents of a bundle, an archive or a file.
    Inspect(Inspect),
    /// Print metrics.json.
    Metrics(Metrics),
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
    /// Export the PDF templates.
    #[command(subcommand, arg_required_else_help = false)]
    Templates(Templates),
    /// Keep results of many captures in one folder.
    #[command(subcommand)]
    Lake(Lake),
    /// Print the table of GPUs, or all peaks of those that a name leads to, with the source of each.
    Gpus {
        /// Name or a part of it, such as h100
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Generate shell completions.
    Completions {
        /// Shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write man pages.
    Man {
        /// Folder to write to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// What to read, and how to understand it.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Input")]
pub(super) struct Input {
    /// Bundle, archive, or files and directories of other tools; `-` is standard input.
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
    /// Make one report of several bundles or files: they are parts of one run.
    #[arg(long)]
    pub(super) merge: bool,
    /// Bytes of a file that no manifest states up to which it is hashed; without it, all are.
    #[arg(skip)]
    pub(super) hashed: Option<u64>,
}

impl Compare {
    /// The captures of both sides: `BEFORE AFTER`, or `BEFORE… -- AFTER…`.
    pub(super) fn sides(&self) -> Option<Pair<&[PathBuf]>> {
        let (before, after) = match (&self.before[..], &self.after[..]) {
            ([before, after], []) => (std::slice::from_ref(before), std::slice::from_ref(after)),
            (_, []) => return None,
            sides => sides,
        };
        Some(Pair { before, after })
    }
}

impl Input {
    /// All that is named to be read.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.paths
            .iter()
            .chain(&self.model)
            .chain(&self.workload)
            .chain(&self.notes)
    }
}

const REPORTS: &str = "\
Examples:
  rooflens report run/                                   every format, into run-report/
  rooflens report run.tar.zst -o run.pdf -o run.html     two files
  rooflens report run/ --format csv --format parquet -o data/
  rooflens report run/ --kind summary --lang zh -o summary.pdf
  rooflens report timeline.sqlite --gpu \"H200 SXM\" --model config.json -o -
  rooflens report run/ --format github -o -              findings as annotations of GitHub
  rooflens report --jobs 4 captures/* -o reports/        each into a folder of its own
  zcat trace.json.gz | rooflens report - -o trace.html";

/// `rooflens report`.
#[derive(Debug, ClapArgs)]
#[command(after_help = REPORTS)]
pub(super) struct Report {
    #[command(flatten)]
    pub(super) input: Input,
    /// Report each input by itself, so many at a time, each into a folder; what fails is listed at the end.
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "merge",
        help_heading = "Input"
    )]
    pub(super) jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(super) output: Output,
}

const PREDICTIONS: &str = "\
Examples:
  rooflens predict --model config.json --gpu H200 --batch 1,8,32 --prompt 1024 --output-tokens 128
  rooflens predict --model config.json --gpu H200 --gpu B200 --dtype bf16,fp8 --kv-dtype fp8 --tp 1,2 -o compare.html
  rooflens predict --model config.json --gpu H200 --ttft-limit 500 --tpot-limit 20 --peaks peaks.json -o run.md
  rooflens predict --from run/ --graphs -o -           a measured bundle with decode in CUDA graphs
  rooflens predict --from run/ --gpu B200 --dtype fp8  on another GPU in another dtype, into run-predicted/";

/// `rooflens predict`. Lists are varied: all their combinations are predicted.
#[derive(Debug, ClapArgs)]
#[command(after_help = PREDICTIONS)]
pub(super) struct Predict {
    /// Measured bundle, archive, or files and directories of other tools, to predict from; with one GPU, batch and dtype.
    #[arg(long, num_args = 1.., value_name = "PATH")]
    pub(super) from: Vec<PathBuf>,
    /// Hugging Face config.json of the model, or the folder that holds it.
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    pub(super) model: Option<PathBuf>,
    /// GPU of the table, such as "H200". Repeatable.
    #[arg(long = "gpu", value_name = "NAME", required_unless_present = "from")]
    pub(super) gpus: Vec<String>,
    /// Sequences at a time. Default: 1, 8 and 32; of a bundle its own.
    #[arg(long = "batch", value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) batches: Vec<u64>,
    /// Launch stages of static shapes (all but prefill) as CUDA graphs; with --from.
    #[arg(long, requires = "from")]
    pub(super) graphs: bool,
    /// Workload description, instead of the bundle's; with --from.
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(super) workload: Option<PathBuf>,
    /// Tokens of a prompt.
    #[arg(long = "prompt", value_name = "N,…", value_delimiter = ',', default_values_t = [1024])]
    pub(super) prompts: Vec<u64>,
    /// Images, or sounds, of a prompt; their positions count as tokens of it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1 << 10))]
    pub(super) images: u64,
    /// Size of an image in pixels, such as 1280x720, for a model that reads images of any size. Default: 1024x1024, or as the config says.
    #[arg(long, value_name = "WxH", value_parser = super::predict::image)]
    pub(super) image: Option<[u64; 2]>,
    /// Generated tokens of a sequence.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(super) output_tokens: u64,
    /// Weights: fp32, bf16, fp16, fp8, int8, int4, awq, gptq, mxfp4, nvfp4. Default: as the config says.
    #[arg(long = "dtype", value_name = "NAME,…", value_delimiter = ',')]
    pub(super) dtypes: Vec<String>,
    /// Key-value cache. Default: as activations, 16 bits.
    #[arg(long, value_name = "NAME")]
    pub(super) kv_dtype: Option<String>,
    /// GPUs that share each layer (tensor parallelism).
    #[arg(long = "tp", value_name = "N,…", value_delimiter = ',', default_values_t = [1])]
    pub(super) tensor: Vec<u64>,
    /// Groups of GPUs that hold some layers each (pipeline parallelism).
    #[arg(long = "pp", value_name = "N", default_value_t = 1)]
    pub(super) pipeline: u64,
    /// GPUs that share the routed experts (expert parallelism).
    #[arg(long = "ep", value_name = "N", default_value_t = 1)]
    pub(super) expert: u64,
    /// Replicas that share the batch (data parallelism).
    #[arg(long = "dp", value_name = "N", default_value_t = 1)]
    pub(super) data: u64,
    /// Bandwidth between GPUs in one direction, 10⁹ bytes per second. Default: the GPU's NVLink.
    #[arg(long, value_name = "GB/S")]
    pub(super) link: Option<f64>,
    /// Share of each prompt that is cached already.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = ratio)]
    pub(super) cached_prefix: Ratio,
    /// Prompt tokens of a prefill pass at most, over all sequences.
    #[arg(long, value_name = "TOKENS")]
    pub(super) chunk: Option<u64>,
    /// Speculative decoding: guessed tokens of a pass, and the probability that one is right.
    #[arg(long, value_name = "TOKENS:ACCEPTANCE")]
    pub(super) speculate: Option<String>,
    /// Share of device memory for weights and cache.
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = ratio)]
    pub(super) memory_utilization: Ratio,
    /// Longest time to first token, milliseconds: batch sizes that keep it are recommended.
    #[arg(long, value_name = "MS")]
    pub(super) ttft_limit: Option<f64>,
    /// Longest time per output token, milliseconds.
    #[arg(long, value_name = "MS")]
    pub(super) tpot_limit: Option<f64>,
    /// Price of a GPU-hour, one for each --gpu, or one for all; with --from that of the measured GPU first.
    #[arg(long = "price", value_name = "PRICE,…", value_delimiter = ',')]
    pub(super) prices: Vec<f64>,
    /// Rates measured on the GPU (peaks.json, bench.json, or a bundle with them) instead of specified ones.
    #[arg(long, value_name = "FILE")]
    pub(super) peaks: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: Output,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  rooflens serve-report result.json                             every format, into result.json-report/
  rooflens serve-report sweep/*.json --slo ttft=200ms,tpot=50ms knee and goodput of a sweep
  rooflens serve-report run.jsonl before.prom after.prom --gpu-metrics nvml.csv -o run.html";

/// `rooflens serve-report`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SERVE_EXAMPLES)]
pub(super) struct ServeReport {
    /// Results of load tests, and /metrics of engines before and after; files or folders.
    #[arg(required = true, value_name = "RESULT")]
    pub(super) results: Vec<PathBuf>,
    /// Latencies of a good request, for goodput: ttft=200ms,tpot=50ms,e2e=5s.
    #[arg(long, value_name = "LIMITS")]
    pub(super) slo: Option<String>,
    /// Good and bad levels: a TOML, see docs/serving.md.
    #[arg(long, value_name = "FILE")]
    pub(super) thresholds: Option<PathBuf>,
    /// Lower bounds of the hardware: metrics.json or report.json of `rooflens predict`.
    #[arg(long, value_name = "FILE")]
    pub(super) predicted: Option<PathBuf>,
    /// Samples of GPUs during the run: NVML CSV, or text of DCGM's exporter. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(super) gpu_metrics: Vec<PathBuf>,
    /// Name of a result, in the order of the files. Repeatable.
    #[arg(long = "label", value_name = "NAME")]
    pub(super) labels: Vec<String>,
    /// Unit of times in tables of requests whose columns name none: s, ms, us or ns.
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    pub(super) unit: Option<Time>,
    /// The analyst's notes, Markdown.
    #[arg(long, value_name = "FILE")]
    pub(super) notes: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: Output,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  rooflens compare before/ after/                       every format, into before-after-comparison/
  rooflens compare before.tar.xz after.tar.xz -o pr.md  Markdown for a pull request
  rooflens compare h100/ h200/ --allow gpu              of different GPUs
  rooflens compare old-1/ old-2/ -- new-1/ new-2/       several runs per side, which are pooled

Unprofiled repeats decide (rooflens-capture all, or baseline --repeats). Without them, profiled iterations do.";

/// `rooflens compare`.
#[derive(Debug, ClapArgs)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(super) struct Compare {
    /// Captures before the change: bundles, archives or files; or metrics.json. Without `--`, the second one is AFTER.
    #[arg(required = true, value_name = "BEFORE")]
    pub(super) before: Vec<PathBuf>,
    /// Captures after the change.
    #[arg(last = true, value_name = "AFTER")]
    pub(super) after: Vec<PathBuf>,
    /// Compare although this condition differs: gpu, gpu-count, workload, or stages. Repeatable.
    #[arg(long = "allow", value_name = "CONDITION", value_parser = allowed)]
    pub(super) allowed: Vec<Subject>,
    /// Least change of a stage time that counts, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub(super) least: f64,
    #[command(flatten)]
    pub(super) output: Output,
}

const EXPERIMENTS_EXAMPLES: &str = "\
Examples:
  rooflens experiments ledger.toml                      every format, into NAME-experiments/
  rooflens experiments ledger.toml -o experiments.md    Markdown
  rooflens experiments docs/examples/vllm-t4.toml -o -  the example of docs/comparison.md

The ledger is TOML: docs/comparison.md describes it.";

/// `rooflens experiments`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXPERIMENTS_EXAMPLES)]
pub(super) struct Experiments {
    /// The ledger.
    #[arg(value_name = "LEDGER")]
    pub(super) ledger: PathBuf,
    /// Least change of a figure that counts, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub(super) least: f64,
    #[command(flatten)]
    pub(super) output: Output,
}

const GATE_EXAMPLES: &str = "\
Examples:
  rooflens gate run/ --baseline before/ --max 'stage_time@decode:+3%'     a decode step may take 3 % longer
  rooflens gate run/ --baseline baselines/ --thresholds limits.toml       the stored baseline of the workload
  rooflens gate run/ --baseline before/ --max 'mfu@prefill:-2%' --format github

The thresholds file is TOML: max = [\"stage_time@decode:+3%\", \"launches_per_step@decode:+0%\"]

A figure fails if the whole interval of its change is beyond the limit. If the interval contains the limit, or there are
too few values for one, the values cannot tell: a notice, or a failure with --strict. Counts and bytes are exact.

Exit codes: 0 passed or cannot tell, 3 not comparable, 5 regression; others as rooflens --help says.";

/// `rooflens gate`.
#[derive(Debug, ClapArgs)]
#[command(after_help = GATE_EXAMPLES)]
pub(super) struct Gate {
    /// Bundles, archives or files to judge: repeats of one run.
    #[arg(required = true, value_name = "RUN")]
    pub(super) run: Vec<PathBuf>,
    /// What to compare with: a capture, a stored baseline, or a folder of them. Repeatable for repeats of one run.
    #[arg(long, required = true, value_name = "REF")]
    pub(super) baseline: Vec<PathBuf>,
    /// Metric, stage, and how much it may change: +3% to rise, -3% to fall. Repeatable.
    #[arg(long = "max", value_name = "METRIC@STAGE:±PERCENT%")]
    pub(super) limits: Vec<Limit>,
    /// File of limits.
    #[arg(long, value_name = "FILE")]
    pub(super) thresholds: Option<PathBuf>,
    /// Also fail if the values cannot tell.
    #[arg(long)]
    pub(super) strict: bool,
    /// Confidence of the intervals, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0)]
    pub(super) confidence: f64,
    /// Compare although this condition differs: gpu, gpu-count, workload, or stages. Repeatable.
    #[arg(long = "allow", value_name = "CONDITION", value_parser = allowed)]
    pub(super) allowed: Vec<Subject>,
    /// Format of what is printed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(super) format: GateFormat,
    /// File to write instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// Formats of `rooflens gate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum GateFormat {
    /// One line per limit.
    #[default]
    Text,
    /// JUnit XML: one test case per limit.
    Junit,
    /// SARIF 2.1.0 of failures.
    Sarif,
    /// Workflow commands of GitHub for failures.
    Github,
    /// JSON of all limits.
    Json,
}

const BASELINE_EXAMPLES: &str = "\
Examples:
  rooflens baseline add run-1/ run-2/ run-3/             the figures of three runs, into baselines/
  rooflens baseline list
  rooflens baseline accept run/ --reason 'new driver'    replaces the baseline of the workload, and keeps the reason";

/// `rooflens baseline`.
#[derive(Debug, Subcommand)]
#[command(after_help = BASELINE_EXAMPLES)]
pub(super) enum Baseline {
    /// Store the figures of a run as the baseline of its workload.
    Add(BaselineInput),
    /// Replace the baseline of a workload.
    Accept {
        #[command(flatten)]
        input: BaselineInput,
        /// Why the new figures are right.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Print key, workload, GPU and stage times of each baseline.
    List {
        /// Folder of baselines.
        #[arg(long, value_name = "DIR", default_value = "baselines")]
        store: PathBuf,
    },
    /// Print a baseline as JSON.
    Show {
        /// Key, as list prints it.
        #[arg(value_name = "KEY")]
        key: String,
        /// Folder of baselines.
        #[arg(long, value_name = "DIR", default_value = "baselines")]
        store: PathBuf,
    },
}

/// A run to store.
#[derive(Debug, ClapArgs)]
pub(super) struct BaselineInput {
    /// Bundles, archives or files: repeats of one run.
    #[arg(required = true, value_name = "RUN")]
    pub(super) run: Vec<PathBuf>,
    /// Folder of baselines.
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(super) store: PathBuf,
}

/// A condition that makes captures incomparable, by its label.
fn allowed(word: &str) -> Result<Subject, String> {
    let conditions = || {
        Subject::ALL
            .into_iter()
            .filter(|subject| subject.prevents())
    };
    let named = conditions().find(|subject| subject.label() == word);
    named.ok_or_else(|| {
        let labels: Vec<&str> = conditions().map(Subject::label).collect();
        format!("expected one of {}", labels.join(", "))
    })
}

const BENCH_EXAMPLES: &str = "\
Examples:
  rooflens bench-report bench.json peaks.json        every format, into bench-report/
  rooflens bench-report h100/ h200/ -o compare.html  GPUs side by side";

/// `rooflens bench-report`.
#[derive(Debug, ClapArgs)]
#[command(after_help = BENCH_EXAMPLES)]
pub(super) struct BenchReport {
    /// bench.json and peaks.json of rooflens-capture, or folders with them.
    #[arg(required = true, value_name = "RESULT")]
    pub(super) results: Vec<PathBuf>,
    /// The analyst's notes, Markdown.
    #[arg(long, value_name = "FILE")]
    pub(super) notes: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What to write, and where.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// File or folder to write; `-` is standard output. Repeatable. Default: a folder named after the input.
    #[arg(short, long = "output", value_name = "OUT")]
    pub(super) outputs: Vec<PathBuf>,
    /// Write into a folder that holds other files, too: those of the same names are overwritten.
    #[arg(long)]
    pub(super) force: bool,
    /// Document to write as PDF, HTML or Markdown. Default: the report, as HTML with the appendix; into a folder, all.
    #[arg(long, value_enum)]
    pub(super) kind: Option<Kind>,
    /// Output format. Default: from the file extension; into a folder, all but the last four. Repeatable.
    #[arg(long = "format", value_enum, value_name = "FORMAT")]
    pub(super) formats: Vec<Format>,
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

const VALIDATIONS: &str = "\
Examples:
  rooflens validate run/
  rooflens validate run.tar.zst && rooflens report run.tar.zst";

/// A command over one path.
#[derive(Debug, ClapArgs)]
#[command(after_help = VALIDATIONS)]
pub(super) struct Path {
    /// Bundle or archive.
    #[arg(value_name = "BUNDLE")]
    pub(super) path: PathBuf,
}

/// `rooflens pack`.
#[derive(Debug, ClapArgs)]
pub(super) struct Pack {
    /// Bundle to pack: a directory with profiles, or an archive.
    #[arg(value_name = "DIR")]
    pub(super) path: PathBuf,
    /// Archive to write. Default: DIR.tar.zst.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Keep the dumps of environment variables that nsys leaves in its exports, and the names of host and user that ncu
    /// leaves in its reports, and pack files that cannot be looked through: .nsys-rep, journals, logs, other formats.
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
    /// One page: conclusion, figures, actions.
    Summary,
    /// The summary, the findings, and what they rest on.
    Report,
    /// Evidence, methods, and all that the report omits.
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
    /// One CSV a data set; a name that begins with =, +, - or @ gets an apostrophe before it.
    Csv,
    /// One Parquet file a table.
    Parquet,
    /// The findings as SARIF 2.1.0.
    Sarif,
    /// The findings as JUnit XML.
    Junit,
    /// The findings as workflow commands of GitHub.
    Github,
    /// Results for a lake: one Parquet file a table, each row with its capture.
    Results,
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

/// A unit of time, as the time that it is.
fn unit(text: &str) -> Result<Time, String> {
    let unit = crate::serving::import::unit_of_time(text);
    unit.ok_or_else(|| "expected s, ms, us or ns".to_owned())
}

/// A share as a number; its range is checked with the values of other options.
fn ratio(text: &str) -> Result<Ratio, ParseFloatError> {
    text.parse().map(Ratio)
}
