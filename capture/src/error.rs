//! What can go wrong with a bundle that is being written.

use std::io;
use std::path::{Path, PathBuf};

use rooflens_schemas::manifest::{ManifestError, PathFault};

/// Why a command failed: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    /// A file could not be read or written.
    #[error("cannot access {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The bundle has a manifest already.
    #[error("{} has a manifest and is complete: choose another folder", .0.display())]
    Complete(PathBuf),
    /// There is nothing to list.
    #[error("{} holds no files", .0.display())]
    Empty(PathBuf),
    /// A link, a pipe or the like.
    #[error("{} is neither a file nor a folder: replace it by a copy of what it leads to", .0.display())]
    Special(PathBuf),
    /// A name that cannot be listed.
    #[error("path {path:?} {fault}: rename it")]
    Path { path: String, fault: PathFault },
    /// A pass of this name is there.
    #[error("{} is there already: choose another --pass or another folder", .0.display())]
    PassExists(PathBuf),
    /// The workload, or the profiler that runs it, is not a program.
    #[error("cannot start {program}: {error}")]
    Start { program: String, error: io::Error },
    /// A file of the user cannot be used.
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// What the command needs is not on this machine, or cannot do it.
    #[error("{0}")]
    Tool(String),
    /// The manifest that is there cannot be kept.
    #[error("{}: {error}: repair or remove it", path.display())]
    Manifest { path: PathBuf, error: ManifestError },
    /// The GPU could not be measured.
    #[error(transparent)]
    Cuda(#[from] crate::cuda::CudaError),
    /// A sweep that cannot be run.
    #[error("{}: {reason}", path.display())]
    Sweep { path: PathBuf, reason: String },
}

impl CaptureError {
    /// An error of the operating system, with the path that it is about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}
