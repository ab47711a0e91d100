//! Hashes: what the manifest states against what is there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rayon::prelude::*;
use rooflens_schemas::Artifact;
use sha2::{Digest, Sha256};

use super::open::size;
use super::{ArtifactFile, Bundle};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};

/// Hash and size of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) sha256: String,
    pub(super) bytes: u64,
}

/// Lower-case hex of the SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Hash and size of the file as it lies there.
pub(super) fn hash_file(path: &Path) -> io::Result<Checked> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => {
                return Ok(Checked {
                    sha256: hex(&hash.finalize()),
                    bytes,
                });
            }
            Ok(read) => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Hashes and sizes of all files, in their order.
pub(super) fn hash_all(files: &[ArtifactFile]) -> Vec<io::Result<Checked>> {
    files
        .par_iter()
        .map(|file| hash_file(&file.location))
        .collect()
}

/// Hashes of all files, in their order; none of files of more bytes.
pub(super) fn hash_up_to(files: &[ArtifactFile], bytes: u64) -> Vec<io::Result<Option<String>>> {
    let of_file = |file: &ArtifactFile| {
        if size(&file.location) > bytes {
            return Ok(None);
        }
        Ok(Some(hash_file(&file.location)?.sha256))
    };
    files.par_iter().map(of_file).collect()
}

/// The identity of files without a manifest: SHA-256 over their paths and hashes, in order of path; of a file without a
/// hash its size.
pub(super) fn identity(files: &[ArtifactFile]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(file.path.as_bytes());
        hash.update([0]);
        match &file.sha256 {
            Some(sha256) => hash.update(sha256),
            None => hash.update(size(&file.location).to_string()),
        }
        hash.update([b'\n']);
    }
    hex(&hash.finalize())
}

/// Compares every file with what the manifest states of it. A file that differs stays in the bundle, with
/// the hash that it has; one that cannot be read leaves it.
pub(super) fn verify(bundle: &mut Bundle, diagnostics: &mut Diagnostics) {
    let Some(manifest) = &bundle.manifest else {
        return;
    };
    let hashes = hash_all(&bundle.files);
    let artifacts: BTreeMap<&str, &Artifact> = manifest
        .artifacts
        .iter()
        .map(|artifact| (artifact.path.as_str(), artifact))
        .collect();
    let mut kept = Vec::with_capacity(bundle.files.len());
    for (mut file, checked) in bundle.files.drain(..).zip(hashes) {
        let stated = artifacts.get(file.path.as_str());
        let (Some(stated), Ok(checked)) = (stated, &checked) else {
            let error = checked
                .err()
                .unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound));
            diagnostics.push(unreadable(&file.path, &error));
            continue;
        };
        if let Some(difference) = difference(&stated.sha256, stated.bytes, checked) {
            let changed = Diagnostic::new(Severity::DataLoss, "bundle/hash-mismatch", difference);
            let advice = "the file was changed or cut after the capture: copy the bundle again";
            diagnostics.push(changed.artifact(&file.path).hint(advice));
        }
        file.sha256 = Some(checked.sha256.clone());
        kept.push(file);
    }
    bundle.files = kept;
}

/// The diagnostic of a file that cannot be read.
pub(super) fn unreadable(path: &str, error: &io::Error) -> Diagnostic {
    let message = format!("cannot be read: {error}");
    Diagnostic::new(Severity::Error, "bundle/unreadable", message).artifact(path)
}

fn difference(sha256: &str, bytes: u64, checked: &Checked) -> Option<String> {
    if bytes != checked.bytes {
        Some(format!(
            "has {} bytes, the manifest states {bytes}",
            checked.bytes
        ))
    } else if !sha256.eq_ignore_ascii_case(&checked.sha256) {
        Some("its bytes are not those that the manifest states".to_owned())
    } else {
        None
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1: the SHA-256 of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn hashes_are_sha256_in_lower_case_hex() {
        assert_eq!(sha256(b"abc"), ABC);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let expected = Checked {
            sha256: ABC.to_owned(),
            bytes: 3,
        };
        assert_eq!(hash_file(file.path()).unwrap(), expected);
    }

    #[test]
    fn large_files_are_known_by_their_size_where_they_are_not_hashed() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["ab", "abc"].map(|content| {
            let location = folder.path().join(content);
            std::fs::write(&location, content).unwrap();
            ArtifactFile {
                path: "file".to_owned(),
                location,
                ..ArtifactFile::default()
            }
        });
        let hashes = hash_up_to(&files, 2).into_iter().map(Result::unwrap);
        let hashes: Vec<Option<String>> = hashes.collect();
        assert_eq!(hashes, [Some(sha256(b"ab")), None]);
        let of_sizes = files.map(|file| identity(&[file]));
        assert_ne!(of_sizes[0], of_sizes[1]);
    }

    #[test]
    fn a_file_differs_by_size_or_by_hash() {
        let checked = Checked {
            sha256: ABC.to_owned(),
            bytes: 3,
        };
        assert_eq!(difference(ABC, 3, &checked), None);
        assert_eq!(difference(&ABC.to_uppercase(), 3, &checked), None);
        assert!(
            difference(ABC, 4, &checked)
                .unwrap()
                .contains("has 3 bytes")
        );
        assert!(difference("00", 3, &checked).is_some());
    }
}
