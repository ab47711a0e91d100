//! Microbenchmarks of GPUs and their report.

use std::path::PathBuf;

use rooflens_schemas::ArtifactKind;

use super::analyze::artifacts;
use crate::bundle::{self, ArtifactFile, Bundle, BundleError};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Catalogue;
use crate::hardware::Hardware;
use crate::ingest;
use crate::microbench;
use crate::microbench::analysis::Results;
use crate::microbench::import::{Device, File};
use crate::report::{Notes, Provenance, Report};
use crate::session::budget::Values;

/// Largest result in bytes: ten thousand cases are 10 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Opened microbenchmarks.
pub struct Microbenchmarks {
    /// Files of the input.
    pub bundle: Bundle,
    /// Devices with what was measured on them; empty if there is no microbenchmark.
    pub devices: Vec<Device>,
    /// Remarks on what was read.
    pub diagnostics: Diagnostics,
}

impl Microbenchmarks {
    /// Reads results: files that are named, and files in folders that are recognized.
    ///
    /// # Errors
    /// The paths are no bundle.
    pub fn open(paths: &[PathBuf]) -> Result<Self, BundleError> {
        let mut diagnostics = Diagnostics::default();
        let mut bundle = bundle::open(paths, &mut diagnostics)?;
        ingest::identify(&mut bundle, &mut diagnostics);
        let devices = devices(&bundle, paths, &mut diagnostics);
        Ok(Self {
            bundle,
            devices,
            diagnostics,
        })
    }

    /// The report of all devices.
    pub fn report(&self, text: &'static Catalogue, notes: Option<Notes<'_>>) -> Report {
        let hardware = Hardware::builtin();
        let mut results = Vec::new();
        for device in &self.devices {
            results.push(Results::of(device, &hardware));
        }
        let provenance = Provenance {
            bundle: &self.bundle.name,
            bundle_id: &self.bundle.id,
            manifest: self.bundle.manifest.as_ref(),
            artifacts: artifacts(&self.bundle, "microbenchmark"),
            notes,
            ..Provenance::default()
        };
        microbench::report(&results, text, provenance, &self.diagnostics)
    }
}

/// Devices of the microbenchmarks of a bundle; `named` are files that count though they are not recognized.
pub(super) fn devices(
    bundle: &Bundle,
    named: &[PathBuf],
    diagnostics: &mut Diagnostics,
) -> Vec<Device> {
    let mut values = Values::of(bundle.input_bytes);
    let mut devices = Vec::new();
    for file in &bundle.files {
        if !is_result(file, named) {
            continue;
        }
        let path = &file.path;
        let unread = |message: String| {
            Diagnostic::new(Severity::Error, "microbench/unreadable", message).artifact(path)
        };
        match file.content().and_then(|content| content.bytes(MAX_BYTES)) {
            Ok(bytes) if values.take(&bytes) => {
                microbench::import::read(
                    &File {
                        path,
                        bytes: &bytes,
                    },
                    &mut devices,
                    diagnostics,
                );
            }
            Ok(_) => {
                diagnostics.push(unread(Values::refusal()));
                break;
            }
            Err(error) => diagnostics.push(unread(error.to_string())),
        }
    }
    devices
}

fn is_result(file: &ArtifactFile, named: &[PathBuf]) -> bool {
    match file.kind {
        Some(ArtifactKind::Peaks) => true,
        Some(ArtifactKind::Notes) => false,
        _ => named.contains(&file.location),
    }
}
