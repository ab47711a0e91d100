//! Files of outputs: written aside, and put in their places when all of them are there, so that a full disk leaves
//! what was there before.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rooflens_schemas::manifest::{FILE_NAME, check_path};
use tempfile::TempDir;

use super::error::CliError;
use super::scratch::{lock, remove_stale};
use crate::bundle::REPORT_MARK;
use crate::bundle::aside::remember;

/// What the names of folders begin with in which files lie aside.
const ASIDE: &str = ".rooflens-";

/// File that says that a report is being written into its folder; it stays where that did not come to its end.
const INCOMPLETE: &str = "INCOMPLETE.txt";

const INCOMPLETE_TEXT: &str = "Rooflens was ended while it wrote a report here: files of two reports may lie next to each other.\n\
     Write the report again.\n";

/// Writes one file, and the folder that it lies in.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let mut staged = Staged::new(folder.unwrap_or(Path::new(".")), None, false)?;
    staged.add(&name.unwrap_or_default(), bytes)?;
    staged.commit()
}

/// Files of one output that lie aside.
pub(super) struct Staged {
    /// Folder that their paths are relative to.
    root: PathBuf,
    /// The folder below it whose files are this output's alone, and which is marked so; none for a single file.
    folder: Option<PathBuf>,
    aside: Option<TempDir>,
    files: BTreeSet<String>,
    /// The root was not there before.
    is_new: bool,
    /// Locked for as long as files lie aside.
    _lock: Option<File>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        drop(self.aside.take());
        if self.is_new {
            // Empty if the files did not get to their places.
            let _ = fs::remove_dir(&self.root);
        }
    }
}

impl Staged {
    /// An output into `root`, of which `folder` is to hold this output alone.
    ///
    /// # Errors
    /// When `folder` holds files of others and is not to be used by `force`, or `root` cannot be written.
    pub(super) fn new(root: &Path, folder: Option<&str>, force: bool) -> Result<Self, CliError> {
        let folder = match folder {
            None => None,
            Some("") => Some(root.to_owned()),
            Some(name) => Some(root.join(name)),
        };
        if let Some(folder) = &folder {
            refuse_foreign(folder, force)?;
        }
        let is_new = !root.exists();
        fs::create_dir_all(root).map_err(failed(root))?;
        let aside = tempfile::Builder::new()
            .prefix(ASIDE)
            .tempdir_in(root)
            .map_err(failed(root))?;
        remember(aside.path());
        let lock = lock(aside.path()).ok();
        remove_stale(root, aside.path());
        let (root, aside) = (root.to_owned(), Some(aside));
        Ok(Self {
            root,
            folder,
            aside,
            files: BTreeSet::new(),
            is_new,
            _lock: lock,
        })
    }

    /// Where a file lies as long as it is not in its place.
    fn aside(&self, path: &str) -> PathBuf {
        self.aside
            .as_ref()
            .map_or_else(PathBuf::new, |aside| aside.path().join(path))
    }

