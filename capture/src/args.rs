//! The command line.

mod parse;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use parse::parse_limit;
use parse::parse_window;
pub(crate) use parse::{parse_label, parse_pass};

pub(crate) use crate::doctor::args::DoctorArguments;
pub(crate) use crate::merge::MergeArguments;
pub(crate) use crate::serve::args::ServeArguments;
pub(crate) use crate::tune::args::TuneArguments;

/// Record a GPU machine and its profiles as a capture bundle for rooflens
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
#[command(after_help = "\
Examples:
  rooflens-capture all -o run1 --gate decode -- python3 generate.py
  rooflens-capture snapshot -o run1        what the machine and its software are
  rooflens-capture nsys -o run1 -- python3 train.py
  rooflens-capture all --dry-run -o run1 -- python3 train.py
  rooflens-capture all --show-config       options in effect, from flags and rooflens.toml
  rooflens-capture serve -o run1 --url http://localhost:8000/v1 --model llama --rate 1,2,4,8
  rooflens-capture tune -o tuned --slo ttft=200ms,tpot=50ms --param max-num-seqs=1..64 -- vllm serve llama

Exit codes: that of the workload; 125 if this program failed")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) config: rooflens_config::ConfigFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Snapshot(SnapshotArguments),
    Baseline(BaselineArguments),
    Nsys(NsysArguments),
    Ncu(NcuArguments),
    Torch(TorchArguments),
    All(AllArguments),
    Kernels(KernelsArguments),
    Serve(Box<ServeArguments>),
    Tune(Box<TuneArguments>),
    Manifest(ManifestArguments),
    Merge(MergeArguments),
    Doctor(DoctorArguments),
    /// Measure this GPU's ceilings and write them to peaks.json
    Peaks(Passed),
    /// Measure single operations of language models on this GPU
    Bench(Passed),
    /// Generate shell completions
    Completions {
        /// Shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write man pages
    Man {
        /// Folder to write to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Arguments of rooflens-bench, which says itself what they are.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(after_help = "Run this command with --help for its options.")]
pub(crate) struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<std::ffi::OsString>,
}

/// Record GPUs, driver, host, tool versions and known environment variables in BUNDLE/snapshot
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture snapshot -o run1
  rooflens-capture snapshot -o run1 --python .venv/bin/python

What is not there is recorded as missing, with the reason. Host names, user names, serial numbers and
environment variables beyond a fixed list are never recorded.")]
pub(crate) struct SnapshotArguments {
    /// Folder of the bundle; made if it is not there
    #[arg(short, long, value_name = "BUNDLE")]
    pub(crate) output: PathBuf,
    /// Python whose PyTorch version is asked for
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
    /// Record the UUID of each GPU, which tells one machine from all others
    #[arg(long)]
    pub(crate) uuid: bool,
    #[command(flatten)]
    pub(crate) profilers: Profilers,
}

/// Run COMMAND without a profiler, sampling NVML
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture baseline -o run1 -- python3 generate.py
  rooflens-capture baseline -o run1 --warmup 1 --repeats 5 -- ./benchmark

The command finds a folder for its own files in ROOFLENS_OUT: timings.json, workload.toml and config.json are
taken into the bundle.")]
pub(crate) struct BaselineArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) repeats: Repeats,
}

/// How often the unprofiled command runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Repeats {
    /// Runs of the whole command without a profiler
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Runs before them that are not counted
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warmup: u32,
    /// One more run in a pass of its own that logs every cuBLAS and cuBLASLt call: slow and large
    #[arg(long)]
    pub(crate) gemm_log: bool,
}

/// Run COMMAND under nsys and export the timeline as SQLite
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture nsys -o run1 -- python3 generate.py
  rooflens-capture nsys -o run1 --gate decode -- python3 generate.py
  rooflens-capture nsys -o run1 --trace cuda,nvtx,cublas,cudnn --gpu-metrics -- python3 train.py

With --gate, nsys records the first instance of the range and, with --instances, those after it. Whether the
range occurred is checked after the run.")]
pub(crate) struct NsysArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) nsys: NsysOptions,
}

