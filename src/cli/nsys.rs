//! Reports of Nsight Systems through the nsys of this machine, if there is one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rooflens_schemas::ArtifactKind;
use tempfile::TempDir;

use super::error::CliError;
use super::term::Term;
use crate::bundle::{ArtifactFile, Bundle};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};

/// Exports the reports of a bundle that have no export beside them, into a folder that goes with what is returned.
/// Without nsys nothing is done: the reports are named with the command that exports them.
pub(super) fn export(
    bundle: &mut Bundle,
    diagnostics: &mut Diagnostics,
    term: &mut Term,
) -> Result<Option<TempDir>, CliError> {
    let is_report = |file: &ArtifactFile| file.kind == Some(ArtifactKind::NsysReport);
    let exported: Vec<String> = bundle
        .files
        .iter()
        .filter(|file| !is_report(file))
        .map(stem)
        .collect();
    let is_wanted = |file: &ArtifactFile| is_report(file) && !exported.contains(&stem(file));
    if !bundle.files.iter().any(is_wanted) {
        return Ok(None);
    }
    let Some(nsys) = find("nsys") else {
        return Ok(None);
    };
    let folder = tempfile::Builder::new().prefix("rooflens-nsys-").tempdir();
    let folder = folder.map_err(|error| CliError::Write {
        path: env::temp_dir(),
        error,
    })?;
    for (number, file) in bundle
        .files
        .iter_mut()
        .enumerate()
        .filter(|(_, file)| is_wanted(file))
    {
        let target = folder.path().join(format!("{number}.sqlite"));
        term.step(format!("exporting {} by nsys", file.path));
        match run(&nsys, &file.location, &target) {
            Ok(()) => {
                let shown = nsys.display();
                term.note(&format!(
                    "notice: {} was exported by {shown} into a temporary folder",
                    file.path
                ));
                file.path = format!("{}.sqlite", stem(file));
                file.location = target;
                file.kind = Some(ArtifactKind::NsysSqlite);
                file.inflation = None;
            }
            Err(why) => {
                let message = format!("nsys could not export it: {why}");
                let failed = Diagnostic::new(Severity::Error, "nsys/export", message);
                diagnostics.push(failed.artifact(&file.path));
            }
        }
    }
    Ok(Some(folder))
}

/// The path of a file without the ending of a report or an export.
fn stem(file: &ArtifactFile) -> String {
    let ends = [".nsys-rep", ".qdrep", ".sqlite"];
    let path = file.path.as_str();
    ends.iter()
        .find_map(|end| path.strip_suffix(end))
        .unwrap_or(path)
        .to_owned()
}

/// The first program of that name on the search path.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Runs the export; the error is the last line that nsys printed.
fn run(nsys: &Path, report: &Path, target: &Path) -> Result<(), String> {
    let mut command = Command::new(nsys);
    command.args([
        "export",
        "--type",
        "sqlite",
        "--force-overwrite",
        "true",
        "--output",
    ]);
    let output = command
        .arg(target)
        .arg(report)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() && target.is_file() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(last.unwrap_or("it wrote nothing").to_owned())
}
