//! Validation: everything that can be said of a bundle without analyzing it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rooflens_schemas::{ArtifactKind, Manifest, PassKind, Workload};

use super::pack::{packed_head, unfit_by_look};
use super::{ArtifactFile, Bundle, ContentError, EnvironmentDump, open};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};

/// Bytes beyond which a `workload.toml` is not one.
const MAX_WORKLOAD: u64 = 1 << 20;

/// Schema, hashes, completeness and secrets of a bundle. A bundle that cannot be opened is one more diagnostic.
pub fn validate(paths: &[PathBuf]) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    match open(paths, &mut diagnostics) {
        Ok(bundle) => check(&bundle, &mut diagnostics),
        Err(error) => diagnostics.push(Diagnostic::new(
            Severity::Error,
            "bundle/unusable",
            error.to_string(),
        )),
    }
    diagnostics
}

fn check(bundle: &Bundle, diagnostics: &mut Diagnostics) {
    match &bundle.manifest {
        Some(manifest) => check_manifest(manifest, diagnostics),
        None => diagnostics.push(Diagnostic::new(
            Severity::Error,
            "bundle/no-manifest",
            "there is no manifest.json: these are loose files, no bundle",
        )),
    }
    let workload = bundle
        .files
        .iter()
        .find(|file| file.kind == Some(ArtifactKind::Workload));
    match workload {
        Some(file) => check_workload(file, bundle.manifest.as_ref(), diagnostics),
        None => diagnostics.push(
            Diagnostic::new(
                Severity::Notice,
                "bundle/no-workload",
                "there is no workload.toml",
            )
            .hint("without it stages are found by their usual names and FLOPs are unknown"),
        ),
    }
    for file in &bundle.files {
        if let Some(skipped) = not_packed(file) {
            diagnostics.push(skipped);
        }
        match environment_dump(file) {
            Ok(None) => {}
            Ok(Some(dump)) => diagnostics.push(dump),
            Err(error) => diagnostics.push(
                Diagnostic::new(Severity::Error, "bundle/unreadable", error).artifact(&file.path),
            ),
        }
    }
}

fn check_manifest(manifest: &Manifest, diagnostics: &mut Diagnostics) {
    let mut ids = BTreeSet::new();
    let artifacts = manifest.artifacts.iter();
    let with_artifact: BTreeSet<&str> = artifacts.filter_map(|one| one.pass.as_deref()).collect();
    for pass in &manifest.passes {
        if !ids.insert(pass.id.as_str()) {
            let message = format!("two passes have the id {:?}", pass.id);
            diagnostics.push(Diagnostic::new(Severity::Error, "bundle/pass-id", message));
        }
        if !with_artifact.contains(pass.id.as_str()) {
            let message = format!("pass {:?} left no artifact", pass.id);
            diagnostics.push(Diagnostic::new(
                Severity::Notice,
                "bundle/empty-pass",
                message,
            ));
        }
        if let Some(reason) = &pass.cut {
            let message = format!("pass {:?} is cut short: {reason}", pass.id);
            diagnostics.push(Diagnostic::new(
                Severity::Notice,
                "bundle/cut-pass",
                message,
            ));
        }
        if let Some(code) = pass.exit_code.filter(|code| *code != 0) {
            let message = format!("pass {:?} ended with exit code {code}", pass.id);
            // A fact of the workload: what was recorded until then is whole.
            diagnostics.push(Diagnostic::new(
                Severity::Notice,
                "bundle/failed-pass",
                message,
            ));
        }
    }
    for artifact in &manifest.artifacts {
        if let Some(pass) = artifact.pass.as_deref().filter(|pass| !ids.contains(pass)) {
            let message = format!("belongs to pass {pass:?}, which the manifest does not list");
            let unknown = Diagnostic::new(Severity::Error, "bundle/pass-id", message);
            diagnostics.push(unknown.artifact(&artifact.path));
        }
    }
    let has = |kind| manifest.passes.iter().any(|pass| pass.kind == kind);
    let is_profiled = [PassKind::Timeline, PassKind::Counters, PassKind::Operators].map(has);
    if is_profiled.contains(&true) && !has(PassKind::Baseline) {
        let message = "there is no baseline pass: end-to-end times include a profiler's overhead";
        diagnostics.push(Diagnostic::new(
            Severity::Notice,
            "bundle/no-baseline",
            message,
        ));
    }
}

fn check_workload(file: &ArtifactFile, manifest: Option<&Manifest>, diagnostics: &mut Diagnostics) {
    let error = |code, message: String| {
        Diagnostic::new(Severity::Error, code, message).artifact(&file.path)
    };
    let workload = match read_workload(file) {
        Ok(workload) => workload,
        Err(message) => return diagnostics.push(error("bundle/workload", message)),
    };
    let Some(manifest) = manifest else { return };
    let ids: BTreeSet<&str> = manifest
        .passes
        .iter()
        .map(|pass| pass.id.as_str())
        .collect();
    for id in workload.passes.keys() {
        if !ids.contains(id.as_str()) {
            let message = format!("describes pass {id:?}, which the manifest does not list");
            diagnostics.push(error("bundle/pass-id", message));
        }
    }
    if let Some(config) = &workload.config
        && !manifest
            .artifacts
            .iter()
            .any(|artifact| &artifact.path == config)
    {
        let message = format!("names the config {config:?}, which the manifest does not list");
        diagnostics.push(error("bundle/workload", message));
    }
}

fn read_workload(file: &ArtifactFile) -> Result<Workload, String> {
    let bytes = file
        .content()
        .and_then(|content| content.bytes(MAX_WORKLOAD))
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    toml::from_str(&text).map_err(|error| error.to_string())
}

/// The diagnostic for a file that packing skips.
fn not_packed(file: &ArtifactFile) -> Option<Diagnostic> {
    // Verification reports unreadable files.
    let head = packed_head(file).ok()?;
    let is_other = file.kind == Some(ArtifactKind::Other);
    let reason = unfit_by_look(file, &head)
        .or_else(|| is_other.then_some("it is of no known format and may hold anything"))?;
    let message = format!("may hold secrets; rooflens pack leaves it out: {reason}");
    let remark = Diagnostic::new(Severity::Notice, "bundle/not-packed", message);
    Some(remark.artifact(&file.path))
}

/// The warning about environment variables in an nsys export, if it holds any.
fn environment_dump(file: &ArtifactFile) -> Result<Option<Diagnostic>, String> {
    let text = |error: ContentError| error.to_string();
    let content = file.content().map_err(text)?;
    if !content
        .prefix(16)
        .map_err(text)?
        .starts_with(b"SQLite format 3\0")
    {
        return Ok(None);
    }
    let plain = content.plain_file().map_err(text)?;
    let dump = EnvironmentDump::find(&plain.path).map_err(|error| error.to_string())?;
    Ok(dump.diagnostic(&file.path))
}
