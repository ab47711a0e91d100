//! The command line of `serve`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::load::Lengths;
use crate::args::{parse_label, parse_pass};

/// Load an OpenAI-compatible server and record when each token of each request arrived
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture serve -o run1 --url http://localhost:8000/v1 --model llama --rate 1,2,4,8
  rooflens-capture serve -o run1 --url http://localhost:8000/v1 --model llama --chat --concurrency 1,4,16 \\
      --prompt-tokens lognormal:512:0.4 --output-tokens uniform:64-256 --duration 2m
  rooflens-capture serve -o run1 --url http://localhost:8000/v1 --model llama --rate 4 --dataset prompts.jsonl
  rooflens serve-report run1

With --rate requests are sent at random times (Poisson), whether or not the server keeps up; with --concurrency
each answer is followed by the next request. Lengths: N, uniform:A-B, lognormal:MEDIAN:SIGMA, or a file with a number a line.
A line of a dataset is {\"prompt\": \"…\"} or, with --chat, {\"messages\": […]}, and may have \"output_tokens\".
No prompt and no answer is kept. Ctrl-C keeps what was measured.")]
pub(crate) struct ServeArguments {
    /// Folder of the bundle; made if it is not there
    #[arg(short, long, value_name = "BUNDLE")]
    pub(crate) output: PathBuf,
    /// Base of the API, such as http://localhost:8000/v1
    #[arg(long)]
    pub(crate) url: String,
    /// Model, as the server names it
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// Requests a second, one level of load after another
    #[arg(long, value_name = "R,…", value_delimiter = ',', value_parser = parse_rate)]
    #[arg(
        required_unless_present = "concurrency",
        conflicts_with = "concurrency"
    )]
    pub(crate) rate: Vec<f64>,
    /// Requests in flight, one level of load after another
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) concurrency: Vec<u32>,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
    /// Name of the pass and its folder
    #[arg(long, value_name = "NAME", default_value = "serving", value_parser = parse_pass)]
    pub(crate) pass: String,
    /// Name of the bundle, for people; the folder's name if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Free fact for people, and a setting of the engine in the results, such as max-num-seqs=8; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
}

/// What is sent, and what is recorded next to it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Traffic {
    /// How long requests are sent at each level [default: 30s, or until --requests are sent]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) duration: Option<Duration>,
    /// Requests of each level, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Requests before the first level that are not recorded
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u64,
    /// Use chat/completions
    #[arg(long, conflicts_with = "completions")]
    pub(crate) chat: bool,
    /// Use completions (the default)
    #[arg(long)]
    pub(crate) completions: bool,
    /// Prompts, one JSON object a line, sent in turn
    #[arg(long, value_name = "FILE", conflicts_with = "prompt_tokens")]
    pub(crate) dataset: Option<PathBuf>,
    /// Words of made-up prompts, each about a token
    #[arg(long, value_name = "LENGTHS", default_value = "512", value_parser = parse_lengths)]
    pub(crate) prompt_tokens: Lengths,
    /// Tokens to generate
    #[arg(long, value_name = "LENGTHS", default_value = "128", value_parser = parse_lengths)]
    pub(crate) output_tokens: Lengths,
    /// Let the model end its answers early: do not send ignore_eos
    #[arg(long)]
    pub(crate) stop_at_eos: bool,
    /// JSON object whose members every request has, too
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    pub(crate) extra_body: Option<serde_json::Map<String, serde_json::Value>>,
    /// Environment variable that holds the API key
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// A request that takes longer has failed
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_time)]
    pub(crate) timeout: Duration,
    /// Seed of arrival times, lengths and prompts
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Threads that send and receive [default: half of the CPUs, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Option<u32>,
    /// Page to follow the test in a browser: rates and percentiles so far, written anew every two seconds
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Prometheus metrics of the server [default: /metrics of the same host and port]
    #[arg(long, value_name = "URL", conflicts_with = "no_metrics")]
    pub(crate) metrics_url: Option<String>,
    /// Take no snapshots of the server's metrics
    #[arg(long)]
    pub(crate) no_metrics: bool,
    /// Milliseconds between NVML samples; 0 for none
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub(crate) nvml_period: u64,
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e6).contains(rate));
    rate.ok_or_else(|| "expected requests a second, 0.001 to 1000000".to_owned())
}

/// `90`, `90s`, `1.5m`, `500ms`, `1h`; up to a week.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse().unwrap_or(f64::NAN) * unit;
    let is_time = (1e-3..=604_800.0).contains(&seconds);
    is_time
        .then(|| Duration::from_secs_f64(seconds))
        .ok_or_else(|| "expected a time such as 500ms, 30s, 2m or 1h".to_owned())
}

fn parse_lengths(text: &str) -> Result<Lengths, String> {
    if let Some(lengths) = Lengths::parse(text) {
        return lengths;
    }
    let lines = fs::read_to_string(text).map_err(|error| {
        format!("neither N, uniform:A-B, lognormal:MEDIAN:SIGMA nor a readable file: {error}")
    })?;
    Lengths::of_lines(&lines)
}

fn parse_object(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("90", 90_000),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                parse_time(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "s", "-1s", "0", "5 s", "1d", "NaN", "inf", "1e99"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert!(
            ["0", "-1", "NaN", "inf", "x"]
                .iter()
                .all(|text| parse_rate(text).is_err())
        );
    }
}
