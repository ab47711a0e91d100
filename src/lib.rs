//! Rooflens: an offline report compiler over captured GPU-profiling artifacts.
//!
//! ```
//! use rooflens::{Lang, Options};
//!
//! let capture = rooflens::open(["fixtures/h200-graph-ranges"])?;
//! assert!(!capture.session.launches.is_empty());
//!
//! let analysis = capture.analyze(&Options::default())?;
//! let busy_share = analysis.metrics().find(|metric| metric.id == "busy_share");
//! let kernels = analysis.datasets().find(|dataset| dataset.id == "kernels");
//! let slowest = analysis.findings().first();
//! assert!(busy_share.is_some() && kernels.is_some() && slowest.is_some());
//!
//! let report = analysis.report(Lang::En);
//! assert_eq!(report.metrics.len(), analysis.metrics().count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`open`] gives a [`Capture`]: its files, its tables and remarks on them. [`Capture::analyze`] gives an [`Analysis`]:
//! typed results, metrics, data sets and findings. [`Analysis::report`] gives a [`report::Report`], which [`render`]
//! writes in any format. [`pipeline`] has the calls for load tests and microbenchmarks, too.
//!
//! ```text
//! bundle → ingest → session → analysis → rules, sections → report → render
//! ```
//!
//! - [`bundle`] opens a directory, an archive or loose files and says what each file is.
//! - [`ingest`] reads artifacts into the tables of [`session`].
//! - [`query`] answers SQL over the tables; `parquet` gives them as Parquet files (feature `tables`).
//! - [`analysis`] computes typed results from the tables, each once: pure functions, no I/O.
//! - [`sections`] shows results as [`document`]: metrics, tables, charts and words of one section a subject.
//! - [`rules`] says what is slow, why, and what to do.
//! - [`compare`] makes a report of what differs between two captures.
//! - `lake` keeps results of many captures in one folder (feature `tables`).
//! - [`microbench`] makes a report of microbenchmarks of a GPU.
//! - [`predict`] bounds the times of a model before anything runs, and projects measured stages to other settings.
//! - [`report`] arranges findings into a document; it never sees the tables.
//! - [`render`] writes the document in one format each.
//!
//! Rooms are crates of their own, so that the compiler holds their walls.

#![forbid(unsafe_code)]

pub use rooflens_analysis as analysis;
pub use rooflens_bundle as bundle;
pub use rooflens_compare as compare;
pub use rooflens_diagnostic as diagnostic;
pub use rooflens_document::{self as document, prose, report};
pub use rooflens_hardware as hardware;
pub use rooflens_ingest as ingest;
#[cfg(feature = "tables")]
pub use rooflens_lake as lake;
pub use rooflens_microbench as microbench;
#[cfg(feature = "tables")]
pub use rooflens_parquet as parquet;
pub use rooflens_predict as predict;
pub use rooflens_query as query;
pub use rooflens_render as render;
pub use rooflens_rules as rules;
pub use rooflens_sections as sections;
pub use rooflens_serving as serving;
pub use rooflens_session as session;

pub mod cli;
pub mod pipeline;

pub use analysis::Options;
pub use document::Lang;
pub use pipeline::{Analysis, Capture, Input, OpenError, open};
