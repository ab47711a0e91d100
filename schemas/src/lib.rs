//! The contract of Rooflens with the outside: what a capture bundle's `manifest.json` and `workload.toml`
//! hold, and what `metrics.json` gives back.
//!
//! Serde types only. Within version 1 additions are optional fields; a rename or a change of meaning is
//! a new version.

pub mod manifest;
pub mod metrics;
pub mod workload;

pub use manifest::{Artifact, ArtifactKind, Manifest, Pass, PassKind, Tool};
pub use metrics::{Evidence, Metric, MetricValue, MetricsFile, Polarity, Scope, Unit};
pub use workload::{StageKind, StageRule, Workload};
