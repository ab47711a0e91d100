//! Results of `vllm bench serve` (and `benchmark_serving.py`, whose fields llm-d and InferenceX keep) and of SGLang's
//! `bench_serving`. Summaries are milliseconds (`mean_ttft_ms`); the lists of `--save-detailed` and `--output-details`
//! (`ttfts`, `itls`, `latencies`, `queue_times`, `start_times`) are seconds.
//!
//! Sources: `vllm/benchmarks/serve.py`, `python/sglang/bench_serving.py`.

use serde_json::Value;

use super::json::{
    MS, S, count, number, numbers, requests_per_second, text, time, tokens_per_second,
};
use crate::runs::{Load, Request, Run, Stated, Tool};
use crate::stats::Spread;
use rooflens_units::{Count, RequestsPerSecond, Time};

/// Keys that are read, or that say nothing about how engine and test were set up.
const KNOWN: [&str; 33] = [
    "accept_length",
    "completed",
    "concurrency",
    "date",
    "duration",
    "errors",
    "failed",
    "generated_texts",
    "gpu",
    "hw",
    "input_throughput",
    "label",
    "max_concurrency",
    "max_concurrent_requests",
    "max_output_tokens_per_s",
    "model",
    "model_id",
    "num_prompts",
    "output_throughput",
    "request_goodput",
    "request_goodput:",
    "request_rate",
    "request_throughput",
    "rtfx",
    "seed",
    "tag",
    "timestamp",
    "tokenizer_id",
    "total_input_tokens",
    "total_output_tokens",
    "total_output_tokens_retokenized",
    "total_throughput",
    "total_token_throughput",
];

/// A run, if the value is one.
pub(super) fn read(value: &Value) -> Option<Run> {
    let has = |key: &str| value.get(key).is_some();
    let is_summary = has("duration")
        && has("completed")
        && (has("request_throughput") || has("output_throughput"));
    if !is_summary
        || !(has("median_ttft_ms")
            || has("mean_ttft_ms")
            || has("ttfts")
            || has("mean_e2el_ms")
            || has("mean_e2e_latency_ms"))
    {
        return None;
    }
    let sglang = has("total_output_tokens_retokenized")
        || has("median_e2e_latency_ms")
        || has("input_throughput");
    Some(Run {
        tool: if sglang {
            Tool::SglangBench
        } else {
            Tool::VllmBench
        },
        model: text(value, "model_id").or_else(|| text(value, "model")),
        gpu: text(value, "gpu").or_else(|| text(value, "hw")),
        started: text(value, "date"),
        load: load(value),
        gpus: gpus(value),
        settings: settings(value),
        requests: requests(value),
        stated: stated(value),
        ..Run::default()
    })
}

/// How requests were offered. An infinite rate is `"inf"` or JSON's missing number for it.
fn load(value: &Value) -> Load {
    let rate = requests_per_second(value, "request_rate").filter(RequestsPerSecond::is_positive);
    let concurrency = count(value, "max_concurrency").filter(Count::is_positive);
    let traced = value.get("request_rate").and_then(Value::as_str) == Some("trace");
    Load {
        rate,
        concurrency,
        burst: rate.is_none() && concurrency.is_none() && !traced,
    }
}

/// GPUs of the engine, from metadata that users add.
fn gpus(value: &Value) -> Option<Count> {
    let size = |keys: &[&str]| keys.iter().find_map(|key| number(value, key));
    let tensor = size(&["tensor_parallel_size", "tp_size", "tp"])?;
    let pipeline = size(&["pipeline_parallel_size", "pp_size", "pp"]).unwrap_or(1.0);
    Some(Count(tensor * pipeline))
}

/// What users and tools state about the setup: all short values that are no figures.
fn settings(value: &Value) -> std::collections::BTreeMap<String, String> {
    let figures = ["_ms", "_s", "s_per_s", "_rate"];
    let is_setting = |key: &str| {
        !KNOWN.contains(&key)
            && !figures.iter().any(|end| key.ends_with(end))
            && !key.starts_with("spec_decode_")
    };
    let shown = |value: &Value| match value {
        Value::String(text) if !text.is_empty() && text.len() <= 64 => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(holds) => Some(holds.to_string()),
        _ => None,
    };
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter(|(key, _)| is_setting(key))
        .filter_map(|(key, value)| Some((key.clone(), shown(value)?)))
        .collect()
}

