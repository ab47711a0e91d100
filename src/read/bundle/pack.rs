//! A bundle into one file and back: the same bundle gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use rooflens_schemas::{
    Artifact, ArtifactKind, Manifest, Pass, PassKind, Tool, manifest, ncu_report,
};
use tempfile::NamedTempFile;

use super::aside::remember;
use super::content::{Content, Packing};
use super::error::BundleError;
use super::{ArtifactFile, Bundle, EnvironmentDump, archive, verify};

/// How a bundle is packed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackOptions {
    /// Keep the environment variables that nsys recorded, which may hold secrets, what ncu recorded of host and user,
    /// and files that cannot be looked through.
    pub keep_environment: bool,
}

/// The result of packing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Number of files, the manifest included.
    pub files: usize,
    /// Paths of the files that environment variables, or names of host and user, were removed from.
    pub redacted: Vec<String>,
    /// Paths of the files that are not packed, each with the reason.
    pub left_out: Vec<(String, &'static str)>,
}

/// A file to be packed: as it is, or a changed copy.
struct Member<'a> {
    file: &'a ArtifactFile,
    changed: Option<NamedTempFile>,
}

impl Member<'_> {
    fn location(&self) -> &Path {
        self.changed
            .as_ref()
            .map_or(&self.file.location, NamedTempFile::path)
    }
}

/// Packs the bundle into `out`, a `.tar.zst`.
///
/// The manifest stays as it is, byte for byte, and with it the bundle's identity; unless there is none, or
/// files were redacted or skipped. Then a new manifest states the files as they are packed.
pub fn pack(bundle: &Bundle, out: &Path, options: PackOptions) -> Result<Packed, BundleError> {
    let (members, left_out) = members(bundle, options)?;
    if let (true, Some((path, reason))) = (members.is_empty(), left_out.first()) {
        return Err(BundleError::NothingToPack {
            name: bundle.name.clone(),
            path: path.clone(),
            reason,
        });
    }
    let redacted: Vec<String> = members
        .iter()
        .filter(|member| member.changed.is_some())
        .map(|member| member.file.path.clone())
        .collect();
    let manifest = match &bundle.manifest {
        Some(_) if redacted.is_empty() && left_out.is_empty() => bundle.manifest_bytes.clone(),
        Some(manifest) => renewed(manifest, &members)?.to_json().into_bytes(),
        None => written(bundle, &members)?.to_json().into_bytes(),
    };
    write_archive(&manifest, &members, out).map_err(BundleError::io(out))?;
    Ok(Packed {
        files: members.len() + 1,
        redacted,
        left_out,
    })
}

/// Unpacks an archive into a folder that is empty or not there yet: as a whole, or nothing of it. Returns the number
/// of files.
pub fn unpack(path: &Path, folder: &Path) -> Result<usize, BundleError> {
    let content = Content::open(path).map_err(BundleError::archive(path))?;
    if !archive::is_archive(&content).map_err(BundleError::archive(path))? {
        return Err(BundleError::NoArchive(path.to_owned()));
    }
    let is_new = !folder.exists();
    fs::create_dir_all(folder).map_err(BundleError::io(folder))?;
    if fs::read_dir(folder)
        .map_err(BundleError::io(folder))?
        .next()
        .is_some()
    {
        return Err(BundleError::NotEmpty(folder.to_owned()));
    }
    let files = extract_whole(&content, path, folder);
    if files.is_err() && is_new {
        // Only an empty folder remains, and the caller reports the first error.
        let _ = fs::remove_dir(folder);
    }
    files
}

/// Extracts into a folder inside of `folder`, and moves what is there out of it.
fn extract_whole(content: &Content, path: &Path, folder: &Path) -> Result<usize, BundleError> {
    let aside = tempfile::Builder::new()
        .prefix(".rooflens-")
        .tempdir_in(folder);
    let aside = aside.map_err(BundleError::io(folder))?;
    remember(aside.path());
    let files = archive::extract(content, path, aside.path())?;
    for entry in fs::read_dir(aside.path()).map_err(BundleError::io(aside.path()))? {
        let entry = entry.map_err(BundleError::io(aside.path()))?;
        let target = folder.join(entry.file_name());
        fs::rename(entry.path(), &target).map_err(BundleError::io(&target))?;
    }
    Ok(files)
}

