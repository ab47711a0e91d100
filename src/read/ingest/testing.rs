//! Helpers for tests of importers.

use std::io::Write;

use super::{Importer, IngestError, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::Diagnostics;
use rooflens_session::Session;

/// True if the importer takes a file of this name and content for its kind.
pub(crate) fn sniffs(importer: &Importer, name: &str, content: impl AsRef<[u8]>) -> bool {
    (importer.sniff)(&Prefix {
        name,
        bytes: content.as_ref(),
        complete: true,
    })
}

/// Imports a file of these bytes into a session of its own; its pass has the name of the folder, or of the file.
pub(crate) fn import_bytes(
    importer: &Importer,
    path: &str,
    bytes: impl AsRef<[u8]>,
) -> (Result<(), IngestError>, Session, Diagnostics) {
    let mut session = Session::default();
    let (result, diagnostics) = import_into(importer, path, bytes, &mut session);
    (result, session, diagnostics)
}

/// The same into a session that there is.
pub(crate) fn import_into(
    importer: &Importer,
    path: &str,
    bytes: impl AsRef<[u8]>,
    session: &mut Session,
) -> (Result<(), IngestError>, Diagnostics) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes.as_ref()).expect("room for it");
    let artifact = ArtifactFile {
        path: path.to_owned(),
        location: file.path().to_owned(),
        kind: Some(importer.kind),
        pass: path.split(['/', '.']).next().unwrap_or_default().to_owned(),
        ..ArtifactFile::default()
    };
    let mut diagnostics = Diagnostics::default();
    let result = (importer.import)(&artifact, session, &mut diagnostics);
    (result, diagnostics)
}
