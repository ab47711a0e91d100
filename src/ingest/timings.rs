//! timings.json and peaks.json

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, Prefix};
use crate::bundle::ArtifactFile;
use crate::diagnostic::Diagnostics;
use crate::model::Session;

/// timings
pub static TIMINGS: Importer = Importer { kind: ArtifactKind::Timings, sniff, import };
fn sniff(_: &Prefix<'_>) -> bool {
    false
}
fn import(_: &ArtifactFile, _: &mut Session, _: &mut Diagnostics) -> Result<(), IngestError> {
    Ok(())
}
/// peaks
pub static PEAKS: Importer = Importer { kind: ArtifactKind::Peaks, sniff, import };