/// Packed members, and skipped paths with the reason.
type Members<'a> = (Vec<Member<'a>>, Vec<(String, &'static str)>);

fn members(bundle: &Bundle, options: PackOptions) -> Result<Members<'_>, BundleError> {
    let (mut members, mut left_out) = (Vec::with_capacity(bundle.files.len()), Vec::new());
    for file in &bundle.files {
        if options.keep_environment {
            members.push(Member {
                file,
                changed: None,
            });
        } else if let Some(reason) = unfit(file)? {
            left_out.push((file.path.clone(), reason));
        } else {
            members.push(Member {
                file,
                changed: redacted(file)?,
            });
        }
    }
    Ok((members, left_out))
}

/// Why a file is not packed, if it is not: it may hold secrets, and is of no format that is looked through.
fn unfit(file: &ArtifactFile) -> Result<Option<&'static str>, BundleError> {
    let unreadable = || BundleError::archive(&file.location);
    let packed = packed_head(file).map_err(BundleError::io(&file.location))?;
    if let Some(reason) = unfit_by_look(file, &packed) {
        return Ok(Some(reason));
    }
    let content = file.content().map_err(unreadable())?;
    let head = content.prefix(16).map_err(unreadable())?;
    let is_known = if head.starts_with(SQLITE) {
        let plain = content.plain_file().map_err(unreadable())?;
        let is_export = EnvironmentDump::is_export(&plain.path);
        is_export.map_err(|error| BundleError::redact(file, io::Error::other(error)))?
    } else if file.kind == Some(ArtifactKind::NsysSqlite) {
        return Ok(Some(
            "it may hold the environment of the process: pack the SQLite export",
        ));
    } else {
        // Markdown is what a person wrote to be read, as notes are.
        head.starts_with(ncu_report::MAGIC)
            || file.path.ends_with(".md")
            || file.kind.is_some_and(|kind| kind != ArtifactKind::Other)
    };
    Ok((!is_known).then_some("it is of no known format and may hold anything"))
}

/// The first bytes of a file as it lies there, packed or not.
pub(super) fn packed_head(file: &ArtifactFile) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(&file.location)?
        .take(16)
        .read_to_end(&mut head)?;
    Ok(head)
}

/// The same by name and first bytes alone.
pub(super) fn unfit_by_look(file: &ArtifactFile, head: &[u8]) -> Option<&'static str> {
    let ends = |endings: &[&str]| endings.iter().any(|ending| file.path.ends_with(ending));
    if file.kind == Some(ArtifactKind::NsysReport) || ends(&[".nsys-rep", ".qdrep", ".qdstrm"]) {
        Some("it holds the environment of the process, which cannot be removed from it")
    } else if ends(&["-wal", "-journal", "-shm"]) {
        Some("it is a journal of SQLite: settle it, by opening the database with sqlite3 once")
    } else if [
        b"\xfd7zXZ\0".as_slice(),
        b"BZh",
        b"PK\x03\x04",
        b"7z\xbc\xaf",
    ]
    .iter()
    .any(|magic| head.starts_with(magic))
    {
        Some("it is packed in a way that is not read: unpack it, or pack it with gzip or zstd")
    } else {
        None
    }
}

/// How an SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A copy without what must not be passed on, packed as the original; `None` if the file has nothing of it.
fn redacted(file: &ArtifactFile) -> Result<Option<NamedTempFile>, BundleError> {
    let unreadable = || BundleError::archive(&file.location);
    let content = file.content().map_err(unreadable())?;
    let head = content.prefix(16).map_err(unreadable())?;
    let copy_without = match &*head {
        head if head.starts_with(SQLITE) => without_environment,
        head if head.starts_with(ncu_report::MAGIC) => without_names,
        _ => return Ok(None),
    };
    let plain = content.plain_file().map_err(unreadable())?;
    let copy = copy_without(&plain.path).map_err(|error| BundleError::redact(file, error))?;
    let packed = copy.map(|copy| repacked(copy, content.packing()));
    packed.transpose().map_err(BundleError::io(&file.location))
}

/// A copy of an nsys export without the environment of the process.
fn without_environment(plain: &Path) -> io::Result<Option<NamedTempFile>> {
    let is_clean = EnvironmentDump::find(plain).map_err(io::Error::other)?.rows == 0;
    if is_clean && !EnvironmentDump::leaves_traces(plain)? {
        return Ok(None);
    }
    let copy = NamedTempFile::new()?;
    fs::copy(plain, copy.path())?;
    EnvironmentDump::remove(copy.path()).map_err(io::Error::other)?;
    Ok(Some(copy))
}

/// A copy of an ncu report without the names of host and user and the host's addresses.
fn without_names(plain: &Path) -> io::Result<Option<NamedTempFile>> {
    let mut copy = NamedTempFile::new()?;
    fs::copy(plain, copy.path())?;
    let covered = ncu_report::cover(copy.as_file_mut())?;
    Ok((covered > 0).then_some(copy))
}

