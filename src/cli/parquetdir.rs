//! Parquet exports of Nsight Systems: folders with a file a table, of which SQLite is made.

use std::collections::BTreeMap;
use std::env;

use rooflens_schemas::ArtifactKind;
use tempfile::TempDir;

use super::error::CliError;
use super::term::Term;
use crate::bundle::{ArtifactFile, Bundle};
use crate::diagnostic::Diagnostics;
use crate::ingest::nsys::parquet;

/// The table without which the others have no names: by it a folder is known.
const STRINGS: &str = "StringIds";

/// How nsys ends the names of such folders.
const ENDING: &str = "_pqtdir";

/// Replaces the tables of each such folder of a bundle by an SQLite export, in a folder that goes with what is returned.
/// Tables without the strings are left as they are.
pub(super) fn export(
    bundle: &mut Bundle,
    diagnostics: &mut Diagnostics,
    term: &mut Term,
) -> Result<Option<TempDir>, CliError> {
    let folders = folders(bundle);
    if folders.is_empty() {
        return Ok(None);
    }
    let place = tempfile::Builder::new().prefix("rooflens-nsys-").tempdir();
    let place = place.map_err(|error| CliError::Write {
        path: env::temp_dir(),
        error,
    })?;
    for (number, (folder, files)) in folders.into_iter().enumerate() {
        let location = place.path().join(format!("{number}.sqlite"));
        let name = if folder.is_empty() {
            &bundle.name
        } else {
            &folder
        };
        let stem = name.strip_suffix(ENDING).unwrap_or(name).to_owned();
        term.step(format!("reading the tables of {name}"));
        let tables: Vec<_> = files
            .iter()
            .filter_map(|file| Some((table_of(&file.path)?.1, file)))
            .collect();
        let lost = |file: &ArtifactFile, error: crate::ingest::IngestError| {
            diagnostics.push(error.into_diagnostic(&file.path));
        };
        if let Err(error) = parquet::to_sqlite(&tables, &location, lost) {
            diagnostics.push(error.into_diagnostic(name));
            continue;
        }
        bundle
            .files
            .retain(|file| !files.iter().any(|table| table.path == file.path));
        let mut export = files.into_iter().next().unwrap_or_default();
        if bundle.manifest.is_none() {
            export.pass.clone_from(&stem);
            export.rank = crate::bundle::rank_of(&stem);
        }
        export.path = format!("{stem}.sqlite");
        export.kind = Some(ArtifactKind::NsysSqlite);
        (export.location, export.inflation, export.sha256) = (location, None, None);
        bundle.files.push(export);
    }
    bundle.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(place))
}

/// The tables of each folder that has the strings and others, and no export of the same report beside it.
fn folders(bundle: &Bundle) -> BTreeMap<String, Vec<ArtifactFile>> {
    let mut folders = BTreeMap::<String, Vec<ArtifactFile>>::new();
    for file in bundle
        .files
        .iter()
        .filter(|file| file.kind.is_none_or(is_other))
    {
        if let Some((folder, _)) = table_of(&file.path) {
            folders
                .entry(folder.to_owned())
                .or_default()
                .push(file.clone());
        }
    }
    let is_export = |folder: &str, files: &[ArtifactFile]| {
        let sqlite = folder
            .strip_suffix(ENDING)
            .map(|stem| format!("{stem}.sqlite"));
        files.len() > 1
            && files
                .iter()
                .any(|file| table_of(&file.path).is_some_and(|(_, table)| table == STRINGS))
            && !bundle
                .files
                .iter()
                .any(|file| Some(&file.path) == sqlite.as_ref())
    };
    folders.retain(|folder, files| is_export(folder, files));
    folders
}

fn is_other(kind: ArtifactKind) -> bool {
    kind == ArtifactKind::Other
}

/// Folder and name of the table that a Parquet file holds.
fn table_of(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let table = crate::bundle::unpacked_name(name).strip_suffix(".parquet")?;
    Some((folder, table))
}
