//! A journal in the folder of an export: its writer was killed, or still runs.
//!
//! SQLite settles a journal by writing into the database, so it gets a copy of both: nothing of the user's is changed.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rooflens_sqlite_pages::Journal;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::{IngestError, IngestErrorKind};

/// With these bytes a rollback journal begins, and ends if other databases were part of its transaction.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A copy of an export in which nothing is left to be settled; removed on drop.
pub(crate) struct Settled {
    _folder: TempDir,
    /// Where it is.
    pub(crate) path: PathBuf,
}

impl Settled {
    /// Lets SQLite settle the journal in a copy of the database.
    ///
    /// # Errors
    /// When there is no room for the copy, SQLite cannot use the journal, or the journal names other files: SQLite
    /// would delete them.
    pub(crate) fn new(database: &Path, journal: Journal) -> Result<Self, IngestError> {
        let folder = TempDir::new()?;
        let path = folder.path().join("export.sqlite");
        let copy = journal.path(&path);
        let most = fs::copy(database, &path)? + fs::copy(journal.path(database), &copy)?;
        if journal == Journal::Rollback && ends_in_magic(&copy)? {
            let message = "its journal is part of a transaction over several files";
            return Err(IngestErrorKind::Unsupported(message.to_owned()).into());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema;
             PRAGMA journal_mode = DELETE;",
        )?;
        drop(connection);
        if fs::metadata(&path)?.len() > most {
            let message = "its journal makes it longer than both are";
            return Err(IngestErrorKind::Unsupported(message.to_owned()).into());
        }
        Ok(Self {
            _folder: folder,
            path,
        })
    }
}

fn ends_in_magic(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut last = [0; 8];
    if length >= 8 {
        file.seek(SeekFrom::Start(length - 8))?;
        file.read_exact(&mut last)?;
    }
    Ok(last == MAGIC)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_diagnostic::{Diagnostics, Severity};

    use super::*;
    use crate::database::Database;

    /// A database whose writer is in the middle of changing two rows and adding more than its cache holds: the pages are
    /// in the file, the transaction is not at its end.
    fn interrupted(folder: &Path, mode: &str) -> PathBuf {
        let path = folder.join("writer.sqlite");
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch(&format!(
                "PRAGMA journal_mode = {mode}; PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2); CREATE TABLE more (b TEXT);
                 CREATE TABLE StringIds (id INTEGER, value TEXT);
                 PRAGMA cache_size = 2; BEGIN; UPDATE t SET a = a + 10;
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                 INSERT INTO more SELECT hex(zeroblob(100)) FROM n;"
            ))
            .unwrap();
        // What lies there while the writer is at work is what lies there after it was killed.
        let copy = folder.join("t.sqlite");
        fs::copy(&path, &copy).unwrap();
        for journal in Journal::ALL {
            let _ = fs::copy(journal.path(&path), journal.path(&copy));
        }
        drop(writer);
        copy
    }

    fn rows(path: &Path) -> Vec<i64> {
        let sum = |out: &mut Vec<i64>, row: &super::super::Row<'_>| {
            out.push(row.int(0)?);
            Ok(())
        };
        let database = Database::open(path, u64::MAX).unwrap();
        let (parts, _) = database
            .scan("t", &[super::super::Want::Need("a")], sum)
            .unwrap();
        parts.into_iter().flatten().collect()
    }

    #[test]
    fn a_transaction_that_did_not_end_is_rolled_back_in_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = interrupted(folder.path(), "DELETE");
        let before = fs::read(&path).unwrap();
        assert_eq!(Journal::find(&path), Some(Journal::Rollback));
        assert_ne!(
            rows(&path),
            [1, 2],
            "the file alone holds what was never committed"
        );
        let settled = Settled::new(&path, Journal::Rollback).unwrap();
        assert_eq!(rows(&settled.path), [1, 2]);
        assert!(fs::read(&path).unwrap() == before && Journal::Rollback.path(&path).exists());
    }

    #[test]
    fn transactions_that_are_only_in_the_log_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = interrupted(folder.path(), "WAL");
        assert_eq!(Journal::find(&path), Some(Journal::Wal));
        assert_eq!(
            rows(&Settled::new(&path, Journal::Wal).unwrap().path),
            [1, 2]
        );
        assert!(Journal::Wal.path(&path).exists());
    }

    /// What an import of the file says of its journal, and how grave that is.
    fn journal_diagnostics(path: &Path) -> Vec<(Severity, String)> {
        let mut diagnostics = Diagnostics::default();
        let mut bundle = rooflens_bundle::open(&[path.to_owned()], &mut diagnostics).unwrap();
        crate::identify(&mut bundle, &mut diagnostics);
        crate::import(&bundle, &mut diagnostics, &mut |_| ());
        let journals = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.code == "nsys/journal");
        journals
            .map(|diagnostic| (diagnostic.severity, diagnostic.message.clone()))
            .collect()
    }

    #[test]
    fn an_import_says_what_it_did_with_a_journal() {
        for (mode, severity, words) in [
            (
                "DELETE",
                Severity::DataLoss,
                "what it had not committed is missing",
            ),
            ("WAL", Severity::Notice, "is read, too"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = interrupted(folder.path(), mode);
            let told = journal_diagnostics(&path);
            assert_eq!(told.len(), 1, "{mode}: {told:?}");
            assert!(
                told[0].0 == severity && told[0].1.contains(words),
                "{mode}: {told:?}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let path = interrupted(folder.path(), "DELETE");
        let journal = Journal::Rollback.path(&path);
        let mut bytes = fs::read(&journal).unwrap();
        bytes.extend(MAGIC);
        fs::write(&journal, bytes).unwrap();
        let told = journal_diagnostics(&path);
        assert!(
            told[0].0 == Severity::DataLoss && told[0].1.contains("cannot be used"),
            "{told:?}"
        );
    }

    #[test]
    fn a_journal_that_names_other_files_deletes_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = interrupted(folder.path(), "DELETE");
        let victim = folder.path().join("victim");
        fs::write(&victim, "keep").unwrap();
        let name = victim.to_str().unwrap().as_bytes();
        let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
        let mut journal = fs::read(Journal::Rollback.path(&path)).unwrap();
        // The page number of the lock, name, its length and checksum, and the magic.
        let page = (1_u32 << 30) / 4096 + 1;
        journal.extend(page.to_be_bytes());
        journal.extend(name);
        journal.extend((name.len() as u32).to_be_bytes());
        journal.extend(sum.to_be_bytes());
        journal.extend(MAGIC);
        fs::write(Journal::Rollback.path(&path), journal).unwrap();
        assert!(Settled::new(&path, Journal::Rollback).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"keep");
    }

    #[test]
    fn journals_that_are_done_with_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.sqlite");
        assert_eq!(Journal::find(&path), None);
        for (bytes, found) in [
            (&b""[..], None),
            (&[0; 512], None),
            (b"x", Some(Journal::Wal)),
        ] {
            fs::write(Journal::Wal.path(&path), bytes).unwrap();
            assert_eq!(Journal::find(&path), found);
        }
    }
}