fn stated(value: &Value) -> Stated {
    let goodness = |names: &[&str]| {
        names
            .iter()
            .map(|name| spread(value, name))
            .find(|spread| !spread.is_empty())
    };
    let first_of = |names: &[&str]| goodness(names).unwrap_or_default();
    let output_rate = tokens_per_second(value, "output_throughput");
    let total = tokens_per_second(value, "total_token_throughput")
        .or_else(|| tokens_per_second(value, "total_throughput"));
    Stated {
        duration: time(value, "duration", S),
        completed: count(value, "completed"),
        failed: count(value, "failed"),
        prompt_tokens: count(value, "total_input_tokens"),
        output_tokens: count(value, "total_output_tokens"),
        request_rate: requests_per_second(value, "request_throughput"),
        output_rate,
        total_rate: total
            .or_else(|| Some(output_rate? + tokens_per_second(value, "input_throughput")?)),
        ttft: first_of(&["ttft"]),
        tpot: first_of(&["tpot"]),
        itl: first_of(&["itl"]),
        latency: first_of(&["e2el", "e2e_latency"]),
        queued: first_of(&["client_queue_time"]),
    }
}

/// `mean_ttft_ms`, `median_ttft_ms`, `p99_ttft_ms`. All zero is what the tools write where nothing was streamed.
fn spread(value: &Value, name: &str) -> Spread {
    let figure = |statistic: &str| number(value, &format!("{statistic}_{name}_ms"));
    let median = figure("median").or_else(|| figure("p50"));
    let figures = ["mean", "std", "min", "max"].map(figure);
    if figures[0] == Some(0.0) && median.unwrap_or(0.0) == 0.0 {
        return Spread::default();
    }
    let [p90, p95, p99] = ["p90", "p95", "p99"].map(figure);
    Spread::in_unit(MS, figures, [median, p90, p95, p99])
}

/// The raw samples, if the run kept them.
fn requests(value: &Value) -> Vec<Request> {
    let list = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let (ttfts, itls, errors) = (list("ttfts"), list("itls"), list("errors"));
    let [inputs, outputs, latencies, starts, queues] = [
        "input_lens",
        "output_lens",
        "latencies",
        "start_times",
        "queue_times",
    ]
    .map(list);
    let number_at = |list: &[Value], n: usize| list.get(n).and_then(Value::as_f64);
    let zero = starts
        .iter()
        .filter_map(Value::as_f64)
        .fold(f64::INFINITY, f64::min);
    let request = |n: usize| {
        let itl: Vec<Time> = itls
            .get(n)
            .map(numbers)
            .unwrap_or_default()
            .iter()
            .map(|gap| *gap * S)
            .collect();
        let failed = errors
            .get(n)
            .and_then(Value::as_str)
            .is_some_and(|error| !error.is_empty())
            || number_at(outputs, n) == Some(0.0);
        let ttft = number_at(ttfts, n)
            .filter(|ttft| *ttft > 0.0)
            .map(|ttft| ttft * S);
        let whole = number_at(latencies, n).map(|latency| latency * S);
        let latency = whole.or_else(|| Some(ttft? + itl.iter().sum::<Time>()));
        Request {
            due: number_at(starts, n).map(|start| (start - zero) * S),
            queued: number_at(queues, n).map(|queue| queue * S),
            ttft: ttft.filter(|_| !failed),
            latency: latency.filter(|_| !failed),
            tpot: None,
            itl: if failed { Vec::new() } else { itl },
            prompt_tokens: number_at(inputs, n).map(Count),
            output_tokens: number_at(outputs, n).map(Count),
            cached: None,
            failed,
        }
    };
    (0..ttfts.len()).map(request).collect()
}
