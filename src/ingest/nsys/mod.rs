//! Nsight Systems SQLite exports.

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, Prefix};
use crate::bundle::ArtifactFile;
use crate::diagnostic::Diagnostics;
use crate::model::Session;

/// nsys
pub static IMPORTER: Importer = Importer { kind: ArtifactKind::NsysSqlite, sniff, import };
fn sniff(_: &Prefix<'_>) -> bool {
    false
}
fn import(_: &ArtifactFile, _: &mut Session, _: &mut Diagnostics) -> Result<(), IngestError> {
    Ok(())
}