/// What nsys records.
#[derive(Clone, Debug, Args)]
pub(crate) struct NsysOptions {
    /// What nsys traces
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "cuda,nvtx,osrt"
    )]
    pub(crate) trace: Vec<String>,
    /// Sample the GPUs' counters, too: needs permission, disturbs little
    #[arg(long)]
    pub(crate) gpu_metrics: bool,
    /// Record when threads are off the CPU, too: tells a host that waits from one that works; needs permission
    #[arg(long)]
    pub(crate) scheduling: bool,
    /// Keep the .nsys-rep: it holds the environment of the command, secrets included
    #[arg(long)]
    pub(crate) keep_report: bool,
}

/// Run COMMAND under ncu and export its counters as CSV
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture ncu -o run1 --gate decode_step --launch-count 40 -- python3 generate.py
  rooflens-capture kernels run1 --top 10 > kernels.yaml
  rooflens-capture ncu -o run1 --kernels kernels.yaml --preset full -- python3 generate.py

Every selected launch is replayed many times: choose few. COMMAND is ended after the last one.")]
pub(crate) struct NcuArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) ncu: NcuOptions,
    /// Kernels to profile, as `rooflens-capture kernels` writes them
    #[arg(long, value_name = "FILE")]
    pub(crate) kernels: Option<PathBuf>,
}

/// What ncu records.
#[derive(Clone, Debug, Args)]
pub(crate) struct NcuOptions {
    /// Sections to collect
    #[arg(long, value_enum, default_value_t = Preset::Roofline)]
    pub(crate) preset: Preset,
    /// Section to collect instead of a preset's; may be repeated
    #[arg(long = "section", value_name = "NAME")]
    pub(crate) sections: Vec<String>,
    /// Matching launches to pass over
    #[arg(long, value_name = "N")]
    pub(crate) launch_skip: Option<u64>,
    /// Matching launches to profile [default: 60, or as many as the kernel list asks for]
    #[arg(long, value_name = "N")]
    pub(crate) launch_count: Option<u64>,
    /// Caches before each replay
    #[arg(long, value_enum, default_value_t = CacheControl::All)]
    pub(crate) cache_control: CacheControl,
    /// Clocks while profiling
    #[arg(long, value_enum, default_value_t = ClockControl::None)]
    pub(crate) clock_control: ClockControl,
}

/// Named choices of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// Speed of light, rooflines, launch, occupancy, stalls
    Roofline,
    /// Everything ncu has
    Full,
    /// Roofline and the memory hierarchy
    Memory,
    /// Roofline, pipes and instructions
    Compute,
}

/// `--cache-control` of ncu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheControl {
    /// Flushed: every launch starts cold
    All,
    /// Left as they are
    None,
}

/// `--clock-control` of ncu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockControl {
    /// Locked to the base clock
    Base,
    /// Left as they are in the unprofiled run
    None,
}

/// Collect a PyTorch profiler trace of COMMAND
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture torch -o run1 --gate decode --window 1:2 -- python3 generate.py
  rooflens-capture torch -o run1 --trace-dir traces -- python3 writes_its_own_trace.py
  VLLM_TORCH_PROFILER_DIR=$PWD/traces rooflens-capture torch -o run1 --trace-dir traces -- python3 vllm_client.py

Without --trace-dir the profiler is started in every Python process that imports torch, by a sitecustomize
module on PYTHONPATH; the command itself is not changed.")]
pub(crate) struct TorchArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) torch: TorchOptions,
}

/// How a PyTorch trace comes about.
#[derive(Clone, Debug, Args)]
pub(crate) struct TorchOptions {
    /// Folder into which the command writes traces itself: *.pt.trace.json and *.pt.trace.json.gz that are new are taken
    #[arg(long, value_name = "FOLDER")]
    pub(crate) trace_dir: Option<PathBuf>,
    /// Record with the trace
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shapes")]
    pub(crate) record: Vec<Record>,
}

/// What the injected profiler records next to times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Record {
    /// Shapes of operator inputs
    Shapes,
    /// Python and C++ stacks
    Stacks,
    /// Allocations
    Memory,
    /// Operator FLOPs as PyTorch counts them
    Flops,
}

