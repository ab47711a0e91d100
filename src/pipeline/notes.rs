//! The analyst's notes on load tests and microbenchmarks.

use std::io;
use std::path::{Path, PathBuf};

use rooflens_schemas::ArtifactKind;

use crate::bundle::{self, Bundle};
use crate::report::Notes;

/// A file of notes.
pub struct NotesFile {
    path: String,
    text: String,
}

/// Reason why notes cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct NotesError {
    path: PathBuf,
    error: io::Error,
}

impl NotesFile {
    /// The notes that are given, else those next to the results.
    ///
    /// # Errors
    /// The file is no text.
    pub fn read(given: Option<&Path>, bundle: &Bundle) -> Result<Option<Self>, NotesError> {
        let is_notes = |kind| kind == Some(ArtifactKind::Notes);
        let artifact = bundle.files.iter().find(|file| is_notes(file.kind));
        let Some(path) = given.or(artifact.map(|file| file.location.as_path())) else {
            return Ok(None);
        };
        let text = bundle::argument_text(path).map_err(|error| NotesError {
            path: path.to_owned(),
            error,
        })?;
        Ok(Some(Self {
            path: path.display().to_string(),
            text,
        }))
    }

    /// The notes as a report shows them.
    pub fn notes(&self) -> Notes<'_> {
        Notes {
            artifact: &self.path,
            text: &self.text,
        }
    }
}