    /// Writes a file aside; `path` is relative to the root.
    pub(super) fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), CliError> {
        let mut file = self.create(path)?;
        file.write_all(bytes).map_err(failed(&self.root.join(path)))
    }

    /// An empty file aside; `path` is relative to the root.
    pub(super) fn create(&mut self, path: &str) -> Result<File, CliError> {
        let (aside, target) = (self.aside(path), self.root.join(path));
        if let Some(folder) = aside.parent() {
            fs::create_dir_all(folder).map_err(failed(&target))?;
        }
        let file = File::create(aside).map_err(failed(&target))?;
        self.files.insert(path.to_owned());
        Ok(file)
    }

    /// Where the files are to go.
    pub(super) fn targets(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|path| self.root.join(path))
    }

    /// Puts all files in their places, and takes away those that the output before left in the folder. A folder whose
    /// files are of two reports meanwhile is marked.
    pub(super) fn commit(self) -> Result<(), CliError> {
        self.files
            .par_iter()
            .try_for_each(|path| sync(&self.aside(path)))?;
        let before = self.folder.as_deref().map(marked).unwrap_or_default();
        let list = self.files_of_folder();
        let folder = self.folder.as_deref().filter(|_| !list.is_empty());
        if let Some(folder) = folder {
            let mut both: BTreeSet<String> = before.union(&list).cloned().collect();
            both.insert(INCOMPLETE.to_owned());
            fs::create_dir_all(folder).map_err(failed(folder))?;
            self.put(folder, REPORT_MARK, &lines(&both))?;
            self.put(folder, INCOMPLETE, INCOMPLETE_TEXT)?;
        }
        for path in &self.files {
            let target = self.root.join(path);
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder).map_err(failed(folder))?;
            }
            fs::rename(self.aside(path), &target).map_err(failed(&target))?;
        }
        if let Some(folder) = &self.folder {
            for path in before.difference(&list) {
                remove(folder, path);
            }
            if list.is_empty() && !before.is_empty() {
                remove(folder, REPORT_MARK);
            }
        }
        if let Some(folder) = folder {
            sync(folder)?;
            remove(folder, INCOMPLETE);
            self.put(folder, REPORT_MARK, &lines(&list))?;
        }
        Ok(())
    }

    /// Writes a small file of the folder at once.
    fn put(&self, folder: &Path, name: &str, text: &str) -> Result<(), CliError> {
        let (aside, target) = (self.aside(name), folder.join(name));
        fs::write(&aside, text).map_err(failed(&target))?;
        sync(&aside)?;
        fs::rename(&aside, &target).map_err(failed(&target))?;
        sync(folder)
    }

    /// Paths of files below the folder.
    fn files_of_folder(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let Some(folder) = &self.folder else {
            return files;
        };
        for file in &self.files {
            if let Ok(path) = self.root.join(file).strip_prefix(folder) {
                files.insert(path.to_string_lossy().replace('\\', "/"));
            }
        }
        files
    }
}

/// Refuses a folder that holds files of others, unless it is to be used by `force`.
pub(super) fn refuse_foreign(folder: &Path, force: bool) -> Result<(), CliError> {
    let shown = folder.display();
    if folder.join(FILE_NAME).is_file() {
        return Err(CliError::Usage(format!(
            "{shown} is a bundle; give another folder"
        )));
    }
    if !force && is_foreign(folder) {
        return Err(CliError::Usage(format!(
            "{shown} holds files that are no report of rooflens; give another folder, or --force to write among them"
        )));
    }
    Ok(())
}

/// Whether the folder holds files, and none that says they are a report's.
fn is_foreign(folder: &Path) -> bool {
    if !folder.exists() || folder.join(REPORT_MARK).is_file() {
        return false;
    }
    let of_others =
        |name: std::ffi::OsString| !name.as_encoded_bytes().starts_with(ASIDE.as_bytes());
    fs::read_dir(folder).map_or(true, |entries| {
        entries.flatten().any(|entry| of_others(entry.file_name()))
    })
}

fn lines(paths: &BTreeSet<String>) -> String {
    paths.iter().map(|path| format!("{path}\n")).collect()
}

/// Brings a file, or the names of a folder, to the disk.
fn sync(path: &Path) -> Result<(), CliError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    // Some systems do not open folders.
    match synced {
        Err(_) if path.is_dir() => Ok(()),
        synced => synced.map_err(failed(path)),
    }
}

/// The files that the mark of a folder lists; a mark that was made by others leads to no file outside of the folder.
fn marked(folder: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(folder.join(REPORT_MARK)).unwrap_or_default();
    text.lines()
        .filter(|path| check_path(path).is_ok())
        .map(str::to_owned)
        .collect()
}

/// Removes a file of a former report, and the folders that it leaves empty.
fn remove(folder: &Path, path: &str) {
    // A file that is gone already, or a folder that holds others, is as it should be.
    let _ = fs::remove_file(folder.join(path));
    let parents = Path::new(path).ancestors().skip(1);
    for parent in parents {
        if fs::remove_dir(folder.join(parent)).is_err() {
            break;
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CliError {
    let path = path.to_owned();
    move |error| CliError::Write { path, error }
}
