//! Results that hold figures and no requests: InferenceX (seconds), llm-d's benchmark report (its `units`),
//! `trtllm-bench` (milliseconds), Optimum-Benchmark (its `unit`).
//!
//! Sources: `utils/process_result.py` of InferenceX, llm-d's benchmark report v0.1,
//! `tensorrt_llm/bench/dataclasses/reporting.py`, `optimum_benchmark/trackers/latency.py`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::json::{
    self, MEAN, MS, Names, S, count, number, numbers, requests_per_second, text, tokens_per_second,
    unit_of_time,
};
use crate::runs::{Load, Run, Stated, Tool};
use crate::stats::{Spread, sorted};
use rooflens_units::{Count, Ratio, Time, TokensPerSecond};

/// A result of InferenceX: times are seconds, throughputs are per GPU.
pub(super) fn inference_x(value: &Value) -> Option<Run> {
    number(value, "tput_per_gpu")?;
    let sizes = ["num_prefill_gpu", "num_decode_gpu"].map(|key| number(value, key));
    let gpus = match sizes {
        [Some(prefill), Some(decode)] => Some(prefill + decode),
        _ => number(value, "tp").or_else(|| number(value, "num_gpus")),
    };
    let total = |key: &str| Some(TokensPerSecond(number(value, key)? * gpus?));
    let spread = |name: &str| {
        let figure = |statistic: &str| number(value, &format!("{statistic}_{name}"));
        let percentiles = ["median", "p90", "p95", "p99"].map(figure);
        let [mean, std] = ["mean", "std"].map(figure);
        Spread::in_unit(S, [mean, std, None, None], percentiles)
    };
    let stated = Stated {
        duration: json::time(value, "duration_seconds", S),
        completed: count(value, "num_requests_successful"),
        request_rate: requests_per_second(value, "mean_qps"),
        output_rate: tokens_per_second(value, "output_tput_tps")
            .or_else(|| total("output_tput_per_gpu")),
        total_rate: tokens_per_second(value, "total_tput_tps").or_else(|| total("tput_per_gpu")),
        ttft: spread("ttft"),
        tpot: spread("tpot"),
        itl: spread("itl"),
        latency: spread("e2el"),
        ..Stated::default()
    };
    let keys = [
        "hw",
        "framework",
        "precision",
        "image",
        "tp",
        "ep",
        "dp_attention",
        "spec_decoding",
        "mtp",
        "disagg",
        "isl",
        "osl",
        "offloading",
    ];
    Some(Run {
        tool: Tool::InferenceX,
        model: text(value, "model"),
        gpu: text(value, "hw"),
        load: Load {
            concurrency: count(value, "conc"),
            ..Load::default()
        },
        gpus: gpus.map(Count),
        settings: settings(value, &keys),
        stated,
        ..Run::default()
    })
}

/// llm-d's benchmark report: each latency names its unit.
pub(super) fn llm_d(value: &Value) -> Option<Run> {
    let metrics = value
        .get("metrics")
        .filter(|metrics| metrics.get("latency").is_some())?;
    let (latency, rates) = (&metrics["latency"], &metrics["throughput"]);
    let spread = |name: &str| {
        let object = latency.get(name)?;
        // Per token: `ms/token`.
        let unit = text(object, "units")?;
        let unit = unit_of_time(unit.split('/').next()?)?;
        Some(json::spread(object, unit, &MEAN))
    };
    let requests = &metrics["requests"];
    let (total, failed) = (count(requests, "total"), count(requests, "failures"));
    let stated = Stated {
        duration: json::time(&metrics["time"], "duration", S),
        completed: total.map(|total| total - failed.unwrap_or_default()),
        failed,
        request_rate: requests_per_second(rates, "requests_per_sec"),
        output_rate: tokens_per_second(rates, "output_tokens_per_sec"),
        total_rate: tokens_per_second(rates, "total_tokens_per_sec"),
        ttft: spread("time_to_first_token").unwrap_or_default(),
        tpot: spread("time_per_output_token").unwrap_or_default(),
        itl: spread("inter_token_latency").unwrap_or_default(),
        latency: spread("request_latency").unwrap_or_default(),
        ..Stated::default()
    };
    let scenario = &value["scenario"];
    Some(Run {
        tool: Tool::LlmD,
        model: text(&scenario["model"], "name"),
        gpu: text(&scenario["host"]["accelerator"][0], "model"),
        load: Load {
            rate: requests_per_second(&scenario["load"]["args"], "request_rate"),
            ..Load::default()
        },
        settings: settings(&scenario["load"], &["name", "type"]),
        stated,
        ..Run::default()
    })
}

