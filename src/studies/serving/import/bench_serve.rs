//! Results of `vllm bench serve` (and `benchmark_serving.py`, whose fields llm-d and InferenceX keep) and of SGLang's
//! `bench_serving`. Summaries are milliseconds (`mean_ttft_ms`); the lists of `--save-detailed` and `--output-details`
//! (`ttfts`, `itls`, `latencies`, `queue_times`, `start_times`) are seconds.
//!
//! Sources: `vllm/benchmarks/serve.py`, `python/sglang/bench_serving.py`.

use serde_json::Value;

use super::json::{number, numbers, text};
use crate::runs::{Load, Request, Run, Stated, Tool};
use crate::stats::Spread;

/// Nanoseconds in the units of summaries and of lists.
const MS: f64 = 1e6;
const S: f64 = 1e9;

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
    let rate = number(value, "request_rate").filter(|rate| *rate > 0.0);
    let concurrency = number(value, "max_concurrency").filter(|most| *most > 0.0);
    let traced = value.get("request_rate").and_then(Value::as_str) == Some("trace");
    Load {
        rate,
        concurrency,
        burst: rate.is_none() && concurrency.is_none() && !traced,
    }
}

/// GPUs of the engine, from metadata that users add.
fn gpus(value: &Value) -> Option<f64> {
    let size = |keys: &[&str]| keys.iter().find_map(|key| number(value, key));
    let tensor = size(&["tensor_parallel_size", "tp_size", "tp"])?;
    let pipeline = size(&["pipeline_parallel_size", "pp_size", "pp"]).unwrap_or(1.0);
    Some(tensor * pipeline)
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
    let output_rate = number(value, "output_throughput");
    let total =
        number(value, "total_token_throughput").or_else(|| number(value, "total_throughput"));
    Stated {
        duration: number(value, "duration").map(|seconds| seconds * S),
        completed: number(value, "completed"),
        failed: number(value, "failed"),
        prompt_tokens: number(value, "total_input_tokens"),
        output_tokens: number(value, "total_output_tokens"),
        request_rate: number(value, "request_throughput"),
        output_rate,
        total_rate: total.or_else(|| Some(output_rate? + number(value, "input_throughput")?)),
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
    let spread = Spread {
        count: None,
        mean: figure("mean"),
        std: figure("std"),
        min: figure("min"),
        max: figure("max"),
        percentiles: [median, figure("p90"), figure("p95"), figure("p99")],
    };
    match spread.mean == Some(0.0) && median.unwrap_or(0.0) == 0.0 {
        true => Spread::default(),
        false => spread.scaled(MS),
    }
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
        let itl: Vec<f64> = itls
            .get(n)
            .map(numbers)
            .unwrap_or_default()
            .iter()
            .map(|gap| gap * S)
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
        let latency = whole.or_else(|| Some(ttft? + itl.iter().sum::<f64>()));
        Request {
            due: number_at(starts, n).map(|start| (start - zero) * S),
            queued: number_at(queues, n).map(|queue| queue * S),
            ttft: ttft.filter(|_| !failed),
            latency: latency.filter(|_| !failed),
            tpot: None,
            itl: if failed { Vec::new() } else { itl },
            prompt_tokens: number_at(inputs, n),
            output_tokens: number_at(outputs, n),
            cached: None,
            failed,
        }
    };
    (0..ttfts.len()).map(request).collect()
}
