//! Forms of Nsight Systems that are converted before they are read: `.nsys-rep` by an external program, and folders of
//! Parquet tables, of which SQLite is made.

use std::collections::BTreeMap;
use std::path::Path;

use rooflens_schemas::ArtifactKind;
use tempfile::TempDir;

use super::open::{OpenError, Step};
use crate::bundle::{self, ArtifactFile, Bundle};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::ingest::nsys::parquet;

/// Endings of the forms of one recording.
const RECORDINGS: [&str; 3] = [".nsys-rep", ".qdrep", ".sqlite"];

/// The table that marks a folder as an export: the other tables refer to its texts.
const STRINGS: &str = "StringIds";

/// Ending that nsys gives the names of such folders.
const PARQUET_FOLDER: &str = "_pqtdir";

/// Converts reports of Nsight Systems: `nsys export` in the program, a fake in tests.
pub trait Exporter {
    /// Writes the report as SQLite.
    ///
    /// # Errors
    /// The reason why there is no export, for people.
    fn export(&self, report: &Path, target: &Path) -> Result<(), String>;
}

/// Replaces reports without an export next to them by their exports, which are in the folder that is returned.
pub(super) fn of_reports(
    bundle: &mut Bundle,
    exporter: &dyn Exporter,
    diagnostics: &mut Diagnostics,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Option<TempDir>, OpenError> {
    let mut exported = Vec::new();
    for file in &bundle.files {
        if !is_report(file) {
            exported.push(recording(file));
        }
    }
    let is_wanted = |file: &ArtifactFile| is_report(file) && !exported.contains(&recording(file));
    if !bundle.files.iter().any(is_wanted) {
        return Ok(None);
    }
    let folder = temporary_folder()?;
    for (number, file) in bundle.files.iter_mut().enumerate() {
        if !is_wanted(file) {
            continue;
        }
        let target = folder.path().join(format!("{number}.sqlite"));
        progress(Step::Exporting(&file.path));
        if let Err(reason) = exporter.export(&file.location, &target) {
            let message = format!("nsys could not export it: {reason}");
            let failed = Diagnostic::new(Severity::Error, "nsys/export", message);
            diagnostics.push(failed.artifact(&file.path));
            continue;
        }
        progress(Step::Exported(&file.path));
        file.path = format!("{}.sqlite", recording(file));
        file.location = target;
        file.kind = Some(ArtifactKind::NsysSqlite);
        file.inflation = None;
    }
    Ok(Some(folder))
}

fn is_report(file: &ArtifactFile) -> bool {
    file.kind == Some(ArtifactKind::NsysReport)
}

/// The path of a file without the ending of a report or an export.
fn recording(file: &ArtifactFile) -> String {
    let path = file.path.as_str();
    for ending in RECORDINGS {
        if let Some(stem) = path.strip_suffix(ending) {
            return stem.to_owned();
        }
    }
    path.to_owned()
}

fn temporary_folder() -> Result<TempDir, OpenError> {
    let folder = tempfile::Builder::new().prefix("rooflens-nsys-").tempdir();
    folder.map_err(OpenError::Temporary)
}

/// Replaces the tables of each Parquet export by an SQLite file in the folder that is returned. Tables of a folder
/// without the strings stay as they are.
pub(super) fn of_parquet(
    bundle: &mut Bundle,
    diagnostics: &mut Diagnostics,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Option<TempDir>, OpenError> {
    let folders = parquet_folders(bundle);
    if folders.is_empty() {
        return Ok(None);
    }
    let temporary = temporary_folder()?;
    for (number, (folder, files)) in folders.into_iter().enumerate() {
        let location = temporary.path().join(format!("{number}.sqlite"));
        let name = if folder.is_empty() {
            bundle.name.clone()
        } else {
            folder
        };
        progress(Step::Converting(&name));
        let mut tables = Vec::new();
        for file in &files {
            if let Some((_, table)) = table_of(&file.path) {
                tables.push((table, file));
            }
        }
        let lost = |file: &ArtifactFile, error: crate::ingest::IngestError| {
            diagnostics.push(error.into_diagnostic(&file.path));
        };
        if let Err(error) = parquet::to_sqlite(&tables, &location, lost) {
            diagnostics.push(error.into_diagnostic(&name));
            continue;
        }
        let is_table = |path: &str| files.iter().any(|table| table.path == path);
        bundle.files.retain(|file| !is_table(&file.path));
        let stem = name.strip_suffix(PARQUET_FOLDER).unwrap_or(&name);
        let mut export = files.into_iter().next().unwrap_or_default();
        if bundle.manifest.is_none() {
            stem.clone_into(&mut export.pass);
            export.rank = bundle::rank_of(stem);
        }
        export.path = format!("{stem}.sqlite");
        export.kind = Some(ArtifactKind::NsysSqlite);
        (export.location, export.inflation, export.sha256) = (location, None, None);
        bundle.files.push(export);
    }
    bundle.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(temporary))
}

/// The tables of each folder that has the strings and others, and no export of the same report next to it.
fn parquet_folders(bundle: &Bundle) -> BTreeMap<String, Vec<ArtifactFile>> {
    let mut folders = BTreeMap::<String, Vec<ArtifactFile>>::new();
    for file in &bundle.files {
        if !matches!(file.kind, None | Some(ArtifactKind::Other)) {
            continue;
        }
        if let Some((folder, _)) = table_of(&file.path) {
            let tables = folders.entry(folder.to_owned()).or_default();
            tables.push(file.clone());
        }
    }
    folders.retain(|folder, tables| {
        let is_export = tables.len() > 1 && tables.iter().any(is_strings);
        is_export && !has_sqlite(bundle, folder)
    });
    folders
}

fn is_strings(file: &ArtifactFile) -> bool {
    table_of(&file.path).is_some_and(|(_, table)| table == STRINGS)
}

/// Whether the SQLite export of the report of a Parquet folder is in the bundle.
fn has_sqlite(bundle: &Bundle, folder: &str) -> bool {
    let Some(stem) = folder.strip_suffix(PARQUET_FOLDER) else {
        return false;
    };
    let sqlite = format!("{stem}.sqlite");
    bundle.files.iter().any(|file| file.path == sqlite)
}

/// Folder and name of the table that a Parquet file holds.
fn table_of(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let table = bundle::unpacked_name(name).strip_suffix(".parquet")?;
    Some((folder, table))
}
