//! A folder with the results of many captures.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use polars_core::prelude::DataFrame;
use tempfile::TempDir;

use super::LakeError;
use super::files::{check, read};
use super::results::{FOLDER, Files, is_hash};
use super::schema::{Column, KEY, TABLES, Table};

/// Folder of files that no reader sees.
const STAGING: &str = "_staging";

/// File that writers and readers lock together, and compaction alone.
const LOCK: &str = "_lock";

/// What the name of a month's folder begins with: engines read it as a column.
const MONTH: &str = "month=";

/// What the name of a folder of many captures begins with.
pub(crate) const COMPACT: &str = "compact-";

/// The table that has a row for each capture of a folder.
const CAPTURES: &str = "captures";

/// A folder with the results of many captures. Locked while it is open, so that compaction waits for it.
pub struct Lake {
    root: PathBuf,
    _lock: File,
}

/// What became of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// They are in the lake now.
    New,
    /// They were there.
    Known,
}

/// Results that lie in the lake and are not seen yet.
pub struct Staged {
    folder: TempDir,
    capture: String,
    month: String,
}

/// A folder with tables: of one capture or of many.
pub(crate) struct Batch {
    /// `month=2026-11`.
    pub(crate) month: String,
    /// Name of the folder.
    pub(crate) name: String,
    /// The folder.
    pub(crate) path: PathBuf,
}

impl Batch {
    /// The file of a table, which is not there if the table has no rows.
    pub(crate) fn file(&self, table: &Table) -> PathBuf {
        self.path.join(format!("{}.parquet", table.name))
    }
}

impl Lake {
    /// Opens a lake, and makes it if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made or locked.
    pub fn create(root: &Path) -> Result<Self, LakeError> {
        let staging = root.join(STAGING);
        fs::create_dir_all(&staging).map_err(LakeError::io(&staging))?;
        let path = root.join(LOCK);
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).open(&path);
        drop(lock.map_err(LakeError::io(&path))?);
        Self::open(root)
    }

    /// Opens a lake that is there.
    ///
    /// # Errors
    /// There is none, or it cannot be locked.
    pub fn open(root: &Path) -> Result<Self, LakeError> {
        let lock = lock_file(root)?;
        lock.lock_shared().map_err(LakeError::io(root))?;
        let root = root.to_owned();
        Ok(Self { root, _lock: lock })
    }

    /// Opens a lake alone.
    pub(crate) fn open_alone(root: &Path) -> Result<Self, LakeError> {
        let (lock, path) = (lock_file(root)?, root.to_owned());
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                root: path,
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(LakeError::Busy { path }),
            Err(TryLockError::Error(error)) => Err(LakeError::Io { path, error }),
        }
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of files that no reader sees.
    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join(STAGING)
    }

    /// The captures that are there.
    ///
    /// # Errors
    /// A folder or the list of captures of a compacted one cannot be read: a capture could be added twice.
    pub fn captures(&self) -> Result<BTreeSet<String>, LakeError> {
        let mut captures = BTreeSet::new();
        for batch in self.batches()? {
            if batch.name.starts_with(COMPACT) {
                let path = batch.path.join(format!("{CAPTURES}.parquet"));
                let frame = read(&path, &[&KEY[0]])?;
                captures.extend(texts(&frame, KEY[0].name));
            } else {
                captures.insert(batch.name);
            }
        }
        Ok(captures)
    }

    /// The folders with tables, by month and name.
    pub(crate) fn batches(&self) -> Result<Vec<Batch>, LakeError> {
        let mut batches = Vec::new();
        for month in names(&self.root)? {
            if !month.starts_with(MONTH) {
                continue;
            }
            let folder = self.root.join(&month);
            for name in names(&folder)? {
                let path = folder.join(&name);
                if is_hash(name.strip_prefix(COMPACT).unwrap_or(&name)) {
                    let month = month.clone();
                    batches.push(Batch { month, name, path });
                }
            }
        }
        Ok(batches)
    }

    /// Puts results of a report aside, to be published.
    ///
    /// # Errors
    /// They cannot be written, or hold no capture.
    pub fn stage(&self, files: &Files) -> Result<Staged, LakeError> {
        let folder = self.aside()?;
        for (path, bytes) in files {
            let name = path.rsplit('/').next().unwrap_or(path);
            let target = folder.path().join(name);
            fs::write(&target, bytes).map_err(LakeError::io(&target))?;
        }
        let (capture, month) = identity(folder.path())?;
        Ok(Staged {
            folder,
            capture,
            month,
        })
    }

    /// Puts a folder of results aside, to be published; none if its capture is known.
    ///
    /// # Errors
    /// A file is damaged or cannot be copied.
    pub fn stage_folder(
        &self,
        folder: &Path,
        known: &BTreeSet<String>,
    ) -> Result<Option<Staged>, LakeError> {
        let (capture, month) = identity(folder)?;
        if known.contains(&capture) {
            return Ok(None);
        }
        let aside = self.aside()?;
        for table in TABLES {
            let name = format!("{}.parquet", table.name);
            let source = folder.join(&name);
            if !source.is_file() {
                continue;
            }
            let target = aside.path().join(name);
            fs::copy(&source, &target).map_err(LakeError::io(&source))?;
            check(&target)?;
        }
        Ok(Some(Staged {
            folder: aside,
            capture,
            month,
        }))
    }

    fn aside(&self) -> Result<TempDir, LakeError> {
        let staging = self.staging();
        TempDir::with_prefix_in("add-", &staging).map_err(LakeError::io(&staging))
    }

    /// Makes results visible, each capture by one rename, after all of their bytes are on the disk.
    ///
    /// # Errors
    /// The disk does not take them; those before the failure are visible.
    pub fn publish(&self, all: Vec<Staged>) -> Result<Vec<Added>, LakeError> {
        flush(&self.root, &all)?;
        let mut outcomes = Vec::new();
        let mut months = BTreeSet::new();
        for staged in all {
            let month = self.root.join(format!("{MONTH}{}", staged.month));
            fs::create_dir_all(&month).map_err(LakeError::io(&month))?;
            let target = month.join(&staged.capture);
            // A folder cannot be renamed to one that has files: of two writers, the second fails here.
            let outcome = match fs::rename(staged.folder.path(), &target) {
                Ok(()) => Added::New,
                Err(error) if is_there(&error) => Added::Known,
                Err(error) => return Err(LakeError::io(&target)(error)),
            };
            outcomes.push(outcome);
            months.insert(month);
        }
        for month in months {
            sync(&month)?;
        }
        sync(&self.root)?;
        Ok(outcomes)
    }
}

