//! Opening: what was named on the command line becomes a bundle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rooflens_schemas::{Artifact, Manifest, PassKind, manifest};

use super::error::{BundleError, check_path};
use super::walk::{Found, walk};
use super::{ArtifactFile, Bundle, Content, MAX_MANIFEST, archive, aside, verify};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::budget::Inflation;

/// Names of files that only a capture leaves in a folder.
const CAPTURE_MARKS: [&str; 2] = [
    rooflens_schemas::workload::FILE_NAME,
    rooflens_schemas::environment::FILE_NAME,
];

/// Opens one directory, one archive (`.tar`, plain or packed, or `.zip`), or any number of loose files and
/// directories, and verifies the hashes that a manifest states.
pub fn open(paths: &[PathBuf], diagnostics: &mut Diagnostics) -> Result<Bundle, BundleError> {
    open_hashed(paths, u64::MAX, diagnostics)
}

/// The same; files that no manifest states are hashed up to this many bytes each.
pub fn open_hashed(
    paths: &[PathBuf],
    hashed: u64,
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, BundleError> {
    let mut bundle = match paths {
        [] => return Err(BundleError::NoPath),
        [path] if path.is_dir() => open_directory(path, base_name(path), None, hashed, diagnostics),
        [path] => {
            require_file(path)?;
            let content = Content::open(path).map_err(BundleError::archive(path))?;
            if archive::is_archive(&content).map_err(BundleError::archive(path))? {
                return open_archive(&content, path, hashed, diagnostics);
            }
            open_loose(paths, hashed, diagnostics)
        }
        _ => open_loose(paths, hashed, diagnostics),
    }?;
    let input = bundle.files.iter().map(|file| size(&file.location)).sum();
    share(&mut bundle, input, &Inflation::of(input));
    Ok(bundle)
}

/// Bytes of a file as it lies there; none of one that is gone.
pub(super) fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Gives all files what the input may cost.
fn share(bundle: &mut Bundle, input: u64, inflation: &Inflation) {
    bundle.input_bytes = input;
    for file in &mut bundle.files {
        file.inflation = Some(inflation.clone());
    }
}

fn open_archive(
    content: &Content,
    path: &Path,
    hashed: u64,
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, BundleError> {
    let folder = aside::folder().map_err(BundleError::archive(path))?;
    archive::extract(content, path, folder.path())?;
    let mut name = stem(&base_name(path)).to_owned();
    let mut root = folder.path().to_owned();
    // An archive of a folder has that folder as its only entry.
    if let Some((only, location)) = only_folder(&root)? {
        name = only;
        root = location;
    }
    let opened = open_directory(&root, name, Some(content.inflation()), hashed, diagnostics);
    let mut bundle = opened.map_err(|error| match error {
        BundleError::Empty(_) => BundleError::Empty(path.to_owned()),
        other => other,
    })?;
    share(&mut bundle, content.packed_bytes(), content.inflation());
    bundle.unpacked = Some(folder);
    Ok(bundle)
}

fn only_folder(root: &Path) -> Result<Option<(String, PathBuf)>, BundleError> {
    let mut entries = fs::read_dir(root).map_err(BundleError::io(root))?;
    let (Some(first), None) = (entries.next(), entries.next()) else {
        return Ok(None);
    };
    let path = first.map_err(BundleError::io(root))?.path();
    Ok(path.is_dir().then(|| (base_name(&path), path)))
}

/// Opens a folder; what is unpacked from an archive shares what the archive may inflate to.
fn open_directory(
    root: &Path,
    name: String,
    inflation: Option<&Inflation>,
    hashed: u64,
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, BundleError> {
    let files = walk(root, diagnostics)?;
    let Some(manifest_row) = files
        .iter()
        .position(|file| file.path == manifest::FILE_NAME)
    else {
        if files.is_empty() {
            return Err(BundleError::Empty(root.to_owned()));
        }
        if files
            .iter()
            .any(|file| CAPTURE_MARKS.contains(&base_name(&file.path).as_str()))
        {
            let message = "there is no manifest.json: hashes and passes are not checked, and the capture may not have ended";
            let advice = "rooflens-capture manifest writes one, once the files are complete";
            let diagnostic = Diagnostic::new(Severity::Notice, "bundle/no-manifest", message);
            diagnostics.push(diagnostic.hint(advice));
        }
        return without_manifest(name, files, hashed, diagnostics);
    };
    let read = read_manifest(&files[manifest_row].location, inflation);
    match read.and_then(|(manifest, bytes)| with_manifest(manifest, bytes, &files, diagnostics)) {
        Ok(bundle) => Ok(bundle),
        Err(error) => {
            let message = format!("{error}; the files are read without it");
            let broken = Diagnostic::new(Severity::Error, BROKEN_MANIFEST, message);
            diagnostics.push(broken.artifact(manifest::FILE_NAME));
            without_manifest(name, files, hashed, diagnostics)
        }
    }
}

/// Code of the diagnostic about a manifest that is damaged, hostile or of another version.
pub const BROKEN_MANIFEST: &str = "bundle/manifest";

fn read_manifest(
    path: &Path,
    inflation: Option<&Inflation>,
) -> Result<(Manifest, Vec<u8>), BundleError> {
    let bytes = Content::sharing(path, inflation)
        .and_then(|content| content.document(MAX_MANIFEST))
        .map_err(|error| BundleError::Manifest(error.to_string()))?;
    let manifest =
        Manifest::from_json(&bytes).map_err(|error| BundleError::Manifest(error.to_string()))?;
    Ok((manifest, bytes))
}

fn open_loose(
    paths: &[PathBuf],
    hashed: u64,
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, BundleError> {
    let mut inputs = Vec::new();
    for path in paths {
        let base = base_name(path);
        if path.is_dir() {
            let below = walk(path, diagnostics)?;
            inputs.extend(
                below
                    .into_iter()
                    .map(|file| (path, format!("{base}/{}", file.path), file.location)),
            );
        } else {
            require_file(path)?;
            let content = Content::open(path);
            let is_tar = content.and_then(|content| archive::is_archive(&content));
            if paths.len() > 1 && is_tar.is_ok_and(|is_tar| is_tar) {
                return Err(BundleError::Archived(path.clone()));
            }
            inputs.push((path, base, path.clone()));
        }
    }
    let mut uses = BTreeMap::<&str, usize>::new();
    for (_, path, _) in &inputs {
        *uses.entry(path).or_default() += 1;
    }
    // Of files of one name, each also tells its folder.
    let mut files: Vec<Found> = inputs
        .iter()
        .map(|(named, path, location)| {
            let parent = named
                .parent()
                .map(base_name)
                .filter(|parent| !parent.is_empty());
            let path = match parent {
                Some(parent) if uses[path.as_str()] > 1 => format!("{parent}/{path}"),
                _ => path.clone(),
            };
            Found {
                path,
                location: location.clone(),
            }
        })
        .collect();
    files.sort_unstable();
    if let Some(pair) = files.windows(2).find(|pair| pair[0].path == pair[1].path) {
        return Err(BundleError::Duplicate(pair[0].path.clone()));
    }
    let Some(first) = paths.first().filter(|_| !files.is_empty()) else {
        return Err(BundleError::Empty(
            paths.first().cloned().unwrap_or_default(),
        ));
    };
    without_manifest(
        stem(&base_name(first)).to_owned(),
        files,
        hashed,
        diagnostics,
    )
}

/// Files as they are. One that cannot be read leaves the bundle; if none can, there is no bundle.
fn without_manifest(
    name: String,
    files: Vec<Found>,
    hashed: u64,
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, BundleError> {
    let files: Vec<ArtifactFile> = files.into_iter().map(unlabeled).collect();
    let hashes = verify::hash_up_to(&files, hashed);
    let (mut readable, mut first) = (Vec::with_capacity(files.len()), None);
    for (mut file, hash) in files.into_iter().zip(hashes) {
        match hash {
            Ok(sha256) => {
                file.sha256 = sha256;
                readable.push(file);
            }
            Err(error) => {
                diagnostics.push(verify::unreadable(&file.path, &error));
                first.get_or_insert(BundleError::Io {
                    path: file.location,
                    error,
                });
            }
        }
    }
    if let Some(error) = first.filter(|_| readable.is_empty()) {
        return Err(error);
    }
    let id = verify::identity(&readable);
    Ok(Bundle {
        name,
        id,
        files: readable,
        ..Bundle::default()
    })
}

fn with_manifest(
    manifest: Manifest,
    manifest_bytes: Vec<u8>,
    found: &[Found],
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, BundleError> {
    let mut by_path: BTreeMap<&str, &Path> = found
        .iter()
        .map(|file| (file.path.as_str(), file.location.as_path()))
        .collect();
    by_path.remove(manifest::FILE_NAME);
    let mut artifacts: Vec<&Artifact> = manifest.artifacts.iter().collect();
    artifacts.sort_by(|a, b| a.path.cmp(&b.path));
    let kinds = manifest
        .passes
        .iter()
        .rev()
        .map(|pass| (pass.id.as_str(), pass.kind))
        .collect();
    for artifact in &artifacts {
        check_path(&artifact.path)?;
    }
    if let Some(pair) = artifacts
        .windows(2)
        .find(|pair| pair[0].path == pair[1].path)
    {
        return Err(BundleError::Duplicate(pair[0].path.clone()));
    }
    let mut files = Vec::new();
    for artifact in &artifacts {
        match by_path.remove(artifact.path.as_str()) {
            Some(location) => files.push(labeled(&kinds, artifact, location)),
            None => diagnostics.push(missing(&artifact.path)),
        }
    }
    for path in by_path.keys() {
        let message = "is not in the manifest and not read";
        let diagnostic = Diagnostic::new(Severity::Notice, "bundle/unlisted-file", message);
        diagnostics.push(diagnostic.artifact(*path));
    }
    let mut bundle = Bundle {
        name: manifest.name.clone(),
        id: verify::sha256(&manifest_bytes),
        manifest: Some(manifest),
        files,
        manifest_bytes,
        ..Bundle::default()
    };
    verify::verify(&mut bundle, diagnostics);
    Ok(bundle)
}

fn missing(path: &str) -> Diagnostic {
    Diagnostic::new(
        Severity::DataLoss,
        "bundle/missing-file",
        "is in the manifest but not there",
    )
    .artifact(path)
}

fn labeled(kinds: &BTreeMap<&str, PassKind>, artifact: &Artifact, location: &Path) -> ArtifactFile {
    let id = artifact
        .pass
        .clone()
        .unwrap_or_else(|| pass_of(&artifact.path));
    ArtifactFile {
        path: artifact.path.clone(),
        location: location.to_owned(),
        kind: Some(artifact.kind),
        pass_kind: kinds.get(id.as_str()).copied(),
        pass: id,
        producer: artifact.producer.clone(),
        rank: artifact.rank,
        sha256: Some(artifact.sha256.clone()),
        inflation: None,
    }
}

fn unlabeled(file: Found) -> ArtifactFile {
    ArtifactFile {
        pass: pass_of(&file.path),
        rank: rank_of(&file.path),
        path: file.path,
        location: file.location,
        ..ArtifactFile::default()
    }
}

/// The pass of a file that no manifest describes: its folder, or its own stem.
fn pass_of(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, _)) => folder.to_owned(),
        None => stem(path).to_owned(),
    }
}

/// The rank that a file's name states: `rank0`, `rank-0`, `rank_0`, `rank.0`.
pub fn rank_of(path: &str) -> Option<u32> {
    let name = path.rsplit('/').next()?.to_ascii_lowercase();
    let (_, rest) = name.rsplit_once("rank")?;
    let digits = rest.strip_prefix(['-', '_', '.']).unwrap_or(rest);
    let end = digits
        .find(|sign: char| !sign.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// A file name without what says how it is packed.
pub fn unpacked_name(name: &str) -> &str {
    let ends = [".zst", ".gz", ".xz", ".bz2"];
    ends.iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

/// A file name without what says how it is packed and of which format it is.
fn stem(name: &str) -> &str {
    let name = unpacked_name(name);
    let name = match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    };
    name.strip_suffix(".pt.trace").unwrap_or(name)
}

/// Refuses what is no regular file: reading a pipe or a device may never end.
fn require_file(path: &Path) -> Result<(), BundleError> {
    let metadata = fs::metadata(path).map_err(BundleError::io(path))?;
    if metadata.is_file() {
        Ok(())
    } else {
        Err(BundleError::NoFile(path.to_owned()))
    }
}

/// The last part of a path, also of `.` and `..`.
fn base_name(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    name(path)
        .or_else(|| name(&fs::canonicalize(path).ok()?))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::rank_of;

    #[test]
    fn ranks_stand_in_names_of_files() {
        for (path, rank) in [
            ("nsys/rank3.sqlite", Some(3)),
            ("report_RANK_12.sqlite.zst", Some(12)),
            ("node1-rank-07.pt.trace.json.gz", Some(7)),
            ("timeline.rank.0.sqlite", Some(0)),
            ("rank2/timeline.sqlite", None),
            ("ranking.csv", None),
            ("rank99999999999.sqlite", None),
        ] {
            assert_eq!(rank_of(path), rank, "{path}");
        }
    }
}
