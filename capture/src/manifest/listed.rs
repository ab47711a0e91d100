//! The files of a bundle with their hashes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rooflens_schemas::manifest::{self, check_path};
use sha2::{Digest, Sha256};

use crate::error::CaptureError;

/// A file of the bundle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Path below the bundle, `/`-separated.
    pub(crate) path: String,
    /// Lower-case hex.
    pub(crate) sha256: String,
    /// Size.
    pub(crate) bytes: u64,
}

/// All files of the bundle but hidden ones and the manifest, sorted by path.
pub(crate) fn list(bundle: &Path) -> Result<Vec<Listed>, CaptureError> {
    let mut paths = Vec::new();
    collect(bundle, "", &mut paths)?;
    paths.sort_unstable();
    paths.into_iter().map(|path| hash(bundle, path)).collect()
}

fn collect(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<(), CaptureError> {
    for entry in fs::read_dir(folder).map_err(CaptureError::io(folder))? {
        let entry = entry.map_err(CaptureError::io(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if name.starts_with('.') || path == manifest::FILE_NAME {
            continue;
        }
        check_path(&path).map_err(|fault| CaptureError::Path(path.clone(), fault))?;
        let kind = entry.file_type().map_err(CaptureError::io(&entry.path()))?;
        if kind.is_dir() {
            collect(&entry.path(), &(path + "/"), paths)?;
        } else if kind.is_file() {
            paths.push(path);
        } else {
            return Err(CaptureError::Special(entry.path()));
        }
    }
    Ok(())
}

fn hash(bundle: &Path, path: String) -> Result<Listed, CaptureError> {
    let location = bundle.join(&path);
    let hash = || -> io::Result<(String, u64)> {
        let mut file = File::open(&location)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        let mut bytes = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => {
                    hash.update(&buffer[..read]);
                    bytes += read as u64;
                }
            }
        }
        let hex = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok((hex, bytes))
    };
    let (sha256, bytes) = hash().map_err(CaptureError::io(&location))?;
    Ok(Listed {
        path,
        sha256,
        bytes,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_by_path_with_their_hashes() {
        let bundle = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("b", "abc"),
            ("a/c", ""),
            (".x", "x"),
            ("manifest.json", "x"),
        ] {
            let path = bundle.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let listed = list(bundle.path()).unwrap();
        let paths: Vec<&str> = listed.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a/c", "b"]);
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((listed[1].sha256.as_str(), listed[1].bytes), (abc, 3));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        let bundle = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", bundle.path().join("a")).unwrap();
        assert!(matches!(list(bundle.path()), Err(CaptureError::Special(_))));
    }

    #[test]
    fn names_that_are_not_portable_are_refused() {
        let bundle = tempfile::tempdir().unwrap();
        fs::write(bundle.path().join("a:b"), "x").unwrap();
        assert!(matches!(list(bundle.path()), Err(CaptureError::Path(..))));
    }
}
