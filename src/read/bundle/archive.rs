//! Archives: a tar, plain or packed, or a zip, into a folder; refused as a whole when anything in it is hostile.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rooflens_schemas::manifest::PathFault;
use tar::{EntryType, Header, PaxExtensions};

use super::content::{Content, ContentError};
use super::error::{BundleError, check_path};
use super::walk::{MAX_DEPTH, MAX_FILES};
use super::zip;

/// Bytes of a header extension (a long name, say) beyond which it is refused.
const MAX_EXTENSION: u64 = 64 << 10;

/// True if the file is a tar, plain or packed, or a zip.
pub(super) fn is_archive(content: &Content) -> Result<bool, ContentError> {
    let prefix = content.prefix(512)?;
    Ok(prefix.get(257..262) == Some(b"ustar") || zip::is_zip(content, &prefix))
}

/// Unpacks the archive into the folder, which must be there and be empty. Returns the number of files.
pub(super) fn extract(
    content: &Content,
    archive: &Path,
    folder: &Path,
) -> Result<usize, BundleError> {
    if zip::is_zip(
        content,
        &content.prefix(4).map_err(BundleError::archive(archive))?,
    ) {
        return extract_zip(content, archive, folder);
    }
    let reader = content.reader().map_err(BundleError::archive(archive))?;
    let mut tar = tar::Archive::new(reader);
    let entries = tar.entries().map_err(BundleError::archive(archive))?;
    let mut names = Names::default();
    let mut taken = BTreeSet::new();
    // Raw: the library would read a header extension of any size into memory.
    for (count, entry) in entries.raw(true).enumerate() {
        if count >= MAX_FILES {
            return Err(BundleError::TooMany {
                limit: MAX_FILES,
                what: "entries",
            });
        }
        let mut entry = entry.map_err(BundleError::archive(archive))?;
        let kind = entry.header().entry_type();
        if names
            .take_extension(kind, &mut entry)
            .map_err(BundleError::archive(archive))?
        {
            continue;
        }
        let Some(path) = names.path_of(entry.header())? else {
            continue;
        };
        refuse_special(&path, kind)?;
        if !kind.is_file() {
            continue;
        }
        if !taken.insert(path.clone()) {
            return Err(BundleError::Duplicate(path));
        }
        content
            .take_member()
            .map_err(BundleError::archive(archive))?;
        write(&folder.join(&path), &mut entry).map_err(BundleError::archive(archive))?;
    }
    Ok(taken.len())
}

/// The same of a zip.
fn extract_zip(content: &Content, archive: &Path, folder: &Path) -> Result<usize, BundleError> {
    let mut file = content.file().map_err(BundleError::archive(archive))?;
    let entries = zip::entries(&mut file).map_err(BundleError::archive(archive))?;
    let mut taken = BTreeSet::new();
    for entry in &entries {
        let Some(path) = path_of(entry.name.clone(), entry.is_folder())? else {
            continue;
        };
        if let Some(what) = entry.fault() {
            return Err(BundleError::Entry { path, what });
        }
        if entry.is_folder() {
            continue;
        }
        if !taken.insert(path.clone()) {
            return Err(BundleError::Duplicate(path));
        }
        content
            .take_member()
            .map_err(BundleError::archive(archive))?;
        let reader = zip::open(&mut file, entry).map_err(BundleError::archive(archive))?;
        let mut member = zip::Checked::new(content.member(reader), entry);
        write(&folder.join(&path), &mut member)
            .and_then(|()| member.check())
            .map_err(BundleError::archive(archive))?;
    }
    Ok(taken.len())
}

/// Names that do not fit into a header come in an entry before it.
#[derive(Default)]
struct Names {
    long: Option<Vec<u8>>,
}

impl Names {
    /// True if the entry is such an extension; keeps the name that it holds.
    fn take_extension(&mut self, kind: EntryType, entry: &mut impl Read) -> io::Result<bool> {
        let is_name = kind.is_gnu_longname();
        let is_pax = kind.is_pax_local_extensions();
        if !is_name && !is_pax {
            return Ok(kind.is_pax_global_extensions());
        }
        let mut bytes = Vec::new();
        entry.take(MAX_EXTENSION + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_EXTENSION {
            return Err(io::Error::other("a header extension is too long"));
        }
        if is_name {
            let end = bytes
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(bytes.len());
            bytes.truncate(end);
            self.long = Some(bytes);
        } else if let Some(path) = pax_path(&bytes)? {
            self.long = Some(path);
        }
        Ok(true)
    }

    /// The path of a file or folder, without `./`; `None` for the root itself.
    fn path_of(&mut self, header: &Header) -> Result<Option<String>, BundleError> {
        let bytes = self
            .long
            .take()
            .unwrap_or_else(|| header.path_bytes().into_owned());
        path_of(bytes, header.entry_type().is_dir())
    }
}

/// The path of an entry, without `./`; `None` for the root itself.
fn path_of(bytes: Vec<u8>, is_folder: bool) -> Result<Option<String>, BundleError> {
    let path = String::from_utf8(bytes).map_err(|error| BundleError::Path {
        path: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        fault: PathFault::Encoding,
    })?;
    let short = path.strip_prefix("./").unwrap_or(&path);
    let short = short.strip_suffix('/').unwrap_or(short);
    if matches!(short, "" | ".") && is_folder {
        return Ok(None);
    }
    check_path(short)?;
    if short.split('/').count() > MAX_DEPTH + 1 {
        return Err(BundleError::TooMany {
            limit: MAX_DEPTH,
            what: "folders in folders",
        });
    }
    Ok(Some(short.to_owned()))
}

/// The path of a pax header. One that changes an entry's size is refused: nothing as large belongs here.
fn pax_path(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut path = None;
    for extension in PaxExtensions::new(bytes) {
        let extension = extension?;
        match extension.key_bytes() {
            b"path" => path = Some(extension.value_bytes().to_vec()),
            b"size" | b"GNU.sparse.size" | b"GNU.sparse.realsize" => {
                return Err(io::Error::other("an entry states its size twice"));
            }
            _ => {}
        }
    }
    Ok(path)
}

fn refuse_special(path: &str, kind: EntryType) -> Result<(), BundleError> {
    let special = match kind {
        EntryType::Regular | EntryType::Directory => return Ok(()),
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "of an unknown kind",
    };
    Err(BundleError::Entry {
        path: path.to_owned(),
        what: special,
    })
}

fn write(path: &Path, entry: &mut impl Read) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // A path may be taken on a file system that ignores case.
    let mut file = File::create_new(path)?;
    io::copy(entry, &mut file)?;
    Ok(())
}