/// All passes, one after another: snapshot, baseline, nsys, torch, ncu
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture all -o run1 -- python3 train.py
  rooflens-capture all -o run1 --profile quick -- python3 train.py
  rooflens-capture all -o run1 --budget 10m --stage prefill --stage decode -- python3 generate.py
  rooflens-capture all -o run1 --budget none -- python3 train.py               every kernel, however long it takes
  rooflens-capture all -o run1 --client 'python3 load.py' --ready localhost:8000/health --window 50:20 -- vllm serve llama
  rooflens-capture all --dry-run -o run1 -- python3 generate.py

COMMAND runs once a pass. A pass whose tool is missing is skipped, and the bundle says why. The gate limits what
torch looks at; nsys records the whole run unless --gate-nsys is given. ncu profiles the kernels with the most time
of the timeline, in one instance of each stage, and ends COMMAND after it. --window limits torch, and of a server
(--client) all passes but the baseline.

Each pass has a deadline: all passes take at most four times the unprofiled time and 60 s, or --budget. Where time is
short ncu profiles fewer kernels, and the bundle says which ones it skipped.")]
pub(crate) struct AllArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) repeats: Repeats,
    #[command(flatten)]
    pub(crate) nsys: NsysOptions,
    /// Gate the nsys pass, too
    #[arg(long, requires = "gate")]
    pub(crate) gate_nsys: bool,
    #[command(flatten)]
    pub(crate) ncu: NcuOptions,
    #[command(flatten)]
    pub(crate) torch: TorchOptions,
    /// Kernels that ncu profiles, by their share of GPU time
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub(crate) top: u32,
    /// Profile the top kernels of this stage; may be repeated [default: up to four stages, by the timeline's ranges]
    #[arg(long = "stage", value_name = "NAME")]
    pub(crate) stages: Vec<String>,
    /// Time for all passes together, such as 90s, 10m or 1h, or `none`: a pass that would exceed its part is ended
    /// early, and what it has until then is kept [default: four times the unprofiled time and 60 s]
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    pub(crate) budget: Option<TimeLimit>,
    /// Passes to run
    #[arg(
        long,
        value_enum,
        value_name = "PASS,…",
        value_delimiter = ',',
        default_value = "baseline,nsys,torch,ncu"
    )]
    pub(crate) passes: Vec<PassName>,
    /// Named options: quick, default, deep, training, serving, or a table [profile.NAME] of rooflens.toml
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) profile: String,
}

/// Time for all passes of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// Some times the unprofiled time, and a minute.
    Usual,
    /// This time.
    Total(Duration),
    /// As long as it takes.
    None,
}

/// Passes of `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PassName {
    /// Without a profiler, and the pass of --gemm-log
    Baseline,
    /// Timeline
    Nsys,
    /// PyTorch profiler trace
    Torch,
    /// Counters of the kernels with the most time
    Ncu,
}

impl AllArguments {
    /// Steps of a server to which profiled passes are limited.
    pub(crate) fn server_steps(&self) -> Option<(u64, u64)> {
        self.gate.steps().filter(|_| self.common.client.is_some())
    }

    /// What limits the timeline, if something does.
    pub(crate) fn nsys_gate(&self) -> Option<&Gate> {
        Some(&self.gate).filter(|_| self.gate_nsys || self.server_steps().is_some())
    }
}

/// List the kernels with the most time of a timeline, for `ncu --kernels`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture kernels run1 --top 10 --stage decode > kernels.yaml
  rooflens-capture ncu -o run1 --kernels kernels.yaml -- python3 generate.py

`rooflens kernels --yaml` lists the same.")]
pub(crate) struct KernelsArguments {
    /// Bundle with a pass `nsys`, or an SQLite export of nsys
    #[arg(value_name = "BUNDLE")]
    pub(crate) input: PathBuf,
    /// Kernels that are listed, by their share of GPU time
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub(crate) top: usize,
    /// Only those of this stage
    #[arg(long, value_name = "NAME")]
    pub(crate) stage: Option<String>,
    /// Only those of the unit that repeats, where no range says it: launches of CUDA graphs, or a sequence of kernels
    #[arg(long, conflicts_with = "stage")]
    pub(crate) steps: bool,
}

