//! Reports: contents in reading order, which any format shows. Never sees the tables of a capture.

use rooflens_schemas::{Metric, Tool};
use serde::Serialize;

use crate::{Block, Catalogue, Dataset, Method};
use rooflens_diagnostic::Diagnostic;

mod builder;
mod notes;

pub use builder::{Document, Provenance};
pub use notes::Notes;

/// Documents that are made of one report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The first page, for those who decide.
    Summary,
    /// The summary and what follows from the data.
    #[default]
    Report,
    /// Evidence, methods, and all that the report omits.
    Appendix,
}

impl Kind {
    /// The stem of its files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Report => "report",
            Self::Appendix => "appendix",
        }
    }
}

/// A report, ready to be rendered in any format.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The words of the pages.
    #[serde(skip)]
    pub text: &'static Catalogue,
    /// Cover.
    pub meta: Meta,
    /// The first page: conclusion, figures, actions, and how far they carry.
    pub summary: Vec<Block>,
    /// The analyst's notes, which follow the summary: nothing in them but the metrics they refer to is computed.
    pub notes: Vec<Block>,
    /// Sections of the report in reading order, the findings first.
    pub sections: Vec<Section>,
    /// Sections of the appendix in reading order: evidence, and all that the report does not show.
    pub appendix: Vec<Section>,
    /// All metrics.
    pub metrics: Vec<Metric>,
    /// Data sets, whole.
    pub datasets: Vec<Dataset>,
    /// The data set that is too large for a report: only CSV files hold it.
    #[serde(skip)]
    pub only_in_csv: Option<&'static str>,
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
    /// What ran, for results of many captures.
    #[serde(skip)]
    pub subject: Subject,
}

/// What ran on which GPUs, in no language.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// Product names of the GPUs that ran something, with commas between them.
    pub gpu: String,
    /// Their number.
    pub gpus: usize,
    /// Family of the model, else name of the workload.
    pub model: String,
    /// Type and sizes of the workload: `dtype=bf16,batch=8,prompt=1024,output=16`.
    pub workload: String,
}

impl Meta {
    /// Makes a conclusion the title; the name of the workload becomes a line of the cover.
    fn conclude(&mut self, text: &'static Catalogue, conclusion: String) {
        let name = std::mem::replace(&mut self.title, conclusion);
        if name != self.bundle {
            let label = text.line("report.workload", &[]);
            self.facts.insert(0, (label, name));
        }
    }
}

/// A section.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section<B = Block> {
    /// Anchor.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Content.
    pub blocks: Vec<B>,
}

impl<B> Default for Section<B> {
    fn default() -> Self {
        Self {
            id: String::new(),
            title: String::new(),
            blocks: Vec::new(),
        }
    }
}

impl Report {
    /// The data set of that id.
    pub fn dataset(&self, id: &str) -> Option<&Dataset> {
        self.datasets.iter().find(|dataset| dataset.id == id)
    }
}
