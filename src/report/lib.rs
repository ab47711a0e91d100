//! The document: findings in reading order. Never sees the session.

use rooflens_schemas::{Metric, Tool};
use serde::Serialize;

use rooflens_findings::{Block, Catalogue, Dataset, Method, Observation};
use rooflens_model::diagnostic::Diagnostic;

pub mod arrange;

pub use arrange::{Provenance, build};

/// Id of the section of findings.
pub const FINDINGS: &str = "findings";

/// A report, ready to be rendered in any format.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The words of the pages.
    #[serde(skip)]
    pub text: &'static Catalogue,
    /// Cover.
    pub meta: Meta,
    /// Statements of the verdict page, the weightiest first.
    pub verdict: Vec<Observation>,
    /// Headline figures of the verdict page.
    pub headline: Vec<Block>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
    /// Appendices in reading order.
    pub appendices: Vec<Section>,
    /// All metrics.
    pub metrics: Vec<Metric>,
    /// All data sets, whole.
    pub datasets: Vec<Dataset>,
    /// What the input lacks or got wrong.
    pub data_quality: Vec<Diagnostic>,
    /// How the numbers were made.
    pub methods: Vec<Method>,
}

/// The cover block.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Meta {
    /// Title: the workload, or the bundle.
    pub title: String,
    /// Name of the bundle.
    pub bundle: String,
    /// SHA-256 that identifies the bundle.
    pub bundle_id: String,
    /// When it was captured, RFC 3339 UTC, if known.
    pub captured_at: Option<String>,
    /// This program.
    pub generator: Tool,
    /// Lines of the cover: GPU, model, sizes, tools.
    pub facts: Vec<(String, String)>,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Section {
    /// Anchor.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Content.
    pub blocks: Vec<Block>,
}

impl Report {
    /// The data set of that id.
    pub fn dataset(&self, id: &str) -> Option<&Dataset> {
        self.datasets.iter().find(|dataset| dataset.id == id)
    }
}
