//! NVML CSV

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, Prefix};
use crate::bundle::ArtifactFile;
use crate::diagnostic::Diagnostics;
use crate::model::Session;

/// nvml
pub static IMPORTER: Importer = Importer { kind: ArtifactKind::NvmlCsv, sniff, import };
fn sniff(_: &Prefix<'_>) -> bool {
    false
}
fn import(_: &ArtifactFile, _: &mut Session, _: &mut Diagnostics) -> Result<(), IngestError> {
    Ok(())
}
