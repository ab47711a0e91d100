//! `rooflens bench-report`: microbenchmarks of GPUs into a report.

use std::path::PathBuf;

use super::args::BenchReport as Args;
use super::error::CliError;
use super::load::{artifacts, errors, gravest};
use super::output::{Writer, file_stem};
use super::parquet;
use super::serve;
use super::term::Term;
use crate::bundle::{self, Bundle, Content};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Catalogue;
use crate::hardware::Hardware;
use crate::ingest;
use crate::microbench::analysis::Results;
use crate::microbench::import::{File, read};
use crate::microbench::report;
use crate::report::{Notes, Provenance};

use rooflens_schemas::ArtifactKind;

/// Largest file in good faith: ten thousand cases are 10 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Writes the report of microbenchmarks.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let mut writer = Writer::new(&args.output, args.results.iter().chain(&args.notes))?;
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&args.results, &mut diagnostics)?;
    ingest::identify(&mut bundle, &mut diagnostics);
    let contents = contents(&bundle, &args.results, &mut diagnostics);
    let files: Vec<File<'_>> = contents
        .iter()
        .map(|(path, bytes)| File { path, bytes })
        .collect();
    let devices = read(&files, &mut diagnostics);
    if devices.is_empty() {
        let why =
            gravest(&diagnostics).map_or_else(String::new, |one| format!(": {}", one.message));
        return Err(CliError::Unusable {
            message: format!("no microbenchmark in {}{why}", bundle.name),
            hint: Some("expected bench.json or peaks.json of rooflens-capture".to_owned()),
        });
    }
    diagnostics.iter().for_each(|one| term.diagnostic(one));
    let hardware = Hardware::builtin();
    let results: Vec<Results<'_>> = devices
        .iter()
        .map(|device| Results::of(device, &hardware))
        .collect();
    let notes = serve::notes(args.notes.as_deref(), &bundle)?;
    let provenance = Provenance {
        bundle: &bundle.name,
        bundle_id: &bundle.id,
        manifest: bundle.manifest.as_ref(),
        artifacts: artifacts(&bundle, "microbenchmark"),
        notes: notes
            .as_ref()
            .map(|(artifact, text)| Notes { artifact, text }),
        ..Provenance::default()
    };
    let report = report(
        &results,
        Catalogue::of(writer.language()),
        provenance,
        &diagnostics,
    );
    writer.protect(&bundle);
    let folder = format!("{}-report", file_stem(&bundle.name));
    writer.write(&report, &folder, &|| parquet::of_report(&report), term)?;
    errors(diagnostics.iter())
}

/// Whether files are microbenchmarks and nothing else that has a report.
pub(super) fn is_all_of(bundle: &Bundle) -> bool {
    let known = bundle.files.iter().filter_map(|file| file.kind);
    let mut kinds = known.filter(|kind| !matches!(kind, ArtifactKind::Notes | ArtifactKind::Other));
    let first = kinds.next();
    first == Some(ArtifactKind::Peaks) && kinds.all(|kind| kind == ArtifactKind::Peaks)
}

/// The files that may be results: those that were named themselves, and of folders those that are recognized.
pub(super) fn contents(
    bundle: &Bundle,
    named: &[PathBuf],
    diagnostics: &mut Diagnostics,
) -> Vec<(String, Vec<u8>)> {
    let asked = bundle
        .files
        .iter()
        .filter(|file| file.kind == Some(ArtifactKind::Peaks) || named.contains(&file.location));
    let mut contents = Vec::new();
    for file in asked.filter(|file| file.kind != Some(ArtifactKind::Notes)) {
        match Content::open(&file.location).and_then(|content| content.bytes(MAX_BYTES)) {
            Ok(bytes) => contents.push((file.path.clone(), bytes)),
            Err(error) => {
                let message = error.to_string();
                let unread = Diagnostic::new(Severity::Error, "microbench/unreadable", message);
                diagnostics.push(unread.artifact(&file.path));
            }
        }
    }
    contents
}
