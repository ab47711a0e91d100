//! What can go wrong with a bundle that is being written.

use std::io;
use std::path::{Path, PathBuf};

use rooflens_schemas::manifest::{ManifestError, PathFault};

/// Why a command failed: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A file could not be read or written.
    #[error("cannot access {}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
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
    #[error("path {0:?} {1}: rename it")]
    Path(String, PathFault),
    /// A pass of this name is there.
    #[error("{} is there already: choose another folder, or for a single pass another --pass", .0.display())]
    PassExists(PathBuf),
    /// The workload, or the profiler that runs it, is not a program.
    #[error("cannot start {0}: {1}")]
    Start(String, io::Error),
    /// The program of `bench` and `peaks` is not there.
    #[error(
        "rooflens-bench is neither in {} nor on the PATH: put it there, or build both with \
         `cargo build --release -p rooflens-capture -p rooflens-bench`",
        .0.display()
    )]
    NoBench(PathBuf),
    /// A file of the user cannot be used.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, String),
    /// What the command needs is not on this machine, or cannot do it.
    #[error("{0}")]
    Tool(String),
    /// The manifest that is there cannot be kept.
    #[error("{}: {}: repair or remove it", .0.display(), .1)]
    Manifest(PathBuf, ManifestError),
}

impl CaptureError {
    /// An error of the operating system, with the path that it is about.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io(path, error)
    }
}