/// The report of `trtllm-bench`: milliseconds, and counts of the run as a whole.
pub(super) fn trtllm(value: &Value) -> Option<Run> {
    let performance = value
        .get("performance")
        .filter(|object| object.get("total_latency_ms").is_some())?;
    let (requests, world, streaming) = (
        &value["request_info"],
        &value["world_info"],
        &value["streaming_metrics"],
    );
    let names = Names {
        figures: ["average", "std", "minimum", "maximum"],
        percentiles: ["p50", "p90", "p95", "p99"],
    };
    let spread = |object: &Value, name: &str, mean: Option<Time>| {
        let spread = object
            .get(name)
            .map(|object| json::spread(object, MS, &names))
            .unwrap_or_default();
        Spread {
            mean: spread.mean.or(mean),
            ..spread
        }
    };
    let completed = count(requests, "num_requests");
    let tokens = |key: &str| Some(number(requests, key)? * completed?);
    let stated = Stated {
        duration: json::time(performance, "total_latency_ms", MS),
        completed,
        prompt_tokens: tokens("avg_input_length"),
        output_tokens: tokens("avg_output_length"),
        request_rate: requests_per_second(performance, "request_throughput_req_s"),
        output_rate: tokens_per_second(performance, "system_output_throughput_tok_s"),
        total_rate: tokens_per_second(performance, "system_total_throughput_tok_s"),
        ttft: spread(
            streaming,
            "ttft_percentiles",
            json::time(streaming, "avg_ttft_ms", MS),
        ),
        tpot: spread(
            streaming,
            "tpot_percentiles",
            json::time(streaming, "avg_tpot_ms", MS),
        ),
        latency: spread(
            performance,
            "request_latency_percentiles_ms",
            json::time(performance, "avg_request_latency_ms", MS),
        ),
        ..Stated::default()
    };
    let mut entries = settings(
        &value["engine"],
        &[
            "backend",
            "dtype",
            "kv_cache_dtype",
            "quantization",
            "version",
        ],
    );
    let keys = [
        "tp_size",
        "pp_size",
        "ep_size",
        "max_batch_size",
        "max_num_tokens",
        "scheduling_policy",
        "kv_cache_percentage",
    ];
    entries.extend(settings(world, &keys));
    Some(Run {
        tool: Tool::TrtLlmBench,
        model: text(&value["engine"], "model"),
        gpu: text(&value["machine"], "name"),
        load: Load {
            concurrency: count(requests, "avg_num_concurrent_requests"),
            ..Load::default()
        },
        gpus: count(world, "world_size"),
        settings: entries,
        stated,
        ..Run::default()
    })
}

/// Optimum-Benchmark: one batch at a time; the time of its prefill is that to the first token.
pub(super) fn optimum(value: &Value) -> Option<Run> {
    let report = value.get("report").unwrap_or(value);
    let stage = |name: &str| {
        report
            .get(name)
            .filter(|stage| stage.get("latency").is_some())
    };
    let (prefill, decode) = (stage("prefill")?, stage("decode")?);
    let config = value.get("config").unwrap_or(&Value::Null);
    let scenario = &config["scenario"];
    let batch = count(&scenario["input_shapes"], "batch_size");
    let steps = number(&scenario["generate_kwargs"], "max_new_tokens").map(|tokens| tokens - 1.0);
    let latency = |stage: &Value| {
        let object = &stage["latency"];
        let unit = unit_of_time(&text(object, "unit")?)?;
        let values = sorted(numbers(&object["values"]));
        let names = Names {
            figures: ["mean", "stdev", "min", "max"],
            ..MEAN
        };
        if values.is_empty() {
            return Some(json::spread(object, unit, &names));
        }
        Some(Spread::of_numbers(&values, unit))
    };
    let per_token = stage("per_token").and_then(latency);
    let by_steps = || {
        let steps = steps.filter(|steps| *steps >= 1.0)?;
        Some(latency(decode)?.scaled(Ratio(1.0 / steps)))
    };
    let rate = &decode["throughput"];
    let stated = Stated {
        output_rate: tokens_per_second(rate, "value")
            .filter(|_| text(rate, "unit").is_some_and(|unit| unit == "tokens/s")),
        ttft: latency(prefill)?,
        tpot: per_token.or_else(by_steps).unwrap_or_default(),
        ..Stated::default()
    };
    let backend = &config["backend"];
    let mut entries = settings(
        backend,
        &[
            "name",
            "torch_dtype",
            "quantization_scheme",
            "attn_implementation",
            "torch_compile",
        ],
    );
    entries.extend(settings(
        &scenario["input_shapes"],
        &["batch_size", "sequence_length"],
    ));
    Some(Run {
        tool: Tool::Optimum,
        model: text(backend, "model"),
        gpu: config["environment"]["gpu"][0].as_str().map(str::to_owned),
        load: Load {
            concurrency: batch,
            ..Load::default()
        },
        settings: entries,
        stated,
        ..Run::default()
    })
}

/// Values of these keys as texts.
fn settings(value: &Value, keys: &[&str]) -> BTreeMap<String, String> {
    let shown = |key: &str| match value.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(holds) => Some(holds.to_string()),
        _ => None,
    };
    keys.iter()
        .filter_map(|key| Some(((*key).to_owned(), shown(key)?)))
        .collect()
}
