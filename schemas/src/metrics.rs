//! `metrics.json`, version 1: every headline number with its unit, basis and evidence.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::manifest::Tool;

#[cfg(feature = "json-schema")]
use schemars::JsonSchema;

/// The version of the metrics file that this crate writes.
pub const VERSION: u32 = 1;

/// The metrics of one bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct MetricsFile<'a> {
    /// Always 1.
    pub version: u32,
    /// Name of the bundle.
    pub bundle: String,
    /// The program that computed them.
    pub generator: Tool,
    /// All metrics, in report order.
    pub metrics: Cow<'a, [Metric]>,
}

/// One number, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Metric {
    /// Stable name, such as `mfu`; documented in `docs/methodology.md`; never reused.
    pub id: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Scope::is_empty")]
    pub scope: Scope,
    /// The number.
    pub value: MetricValue,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better.
    pub polarity: Polarity,
    /// How it was computed: formula with the numbers that went in and where they came from.
    pub basis: String,
    /// Where it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// What a metric is about; absent fields mean "all".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Scope {
    /// Pass of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// Stage of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// GPU, as the pass numbers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Rank in a distributed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Kernel class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

impl Scope {
    /// Whether the metric is about the whole bundle.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A number and how sure it is; or none, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MetricValue {
    /// Read from an artifact.
    Measured {
        /// The number in the metric's unit.
        value: f64,
    },
    /// Computed from measured values and specifications.
    Derived {
        /// The number in the metric's unit.
        value: f64,
    },
    /// Stated by the user or by a default that the basis names.
    Assumed {
        /// The number in the metric's unit.
        value: f64,
    },
    /// Not in the bundle. Missing is not zero.
    Unavailable {
        /// Why, and what to capture to get it.
        reason: String,
    },
}

impl MetricValue {
    /// The number, if there is one.
    pub const fn number(&self) -> Option<f64> {
        match self {
            Self::Measured { value } | Self::Derived { value } | Self::Assumed { value } => {
                Some(*value)
            }
            Self::Unavailable { .. } => None,
        }
    }
}

/// The unit of a number. Formatting scales it; files carry it unscaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A pure number or ratio.
    One,
    /// A ratio shown as a percentage; 0.5 is 50 %.
    Ratio,
    /// Already a percentage; 50 is 50 %.
    Percent,
    /// A count of things.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Floating-point (or integer tensor) operations.
    Flop,
    /// Operations per second.
    FlopPerSecond,
    /// Operations per byte.
    FlopPerByte,
    /// Watts.
    Watts,
    /// Joules.
    Joules,
    /// Hertz.
    Hertz,
    /// Degrees Celsius.
    Celsius,
    /// Tokens per second.
    TokensPerSecond,
    /// Images per second.
    ImagesPerSecond,
    /// Samples per second.
    SamplesPerSecond,
    /// Requests per second.
    RequestsPerSecond,
}

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Polarity {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
    /// Neither.
    Neutral,
}

/// Where a number was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Evidence {
    /// Path of the artifact in the bundle.
    pub artifact: String,
    /// Table or column of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Number of rows that went in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}
