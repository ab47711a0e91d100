//! AIPerf, GenAI-Perf and Perf Analyzer: aggregates in which each figure names its unit, records of requests, and
//! timestamps.
//!
//! Sources: AIPerf's `docs/tutorials/working-with-profile-exports.md`, GenAI-Perf's `docs/files.md`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::json::{self, AVG, as_number, number, numbers, text, unit_of_time};
use super::{Outcome, Parsed};
use crate::runs::{Load, Request, Run, Stated, Tool};
use crate::stats::Spread;
use rooflens_units::{Count, RequestsPerSecond, Time, TokensPerSecond};

/// An aggregate: `profile_export_aiperf.json`, with its figures under `records` or at the top, and
/// `profile_export_genai_perf.json`.
pub(super) fn aggregate(value: &Value) -> Option<Run> {
    let records = value
        .get("records")
        .filter(|records| records.is_object())
        .unwrap_or(value);
    let find = |names: &[&str]| names.iter().find_map(|name| records.get(*name));
    let times = |names: &[&str]| {
        let object = find(names)?;
        Some(json::spread(
            object,
            unit_of_time(&text(object, "unit")?)?,
            &AVG,
        ))
    };
    find(&["request_throughput"]).filter(|object| object.get("unit").is_some())?;
    let figure = |name: &str, units: &[&str]| {
        let object = find(&[name])?;
        units
            .contains(&text(object, "unit")?.as_str())
            .then(|| number(object, "avg"))?
    };
    let count = |name: &str| figure(name, &["requests", "tokens", "count"]).map(Count);
    let duration = find(&["benchmark_duration"]);
    let duration = duration
        .and_then(|object| Some(number(object, "avg")? * unit_of_time(&text(object, "unit")?)?));
    let mean = |name: &str| find(&[name]).and_then(|object| number(object, "avg"));
    let completed =
        count("request_count").or_else(|| json::count(find(&["request_latency"])?, "count"));
    let tokens_per_second =
        |name: &str| figure(name, &["tokens/sec", "tokens/s"]).map(TokensPerSecond);
    let output_rate = tokens_per_second("output_token_throughput");
    let request_rate =
        figure("request_throughput", &["requests/sec", "requests/s"]).map(RequestsPerSecond);
    let stated = Stated {
        duration,
        completed,
        failed: count("error_request_count"),
        prompt_tokens: count("total_isl")
            .or_else(|| Some(mean("input_sequence_length")? * completed?)),
        output_tokens: count("total_osl")
            .or_else(|| Some(mean("output_sequence_length")? * completed?)),
        request_rate,
        output_rate,
        total_rate: tokens_per_second("total_token_throughput").or_else(|| {
            let input_rate = mean("input_sequence_length")? * request_rate?.0;
            Some(output_rate? + TokensPerSecond(input_rate))
        }),
        ttft: times(&["time_to_first_token", "ttft"]).unwrap_or_default(),
        // One value a request: its mean time between tokens.
        tpot: times(&["inter_token_latency"]).unwrap_or_default(),
        itl: times(&["inter_chunk_latency"]).unwrap_or_default(),
        latency: times(&["request_latency"]).unwrap_or_default(),
        queued: Spread::default(),
    };
    let config = value.get("input_config").unwrap_or(&Value::Null);
    let aiperf = value.get("aiperf_version").is_some()
        || value.get("schema_version").is_some()
        || records.get("ttst").is_some()
        || config.get("loadgen").is_some();
    let mut run = Run {
        tool: if aiperf {
            Tool::AiPerf
        } else {
            Tool::GenAiPerf
        },
        stated,
        ..Run::default()
    };
    configure(&mut run, config);
    run.started = text(value, "start_time");
    Some(run)
}

/// Model, load and settings of `input_config`, in its nested form and in the flat one of older versions.
fn configure(run: &mut Run, config: &Value) {
    let endpoint = config.get("endpoint").unwrap_or(&Value::Null);
    let load = config.get("loadgen").unwrap_or(&Value::Null);
    let stimulus = &config["perf_analyzer"]["stimulus"];
    let name = |list: &Value| {
        list.as_array()
            .and_then(|names| names.first()?.as_str().map(str::to_owned))
    };
    run.model = name(&endpoint["model_names"])
        .or_else(|| name(&config["model_names"]))
        .or_else(|| name(&config["model"]));
    let first = |key: &str| {
        let sections = [load, config, stimulus];
        sections
            .iter()
            .find_map(|section| number(section, key))
            .filter(|value| *value > 0.0)
    };
    run.load = Load {
        rate: first("request_rate").map(RequestsPerSecond),
        concurrency: first("concurrency").map(Count),
        burst: false,
    };
    run.load.burst = run.load.rate.is_none() && run.load.concurrency.is_none() && load.is_object();
    for (section, key) in [
        (endpoint, "type"),
        (endpoint, "backend"),
        (load, "request_rate_mode"),
    ] {
        run.settings
            .extend(text(section, key).map(|value| (key.to_owned(), value)));
    }
}

/// Whether a line is a record of `profile_export.jsonl`.
pub(super) fn is_record(value: &Value) -> bool {
    value
        .get("metadata")
        .is_some_and(|data| start(data).is_some())
        && value.get("metrics").is_some()
}

