//! One format a file: the report in, bytes out. No clock, no files, no network.

use std::collections::BTreeMap;

use crate::report::Report;

pub mod svg;

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// PDF through typst.
    Pdf,
    /// Markdown with SVG files.
    Markdown,
    /// `report.json`: the document.
    Json,
    /// `metrics.json`: the metrics, by schema.
    Metrics,
    /// One CSV a data set.
    Csv,
}

/// What a renderer gives back: files by relative path, the main one first in `main`.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Path of the main file, such as `report.pdf`.
    pub main: String,
    /// All files by path.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Why a report could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The template does not compile; the messages are the compiler's.
    #[error("the PDF template does not compile: {0}")]
    Template(String),
    /// Not compiled in.
    #[error("this build cannot write {0}: it was compiled without that feature")]
    NotBuiltIn(&'static str),
    /// Serialization failed.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Serialization failed.
    #[error("cannot write CSV: {0}")]
    Csv(#[from] ::csv::Error),
    /// Parquet or SQL failed.
    #[error("{0}")]
    Tables(String),
}

/// Stub.
#[derive(Default)]
pub struct RenderOptions {
    /// Templates.
    pub templates: BTreeMap<String, Vec<u8>>,
}
/// Stub.
pub mod csv {
    /// Stub.
    pub fn bytes(_: &crate::findings::Dataset) -> Result<Vec<u8>, super::RenderError> {
        Ok(Vec::new())
    }
}
/// Renders `report`.
pub fn render(
    _report: &Report,
    _format: Format,
    _: &RenderOptions,
) -> Result<Rendered, RenderError> {
    Ok(Rendered::default())
}
