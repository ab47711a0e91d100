//! Bundles: a directory, an archive, or loose files, opened and verified.

#![forbid(unsafe_code)]

pub mod aside;
pub mod content;

mod archive;
mod encoding;
mod error;
mod open;
mod pack;
mod redact;
mod validate;
mod verify;
mod walk;
mod zip;

use std::path::PathBuf;

use rooflens_schemas::{ArtifactKind, Manifest, PassKind, Tool};
use rooflens_session::budget::Inflation;
use tempfile::TempDir;

pub use content::{Content, ContentError, argument, argument_text};
pub use error::BundleError;
pub use open::{BROKEN_MANIFEST, open, open_hashed, rank_of, unpacked_name};
pub use pack::{PackOptions, Packed, pack, unpack};
pub use redact::EnvironmentDump;
pub use rooflens_schemas::manifest::PathFault;
pub use validate::validate;
pub use verify::sha256;
pub use walk::{MAX_DEPTH, MAX_FILES, REPORT_MARK};

/// Pass of a file that the command line names in place of the bundle's own.
pub const COMMAND_LINE: &str = "command line";

/// Bytes beyond which a manifest is refused.
const MAX_MANIFEST: u64 = 64 << 20;

/// A bundle that was opened: its files, and its manifest if it has one.
#[derive(Debug, Default)]
pub struct Bundle {
    /// Name for people: the manifest's, or the file name.
    pub name: String,
    /// SHA-256 over the manifest's bytes, or over the sorted list of paths and hashes where there is none; of files
    /// without a hash, their sizes.
    pub id: String,
    /// The manifest; absent for loose files and for captures that did not end.
    pub manifest: Option<Manifest>,
    /// All files, sorted by path.
    pub files: Vec<ArtifactFile>,
    /// Bytes of what was named: of the archive, or of all files.
    pub input_bytes: u64,
    /// Bytes of memory that there are for what is read from it and for all that follows; none where nobody asked.
    pub memory: Option<u64>,
    /// The manifest as it was read: the bundle's identity.
    pub(crate) manifest_bytes: Vec<u8>,
    /// Where an archive was unpacked; removed with the bundle.
    pub(crate) unpacked: Option<TempDir>,
}

impl Bundle {
    /// Whether it was opened from an archive.
    pub const fn is_of_archive(&self) -> bool {
        self.unpacked.is_some()
    }
}

/// One file of a bundle.
#[derive(Clone, Debug, Default)]
pub struct ArtifactFile {
    /// Path inside the bundle, `/`-separated; what reports print.
    pub path: String,
    /// Where its bytes are on this machine; never printed in a report.
    pub location: PathBuf,
    /// Kind by manifest; `None` until `ingest` has looked at the content.
    pub kind: Option<ArtifactKind>,
    /// Pass id: the manifest's, or the folder's name, or the file's stem.
    pub pass: String,
    /// Kind of the pass, where the manifest tells.
    pub pass_kind: Option<PassKind>,
    /// The program that wrote it, where the manifest tells.
    pub producer: Option<Tool>,
    /// Rank, where the manifest tells.
    pub rank: Option<u32>,
    /// SHA-256 of the bytes, where it is known.
    pub sha256: Option<String>,
    /// What it may inflate to together with the other files of its input; without one it is an input of its own.
    pub inflation: Option<Inflation>,
}

impl ArtifactFile {
    /// Its bytes.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn content(&self) -> Result<Content, ContentError> {
        Content::sharing(&self.location, self.inflation.as_ref())
    }

    /// Whether it holds the manifest of a bundle.
    pub fn is_manifest(&self) -> bool {
        let content = self.content();
        let bytes = content.and_then(|content| content.document(MAX_MANIFEST));
        bytes.is_ok_and(|bytes| Manifest::from_json(&bytes).is_ok())
    }
}
