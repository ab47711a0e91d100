//! The command line of `tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rooflens_units::Slo;

use super::parameter::Parameter;
use crate::args::{TimeLimit, parse_label, parse_limit};
use crate::serve::args::{Traffic, parse_rate, parse_time};

/// Find the settings of a server that answer the most requests per second within limits of latency
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture tune -o tuned --slo ttft=200ms,tpot=50ms --param max-num-seqs=1..64 \\
      --param gpu-memory-utilization=0.85,0.9 -- vllm serve llama
  rooflens-capture tune -o tuned --slo tpot=30ms --param max-running-requests=1..128 --rate 1,2,4,8,16 --duration 1m \\
      -- python3 -m sglang.launch_server --model-path llama --port 8000
  rooflens-capture tune -o tuned --slo ttft=1s --param threads=1..16 -- ./server --threads {threads} --port 8000
  rooflens serve-report tuned --slo ttft=200ms,tpot=50ms
  rooflens experiments tuned/experiments.toml

For each setting that is tried COMMAND is started, loaded level after level until a level misses the limits, and ended.
A level keeps the limits if 90 % of its requests do; one that clearly misses them ends early. Each --param becomes
--NAME VALUE in COMMAND, in place of the option that is there; a value `true` becomes the option alone, `false` none.
Where COMMAND has {NAME}, the value takes that place instead. A server that does not start is a result, too.
The best three settings are measured a second time, and the lower of two results decides.")]
pub(crate) struct TuneArguments {
    /// Folder of the bundle; made if it is not there
    #[arg(short, long, value_name = "BUNDLE", default_value = "tuned")]
    pub(crate) output: PathBuf,
    /// Limits of latency, such as ttft=200ms,tpot=50ms,e2e=3s
    #[arg(long, value_name = "LIMITS", value_parser = parse_slo)]
    pub(crate) slo: Slo,
    /// Option of COMMAND and its values: a range of whole numbers, or a list; may be repeated
    #[arg(long = "param", value_name = "NAME=A..B|V,…", required = true, value_parser = Parameter::parse)]
    pub(crate) parameters: Vec<Parameter>,
    /// Base of the API [default: of --host and --port of COMMAND, else http://localhost:8000/v1]
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// Model, as the server names it [default: the first one that it lists]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Requests a second, one level of load after another
    #[arg(long, value_name = "R,…", value_delimiter = ',', value_parser = parse_rate)]
    #[arg(conflicts_with = "concurrency")]
    pub(crate) rate: Vec<f64>,
    /// Requests in flight, one level of load after another
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) concurrency: Vec<u32>,
    /// Time for all settings together, such as 30m or 4h, or `none`: no setting begins that would probably exceed it
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = parse_limit)]
    pub(crate) budget: TimeLimit,
    /// A server that takes longer to be ready has not started
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub(crate) start_timeout: Duration,
    /// What answers 200 when the server is ready, such as localhost:8000/health [default: its list of models]
    #[arg(long, value_name = "HOST:PORT/PATH", value_parser = crate::run::parse_ready)]
    pub(crate) ready: Option<String>,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
    /// Name of the bundle, for people; the folder's name if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Free fact for people; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The server and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

fn parse_slo(text: &str) -> Result<Slo, String> {
    match Slo::parse(text)? {
        slo if slo.is_empty() => Err("expected ttft=200ms, tpot=50ms or e2e=3s".to_owned()),
        slo => Ok(slo),
    }
}
