//! Why a bundle could not be opened, packed or unpacked.

use std::io;
use std::path::{Path, PathBuf};

use rooflens_schemas::manifest::{self, PathFault};

use super::{ArtifactFile, ContentError};

/// Why a bundle could not be opened, packed or unpacked as a whole. What costs single files is a diagnostic.
///
/// The text says everything; there is no chain of sources to print after it.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Neither files nor folders were named.
    #[error("no path was given: name a bundle, or files and folders")]
    NoPath,
    /// A file or folder could not be read or written.
    #[error("cannot access {path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A folder without a file to read.
    #[error("{0} holds no files")]
    Empty(PathBuf),
    /// A pipe, a device or the like.
    #[error("{0} is neither a file nor a folder")]
    NoFile(PathBuf),
    /// The manifest cannot be read, is damaged or of another version.
    #[error("{0}")]
    Manifest(String),
    /// A path inside a bundle would lead out of it or is not portable.
    #[error("path {path:?} inside the bundle {fault}")]
    Path {
        /// The path as it was written.
        path: String,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// Two files would have one path.
    #[error(
        "two files have the path {0:?} in the bundle: put them into folders of different names"
    )]
    Duplicate(String),
    /// More files, or deeper folders, than a capture has.
    #[error("more than {limit} {what}: this is no capture bundle")]
    TooMany {
        /// The limit.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// A file or an archive could not be read or unpacked.
    #[error("cannot read {path}: {}", full_text(error))]
    Archive {
        /// Which.
        path: PathBuf,
        /// Why.
        error: ContentError,
    },
    /// An archive holds something other than plain files and folders.
    #[error("entry {path:?} of the archive is {what}, and only files and folders are unpacked")]
    Entry {
        /// The entry's path.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// An archive among other paths.
    #[error("{0} is an archive, which is opened alone; unpack it, and give the folder")]
    Archived(PathBuf),
    /// A file to unpack is none.
    #[error("{0} is no archive: expected a .tar (.zst, .gz, .xz, .bz2) or .zip")]
    NoArchive(PathBuf),
    /// Packing would skip every file.
    #[error("{name}: no file can be packed without --keep-environment: {path}: {reason}")]
    NothingToPack {
        /// Name of the bundle.
        name: String,
        /// Path of the first file in the bundle.
        path: String,
        /// Why it is skipped.
        reason: &'static str,
    },
    /// The folder to unpack into has something in it.
    #[error("{0} is not empty")]
    NotEmpty(PathBuf),
    /// A file could not be redacted.
    #[error("cannot redact {path}: {error}")]
    Redact {
        /// Path in the bundle.
        path: String,
        /// Why.
        error: io::Error,
    },
}

impl BundleError {
    /// An error of the operating system, with the path that it is about.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }

    /// A file that could not be redacted.
    pub(super) fn redact(file: &ArtifactFile, error: io::Error) -> Self {
        Self::Redact {
            path: file.path.clone(),
            error,
        }
    }

    /// A failure to unpack the archive at `path`.
    pub(super) fn archive<E: Into<ContentError>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Archive {
            path,
            error: error.into(),
        }
    }
}

fn full_text(error: &ContentError) -> String {
    match error {
        ContentError::Io(error) => error.to_string(),
        error @ ContentError::TooLarge { .. } => error.to_string(),
    }
}

/// Checks a path that a manifest or an archive states.
pub(super) fn check_path(path: &str) -> Result<(), BundleError> {
    manifest::check_path(path).map_err(|fault| BundleError::Path {
        path: path.to_owned(),
        fault,
    })
}
