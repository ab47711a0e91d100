//! `manifest`: lists and hashes the files of a bundle. Written last: a bundle with a manifest is complete.

mod kinds;
mod listed;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use rooflens_schemas::{
    Artifact, ArtifactKind, Environment, Manifest, Pass, PassKind, Tool, manifest,
};

use crate::args::ManifestArguments;
use crate::error::CaptureError;
use crate::files;
use listed::{Listed, list};

/// Where a capture keeps what is not redacted yet.
pub(crate) const WORK: &str = ".work";

/// Writes `manifest.json`, or renews the one that is there.
pub(crate) fn run(arguments: &ManifestArguments) -> Result<String, CaptureError> {
    let bundle = &arguments.bundle;
    let old = read(bundle)?;
    let files = list(bundle)?;
    if files.is_empty() {
        return Err(CaptureError::Empty(bundle.clone()));
    }
    let mut new = describe(&files, old.as_ref());
    new.name = match (&arguments.name, &old) {
        (Some(name), _) => name.clone(),
        (None, Some(old)) => old.name.clone(),
        (None, None) => folder_name(bundle),
    };
    new.captured_at = old
        .and_then(|old| old.captured_at)
        .or_else(|| captured_at(bundle, &new));
    new.labels.extend(arguments.labels.iter().cloned());
    write(&bundle.join(manifest::FILE_NAME), new.to_json().as_bytes())?;
    let left = match bundle.join(WORK).exists() {
        true => {
            "; .work is left of a capture that did not end, is not listed and may hold secrets: remove it"
        }
        false => "",
    };
    let (shown, passes) = (bundle.display(), new.passes.len());
    Ok(format!(
        "{shown}: {} files in {passes} passes{left}",
        files.len()
    ))
}

/// Renews the manifest of a bundle that is complete already; without a manifest nothing is done.
///
/// # Errors
/// A file that cannot be read or written, or a manifest that cannot be kept.
pub fn renew(bundle: &Path) -> Result<(), CaptureError> {
    if bundle.join(manifest::FILE_NAME).exists() {
        run(&ManifestArguments {
            bundle: bundle.to_owned(),
            name: None,
            labels: Vec::new(),
        })?;
    }
    Ok(())
}

/// What a capture knows of its passes.
#[derive(Default)]
pub(crate) struct Description {
    pub(crate) name: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) captured_at: Option<String>,
    pub(crate) passes: Vec<Pass>,
    /// Programs that wrote the profiles of a pass.
    pub(crate) producers: Vec<(String, Tool)>,
}

/// Writes the manifest of a capture. Passes of an earlier one in the same folder are kept.
pub(crate) fn describe_bundle(
    bundle: &Path,
    description: Description,
) -> Result<String, CaptureError> {
    let mut old = read(bundle)?.unwrap_or_else(|| describe(&[], None));
    old.name = description
        .name
        .unwrap_or_else(|| match old.name.is_empty() {
            true => folder_name(bundle),
            false => old.name.clone(),
        });
    old.captured_at = old.captured_at.take().or(description.captured_at);
    old.labels.extend(description.labels);
    let is_new = |old: &Pass| description.passes.iter().all(|new| new.id != old.id);
    old.passes.retain(is_new);
    let mut known = old.passes.iter().chain(&description.passes);
    if bundle.join("snapshot").is_dir() && known.all(|pass| pass.id != "snapshot") {
        old.passes.insert(
            0,
            Pass {
                id: "snapshot".to_owned(),
                ..Pass::default()
            },
        );
    }
    old.passes.extend(description.passes);
    let files = list(bundle)?;
    let mut new = describe(&files, Some(&old));
    for artifact in new
        .artifacts
        .iter_mut()
        .filter(|artifact| artifact.producer.is_none())
    {
        artifact.producer = producer(artifact, &description.producers);
    }
    (new.name, new.captured_at) = (old.name, old.captured_at);
    write(&bundle.join(manifest::FILE_NAME), new.to_json().as_bytes())?;
    Ok(format!(
        "{}: {} files in {} passes",
        bundle.display(),
        files.len(),
        new.passes.len()
    ))
}

