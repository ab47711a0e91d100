//! Opening: paths become a bundle, and the bundle becomes the tables of a session.

use std::io;
use std::path::{Path, PathBuf};

use rooflens_schemas::{ArtifactKind, StageRule};
use tempfile::TempDir;

use super::exports::{self, Exporter};
use super::memory;
use super::runs::{self, SeveralRuns};
use super::stages;
use crate::bundle::{self, ArtifactFile, Bundle, BundleError};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::ingest;
use crate::session::Session;

/// An opened input: its files, its tables, and remarks on both.
#[derive(Default)]
pub struct Capture {
    /// Files of the input.
    pub bundle: Bundle,
    /// Tables that were read from them.
    pub session: Session,
    /// Remarks on what was read.
    pub diagnostics: Diagnostics,
    /// Folders with files of the bundle, removed with the capture.
    temporary: Vec<TempDir>,
}

/// Paths to open, and what is stated in place of their contents.
#[derive(Clone, Default)]
pub struct Input<'a> {
    /// A bundle, an archive, or files and folders.
    pub paths: Vec<PathBuf>,
    /// Model dimensions in place of the bundle's `config.json`.
    pub model: Option<PathBuf>,
    /// Workload description in place of the bundle's.
    pub workload: Option<PathBuf>,
    /// Notes in place of the bundle's.
    pub notes: Option<PathBuf>,
    /// Stages in place of those of the workload description.
    pub stages: Vec<StageRule>,
    /// Several bundles or recordings are parts of one run.
    pub merge: bool,
    /// Files of the bundle to read; all without it. Descriptions are files too.
    pub only: Option<&'a dyn Fn(&ArtifactFile) -> bool>,
    /// Converts reports of Nsight Systems; without one they are named and not read.
    pub exporter: Option<&'a dyn Exporter>,
    /// Bytes of a file that no manifest states up to which it is hashed; without it, all are.
    pub hashed: Option<u64>,
}

/// A step of opening that may take long, with the path in the bundle.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The exporter converts a report of Nsight Systems.
    Exporting(&'a str),
    /// The exporter converted a report of Nsight Systems.
    Exported(&'a str),
    /// A folder of Parquet tables is converted.
    Converting(&'a str),
    /// A file is read.
    Reading(&'a str),
}

/// Reason why paths cannot be opened as one input.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The paths are no bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A file in place of the bundle's does not exist.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// The paths hold several runs.
    #[error(transparent)]
    SeveralRuns(#[from] SeveralRuns),
    /// A file in place of the bundle's cannot be read.
    #[error("{}{}: {}", file.display(), diagnostic.at, diagnostic.message)]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        diagnostic: Box<Diagnostic>,
    },
    /// There is not enough memory for a file.
    #[error("{}: {}", .0.artifact.as_deref().unwrap_or_default(), .0.message)]
    TooLarge(Box<Diagnostic>),
    /// Stages without a range in the input.
    #[error("no range of the input matches stage {}", .0.join(", "))]
    UnmatchedStages(Vec<String>),
    /// A folder for converted files cannot be made.
    #[error("cannot make a temporary folder: {0}")]
    Temporary(io::Error),
}

impl OpenError {
    /// Advice that goes with the message.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Unreadable { diagnostic, .. } | Self::TooLarge(diagnostic) => {
                diagnostic.hint.as_deref()
            }
            Self::UnmatchedStages(_) => {
                Some("rooflens inspect lists the stages that are found by their names")
            }
            _ => None,
        }
    }
}

/// Opens a bundle, an archive, or files and folders of one run, and reads them.
///
/// A file that cannot be read is a diagnostic of the capture and no error.
///
/// # Errors
/// The paths do not exist, or are of several runs.
pub fn open<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Result<Capture, OpenError> {
    let paths = paths.into_iter().map(Into::into).collect();
    let input = Input {
        paths,
        ..Input::default()
    };
    input.open(&mut |_| ())
}

