//! Results of a load test, `rooflens.serving.v1`: JSON Lines, a header, then an object for each request in the order in
//! which they ended. Times are in seconds since the start that the header states, on a monotonic clock.

use serde::{Deserialize, Serialize};

#[cfg(feature = "json-schema")]
use schemars::JsonSchema;

/// What a header has for its `schema`.
pub const SCHEMA: &str = "rooflens.serving.v1";

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum Line {
    /// The first.
    Header(Header),
    /// All others.
    Request(Request),
}

/// What was sent to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Header {
    /// Always `rooflens.serving.v1`; anything else is refused.
    pub schema: String,
    /// Model, as the server names it.
    pub model: String,
    /// Base of the API, without login and query.
    pub url: String,
    /// How requests followed one another.
    pub mode: Mode,
    /// Requests a second, of an open loop.
    pub rate: Option<f64>,
    /// Requests in flight, of a closed loop.
    pub concurrency: Option<u32>,
    /// Zero of all times, RFC 3339 in UTC.
    pub started_at: String,
    /// GPU of the machine, where the server runs on the same one.
    pub gpu: Option<String>,
}

/// How requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// At random times (Poisson), whether or not answers keep up.
    Open,
    /// Each after the answer to one before.
    Closed,
}

/// A request and when the parts of its answer were read from the socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Request {
    /// Unique within the file; from 0 in the order of the schedule.
    pub id: u64,
    /// When it was due. Latencies from here are free of coordinated omission.
    pub scheduled_s: f64,
    /// When it was sent, opening a connection included.
    pub start_s: f64,
    /// When the first token was read; null if none was.
    pub first_token_s: Option<f64>,
    /// When the answer ended, or the request failed.
    pub end_s: f64,
    /// As the server counted; the words of the prompt if it did not.
    pub prompt_tokens: u64,
    /// As the server counted; the events with text if it did not.
    pub output_tokens: u64,
    /// Inter-token latencies: seconds between events with text. Fewer than `output_tokens` minus 1 where an event holds
    /// several tokens; 0 between events that one read gave.
    pub itl_s: Vec<f64>,
    /// Whether the answer is whole.
    pub status: Status,
    /// Why it is not.
    pub error: Option<String>,
}

/// Whether an answer is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It has tokens and an end.
    Ok,
    /// It failed, for the reason that `error` says.
    Error,
}