/// A range that limits what is recorded.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Gate {
    /// NVTX range to which recording is limited; RANGE@* is one in any domain
    #[arg(long, value_name = "RANGE[@DOMAIN]")]
    pub(crate) gate: Option<String>,
    /// Instances of the range that nsys records, from the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) instances: u32,
    /// Which instance ncu profiles, counted from 1 [default: all]
    #[arg(long, value_name = "N", requires = "gate")]
    pub(crate) instance: Option<u32>,
    /// Pass over SKIP steps of a Python workload, then record COUNT of them: updates of the weights, calls of models,
    /// batches of an engine, launches of CUDA graphs. Steps of a server are counted once it is ready, and it is ended
    /// after them. With a gate torch counts instances of its range
    #[arg(long, value_name = "SKIP:COUNT", value_parser = parse_window)]
    pub(crate) window: Option<(u64, u64)>,
}

impl Gate {
    /// Steps that are passed over and recorded, if no range is the gate.
    pub(crate) fn steps(&self) -> Option<(u64, u64)> {
        self.window.filter(|_| self.gate.is_none())
    }
}

/// What all runs of a command share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Folder of the bundle; made if it is not there
    #[arg(short, long, value_name = "BUNDLE")]
    pub(crate) output: PathBuf,
    /// Name of the pass and its folder [default: the subcommand]
    #[arg(long, value_name = "NAME", value_parser = parse_pass)]
    pub(crate) pass: Option<String>,
    /// Name of the bundle, for people; the folder's name if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Free fact for people; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Print what would run, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave host and user names in profiles and command lines
    #[arg(long)]
    pub(crate) keep_names: bool,
    /// Milliseconds between NVML samples; 0 for none
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub(crate) nvml_period: u64,
    /// Leave a Python workload alone: no notes of its model and no times of its ranges; the torch pass still injects
    #[arg(long)]
    pub(crate) no_inject: bool,
    /// Steps of a Python workload become its ranges: updates of the weights, calls of models, launches of CUDA graphs.
    /// Without this, where the baseline saw no ranges of its own; with it, instead of these
    #[arg(long, conflicts_with = "no_inject")]
    pub(crate) steps: bool,
    /// The workload is a server: this line of shell loads it once it is ready, and when it has ended the server is
    /// ended. What it writes to the folder in ROOFLENS_OUT becomes `client/` of the pass
    #[arg(long, value_name = "COMMAND", requires = "ready")]
    pub(crate) client: Option<String>,
    /// What answers 200 when the server is ready, such as localhost:8000/health
    #[arg(long, value_name = "HOST:PORT/PATH", requires = "client", value_parser = crate::run::parse_ready)]
    pub(crate) ready: Option<String>,
    #[command(flatten)]
    pub(crate) profilers: Profilers,
    /// The workload and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Where the profilers are.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Profilers {
    /// The nsys program
    #[arg(
        long = "nsys",
        id = "nsys_program",
        value_name = "PROGRAM",
        env = "ROOFLENS_NSYS",
        default_value = "nsys"
    )]
    pub(crate) nsys: String,
    /// The ncu program
    #[arg(
        long = "ncu",
        id = "ncu_program",
        value_name = "PROGRAM",
        env = "ROOFLENS_NCU",
        default_value = "ncu"
    )]
    pub(crate) ncu: String,
}

/// Hash all files of BUNDLE and write its manifest.json, or renew the one that is there
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture manifest run1
  rooflens-capture manifest run1 --name \"Llama-3-8B, batch 8\" --label ticket=1234

Each folder is a pass. Files are known by their names: *.sqlite, *.pt.trace.json, *.ncu-rep, nvml.csv, timings.json,
workload.toml and so on, packed with .gz or .zst or not. What a manifest that is there says of passes and files is kept.")]
pub(crate) struct ManifestArguments {
    /// Folder of the bundle
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,
    /// Name for people; the folder's name if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Free fact for people; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
}
