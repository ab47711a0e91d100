//! Why an artifact could not be read.

use std::io;

use rooflens_bundle::ContentError;
use rooflens_diagnostic::{Diagnostic, Location, Severity};
use rooflens_exports::MissingColumn;
use rooflens_session::budget::{ROWS_FLOOR, ROWS_RATIO};

/// An artifact that could not be read: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct IngestError {
    /// Where in the artifact.
    pub at: Location,
    /// What is wrong.
    pub kind: IngestErrorKind,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What is wrong with an artifact.
#[derive(Debug, thiserror::Error)]
pub enum IngestErrorKind {
    /// The bytes could not be had.
    #[error("{error}: {}", source_text(error))]
    Content {
        /// The reason.
        #[from]
        error: ContentError,
    },
    /// SQLite could not read the file.
    #[error("SQLite cannot read it: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A page of an SQLite file breaks the rules of the format.
    #[error("the database is malformed at page {page}: {what}")]
    MalformedPage {
        /// Number of the page, from 1.
        page: u32,
        /// The rule.
        what: &'static str,
    },
    /// Not valid JSON, or not of the expected shape.
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Not valid TOML, or not of the expected shape.
    #[error("invalid TOML: {0}")]
    Toml(#[from] toml::de::Error),
    /// Not valid XML.
    #[error("invalid XML: {0}")]
    Xml(#[from] quick_xml::Error),
    /// Not valid CSV.
    #[error("invalid CSV: {0}")]
    Csv(#[from] csv::Error),
    /// It would take more memory than its input allows.
    #[error(
        "its tables and texts take more than {} MiB and {ROWS_RATIO} bytes for each byte of the input",
        ROWS_FLOOR >> 20
    )]
    Budget,
    /// A table that this format cannot do without is missing.
    #[error("table {0} is missing")]
    MissingTable(String),
    /// A column that this format cannot do without is missing.
    #[error("column {column} of {table} is missing")]
    MissingColumn {
        /// Table or page.
        table: String,
        /// Column.
        column: String,
    },
    /// A value is of the wrong type or out of range.
    #[error("{what} is {found}, expected {expected}")]
    Value {
        /// Which value.
        what: String,
        /// What it is.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The file ends in the middle.
    #[error("the file is cut off")]
    Truncated,
    /// The file is of this kind but holds nothing to read.
    #[error("{0}")]
    Empty(String),
    /// The file is of a kind that is recognized but not supported.
    #[error("{0}")]
    Unsupported(String),
}

/// Code of the error about an input for which there is not enough memory.
pub const TOO_LARGE: &str = "ingest/memory";

/// What to do about it.
pub(super) const TOO_LARGE_HINT: &str = "give it more memory, or fewer files at once";

impl IngestErrorKind {
    /// Whether memory was missing and nothing is wrong with the artifact.
    fn is_of_memory(&self) -> bool {
        let kind = match self {
            Self::Content {
                error: ContentError::Io(error),
            } => Some(error.kind()),
            Self::Json(error) => error.io_error_kind(),
            Self::Csv(error) => match error.kind() {
                csv::ErrorKind::Io(error) => Some(error.kind()),
                _ => None,
            },
            _ => None,
        };
        kind == Some(io::ErrorKind::OutOfMemory)
    }
}

fn source_text(error: &ContentError) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

impl<E: Into<IngestErrorKind>> From<E> for IngestError {
    fn from(kind: E) -> Self {
        Self {
            at: Location::Whole,
            kind: kind.into(),
            hint: None,
        }
    }
}

impl From<io::Error> for IngestErrorKind {
    fn from(error: io::Error) -> Self {
        Self::Content {
            error: ContentError::Io(error),
        }
    }
}

impl From<MissingColumn> for IngestErrorKind {
    fn from(MissingColumn { table, column }: MissingColumn) -> Self {
        Self::MissingColumn { table, column }
    }
}

impl From<rooflens_sqlite_pages::Error> for IngestErrorKind {
    fn from(error: rooflens_sqlite_pages::Error) -> Self {
        match error {
            rooflens_sqlite_pages::Error::Io(error) => error.into(),
            rooflens_sqlite_pages::Error::Truncated => Self::Truncated,
            rooflens_sqlite_pages::Error::Malformed { page, what } => {
                Self::MalformedPage { page, what }
            }
        }
    }
}

impl IngestError {
    /// The same, at a place in the artifact.
    #[must_use]
    pub fn at(mut self, at: Location) -> Self {
        self.at = at;
        self
    }

    /// The same, with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message that the report prints for the lost artifact.
    pub fn into_diagnostic(self, artifact: &str) -> Diagnostic {
        let mut diagnostic = match &self.kind {
            kind @ IngestErrorKind::Budget => {
                let message = format!("not read to its end: {kind}");
                Diagnostic::new(Severity::DataLoss, "ingest/budget", message)
            }
            kind if kind.is_of_memory() => {
                let message = format!("needs more memory than is available: {kind}");
                Diagnostic::new(Severity::Error, TOO_LARGE, message)
            }
            kind => {
                let message = format!("cannot be read: {kind}");
                Diagnostic::new(Severity::Error, "ingest/unreadable", message)
            }
        }
        .artifact(artifact)
        .at(self.at);
        let is_of_memory = self.kind.is_of_memory();
        let advice = is_of_memory.then(|| TOO_LARGE_HINT.to_owned());
        diagnostic.hint = self.hint.or(advice);
        diagnostic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_missing_is_no_fault_of_the_artifact() {
        let lost = |kind| {
            let error = io::Error::from(kind);
            IngestError::from(IngestErrorKind::from(error)).into_diagnostic("a.json")
        };
        let memory = lost(io::ErrorKind::OutOfMemory);
        assert_eq!(memory.code, TOO_LARGE);
        assert!(memory.hint.is_some());
        assert_eq!(lost(io::ErrorKind::NotFound).code, "ingest/unreadable");
    }
}
