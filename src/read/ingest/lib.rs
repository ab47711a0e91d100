//! Artifacts into the session: one importer a format, one folder each.
//!
//! An importer that fails costs its artifact, never the run: the driver turns the error into a
//! diagnostic and goes on.

#![forbid(unsafe_code)]

mod abi;
mod database;
mod error;
mod identify;
mod profiles;
mod runs;
mod stats_tables;
#[cfg(test)]
mod testing;
mod unread;

pub mod command_runs;
pub mod config;
pub mod gemm_log;
pub mod ncu;
pub mod ncu_rep;
pub mod nsys;
pub mod nsys_gpu_trace;
pub mod nvml;
pub mod rocpd;
pub mod smi;
pub mod sums;
pub mod timings;
pub mod torch;
pub mod torch_memory;
pub mod xla;

use std::collections::BTreeMap;

use rooflens_schemas::{ArtifactKind, PassKind, manifest};

use rooflens_bundle::{ArtifactFile, Bundle};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_exports::MAX_GPUS;
use rooflens_session::Session;
use rooflens_session::budget::rows_of;

use error::TOO_LARGE_HINT;
pub use error::{IngestError, IngestErrorKind, TOO_LARGE};
pub use identify::{Prefix, identify};

/// Recordings that are read of an input: analyses look at all of them for each.
const MAX_PASSES: usize = 1024;

/// Bytes of memory that a report takes for each byte of tables at the most: sorted copies, results and pages.
const MEMORY_OF_ROWS: u64 = 4;

/// Refuses an artifact of more GPUs or processes.
fn check_count(of: &'static str, count: usize) -> Result<(), IngestError> {
    if count <= MAX_GPUS {
        return Ok(());
    }
    let (what, found) = (format!("the number of {of}"), count.to_string());
    Err(IngestErrorKind::Value {
        what,
        found,
        expected: "at most 256",
    }
    .into())
}