impl Input<'_> {
    /// Opens and reads the paths; `progress` is called before each step.
    ///
    /// # Errors
    /// The paths are no input, or hold several runs, or a file or a stage that is stated is of no use.
    pub fn open(&self, progress: &mut dyn FnMut(Step<'_>)) -> Result<Capture, OpenError> {
        let mut diagnostics = Diagnostics::default();
        let hashed = self.hashed.unwrap_or(u64::MAX);
        let mut bundle = bundle::open_hashed(&self.paths, hashed, &mut diagnostics)?;
        if !self.merge {
            runs::refuse_bundles(&bundle)?;
        }
        if let Some(is_wanted) = self.only {
            bundle.files.retain(is_wanted);
        }
        ingest::identify(&mut bundle, &mut diagnostics);
        let mut temporary = Vec::new();
        if let Some(exporter) = self.exporter {
            let folder = exports::of_reports(&mut bundle, exporter, &mut diagnostics, progress)?;
            temporary.extend(folder);
        }
        let folder = exports::of_parquet(&mut bundle, &mut diagnostics, progress)?;
        temporary.extend(folder);
        replace(
            &mut bundle,
            self.model.as_deref(),
            ArtifactKind::ModelConfig,
        )?;
        replace(
            &mut bundle,
            self.workload.as_deref(),
            ArtifactKind::Workload,
        )?;
        replace(&mut bundle, self.notes.as_deref(), ArtifactKind::Notes)?;
        bundle.memory = memory::available();
        let mut session = ingest::import(&bundle, &mut diagnostics, &mut |file| {
            progress(Step::Reading(&file.path));
        });
        if let Some(large) = diagnostics.iter().find(|one| one.code == ingest::TOO_LARGE) {
            return Err(OpenError::TooLarge(Box::new(large.clone())));
        }
        refuse_unreadable(&bundle, &diagnostics)?;
        if !self.merge {
            runs::refuse_recordings(&bundle, &session, &self.paths)?;
        }
        let has_stages = !self.stages.is_empty();
        if has_stages {
            session.workload.stages.clone_from(&self.stages);
        }
        if has_stages || self.workload.is_some() {
            stages::refuse_unmatched(&session, has_stages)?;
        }
        Ok(Capture {
            bundle,
            session,
            diagnostics,
            temporary,
        })
    }
}

impl Capture {
    /// Keeps a folder with files of the bundle for as long as the capture.
    pub fn keep(&mut self, folder: TempDir) {
        self.temporary.push(folder);
    }
}

impl From<Session> for Capture {
    /// Tables without files.
    fn from(session: Session) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }
}

/// Puts a file in the place of the bundle's files of a kind.
fn replace(bundle: &mut Bundle, path: Option<&Path>, kind: ArtifactKind) -> Result<(), OpenError> {
    let Some(path) = path else { return Ok(()) };
    if !path.is_file() {
        return Err(OpenError::NotAFile(path.to_owned()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    bundle.files.retain(|file| file.kind != Some(kind));
    bundle.files.push(ArtifactFile {
        path: name.into_owned(),
        location: path.to_owned(),
        kind: Some(kind),
        pass: bundle::COMMAND_LINE.to_owned(),
        ..ArtifactFile::default()
    });
    Ok(())
}

/// Refuses a file in place of the bundle's that could not be read.
fn refuse_unreadable(bundle: &Bundle, diagnostics: &Diagnostics) -> Result<(), OpenError> {
    for file in &bundle.files {
        if file.pass != bundle::COMMAND_LINE {
            continue;
        }
        for diagnostic in diagnostics.iter() {
            let is_unread = diagnostic.severity >= Severity::DataLoss
                || diagnostic.code == ingest::config::UNSUPPORTED;
            if is_unread && diagnostic.artifact.as_ref() == Some(&file.path) {
                return Err(OpenError::Unreadable {
                    file: file.location.clone(),
                    diagnostic: Box::new(diagnostic.clone()),
                });
            }
        }
    }
    Ok(())
}
