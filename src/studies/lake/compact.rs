//! Many small files as few large ones.

use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::LakeError;
use super::files::{Writer, read};
use super::lake::{Batch, COMPACT, Lake, sync};
use super::schema::{Column, TABLES, Table};

/// What compaction did.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Folders that are one now.
    pub folders: usize,
    /// Months that stay as they were, and why.
    pub errors: Vec<LakeError>,
}

impl Lake {
    /// Makes one folder of those of each month, and removes what killed writers left.
    ///
    /// The folder of a month is exchanged as a whole: a reader sees all of the old one or all of the new one.
    ///
    /// # Errors
    /// Others use the lake, or it cannot be listed. A month with a damaged file stays as it was.
    pub fn compact(root: &Path) -> Result<Compacted, LakeError> {
        let lake = Self::open_alone(root)?;
        let staging = lake.staging();
        fs::remove_dir_all(&staging).map_err(LakeError::io(&staging))?;
        fs::create_dir_all(&staging).map_err(LakeError::io(&staging))?;
        let batches = lake.batches()?;
        let months = batches.chunk_by(|one, next| one.month == next.month);
        let months: Vec<&[Batch]> = months.filter(|month| month.len() > 1).collect();
        let mut compacted = Compacted::default();
        for (month, outcome) in months.iter().zip(lake.compact_months(&months)) {
            match outcome {
                Ok(()) => compacted.folders += month.len(),
                Err(error) => compacted.errors.push(error),
            }
        }
        Ok(compacted)
    }

    /// Compacts months in threads of their own, not in those of polars: most files are small.
    fn compact_months(&self, months: &[&[Batch]]) -> Vec<Result<(), LakeError>> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut outcomes = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                match months.get(number) {
                    Some(month) => outcomes.push((number, self.compact_month(month))),
                    None => return outcomes,
                }
            }
        };
        let mut outcomes = thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut outcomes = Vec::new();
            for thread in running {
                outcomes.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            outcomes
        });
        outcomes.sort_by_key(|(number, _)| *number);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn compact_month(&self, batches: &[Batch]) -> Result<(), LakeError> {
        let staging = self.staging();
        let aside = TempDir::with_prefix_in(COMPACT, &staging).map_err(LakeError::io(&staging))?;
        let mut hash = Sha256::new();
        for batch in batches {
            hash.update(&batch.name);
        }
        let digits: String = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let month = aside.path().join(&batches[0].month);
        let folder = month.join(format!("{COMPACT}{digits}"));
        fs::create_dir_all(&folder).map_err(LakeError::io(&folder))?;
        for table in TABLES {
            merge(table, batches, &folder)?;
        }
        sync(&folder)?;
        sync(&month)?;
        exchange(&month, &self.root().join(&batches[0].month))?;
        sync(self.root())
    }
}

/// Writes the rows of a table of all folders into one file, a row group at a time.
fn merge(table: &'static Table, batches: &[Batch], folder: &Path) -> Result<(), LakeError> {
    let columns: Vec<&Column> = table.all_columns().collect();
    let target = folder.join(format!("{}.parquet", table.name));
    let mut writer: Option<Writer<File>> = None;
    for batch in batches {
        let source = batch.file(table);
        if !source.is_file() {
            continue;
        }
        let frame = read(&source, &columns)?;
        match &mut writer {
            Some(writer) => writer.push(frame)?,
            None => {
                let file = File::create(&target).map_err(LakeError::io(&target))?;
                writer = Some(Writer::new(file, &target, frame)?);
            }
        }
    }
    match writer {
        Some(writer) => {
            writer.finish()?;
            sync(&target)
        }
        None => Ok(()),
    }
}

/// Exchanges two folders in one step.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> Result<(), LakeError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let exchanged = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    exchanged.map_err(|error| LakeError::io(other)(error.into()))
}

/// Exchanges two folders in one step.
#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, other: &Path) -> Result<(), LakeError> {
    let unsupported = std::io::ErrorKind::Unsupported;
    let error = std::io::Error::new(unsupported, "compaction needs Linux");
    Err(LakeError::io(other)(error))
}
