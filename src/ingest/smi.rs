//! nvidia-smi -q -x

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, Prefix};
use crate::bundle::ArtifactFile;
use crate::diagnostic::Diagnostics;
use crate::model::Session;

/// smi
pub static IMPORTER: Importer = Importer { kind: ArtifactKind::SmiXml, sniff, import };
fn sniff(_: &Prefix<'_>) -> bool {
    false
}
fn import(_: &ArtifactFile, _: &mut Session, _: &mut Diagnostics) -> Result<(), IngestError> {
    Ok(())
}
