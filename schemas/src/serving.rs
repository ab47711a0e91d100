//! `serving.jsonl`, version 1: the requests of a load test against a serving engine. JSON Lines: a header, then one line
//! a request. Several such blocks, in one file or in several, are a sweep.
//!
//! All times are seconds on a monotonic clock whose zero is the run's start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "json-schema")]
use schemars::JsonSchema;

/// The value of `schema` in a header.
pub const SCHEMA: &str = "rooflens.serving.v1";

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum ServingLine {
    /// The header that begins a run.
    Run(ServingRun),
    /// A request of the run whose header came last.
    Request(ServingRequest),
}

/// The header of a run: one level of load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct ServingRun {
    /// Always `rooflens.serving.v1`.
    pub schema: String,
    /// Model that was asked for.
    #[serde(default)]
    pub model: Option<String>,
    /// Address of the engine.
    #[serde(default)]
    pub url: Option<String>,
    /// How requests were sent.
    pub mode: LoadMode,
    /// Requests per second that were offered (open loop).
    #[serde(default)]
    pub rate: Option<f64>,
    /// Requests in flight (closed loop).
    #[serde(default)]
    pub concurrency: Option<u64>,
    /// When the run began, RFC 3339.
    #[serde(default)]
    pub started_at: Option<String>,
    /// Name of the GPU.
    #[serde(default)]
    pub gpu: Option<String>,
    /// Engine and its version as the server states them, such as "vLLM 0.10.1".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Settings of the engine that the server states, and those that the user states as labels. Labels win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Command that started the server, without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Why the load ended before all of its requests were sent: its figures are those of a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// How requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadMode {
    /// By a schedule, whether earlier requests have ended or not: latencies count from the scheduled time.
    #[default]
    Open,
    /// The next one when an earlier one has ended.
    Closed,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct ServingRequest {
    /// Number within the run, from 0.
    pub id: u64,
    /// When it was to be sent.
    pub scheduled_s: f64,
    /// When it was sent.
    pub start_s: f64,
    /// When its first token came; null if none did.
    pub first_token_s: Option<f64>,
    /// When its last token came, or it failed.
    pub end_s: f64,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Times between the tokens of the answer, in seconds.
    #[serde(default)]
    pub itl_s: Vec<f64>,
    /// How it ended.
    pub status: RequestStatus,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<String>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// With a whole answer.
    #[default]
    Ok,
    /// Without one.
    Error,
}
