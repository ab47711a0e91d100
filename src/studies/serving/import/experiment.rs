//! Results of the Varcas load harness: one JSON object with `experiment_id`, `config`, `metrics` and `records`. Instants
//! are seconds since 1970.
//!
//! Its own `metrics` count requests that had no answer when the test ended as successful, so only the records are read.
//!
//! Source: `benchmark_harness/varcas_load_harness.py` of kshyp/varcas.

use serde_json::Value;

use super::json::{S, count, number, requests_per_second, text};
use crate::runs::{Load, Request, Run, Tool};
use rooflens_units::{Count, Time};

/// A run, if the value is one.
pub(super) fn read(value: &Value) -> Option<Run> {
    let config = value.get("config")?;
    let records = value.get("records")?.as_array()?;
    text(value, "experiment_id")?;
    let sent = |record: &Value| number(record, "timestamp_sent");
    let start = records.iter().filter_map(sent).min_by(f64::total_cmp)?;
    let is_open = config.get("open_loop").and_then(Value::as_bool) == Some(true);
    let rate = requests_per_second(config, "target_rps").filter(|_| is_open);
    let concurrency = count(config, "concurrency").filter(|_| !is_open);
    Some(Run {
        tool: Tool::Requests,
        started: text(value, "start_time"),
        load: Load {
            rate,
            concurrency,
            burst: rate.is_none() && concurrency.is_none(),
        },
        requests: records
            .iter()
            .filter_map(|record| request(record, start))
            .collect(),
        ..Run::default()
    })
}

/// A request. One without a last token has no answer.
fn request(record: &Value, start: f64) -> Option<Request> {
    let sent = number(record, "timestamp_sent")?;
    let since =
        |key: &str| Some((number(record, key)? - sent) * S).filter(|time| *time >= Time::ZERO);
    let latency = since("timestamp_last_token");
    let failed = latency.is_none() || record.get("error").is_some_and(|error| !error.is_null());
    let answer = |tokens: Option<Count>| tokens.filter(|_| !failed);
    Some(Request {
        due: Some((sent - start) * S),
        ttft: since("timestamp_first_token").filter(|_| !failed),
        latency: latency.filter(|_| !failed),
        prompt_tokens: count(record, "input_tokens"),
        output_tokens: answer(count(record, "output_tokens")),
        failed,
        ..Request::default()
    })
}
