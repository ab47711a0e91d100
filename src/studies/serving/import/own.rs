//! Our own load generator's JSON Lines: `rooflens.serving.v1`, see `schemas/src/serving.rs`. Seconds.

use rooflens_schemas::serving::SCHEMA;
use rooflens_schemas::text::shell_word;
use rooflens_schemas::{LoadMode, RequestStatus, ServingRequest, ServingRun};
use serde_json::Value;

use super::json::S;
use super::{Outcome, Parsed, Refusal};
use crate::runs::{Load, Request, Run, Tool};
use rooflens_units::{Count, RequestsPerSecond};

/// Whether a line is a header.
pub(super) fn is(value: &Value) -> bool {
    value
        .get("schema")
        .and_then(Value::as_str)
        .is_some_and(|name| name.starts_with("rooflens.serving."))
}

/// The runs of a file: each header begins one.
pub(super) fn read(lines: impl Iterator<Item = Option<Value>>) -> Outcome {
    let mut parsed = Parsed::default();
    let mut open_loop = false;
    for line in lines {
        let Some(value) = &line else {
            parsed.lost += 1;
            continue;
        };
        if is(value) {
            if value.get("schema").and_then(Value::as_str) != Some(SCHEMA) {
                return Err(Refusal::new(
                    format!("it is of another version than {SCHEMA}"),
                    "use a version of rooflens that is as new as the capture program",
                ));
            }
            let Ok(header) = ServingRun::deserialize_value(value) else {
                return Err(Refusal::new(
                    "its header is damaged",
                    "schemas/serving.v1.schema.json says what belongs there",
                ));
            };
            open_loop = header.mode == LoadMode::Open;
            parsed.runs.push(run(header));
            continue;
        }
        match ServingRequest::deserialize_value(value) {
            Ok(record) => {
                let Some(run) = parsed.runs.last_mut() else {
                    continue;
                };
                run.requests.push(request(&record, open_loop));
            }
            Err(()) => parsed.lost += 1,
        }
    }
    Ok(parsed)
}

/// Reads a type out of a value that is kept.
trait FromValue: Sized {
    fn deserialize_value(value: &Value) -> Result<Self, ()>;
}

impl<T: serde::de::DeserializeOwned> FromValue for T {
    fn deserialize_value(value: &Value) -> Result<Self, ()> {
        T::deserialize(value).map_err(|_| ())
    }
}

fn run(header: ServingRun) -> Run {
    let concurrency = header.concurrency.map(|most| Count(most as f64));
    let mut run = Run {
        tool: Tool::Rooflens,
        model: header.model,
        gpu: header.gpu,
        started: header.started_at,
        command: (!header.command.is_empty()).then(|| line(&header.command)),
        cut: header.cut,
        load: Load {
            rate: header.rate.map(RequestsPerSecond),
            concurrency,
            burst: header.rate.is_none() && concurrency.is_none(),
        },
        ..Run::default()
    };
    let engine = header.engine.map(|engine| ("engine".to_owned(), engine));
    let url = header.url.map(|url| ("url".to_owned(), url));
    run.settings.extend(header.settings);
    run.settings.extend(engine.into_iter().chain(url));
    run
}

/// Words as a line of a shell.
fn line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// In an open loop latencies count from the scheduled time: a client that sends late hides no wait.
fn request(record: &ServingRequest, open_loop: bool) -> Request {
    let due = if open_loop {
        record.scheduled_s
    } else {
        record.start_s
    };
    let failed = record.status == RequestStatus::Error;
    let since = |end| (end >= due).then_some((end - due) * S);
    Request {
        due: Some(due * S),
        queued: open_loop.then_some((record.start_s - record.scheduled_s).max(0.0) * S),
        ttft: record.first_token_s.filter(|_| !failed).and_then(since),
        latency: since(record.end_s).filter(|_| !failed),
        tpot: None,
        itl: if failed {
            Vec::new()
        } else {
            record.itl_s.iter().map(|gap| *gap * S).collect()
        },
        prompt_tokens: Some(Count(record.prompt_tokens as f64)),
        output_tokens: Some(Count(record.output_tokens as f64)),
        cached: None,
        failed,
    }
}
