//! `rooflens validate`, `pack` and `unpack`.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::args::{Pack, Path, Unpack};
use super::error::CliError;
use super::load::count;
use super::term::Term;
use crate::bundle::{self, Bundle, BundleError, PackOptions};
use crate::diagnostic::{Diagnostics, Severity};
use crate::ingest;
use crate::pipeline::is_recognized;
use crate::render::text::clean;

/// Endings that an archive's name loses when it is unpacked.
const ARCHIVE_ENDINGS: [&str; 7] = [
    ".tar.zst", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz", ".tar", ".zip",
];

/// Endings of the archives that `pack` writes.
const PACKED: [&str; 2] = [".tar.zst", ".tzst"];

/// Prints what is wrong with a bundle; fails if that is more than a notice.
pub(super) fn validate(args: &Path, term: &mut Term) -> Result<(), CliError> {
    term.step(format!("checking {}", args.path.display()));
    let diagnostics = bundle::validate(std::slice::from_ref(&args.path));
    term.diagnostics(diagnostics.iter());
    let faults = count(diagnostics.iter(), Severity::DataLoss);
    if faults > 0 {
        return Err(CliError::Gate(format!(
            "{} is not valid: {faults} fault(s)",
            args.path.display()
        )));
    }
    term.print(format!("{} is valid\n", clean(&args.path.to_string_lossy())).as_bytes())
}

/// Packs a directory.
pub(super) fn pack(args: &Pack, term: &mut Term) -> Result<(), CliError> {
    let mut diagnostics = Diagnostics::default();
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| with_ending(&args.path, PACKED[0]));
    let name = output
        .file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default();
    if !PACKED.iter().any(|ending| name.ends_with(ending)) {
        return Err(CliError::Usage(format!(
            "{} does not end in .tar.zst, which is what pack writes",
            output.display()
        )));
    }
    term.step(format!("packing {}", args.path.display()));
    let mut bundle = bundle::open(std::slice::from_ref(&args.path), &mut diagnostics)?;
    // The manifest that packing writes for loose files says what they are.
    ingest::identify(&mut bundle, &mut diagnostics);
    let fault = diagnostics
        .most_severe()
        .filter(|fault| fault.severity == Severity::Error);
    let remarks = diagnostics.iter();
    term.diagnostics(remarks.filter(|diagnostic| Some(*diagnostic) != fault));
    let taken = std::fs::canonicalize(&output).ok();
    let is_input =
        |path: &std::path::Path| taken.is_some() && std::fs::canonicalize(path).ok() == taken;
    if is_input(&args.path) || bundle.files.iter().any(|file| is_input(&file.location)) {
        return Err(CliError::overwrites(&output));
    }
    if let Some(fault) = fault {
        let artifact = fault.artifact.as_deref().unwrap_or_default();
        let message = format!(
            "{} is not packed: {artifact}: {}",
            args.path.display(),
            fault.message
        );
        return Err(CliError::Unusable {
            message,
            hint: fault.hint.clone(),
        });
    }
    refuse_unrecognized(&args.path, &bundle)?;
    let options = PackOptions {
        keep_environment: args.keep_environment,
    };
    let packed = bundle::pack(&bundle, &output, options).map_err(writing(&output))?;
    for path in &packed.redacted {
        term.note(&format!(
            "{path}: removed environment variables, or names of host and user"
        ));
    }
    for (path, reason) in &packed.left_out {
        term.note(&format!("{path}: skipped: {reason}"));
    }
    term.note(&format!(
        "wrote {}: {} files",
        output.display(),
        packed.files
    ));
    Ok(())
}

/// Refuses what no command could read after it is unpacked.
fn refuse_unrecognized(path: &std::path::Path, bundle: &Bundle) -> Result<(), CliError> {
    let shown = path.display();
    let (message, hint) = if path.is_file() && !bundle.is_of_archive() {
        (
            format!("{shown} is not packed: it is a file, and no bundle"),
            "put the file into a folder, and pack the folder",
        )
    } else if !is_recognized(bundle) {
        (
            format!("{shown} is not packed: nothing in it is of a known format"),
            "pack the folder that rooflens-capture wrote, or one with profiles; rooflens inspect lists what is read",
        )
    } else {
        return Ok(());
    };
    Err(CliError::Unusable {
        message,
        hint: Some(hint.to_owned()),
    })
}

/// Unpacks an archive.
pub(super) fn unpack(args: &Unpack, term: &mut Term) -> Result<(), CliError> {
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => PathBuf::from(stem(&args.path)?),
    };
    term.step(format!("unpacking {}", args.path.display()));
    let files = bundle::unpack(&args.path, &folder).map_err(writing(&folder))?;
    term.note(&format!("wrote {}: {files} files", folder.display()));
    Ok(())
}

/// The error of an output that cannot be written, distinguished from that of an input.
fn writing(output: &std::path::Path) -> impl FnOnce(BundleError) -> CliError {
    move |error| match error {
        BundleError::Io { path, error } if path == output => CliError::Write { path, error },
        error => error.into(),
    }
}

fn with_ending(path: &std::path::Path, ending: &str) -> PathBuf {
    let mut name = path
        .file_name()
        .map_or_else(|| "bundle".into(), OsStr::to_os_string);
    name.push(ending);
    path.with_file_name(name)
}

fn stem(path: &std::path::Path) -> Result<String, CliError> {
    let name = path
        .file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default();
    let stem = ARCHIVE_ENDINGS
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let stem = stem.filter(|stem| !stem.is_empty()).map(str::to_owned);
    stem.ok_or_else(|| CliError::Usage(format!("{name} does not end like an archive; give -o DIR")))
}
