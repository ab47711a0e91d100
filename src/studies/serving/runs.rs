//! Load tests as data: runs, their requests, and what engine and GPU said meanwhile. Times are [`Time`]:
//! tools state fractions of nanoseconds.

use std::collections::BTreeMap;

use crate::stats::{Spread, withhold};
use rooflens_units::{
    Bytes, Count, Ratio, RequestsPerSecond, Seconds, Time, TokensPerSecond, Watts,
};

/// The program whose format a result has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// `vllm bench serve`, and `benchmark_serving.py` before it.
    VllmBench,
    /// SGLang's `bench_serving`.
    SglangBench,
    /// AIPerf.
    AiPerf,
    /// GenAI-Perf.
    GenAiPerf,
    /// Perf Analyzer's timestamps.
    PerfAnalyzer,
    /// InferenceX (InferenceMAX) results.
    InferenceX,
    /// A replay of recorded conversations.
    TraceReplay,
    /// The benchmark report of llm-d.
    LlmD,
    /// `trtllm-bench`.
    TrtLlmBench,
    /// Optimum-Benchmark, LLM-Perf.
    Optimum,
    /// `rooflens-capture serve`.
    Rooflens,
    /// A table of requests.
    #[default]
    Requests,
    /// `/metrics` of an engine.
    EngineMetrics,
}

impl Tool {
    /// The name that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::VllmBench => "vLLM bench serve",
            Self::SglangBench => "SGLang bench_serving",
            Self::AiPerf => "AIPerf",
            Self::GenAiPerf => "GenAI-Perf",
            Self::PerfAnalyzer => "Perf Analyzer",
            Self::InferenceX => "InferenceX",
            Self::TraceReplay => "trace replay",
            Self::LlmD => "llm-d benchmark report",
            Self::TrtLlmBench => "trtllm-bench",
            Self::Optimum => "Optimum-Benchmark",
            Self::Rooflens => "rooflens-capture serve",
            Self::Requests => "request table",
            Self::EngineMetrics => "engine metrics",
        }
    }
}

/// How requests were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests per second that were offered; none for a closed loop or a burst.
    pub rate: Option<RequestsPerSecond>,
    /// Most requests in flight; none if unlimited.
    pub concurrency: Option<Count>,
    /// All requests were sent at once.
    pub burst: bool,
}

/// One load test at one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Name, unique among the runs of a report.
    pub label: String,
    /// Path of its file.
    pub artifact: String,
    /// Whose format the file has.
    pub tool: Tool,
    /// Model.
    pub model: Option<String>,
    /// GPU.
    pub gpu: Option<String>,
    /// When it began, as the file has it.
    pub started: Option<String>,
    /// How requests were offered.
    pub load: Load,
    /// GPUs of the engine.
    pub gpus: Option<Count>,
    /// What else the file says about how engine and test were set up.
    pub settings: BTreeMap<String, String>,
    /// Command that started the engine, as a line of a shell.
    pub command: Option<String>,
    /// Why it ended early: its figures are those of a part.
    pub cut: Option<String>,
    /// Raw samples.
    pub requests: Vec<Request>,
    /// What the tool computed itself.
    pub stated: Stated,
    /// Gauges and counters of the engine, in the order of time.
    pub engine: Vec<EngineSample>,
    /// Index of the load test that ran while an engine said this, if times tell.
    pub watches: Option<usize>,
}

impl Run {
    /// From when the first request was due to the end of the last; as the tool states it, if it does.
    pub fn duration(&self) -> Option<Time> {
        if self.stated.duration.is_some() {
            return self.stated.duration;
        }
        let due_times = self.requests.iter().filter_map(Request::due);
        let ends = self.requests.iter().filter_map(Request::end);
        let (first, last) = (
            due_times.min_by(Time::total_cmp)?,
            ends.max_by(Time::total_cmp)?,
        );
        Some(last - first).filter(Time::is_positive)
    }