/// Reads one format.
pub struct Importer {
    /// What it reads.
    pub kind: ArtifactKind,
    /// True if a file that begins so is of this kind. Must hold for no file of another kind.
    pub sniff: fn(&Prefix<'_>) -> bool,
    /// Reads the file into the session. On an error rows may have been added: importers add at the end.
    pub import: fn(&ArtifactFile, &mut Session, &mut Diagnostics) -> Result<(), IngestError>,
}

/// All formats, in the order in which files are tried and read: what later ones need comes first.
pub static IMPORTERS: &[&Importer] = &[
    &config::WORKLOAD,
    &config::MODEL,
    &config::ENVIRONMENT,
    &config::NOTES,
    &smi::IMPORTER,
    &timings::TIMINGS,
    &command_runs::IMPORTER,
    &timings::PEAKS,
    &rocpd::IMPORTER,
    &nsys::IMPORTER,
    &torch::IMPORTER,
    &torch_memory::IMPORTER,
    &xla::IMPORTER,
    &ncu_rep::IMPORTER,
    &ncu::IMPORTER,
    &nvml::IMPORTER,
    &nsys_gpu_trace::IMPORTER,
    &sums::IMPORTER,
    &sums::CALLS,
    &gemm_log::IMPORTER,
];

/// Reads all files of a bundle. Files whose `kind` is none of the importers' are left alone.
///
/// `progress` is called with each file before it is read.
pub fn import(
    bundle: &Bundle,
    diagnostics: &mut Diagnostics,
    progress: &mut dyn FnMut(&ArtifactFile),
) -> Session {
    let mut session = Session::default();
    let ceiling = bundle
        .memory
        .map_or(u64::MAX, |memory| memory / MEMORY_OF_ROWS);
    session.limit = Some(rows_of(bundle.input_bytes).min(ceiling));
    for importer in IMPORTERS {
        for file in bundle
            .files
            .iter()
            .filter(|file| file.kind == Some(importer.kind))
        {
            if session.passes.len() >= MAX_PASSES {
                diagnostics.push(beyond(file));
                continue;
            }
            progress(file);
            if let Err(error) = (importer.import)(file, &mut session, diagnostics) {
                let is_full = matches!(error.kind, IngestErrorKind::Budget);
                match bundle
                    .memory
                    .filter(|_| is_full && session.limit == Some(ceiling))
                {
                    Some(memory) => diagnostics.push(too_large(file, memory)),
                    None => diagnostics.push(error.into_diagnostic(&file.path)),
                }
            }
        }
    }
    profiles::withhold_impossible(&mut session, diagnostics);
    profiles::memory_bandwidths(&mut session);
    timings::settle(&bundle.files, &mut session);
    command_runs::add_profiled(bundle, &mut session);
    add_commands(bundle, &mut session);
    add_endings(bundle, &mut session);
    session.tell_passes_apart();
    tell_unread(bundle, diagnostics);
    session
}

/// Names what is not read: a folder of many such files once, by the first of them.
fn tell_unread(bundle: &Bundle, diagnostics: &mut Diagnostics) {
    let mut unread_files = BTreeMap::<(&str, &str), (&ArtifactFile, u64)>::new();
    for file in &bundle.files {
        if let Some(name) = unread(file) {
            unread_files.entry(name).or_insert((file, 0)).1 += 1;
        }
    }
    for ((name, advice), (file, count)) in unread_files {
        let message = format!("{name} is not read");
        let diagnostic = Diagnostic::new(Severity::Notice, "ingest/not-read", message).times(count);
        diagnostics.push(diagnostic.artifact(&file.path).hint(advice));
    }
}

fn too_large(file: &ArtifactFile, memory: u64) -> Diagnostic {
    let amount = match memory {
        1_000_000_000.. => format!("{:.1} GB", memory as f64 / 1e9),
        _ => format!("{} MB", memory / 1_000_000),
    };
    let message = format!("needs more than the {amount} of memory that are available");
    let large = Diagnostic::new(Severity::Error, TOO_LARGE, message).artifact(&file.path);
    large.hint(TOO_LARGE_HINT)
}

fn beyond(file: &ArtifactFile) -> Diagnostic {
    let message = format!("not read: {MAX_PASSES} recordings before it are the most that is read");
    Diagnostic::new(Severity::DataLoss, "ingest/passes", message).artifact(&file.path)
}

/// The command lines of passes, which only a manifest records.
fn add_commands(bundle: &Bundle, session: &mut Session) {
    let recorded = bundle.manifest.iter().flat_map(|manifest| &manifest.passes);
    let commands: BTreeMap<&str, String> = recorded
        .filter(|pass| !pass.command.is_empty())
        .map(|pass| (pass.id.as_str(), pass.command.join(" ")))
        .collect();
    for row in 0..session.passes.len() {
        if let Some(command) = commands.get(session.text(session.passes.name[row])) {
            session.passes.command[row] = session.intern(command);
        }
    }
}

/// How passes ended that did not run to their end, which only a manifest records. A program that fails by itself fails in
/// each pass.
fn add_endings(bundle: &Bundle, session: &mut Session) {
    let passes = bundle.manifest.iter().flat_map(|manifest| &manifest.passes);
    let by_itself = |code: i32| {
        let mut baselines = passes.clone();
        baselines.any(|pass| pass.kind == PassKind::Baseline && pass.exit_code == Some(code))
    };
    for pass in passes.clone() {
        let code = pass
            .exit_code
            .filter(|code| *code != 0 && !by_itself(*code));
        let ending = match (&pass.cut, code) {
            (Some(_), _) => manifest::ENDED_BY_TIME.to_owned(),
            (None, Some(code)) => code.to_string(),
            (None, None) => continue,
        };
        session.add_fact(manifest::FILE_NAME, &pass.id, manifest::ENDED, &ending);
    }
}

/// Where the launches of an Nsight Compute file come from; none for other files and for one that cannot be read.
fn origin(file: &ArtifactFile) -> Option<profiles::Origin> {
    match file.kind {
        Some(ArtifactKind::NcuCsv) => ncu::origin(file),
        Some(ArtifactKind::NcuReport) => ncu_rep::origin(file),
        _ => None,
    }
}

/// What a file is that is not read, and what to give instead.
fn unread(file: &ArtifactFile) -> Option<(&'static str, &'static str)> {
    match file.kind {
        Some(kind @ ArtifactKind::NsysReport) => Some((
            kind.label(),
            "export it where nsys is installed: nsys export --type sqlite FILE.nsys-rep",
        )),
        None | Some(ArtifactKind::Other) => identify::not_read(file),
        _ => None,
    }
}