/// The file that is locked, which each lake has.
fn lock_file(root: &Path) -> Result<File, LakeError> {
    let path = root.join(LOCK);
    File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LakeError::Missing {
            path: root.to_owned(),
        },
        _ => LakeError::io(&path)(error),
    })
}

/// The folder of results that a path leads to: it, or the one below a report. None if there is none.
pub fn results_folder(path: &Path) -> Option<PathBuf> {
    let has_captures = |folder: &PathBuf| folder.join(format!("{CAPTURES}.parquet")).is_file();
    let folders = [path.to_owned(), path.join(FOLDER)];
    folders.into_iter().find(has_captures)
}

/// Capture and month of a folder of results.
fn identity(folder: &Path) -> Result<(String, String), LakeError> {
    let path = folder.join(format!("{CAPTURES}.parquet"));
    let columns: Vec<&Column> = KEY
        .iter()
        .filter(|one| matches!(one.name, "capture" | "time"))
        .collect();
    let frame = read(&path, &columns)?;
    let mut captures = texts(&frame, "capture");
    let capture = match (captures.pop(), &captures[..]) {
        (Some(capture), []) if is_hash(&capture) => capture,
        _ => return Err(LakeError::damaged(&path, "does not name one capture")),
    };
    let time = texts(&frame, "time").pop().unwrap_or_default();
    Ok((capture, month(&time).unwrap_or("unknown").to_owned()))
}

/// `2026-11` of `2026-11-21T01:06:27Z`.
fn month(time: &str) -> Option<&str> {
    let month = time.get(..7)?;
    let is_like = |(place, byte): (usize, u8)| match place {
        4 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    month.bytes().enumerate().all(is_like).then_some(month)
}

/// The texts of a column.
pub(crate) fn texts(frame: &DataFrame, column: &str) -> Vec<String> {
    let column = frame.column(column).ok();
    let texts = column.and_then(|column| column.str().ok());
    let texts = texts.into_iter().flat_map(|texts| texts.iter().flatten());
    texts.map(str::to_owned).collect()
}

/// The names in a folder, sorted; those that are not UTF-8 are none of a lake.
fn names(folder: &Path) -> Result<Vec<String>, LakeError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(LakeError::io(folder))? {
        let entry = entry.map_err(LakeError::io(folder))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

fn is_there(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty)
}

/// Writes the bytes of files to the disk: on Linux in one call, which costs no more for many files.
#[cfg(target_os = "linux")]
fn flush(root: &Path, _: &[Staged]) -> Result<(), LakeError> {
    let folder = File::open(root).map_err(LakeError::io(root))?;
    rustix::fs::syncfs(&folder).map_err(|error| LakeError::io(root)(error.into()))
}

/// Writes the bytes of files to the disk.
#[cfg(not(target_os = "linux"))]
fn flush(_: &Path, all: &[Staged]) -> Result<(), LakeError> {
    for staged in all {
        for name in names(staged.folder.path())? {
            sync(&staged.folder.path().join(name))?;
        }
    }
    Ok(())
}

/// Writes a file, or the names in a folder, to the disk.
pub(crate) fn sync(path: &Path) -> Result<(), LakeError> {
    let file = File::open(path).map_err(LakeError::io(path))?;
    file.sync_all().map_err(LakeError::io(path))
}