/// When a request was sent, in nanoseconds since 1970; old versions call it `timestamp_ns`.
fn start(metadata: &Value) -> Option<i64> {
    let names = ["request_start_ns", "timestamp_ns"];
    // They keep their last digits only as integers.
    names.iter().find_map(|name| metadata.get(name)?.as_i64())
}

/// The records of AIPerf's requests; those of a warm-up are excluded.
pub(super) fn records(lines: impl Iterator<Item = Option<Value>>) -> Outcome {
    let (mut requests, mut starts, mut lost, mut warmup) = (Vec::new(), Vec::new(), 0, 0);
    let mut zero = i64::MAX;
    for line in lines {
        let value = line.unwrap_or_default();
        let metadata = &value["metadata"];
        let start = start(metadata);
        zero = zero.min(start.unwrap_or(i64::MAX));
        let phase = text(metadata, "benchmark_phase").or(text(metadata, "credit_phase"));
        if phase.is_some_and(|phase| phase == "warmup") {
            warmup += 1;
        } else if let Some(start) = start {
            starts.push(start);
            requests.push(record(&value));
        } else {
            lost += 1;
        }
    }
    for (request, start) in requests.iter_mut().zip(starts) {
        request.due = Some(Time(start.saturating_sub(zero) as f64));
    }
    let mut parsed = Parsed::from(Run {
        tool: Tool::AiPerf,
        requests,
        ..Run::default()
    });
    parsed.lost = lost;
    if warmup > 0 {
        parsed
            .notes
            .push(format!("{warmup} requests of the warm-up are skipped"));
    }
    Ok(parsed)
}

/// A request, without when it was due.
fn record(value: &Value) -> Request {
    let metrics = &value["metrics"];
    let find = |name: &str| {
        let object = metrics.get(name)?;
        let factor = unit_of_time(&text(object, "unit")?)?;
        Some((object.get("value")?, factor))
    };
    let time = |name: &str| find(name).and_then(|(value, factor)| Some(as_number(value)? * factor));
    let tokens = |name: &str| {
        metrics
            .get(name)
            .and_then(|object| json::count(object, "value"))
    };
    let gaps = find("inter_chunk_latency")
        .map(|(list, factor)| numbers(list).iter().map(|gap| *gap * factor).collect());
    let failed = value.get("error").is_some_and(|error| !error.is_null())
        || time("request_latency").is_none();
    Request {
        due: None,
        queued: time("credit_to_start_latency"),
        ttft: time("time_to_first_token").or_else(|| time("ttft")),
        latency: time("request_latency"),
        tpot: time("inter_token_latency"),
        itl: gaps.unwrap_or_default(),
        prompt_tokens: tokens("input_sequence_length").or_else(|| tokens("error_isl")),
        output_tokens: tokens("output_sequence_length").or_else(|| tokens("output_token_count")),
        cached: None,
        failed,
    }
}

/// Perf Analyzer's `profile_export.json`: nanosecond timestamps of requests and responses, one run an experiment.
pub(super) fn timestamps(value: &Value) -> Option<Vec<Run>> {
    let experiments = value.get("experiments")?.as_array()?;
    let run = |object: &Value| {
        let (mode, level) = (
            text(&object["experiment"], "mode"),
            number(&object["experiment"], "value"),
        );
        let list = object.get("requests")?.as_array()?;
        let zero = list
            .iter()
            .filter_map(|object| object.get("timestamp")?.as_i64())
            .min()
            .unwrap_or(0);
        let of_mode = |name: &str| level.filter(|_| mode.as_deref() == Some(name));
        Some(Run {
            tool: Tool::PerfAnalyzer,
            load: Load {
                rate: of_mode("request_rate").map(RequestsPerSecond),
                concurrency: of_mode("concurrency").map(Count),
                burst: false,
            },
            settings: BTreeMap::new(),
            requests: list
                .iter()
                .filter_map(|request| responses(request, zero))
                .collect(),
            ..Run::default()
        })
    };
    Some(experiments.iter().filter_map(run).collect())
}

fn responses(value: &Value, zero: i64) -> Option<Request> {
    let start = value.get("timestamp")?.as_i64()?;
    let responses = value.get("response_timestamps").and_then(Value::as_array);
    let times: Vec<i64> = responses
        .into_iter()
        .flatten()
        .filter_map(Value::as_i64)
        .collect();
    let since = |end: Option<&i64>| {
        end.and_then(|end| end.checked_sub(start))
            .filter(|time| *time >= 0)
    };
    let failed = times.is_empty() || value.get("success") == Some(&Value::Bool(false));
    Some(Request {
        due: Some(Time(start.saturating_sub(zero) as f64)),
        ttft: since(times.first())
            .filter(|_| times.len() > 1)
            .map(|time| Time(time as f64)),
        latency: since(times.last()).map(|time| Time(time as f64)),
        itl: times
            .windows(2)
            .map(|pair| Time(pair[1].saturating_sub(pair[0]) as f64))
            .collect(),
        failed,
        ..Request::default()
    })
}