    /// Takes away figures that nothing can have, such as times below zero, and returns their number.
    pub(crate) fn withhold_impossible(&mut self) -> u64 {
        let requests: u64 = self
            .requests
            .iter_mut()
            .map(Request::withhold_impossible)
            .sum();
        requests + self.stated.withhold_impossible()
    }

    /// Whether it is a load test whose figures can be compared: one to its end.
    pub fn is_whole_test(&self) -> bool {
        self.is_test() && self.cut.is_none()
    }

    /// Whether it is a load test rather than what an engine counted.
    pub fn is_test(&self) -> bool {
        self.tool != Tool::EngineMetrics
    }

    /// Time since 1970 when it began, if it says so with a zone.
    pub fn began(&self) -> Option<Seconds> {
        seconds_since_1970(self.started.as_deref()?)
    }
}

/// Seconds since 1970 of a time as RFC 3339 writes it: `2026-11-22T12:00:00.5Z`, `…+01:00`.
fn seconds_since_1970(text: &str) -> Option<Seconds> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let rest = text.get(17..)?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let second = rest[..zone].parse::<f64>().ok()?;
    let offset = match rest[zone..].strip_prefix(['+', '-']) {
        None => 0,
        Some(clock) => {
            let (hours, minutes) = clock.split_once(':')?;
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if rest[zone..].starts_with('-') {
                -minutes
            } else {
                minutes
            }
        }
    };
    // Days since 1970 in the calendar whose years begin in March, so that a leap day is a year's last.
    let (shifted, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        shifted * 365 + shifted.div_euclid(4) - shifted.div_euclid(100) + shifted.div_euclid(400);
    let days = days + (month * 153 + 2) / 5 + day - 719_469;
    let minutes = days * 1_440 + hour * 60 + minute - offset;
    Some(Seconds((minutes * 60) as f64 + second))
}

/// One request. Latencies count from when it was due: scheduled in an open loop, else sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// When it was due, on the run's clock.
    pub due: Option<Time>,
    /// Until it was sent, or until the engine began with it: time in a queue.
    pub queued: Option<Time>,
    /// Until the first token.
    pub ttft: Option<Time>,
    /// Until the end.
    pub latency: Option<Time>,
    /// Mean time between tokens after the first, where the file has that and no latency to compute it from.
    pub tpot: Option<Time>,
    /// Times between outputs.
    pub itl: Vec<Time>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<Count>,
    /// Tokens of the answer.
    pub output_tokens: Option<Count>,
    /// Share of the prompt that was in the prefix cache.
    pub cached: Option<Ratio>,
    /// It gave no answer.
    pub failed: bool,
}

impl Request {
    /// Time per output token after the first: (latency − TTFT) ÷ (output tokens − 1); none below two tokens.
    pub fn tpot(&self) -> Option<Time> {
        let tpot = match (self.output_tokens, self.latency, self.ttft) {
            (Some(tokens), ..) if tokens - Count(1.0) < Count(1.0) => None,
            (Some(tokens), Some(latency), Some(ttft)) => {
                Some((latency - ttft) / (tokens - Count(1.0)))
            }
            _ => self.tpot,
        };
        tpot.filter(|time| *time >= Time::ZERO)
    }

    fn withhold_impossible(&mut self) -> u64 {
        let times = [
            &mut self.queued,
            &mut self.ttft,
            &mut self.latency,
            &mut self.tpot,
        ];
        let lost: u64 = times
            .into_iter()
            .map(|time| withhold(time, |time| time.0))
            .sum();
        let counts = [&mut self.prompt_tokens, &mut self.output_tokens];
        let counts: u64 = counts
            .into_iter()
            .map(|count| withhold(count, |count| count.0))
            .sum();
        let gaps = self.itl.len();
        self.itl.retain(|gap| (0.0..f64::INFINITY).contains(&gap.0));
        lost + counts + (gaps - self.itl.len()) as u64
    }

    /// When it was due, on the run's clock.
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// When it ended, on the run's clock.
    pub fn end(&self) -> Option<Time> {
        Some(self.due? + self.latency?)
    }
}

