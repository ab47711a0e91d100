//! One format a file: the report in, bytes out. No clock, no files, no network.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use rooflens_document::report::{Kind, Report};

#[cfg(any(feature = "pdf", test))]
mod appendix;
pub mod brand;
pub mod csv;
pub mod svg;

pub mod checks;
#[cfg(any(feature = "pdf", test))]
mod data;
mod html;
mod json;
mod length;
mod markdown;
mod measure;
mod metrics;
mod page;
mod pagination;
#[cfg(any(feature = "pdf", test))]
mod paper;
#[cfg(feature = "pdf")]
mod pdf;
mod table;
pub mod text;
#[cfg(feature = "pdf")]
mod world;

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// PDF through typst.
    Pdf,
    /// Markdown with SVG files.
    Markdown,
    /// One HTML file.
    Html,
    /// `report.json`: the document.
    Json,
    /// `metrics.json`: the metrics, by schema.
    Metrics,
    /// One CSV a data set.
    Csv,
    /// The findings as SARIF 2.1.0.
    Sarif,
    /// The findings as JUnit XML.
    Junit,
    /// The findings as workflow commands of GitHub.
    Github,
}

/// What a caller may change.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// Contents of template files by path below `templates/`, such as `lib/table.typ`; they replace those
    /// that are compiled in, and others may be added.
    pub templates: BTreeMap<String, Vec<u8>>,
    /// The look of the PDF.
    pub brand: Option<brand::Brand>,
    /// Name of the Markdown file without extension, after which the folder of its charts is called; the document's own
    /// if there is none.
    pub stem: Option<String>,
}

/// The templates of the PDF by path below `templates/`, and what is to be known of them; `report.typ` is compiled.
pub const TEMPLATES: [(&str, &[u8]); 5] = [
    (
        "report.typ",
        include_bytes!("../../../templates/report.typ"),
    ),
    (
        "lib/style.typ",
        include_bytes!("../../../templates/lib/style.typ"),
    ),
    (
        "lib/blocks.typ",
        include_bytes!("../../../templates/lib/blocks.typ"),
    ),
    (
        "lib/cover.typ",
        include_bytes!("../../../templates/lib/cover.typ"),
    ),
    ("README.md", include_bytes!("../../../templates/README.md")),
];

/// What a renderer gives back: files by relative path, the main one first in `main`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Path of the main file, such as `report.pdf`; empty if there is no file at all.
    pub main: String,
    /// All files by path.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Rendered {
    /// A single file.
    fn one(path: &str, bytes: Vec<u8>) -> Self {
        Self {
            main: path.to_owned(),
            files: BTreeMap::from([(path.to_owned(), bytes)]),
        }
    }

    /// A single file of indented JSON.
    fn json(path: &str, value: &impl Serialize) -> Result<Self, RenderError> {
        let mut text = serde_json::to_string_pretty(value)?;
        if let Cow::Owned(escaped) = text::json(&text) {
            text = escaped;
        }
        text.push('\n');
        Ok(Self::one(path, text.into_bytes()))
    }
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

/// Renders a report: the same report and options give the same bytes. PDF, Markdown and HTML are of one
/// `kind`; data files hold everything.
///
/// # Errors
/// A template that does not compile, a format that is not compiled in, or a writer that fails.
pub fn render(
    report: &Report,
    kind: Kind,
    format: Format,
    options: &RenderOptions,
) -> Result<Rendered, RenderError> {
    match format {
        #[cfg(feature = "pdf")]
        Format::Pdf => pdf::render(report, kind, options),
        #[cfg(not(feature = "pdf"))]
        Format::Pdf => Err(RenderError::NotBuiltIn("PDF")),
        Format::Markdown => Ok(markdown::render(report, kind, options.stem.as_deref())),
        Format::Html => Ok(html::render(report, kind)),
        Format::Json => json::render(report),
        Format::Metrics => metrics::render(report),
        Format::Csv => csv::render(report),
        Format::Sarif => checks::sarif(&report.meta.generator, &checks::findings(report)),
        Format::Junit => Ok(checks::junit(
            &report.meta.bundle,
            &checks::findings(report),
        )),
        Format::Github => Ok(checks::github(&checks::findings(report))),
    }
}
