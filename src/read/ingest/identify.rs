//! Detection of file types by content.

use rooflens_schemas::ArtifactKind;

use super::{IMPORTERS, IngestError, runs};
use rooflens_bundle::{ArtifactFile, Bundle};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};

/// Bytes of a file that importers look at to recognize it.
const PREFIX_BYTES: usize = 64 << 10;

/// The beginning of a file, unpacked.
pub struct Prefix<'a> {
    /// File name without folders and without `.gz`, `.zst` and the like. Only a hint: the content decides.
    pub name: &'a str,
    /// The first bytes, 64 KiB at most.
    pub bytes: &'a [u8],
    /// The whole file is in `bytes`.
    pub complete: bool,
}

impl Prefix<'_> {
    /// The bytes as text; bytes that are not UTF-8 (a cut at the end, say) become replacement signs.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes)
    }

    /// True if the bytes contain `needle`.
    pub fn contains(&self, needle: &str) -> bool {
        memchr::memmem::find(self.bytes, needle.as_bytes()).is_some()
    }
}

/// Sets the kind of each file by its content, and without a manifest the pass of files of one Nsight Compute run.
/// A contradicting manifest gets a diagnostic.
pub fn identify(bundle: &mut Bundle, diagnostics: &mut Diagnostics) {
    for file in &mut bundle.files {
        let content_kind = match kind_of(file) {
            Ok(kind) => kind,
            Err(error) => {
                let error = IngestError::from(error);
                diagnostics.push(error.into_diagnostic(&file.path));
                continue;
            }
        };
        if let (Some(stated), Some(content_kind)) = (file.kind, content_kind)
            && stated != content_kind
            && stated != ArtifactKind::Other
        {
            let message = format!(
                "the manifest calls this a {}, its content is a {}",
                stated.label(),
                content_kind.label()
            );
            let diagnostic = Diagnostic::new(Severity::Notice, "bundle/mislabeled", message);
            diagnostics.push(diagnostic.artifact(&file.path));
        }
        file.kind = content_kind.or(file.kind);
    }
    if bundle.manifest.is_none() {
        runs::unite(bundle);
    }
}

/// What a file of no known kind is, and what to give instead.
pub(super) fn not_read(file: &ArtifactFile) -> Option<(&'static str, &'static str)> {
    let bytes = file
        .content()
        .and_then(|content| content.prefix(PREFIX_BYTES))
        .ok()?;
    let complete = bytes.len() < PREFIX_BYTES;
    super::unread::name(&Prefix {
        name: name_of(file),
        bytes: &bytes,
        complete,
    })
}

fn name_of(file: &ArtifactFile) -> &str {
    rooflens_bundle::unpacked_name(file.path.rsplit('/').next().unwrap_or_default())
}

fn kind_of(file: &ArtifactFile) -> Result<Option<ArtifactKind>, rooflens_bundle::ContentError> {
    let content = file.content()?;
    let bytes = content.prefix(PREFIX_BYTES)?;
    let name = name_of(file);
    let prefix = Prefix {
        name,
        bytes: &bytes,
        complete: bytes.len() < PREFIX_BYTES,
    };
    let kind = report_kind(&prefix).or_else(|| {
        IMPORTERS
            .iter()
            .find(|importer| (importer.sniff)(&prefix))
            .map(|importer| importer.kind)
    });
    // Below the root a file of that name is another program's.
    Ok(kind.filter(|kind| *kind != ArtifactKind::Notes || !file.path.contains('/')))
}

/// Reports of NVIDIA's tools that we recognize without reading them.
fn report_kind(prefix: &Prefix<'_>) -> Option<ArtifactKind> {
    if prefix.bytes.starts_with(b"NVIDIA Tegra Profiler Report") {
        return Some(ArtifactKind::NsysReport);
    }
    None
}
