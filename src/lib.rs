//! Rooflens: an offline report compiler over captured GPU-profiling artifacts.
//!
//! ```text
//! bundle → ingest → model → analysis → present, rules → report → render
//! ```
//!
//! - [`bundle`] opens a directory, an archive or loose files and says what each file is.
//! - [`ingest`] reads artifacts into the tables of [`model`].
//! - [`query`] answers SQL over the tables; `tables` gives them as Parquet files (feature `tables`).
//! - [`analysis`] computes typed results from the tables, each once: pure functions, no I/O.
//! - [`present`] shows results as [`findings`]: metrics, tables, charts and words of one section a subject.
//! - [`rules`] says what is slow, why, and what to do.
//! - [`microbench`] makes a report of microbenchmarks of a GPU.
//! - [`whatif`] predicts stage times of a measured bundle after a change.
//! - [`report`] arranges findings into a document; it never sees the tables.
//! - [`render`] writes the document in one format each.
//!
//! Rooms are crates of their own, so that the compiler holds their walls.

#![forbid(unsafe_code)]

pub use rooflens_analysis as analysis;
pub use rooflens_bundle as bundle;
pub use rooflens_findings::{self as findings, prose};
pub use rooflens_hardware as hardware;
pub use rooflens_ingest as ingest;
pub use rooflens_microbench as microbench;
pub use rooflens_model::{self as model, diagnostic};
pub use rooflens_present as present;
pub use rooflens_query as query;
pub use rooflens_render as render;
pub use rooflens_report as report;
pub use rooflens_rules as rules;
pub use rooflens_serving as serving;
pub use rooflens_whatif as whatif;

#[cfg(feature = "tables")]
pub mod tables;

pub mod cli;