/// Figures that a tool computed itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stated {
    /// From the first request to the end of the last.
    pub duration: Option<Time>,
    /// Requests with an answer.
    pub completed: Option<Count>,
    /// Requests without one.
    pub failed: Option<Count>,
    /// Tokens of all prompts.
    pub prompt_tokens: Option<Count>,
    /// Tokens of all answers.
    pub output_tokens: Option<Count>,
    /// Answers per second.
    pub request_rate: Option<RequestsPerSecond>,
    /// Tokens of answers per second.
    pub output_rate: Option<TokensPerSecond>,
    /// Tokens of prompts and answers per second.
    pub total_rate: Option<TokensPerSecond>,
    /// Time to first token.
    pub ttft: Spread,
    /// Time per output token.
    pub tpot: Spread,
    /// Inter-token latency.
    pub itl: Spread,
    /// End-to-end latency.
    pub latency: Spread,
    /// Time in a queue.
    pub queued: Spread,
}

impl Stated {
    fn withhold_impossible(&mut self) -> u64 {
        let counts = [
            &mut self.completed,
            &mut self.failed,
            &mut self.prompt_tokens,
            &mut self.output_tokens,
        ];
        let counts: u64 = counts
            .into_iter()
            .map(|count| withhold(count, |count| count.0))
            .sum();
        let rates = [&mut self.output_rate, &mut self.total_rate];
        let rates: u64 = rates
            .into_iter()
            .map(|rate| withhold(rate, |rate| rate.0))
            .sum();
        let spreads = [
            &mut self.ttft,
            &mut self.tpot,
            &mut self.itl,
            &mut self.latency,
            &mut self.queued,
        ];
        let spreads: u64 = spreads.into_iter().map(Spread::withhold_impossible).sum();
        let others = withhold(&mut self.duration, |time| time.0)
            + withhold(&mut self.request_rate, |rate| rate.0);
        counts + rates + spreads + others
    }
}

/// What an engine said at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineSample {
    /// Time on the clock of the samples, if they have one.
    pub time: Option<Time>,
    /// Requests that run.
    pub running: Option<Count>,
    /// Requests that wait.
    pub waiting: Option<Count>,
    /// Share of the KV cache that is in use.
    pub kv_cache: Option<Ratio>,
    /// Requests that were thrown out of the running batch so far.
    pub preemptions: Option<Count>,
    /// Requests that ended so far.
    pub completed: Option<Count>,
    /// Tokens of prompts so far.
    pub prompt_tokens: Option<Count>,
    /// Tokens of answers so far.
    pub output_tokens: Option<Count>,
    /// Prompt tokens that were found in the prefix cache so far.
    pub cache_hits: Option<Count>,
    /// Prompt tokens that were looked up in it so far.
    pub cache_queries: Option<Count>,
}

/// What a GPU said at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuSample {
    /// UTC nanoseconds since 1970, if the sample has a time.
    pub utc: Option<i64>,
    /// Index.
    pub gpu: u32,
    /// Share of the sample period with a kernel resident.
    pub utilization: Option<Ratio>,
    /// Watts.
    pub power: Option<Watts>,
    /// Bytes in use.
    pub memory_used: Option<Bytes>,
}

impl GpuSample {
    /// Whether its time is known.
    pub const fn is_timed(&self) -> bool {
        self.utc.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rfc_3339_are_seconds_since_1970() {
        // date -u -d 2026-11-22T12:00:00Z +%s, date -u -d 2024-02-29T23:59:59.5-01:30 +%s.%N
        assert_eq!(
            seconds_since_1970("2026-11-22T12:00:00Z"),
            Some(Seconds(1_795_348_800.0))
        );
        assert_eq!(
            seconds_since_1970("2024-02-29T23:59:59.5-01:30"),
            Some(Seconds(1_709_256_599.5))
        );
        assert_eq!(
            seconds_since_1970("1970-01-01T00:00:00+00:00"),
            Some(Seconds::ZERO)
        );
        assert_eq!(seconds_since_1970("2026-11-22 at noon"), None);
    }
}
