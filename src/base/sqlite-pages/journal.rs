//! A journal in the folder of a database: its writer was killed, or still runs.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Journals of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// `-journal`: pages as they were before a transaction that did not end.
    Rollback,
    /// `-wal`: pages of transactions that are not in the file yet.
    Wal,
}

impl Journal {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Rollback, Self::Wal];

    /// The suffix after the name of the database.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Rollback => "-journal",
            Self::Wal => "-wal",
        }
    }

    /// The journal of a database, unless it is empty. SQLite marks a finished one by a zero at its start.
    pub fn find(database: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|journal| {
            let mut first = [0];
            let path = journal.path(database);
            let is_file = fs::symlink_metadata(&path).is_ok_and(|file| file.is_file());
            is_file
                && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok())
                && first != [0]
        })
    }

    /// Its path.
    pub fn path(self, database: &Path) -> PathBuf {
        let mut path = database.as_os_str().to_owned();
        path.push(self.ending());
        path.into()
    }
}
