//! The files of a folder, in a fixed order, and none outside it.

use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use super::error::BundleError;
use super::verify::unreadable;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};

/// Files beyond which a folder or an archive is refused.
pub const MAX_FILES: usize = 10_000;

/// Folders in folders beyond which a tree is refused.
pub const MAX_DEPTH: usize = 16;

/// Name of the file that a report leaves in its folder: the list of its files, one a line. Such a folder is no input.
pub const REPORT_MARK: &str = ".rooflens-files";

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// Path below the folder, `/`-separated.
    pub(super) path: String,
    /// Where it is.
    pub(super) location: PathBuf,
}

/// All files under `root`, sorted by path. Hidden files are skipped silently, links with a diagnostic:
/// they may lead out of the folder.
pub(super) fn walk(root: &Path, diagnostics: &mut Diagnostics) -> Result<Vec<Found>, BundleError> {
    let mut files = Vec::new();
    let mut seen = 0;
    let mut folders = vec![(root.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        if depth > MAX_DEPTH {
            return Err(BundleError::TooMany {
                limit: MAX_DEPTH,
                what: "folders in folders",
            });
        }
        let entries = match fs::read_dir(&folder) {
            // What a report wrote there says nothing of the run.
            Ok(_) if depth > 0 && folder.join(REPORT_MARK).is_file() => continue,
            Ok(entries) => entries,
            Err(error) if depth > 0 => {
                diagnostics.push(unreadable(prefix.trim_end_matches('/'), &error));
                continue;
            }
            Err(error) => {
                return Err(BundleError::Io {
                    path: folder,
                    error,
                });
            }
        };
        for entry in entries {
            let entry = entry.map_err(BundleError::io(&folder))?;
            seen += 1;
            if seen > MAX_FILES {
                return Err(BundleError::TooMany {
                    limit: MAX_FILES,
                    what: "files",
                });
            }
            let kind = entry.file_type().map_err(BundleError::io(&entry.path()))?;
            let Some(path) = path_in_bundle(&prefix, &entry.file_name(), kind, diagnostics) else {
                continue;
            };
            if kind.is_dir() {
                folders.push((entry.path(), path + "/", depth + 1));
            } else {
                files.push(Found {
                    path,
                    location: entry.path(),
                });
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The path of an entry, if it is one that is read.
fn path_in_bundle(
    prefix: &str,
    name: &std::ffi::OsStr,
    kind: FileType,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let lossy = name.to_string_lossy();
    if lossy.starts_with('.') {
        return None;
    }
    let skipped = |why: &str| {
        let message = format!("is {why} and not read");
        Diagnostic::new(Severity::Notice, "bundle/skipped", message)
            .artifact(format!("{prefix}{lossy}"))
    };
    if kind.is_symlink() {
        diagnostics.push(skipped("a link"));
    } else if !kind.is_dir() && !kind.is_file() {
        diagnostics.push(skipped("no regular file"));
    } else if name.to_str().is_none() {
        diagnostics.push(skipped("a name that is not UTF-8"));
    } else {
        return Some(format!("{prefix}{lossy}"));
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    #[test]
    fn files_come_sorted_by_path_without_hidden_ones() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "b.csv",
            "a/z.json",
            "a/b/c.txt",
            ".git/config",
            "a/._z.json",
            "A.txt",
        ] {
            touch(&root.path().join(path));
        }
        let mut diagnostics = Diagnostics::default();
        let files = walk(root.path(), &mut diagnostics).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["A.txt", "a/b/c.txt", "a/z.json", "b.csv"]);
        assert_eq!(diagnostics.iter().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        touch(&root.path().join("a.txt"));
        std::os::unix::fs::symlink("/etc", root.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("a.txt", root.path().join("b.txt")).unwrap();
        let mut diagnostics = Diagnostics::default();
        let files = walk(root.path(), &mut diagnostics).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(diagnostics.iter().count(), 2);
        assert!(diagnostics.iter().all(|d| d.code == "bundle/skipped"));
    }

    #[test]
    fn a_bottomless_tree_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let deep: PathBuf = (0..=MAX_DEPTH).map(|_| "d").collect();
        touch(&root.path().join(deep).join("x"));
        let error = walk(root.path(), &mut Diagnostics::default()).unwrap_err();
        assert!(
            matches!(
                error,
                BundleError::TooMany {
                    limit: MAX_DEPTH,
                    ..
                }
            ),
            "{error}"
        );
    }
}
