//! The content of documents: metrics, data sets, charts, findings. Data, without drawing and layout.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod catalogue;
pub mod chart;
pub mod dataset;
pub mod finding;
pub mod quantity;
pub mod report;
pub mod table;
pub mod text;

use rooflens_schemas::Metric;
#[doc(hidden)]
pub use rooflens_schemas::Unit;
use serde::Serialize;

use rooflens_diagnostic::Diagnostic;

pub use catalogue::MetricDef;
pub use chart::Chart;
use chart::Iteration;
pub use dataset::{Cell, Column, Dataset, View};
pub use finding::{Finding, Gain, GainKind, Part, Query, Root, Severity};
pub use quantity::{Quantity, Scale, is_symbol};
pub use table::Table;
pub use text::{Arg, Catalogue, Lang};

/// The content of one section.
#[derive(Clone, Debug, Default)]
pub struct SectionContent {
    /// What the report shows: what a reader needs to follow its findings. Empty: the subject is not in the report.
    pub main: Vec<Block>,
    /// Reading order of the section in the appendix: prose, tables, charts. Empty: no section.
    pub blocks: Vec<Block>,
    /// Long material, which follows all sections of the appendix.
    pub appendix: Vec<Block>,
    /// Headline numbers.
    pub metrics: Vec<Metric>,
    /// Tables, whole; blocks show views of them.
    pub datasets: Vec<Dataset>,
    /// What the rules found, in the order of their weight; analyses leave it empty.
    pub findings: Vec<Finding>,
    /// How the numbers were made, with the rules as they ran.
    pub methods: Vec<Method>,
    /// Limits of the data that the analysis met.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the section is about the capture, not about what it measured.
    pub describes_capture: bool,
    /// The conclusion, which becomes the title of the report; the summary alone has one.
    pub conclusion: Option<String>,
    /// What the summary says of the times of stages beyond its page: it opens the section on where time goes.
    pub times: Vec<Block>,
    /// Caveats that the summary has no room for: the report states them with the quality of the measurement.
    pub caveats: Vec<Vec<Inline>>,
}

/// Blocks of the report alone.
impl From<Vec<Block>> for SectionContent {
    fn from(main: Vec<Block>) -> Self {
        Self {
            main,
            ..Self::default()
        }
    }
}

/// A piece of a section. In a report a table is a [`View`] of a data set and a chart is its data; a renderer puts what it
/// makes of them in their place and keeps the rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block<T = View, C = Chart> {
    /// A heading inside the section.
    Heading(String),
    /// A paragraph.
    Prose(Vec<Inline>),
    /// A table.
    Table(T),
    /// A chart.
    Chart(C),
    /// Iterations to look at operation by operation, where a format lets a reader.
    Iterations(Vec<Iteration>),
    /// A list of names and values.
    Facts(Vec<(String, Vec<Inline>)>),
    /// A numbered list.
    List(Vec<Vec<Inline>>),
    /// A list without numbers.
    Bullets(Vec<Vec<Inline>>),
    /// Lines of code, as they are.
    Code(String),
    /// Something that is not there, and what would bring it.
    Missing(String),
    /// A finding of a rule.
    Finding(Box<Finding>),
    /// The few figures that a reader decides by.
    Tiles(Vec<Tile>),
    /// What to do, each with all that a reader needs to do it.
    Actions(Vec<ActionCard>),
}

/// A figure of the summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tile {
    /// What it is.
    pub label: String,
    /// As measured.
    pub now: Quantity,
    /// With what differs from it, such as the value that the hardware allows.
    pub others: Vec<(String, Quantity)>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ActionCard {
    /// In a line.
    pub what: Vec<Inline>,
    /// Code to copy; none where the change is not a matter of lines.
    pub snippet: Option<String>,
    /// Saving, effort, confidence, verification.
    pub facts: Vec<(String, Vec<Inline>)>,
    /// Rule of the finding that it follows from; empty if it follows from none.
    pub finding: &'static str,
}

/// A piece of a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inline {
    /// Words.
    Text(String),
    /// A name from the data; shown in a fixed-width face.
    Code(String),
    /// A number with its unit; the only way in which numbers reach a page.
    Quantity(Quantity),
    /// Words with weight.
    Strong(String),
}

impl Inline {
    /// A name from the data.
    pub fn code(text: impl Into<String>) -> Self {
        Self::Code(text.into())
    }

    /// Words with weight.
    pub fn strong(text: impl Into<String>) -> Self {
        Self::Strong(text.into())
    }

    /// The piece as plain text.
    pub fn plain(&self) -> String {
        match self {
            Self::Text(text) | Self::Code(text) | Self::Strong(text) => text.clone(),
            Self::Quantity(quantity) => quantity.to_string(),
        }
    }
}

impl From<&str> for Inline {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Inline {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Quantity> for Inline {
    fn from(quantity: Quantity) -> Self {
        Self::Quantity(quantity)
    }
}

/// Builds a paragraph from texts, names and quantities.
#[macro_export]
macro_rules! prose {
    ($($piece:expr),* $(,)?) => { vec![$($crate::Inline::from($piece)),*] };
}

/// A paragraph of the method appendix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Method {
    /// What it explains.
    pub title: String,
    /// Formula, unit, basis, source.
    pub text: Vec<Inline>,
}
