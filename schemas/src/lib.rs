//! The contract of Rooflens with the outside: what a capture bundle's `manifest.json`, `workload.toml` and
//! `env.json` hold, and what `metrics.json` gives back.
//!
//! Serde types, what both ends cover in the same way before it is passed on ([`ncu_report`]), and which ranges both take for
//! phases ([`ranges`], [`steps`]). Within version 1 additions are optional fields; a rename or a change of meaning is a new version.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod environment;
pub mod manifest;
pub mod marks;
pub mod metrics;
pub mod ncu_report;
pub mod python;
pub mod ranges;
pub mod runs;
pub mod serving;
pub mod steps;
pub mod text;
pub mod workload;

pub use environment::{Environment, Fact, FactValue};
pub use manifest::{Artifact, ArtifactKind, Manifest, Pass, PassKind, Tool};
pub use metrics::{Evidence, Metric, MetricValue, MetricsFile, Polarity, Scope, Unit};
pub use runs::{CommandRun, CommandRuns};
pub use serving::{LoadMode, RequestStatus, ServingLine, ServingRequest, ServingRun};
pub use workload::{StageKind, StageRule, Workload};

/// The JSON Schemas of all files, by the name of the file in `schemas/` that holds them.
#[cfg(feature = "json-schema")]
pub fn json_schemas() -> Vec<(&'static str, schemars::Schema)> {
    let mut schemas = vec![
        ("bundle.v1.schema.json", schemars::schema_for!(Manifest)),
        (
            "environment.v1.schema.json",
            schemars::schema_for!(Environment),
        ),
        ("metrics.v1.schema.json", schemars::schema_for!(MetricsFile)),
        ("serving.v1.schema.json", schemars::schema_for!(ServingLine)),
        ("workload.v1.schema.json", schemars::schema_for!(Workload)),
    ];
    for (name, schema) in &mut schemas {
        let id = format!("urn:rooflens:{}", name.trim_end_matches(".schema.json"));
        schema.insert("$id".to_owned(), id.into());
    }
    schemas
}
