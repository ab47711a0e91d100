//! Secrets: nsys records the whole environment of the process that it profiles, keys and tokens included.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use rooflens_diagnostic::{Diagnostic, Severity};

/// A hostile file is given up after so many times so many instructions of SQLite's virtual machine.
const MAX_CALLS: u32 = 2_000;
const STEPS_A_CALL: i32 = 1_000_000;

/// Where nsys exports keep environments: table, what selects the rows, and what removes the secret.
const PLACES: [(&str, &str, &str); 2] = [
    (
        "META_DATA_CAPTURE",
        "name LIKE '%ENVIRONMENT_VARIABLE%'",
        "DELETE FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE%'",
    ),
    (
        "TARGET_INFO_SYSTEM_ENV",
        "name = 'DeviceEnvironment' AND length(value) > 0",
        "UPDATE TARGET_INFO_SYSTEM_ENV SET value = '' WHERE name = 'DeviceEnvironment'",
    ),
];

/// In the names of these rows.
const VARIABLE: &[u8] = b"ENVIRONMENT_VARIABLE";

/// Environment variables that an nsys export holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentDump {
    /// Rows that hold variables.
    pub rows: u64,
}

impl EnvironmentDump {
    /// Looks into a plain SQLite file. A database without nsys's tables holds none.
    pub fn find(path: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = guarded(Connection::open_with_flags(path, flags)?)?;
        let mut rows = 0;
        for (table, condition, _) in present(&db)? {
            let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
            rows += db
                .query_row(&sql, [], |row| row.get::<_, i64>(0))?
                .unsigned_abs();
        }
        Ok(Self { rows })
    }

    /// True if a plain SQLite file is an export of nsys, whose places are known.
    pub(super) fn is_export(path: &Path) -> rusqlite::Result<bool> {
        let db = guarded(Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY,
        )?)?;
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND (name LIKE 'CUPTI_ACTIVITY%'
            OR name LIKE 'TARGET_INFO%' OR name LIKE 'META_DATA%' OR name LIKE 'NVTX_EVENTS')";
        Ok(db.query_row(sql, [], |row| row.get::<_, i64>(0))? > 0)
    }

    /// True if a plain SQLite file may hold what was deleted from it: in pages that were given up, or between rows.
    pub(super) fn leaves_traces(path: &Path) -> io::Result<bool> {
        let (mut file, mut chunk, mut held) = (File::open(path)?, vec![0; 1 << 20], 0);
        file.read_exact(&mut chunk[..100])?;
        if chunk[36..40] != [0; 4] {
            return Ok(true);
        }
        loop {
            let read = file.read(&mut chunk[held..])?;
            let bytes = &chunk[..held + read];
            if read == 0 || memchr::memmem::find(bytes, VARIABLE).is_some() {
                return Ok(read > 0);
            }
            // The word may be cut in two.
            let kept = bytes.len().min(VARIABLE.len() - 1);
            let start = bytes.len() - kept;
            chunk.copy_within(start..start + kept, 0);
            held = kept;
        }
    }

    /// The warning for the report, if there is anything to warn of.
    pub fn diagnostic(self, artifact: &str) -> Option<Diagnostic> {
        (self.rows > 0).then(|| {
            let message = "holds environment variables of the profiled process";
            Diagnostic::new(Severity::Notice, "bundle/secrets", message)
                .artifact(artifact)
                .hint("rooflens pack removes them; do so before the bundle is passed on")
                .times(self.rows)
        })
    }

    /// Removes the variables from a plain SQLite file, leaving no trace of them in free pages.
    pub(super) fn remove(path: &Path) -> rusqlite::Result<()> {
        let db = guarded(Connection::open(path)?)?;
        for (_, _, removal) in present(&db)? {
            db.execute(removal, [])?;
        }
        db.execute("VACUUM", [])?;
        Ok(())
    }
}

/// The connection with everything off by which a file could run code, and with a bound on work.
fn guarded(mut db: Connection) -> rusqlite::Result<Connection> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    let mut calls = 0;
    db.progress_handler(
        STEPS_A_CALL,
        Some(move || {
            calls += 1;
            calls > MAX_CALLS
        }),
    )?;
    Ok(db)
}

/// The places that this database has.
fn present(db: &Connection) -> rusqlite::Result<Vec<(&'static str, &'static str, &'static str)>> {
    let sql =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    let mut tables = db.prepare(sql)?;
    let mut present = Vec::new();
    for column in PLACES {
        if tables.query_row([column.0], |row| row.get::<_, i64>(0))? > 0 {
            present.push(column);
        }
    }
    Ok(present)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const EXPORT: &str = "
        CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
        INSERT INTO META_DATA_CAPTURE VALUES
            ('PROCESS_0:COMMAND', 'python3'),
            ('PROCESS_0:ENVIRONMENT_VARIABLE_0', 'API_TOKEN=hunter2');
        CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
        INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES
            ('DeviceEnvironment', 'PASSWORD=hunter2'), ('CpuCores', '16');";

    fn database(sql: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        Connection::open(file.path())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        file
    }

    #[test]
    fn variables_are_found_and_removed_to_the_last_byte() {
        let file = database(EXPORT);
        assert_eq!(EnvironmentDump::find(file.path()).unwrap().rows, 2);
        EnvironmentDump::remove(file.path()).unwrap();
        assert_eq!(EnvironmentDump::find(file.path()).unwrap().rows, 0);
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"hunter2").is_none());
        assert!(memchr::memmem::find(&bytes, b"python3").is_some());
    }

    #[test]
    fn what_was_deleted_is_seen_and_goes_too() {
        let deleted = "DELETE FROM META_DATA_CAPTURE WHERE name LIKE '%ENV%'; DROP TABLE TARGET_INFO_SYSTEM_ENV";
        let file = database(&format!(
            "{} {deleted}",
            EXPORT.replace("META_DATA", "meta_data")
        ));
        assert_eq!(EnvironmentDump::find(file.path()).unwrap().rows, 0);
        assert!(EnvironmentDump::is_export(file.path()).unwrap());
        assert!(EnvironmentDump::leaves_traces(file.path()).unwrap());
        EnvironmentDump::remove(file.path()).unwrap();
        assert!(!EnvironmentDump::leaves_traces(file.path()).unwrap());
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"hunter2").is_none());
    }

    #[test]
    fn other_databases_hold_none() {
        let file = database("CREATE TABLE t (x)");
        assert_eq!(
            EnvironmentDump::find(file.path()).unwrap(),
            EnvironmentDump::default()
        );
        assert!(EnvironmentDump::default().diagnostic("x").is_none());
    }

    #[test]
    fn a_view_in_place_of_the_table_is_not_run() {
        let endless = "CREATE VIEW META_DATA_CAPTURE AS WITH RECURSIVE n(name) AS
            (SELECT 'ENVIRONMENT_VARIABLE' UNION ALL SELECT name FROM n) SELECT name, 1 AS value FROM n";
        let file = database(endless);
        assert_eq!(EnvironmentDump::find(file.path()).unwrap().rows, 0);
    }
}
