//! workload, model config, environment

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, Prefix};
use crate::bundle::ArtifactFile;
use crate::diagnostic::Diagnostics;
use crate::model::Session;

/// workload
pub static WORKLOAD: Importer = Importer { kind: ArtifactKind::Workload, sniff, import };
fn sniff(_: &Prefix<'_>) -> bool {
    false
}
fn import(_: &ArtifactFile, _: &mut Session, _: &mut Diagnostics) -> Result<(), IngestError> {
    Ok(())
}
/// model
pub static MODEL: Importer = Importer { kind: ArtifactKind::ModelConfig, sniff, import };
/// env
pub static ENVIRONMENT: Importer = Importer { kind: ArtifactKind::Environment, sniff, import };