/// Profiles are of the profiler of their pass; samples and times are not.
fn producer(artifact: &Artifact, producers: &[(String, Tool)]) -> Option<Tool> {
    let is_profile = matches!(
        artifact.kind.pass_kind(),
        Some(PassKind::Timeline | PassKind::Counters | PassKind::Operators)
    );
    let of_pass = producers
        .iter()
        .find(|(pass, _)| Some(pass) == artifact.pass.as_ref());
    of_pass.filter(|_| is_profile).map(|(_, tool)| tool.clone())
}

fn read(bundle: &Path) -> Result<Option<Manifest>, CaptureError> {
    let path = bundle.join(manifest::FILE_NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CaptureError::Io(path, error)),
    };
    Manifest::from_json(&bytes)
        .map(Some)
        .map_err(|error| CaptureError::Manifest(path, error))
}

/// The manifest of these files. What an old one says of a pass or a file is kept; hashes and sizes are new.
fn describe(files: &[Listed], old: Option<&Manifest>) -> Manifest {
    let known: BTreeMap<&str, &Artifact> = old
        .iter()
        .flat_map(|old| &old.artifacts)
        .map(|artifact| (artifact.path.as_str(), artifact))
        .collect();
    let mut artifacts: Vec<Artifact> = files
        .iter()
        .map(|file| artifact(file, known.get(file.path.as_str()).copied()))
        .collect();
    let passes = passes(&artifacts, old);
    for artifact in &mut artifacts {
        // A folder of logs or notes is no pass.
        artifact
            .pass
            .take_if(|pass| passes.iter().all(|known| known.id != *pass));
    }
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    Manifest {
        version: manifest::VERSION,
        name: String::new(),
        captured_at: None,
        tool: Tool {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version,
        },
        passes,
        artifacts,
        labels: old.map(|old| old.labels.clone()).unwrap_or_default(),
    }
}

fn artifact(file: &Listed, known: Option<&Artifact>) -> Artifact {
    let kind = kinds::kind_of(&file.path);
    let folder = file
        .path
        .split_once('/')
        .map(|(folder, _)| folder.to_owned());
    let pass = folder.filter(|_| kinds::belongs_to_a_pass(kind));
    let fresh = Artifact {
        path: file.path.clone(),
        kind,
        pass,
        producer: None,
        rank: kinds::rank_of(&file.path),
        sha256: file.sha256.clone(),
        bytes: file.bytes,
    };
    match known {
        Some(known) => Artifact {
            sha256: fresh.sha256,
            bytes: fresh.bytes,
            ..known.clone()
        },
        None => fresh,
    }
}

/// The old passes in their order, then a pass for each folder that none of them is.
fn passes(artifacts: &[Artifact], old: Option<&Manifest>) -> Vec<Pass> {
    let mut passes = old.map(|old| old.passes.clone()).unwrap_or_default();
    for artifact in artifacts {
        let (Some(id), Some(kind)) = (&artifact.pass, artifact.kind.pass_kind()) else {
            continue;
        };
        if passes.iter().all(|pass| &pass.id != id) {
            let id = id.clone();
            passes.push(Pass {
                id,
                kind,
                ..Pass::default()
            });
        }
    }
    passes
}

/// The time of the environment snapshot, if there is one.
fn captured_at(bundle: &Path, manifest: &Manifest) -> Option<String> {
    let mut artifacts = manifest.artifacts.iter();
    let snapshot = artifacts.find(|artifact| artifact.kind == ArtifactKind::Environment)?;
    let bytes = fs::read(bundle.join(&snapshot.path)).ok()?;
    serde_json::from_slice::<Environment>(&bytes)
        .ok()?
        .captured_at
}

fn folder_name(bundle: &Path) -> String {
    let absolute = fs::canonicalize(bundle).unwrap_or_else(|_| bundle.to_owned());
    let name = absolute
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "bundle".to_owned())
}

/// Writes under another name and renames: the manifest is whole or not there.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CaptureError> {
    let temporary = path.with_file_name(".manifest.json.part");
    let write = || {
        let mut file = files::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(CaptureError::io(path))
}