fn repacked(plain: NamedTempFile, packing: Packing) -> io::Result<NamedTempFile> {
    let packed = NamedTempFile::new()?;
    let mut bytes = File::open(plain.path())?;
    match packing {
        Packing::Plain => return Ok(plain),
        Packing::Zstd => zstd::stream::copy_encode(&mut bytes, packed.as_file(), LEVEL)?,
        Packing::Gzip => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(packed.as_file(), level);
            io::copy(&mut bytes, &mut encoder)?;
            encoder.finish()?;
        }
        Packing::Xz | Packing::Bzip2 => {
            return Err(io::Error::other(
                "it is packed as xz or bzip2: unpack it first",
            ));
        }
    }
    Ok(packed)
}

/// Level of zstd: artifacts are often packed already, so more costs time for little.
const LEVEL: i32 = 9;

/// The manifest with the hashes of changed files, and without the skipped files.
fn renewed(manifest: &Manifest, members: &[Member<'_>]) -> Result<Manifest, BundleError> {
    let mut manifest = manifest.clone();
    let packed: BTreeSet<&str> = members
        .iter()
        .map(|member| member.file.path.as_str())
        .collect();
    manifest
        .artifacts
        .retain(|artifact| packed.contains(artifact.path.as_str()));
    for member in members.iter().filter(|member| member.changed.is_some()) {
        let now =
            verify::hash_file(member.location()).map_err(BundleError::io(member.location()))?;
        for artifact in &mut manifest.artifacts {
            if artifact.path == member.file.path {
                artifact.sha256.clone_from(&now.sha256);
                artifact.bytes = now.bytes;
            }
        }
    }
    Ok(manifest)
}

/// A manifest for files that came without: kinds and passes as far as they are known.
fn written(bundle: &Bundle, members: &[Member<'_>]) -> Result<Manifest, BundleError> {
    let mut artifacts = Vec::with_capacity(members.len());
    let mut passes = BTreeMap::<String, PassKind>::new();
    for member in members {
        let file = member.file;
        let now =
            verify::hash_file(member.location()).map_err(BundleError::io(member.location()))?;
        let kind = file.kind.unwrap_or(ArtifactKind::Other);
        let pass_kind = file.pass_kind.or_else(|| kind.pass_kind());
        if let Some(pass_kind) = pass_kind {
            passes.entry(file.pass.clone()).or_insert(pass_kind);
        }
        artifacts.push(Artifact {
            path: file.path.clone(),
            kind,
            pass: pass_kind.map(|_| file.pass.clone()),
            producer: file.producer.clone(),
            rank: file.rank,
            sha256: now.sha256,
            bytes: now.bytes,
        });
    }
    let pass = |(id, kind)| Pass {
        id,
        kind,
        ..Pass::default()
    };
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    Ok(Manifest {
        version: manifest::VERSION,
        name: bundle.name.clone(),
        captured_at: None,
        tool: Tool {
            name: "rooflens".to_owned(),
            version,
        },
        passes: passes.into_iter().map(pass).collect(),
        artifacts,
        labels: BTreeMap::new(),
    })
}

/// Writes a temporary file in the folder of `out` and renames it, so that `out` is never partial.
fn write_archive(manifest: &[u8], members: &[Member<'_>], out: &Path) -> io::Result<()> {
    let temporary = file_next_to(out)?;
    remember(temporary.path());
    let encoder = zstd::Encoder::new(temporary.as_file(), LEVEL)?;
    let mut tar = tar::Builder::new(encoder);
    let before_manifest =
        members.partition_point(|member| member.file.path.as_str() < manifest::FILE_NAME);
    for member in &members[..before_manifest] {
        append_file(&mut tar, member)?;
    }
    append(
        &mut tar,
        manifest::FILE_NAME,
        manifest.len() as u64,
        manifest,
    )?;
    for member in &members[before_manifest..] {
        append_file(&mut tar, member)?;
    }
    tar.into_inner()?.finish()?.sync_all()?;
    temporary.persist(out)?;
    Ok(())
}

/// A temporary file in the folder of `out`, with the permissions of any new file.
fn file_next_to(out: &Path) -> io::Result<NamedTempFile> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

fn append_file(tar: &mut tar::Builder<impl Write>, member: &Member<'_>) -> io::Result<()> {
    let file = File::open(member.location())?;
    append(tar, &member.file.path, file.metadata()?.len(), file)
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    bytes: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    tar.append_data(&mut header, path, content.take(bytes))
}
