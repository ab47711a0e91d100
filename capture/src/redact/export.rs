//! nsys exports: what they tell of the process's environment is removed, and which ranges they hold is read.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rooflens_sqlite_pages::Record;

use super::Secrets;
use super::sqlite::{Database, Table};

/// Removes environments, and host and user names, from an export. Gives the number of values that are gone.
pub(crate) fn redact(path: &Path, secrets: &Secrets) -> io::Result<u64> {
    let db = Database::open(path)?;
    let mut gone = 0;
    for table in db.tables()? {
        let named = table.column("name").zip(table.column("value"));
        let holds_facts =
            matches!(table.name.as_str(), "META_DATA_CAPTURE" | "TARGET_INFO_SYSTEM_ENV");
        if holds_facts && named.is_none() {
            // Better no export than one with an environment in it.
            return Err(io::Error::other(format!("{} has no name and value", table.name)));
        }
        db.rows(&table, |row| {
            if let Some((name, value)) = named.filter(|_| holds_facts) {
                gone += redact_fact(&db, row, name, value, secrets)?;
            }
            gone += redact_dumps(&db, row, secrets)?;
            Ok(())
        })?;
        db.clear_unused(&table)?;
    }
    Ok(gone + secrets.mask_file(path)?)
}

/// Names of the ranges in an export, sorted, at most so many.
pub(crate) fn range_names(path: &Path, most: usize) -> io::Result<BTreeSet<String>> {
    let db = Database::open(path)?;
    let tables = db.tables()?;
    let find = |name: &str| tables.iter().find(|table| table.name == name);
    let mut names = BTreeSet::new();
    let mut ids = BTreeSet::new();
    let Some(events) = find("NVTX_EVENTS") else { return Ok(names) };
    let (text, id) = (events.column("text"), events.column("textId"));
    db.rows(events, |row| {
        if let Some(name) = text.and_then(|column| row.value(column).text()) {
            if names.len() < most {
                names.insert(name.to_owned());
            }
        } else if let Some(id) = id.and_then(|column| row.value(column).int()) {
            ids.insert(id);
        }
        Ok(())
    })?;
    if let Some(strings) = find("StringIds") {
        add_strings(&db, strings, &ids, most, &mut names)?;
    }
    Ok(names)
}

fn add_strings(
    db: &Database,
    strings: &Table,
    ids: &BTreeSet<i64>,
    most: usize,
    names: &mut BTreeSet<String>,
) -> io::Result<()> {
    let (Some(id), Some(value)) = (strings.column("id"), strings.column("value")) else {
        return Ok(());
    };
    db.rows(strings, |row| {
        // The column of an integer primary key is the row id, and empty in the record.
        if ids.contains(&row.value(id).int().unwrap_or(row.rowid))
            && names.len() < most
            && let Some(name) = row.value(value).text()
        {
            names.insert(name.to_owned());
        }
        Ok(())
    })
}

/// A row of name and value. What is gone is zeros: to SQLite such a text is empty.
fn redact_fact(
    db: &Database,
    row: &Record<'_>,
    name: usize,
    value: usize,
    secrets: &Secrets,
) -> io::Result<u64> {
    let key = row.value(name).bytes().and_then(|key| std::str::from_utf8(key).ok());
    let key = key.unwrap_or_default();
    if key.contains("ENVIRONMENT_VARIABLE") {
        db.overwrite(row, name, 0)?;
        db.overwrite(row, value, 0)?;
        return Ok(1);
    }
    let is_name = ["Hostname", "DEVICE_DISPLAY_NAME"].contains(&key) || key.ends_with("USER_NAME");
    if key == "DeviceEnvironment" || is_name && !secrets.keep_names {
        db.overwrite(row, value, 0)?;
        return Ok(u64::from(row.value(value).bytes().is_some_and(|bytes| !bytes.is_empty())));
    }
    Ok(0)
}

/// Dumps of a whole environment in any column of any table.
fn redact_dumps(db: &Database, row: &Record<'_>, secrets: &Secrets) -> io::Result<u64> {
    let mut gone = 0;
    for column in 0..row.width() {
        if row.value(column).bytes().is_some_and(|text| secrets.is_dump(text)) {
            db.overwrite(row, column, 0)?;
            gone += 1;
        }
    }
    Ok(gone)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const EXPORT: &str = "
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, text TEXT, textId INTEGER REFERENCES StringIds(id));
        CREATE TABLE META_DATA_CAPTURE (
            -- Parameters, as nsys's own
            name                        TEXT      NOT NULL,  -- Name of a meta-data record
            value                       TEXT                 -- Value (text) of it
        );
        CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVmId INTEGER, -- VM's, or not
            devStateName TEXT NOT NULL, name TEXT NOT NULL,
            nameEnum INTEGER NOT NULL, value TEXT NOT NULL);
        INSERT INTO StringIds VALUES (1, 'prefill'), (2, 'a kernel'),
            (3, 'HOME=/root' || char(10) || 'SHELL=/bin/sh' || char(10) || 'MY_KEY=hunter2hunter2');
        INSERT INTO NVTX_EVENTS VALUES (1, 'decode', NULL), (2, NULL, 1);
        INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', 'python3'), ('PROCESS_0:ARGUMENT_0', '--key'),
            ('PROCESS_0:ARGUMENT_1', 'swordfish'), ('PROCESS_0:USER_NAME', 'alice'),
            ('PROCESS_0:ENVIRONMENT_VARIABLE_0', 'UNKNOWN_TO_US=xyzzy' || replace(hex(zeroblob(9000)), '0', 'q'));
        INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'x', 'DeviceEnvironment', 3, 'OTHER=plugh'),
            (1, 'x', 'Hostname', 4, 'box17'), (1, 'x', 'CpuCores', 5, '16');";

    #[test]
    fn environments_and_names_are_gone_to_the_last_byte_and_ranges_stay() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let export = Connection::open(file.path()).unwrap();
        export.execute_batch(EXPORT).unwrap();
        // The first page of the strings is split and keeps the bytes of rows that move, and a row is deleted.
        export
            .execute_batch(
                "WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
                 INSERT INTO StringIds SELECT i, 'a name ' || i FROM n;
                 INSERT INTO StringIds VALUES (5000, 'HOME=/root' || char(0) || 'SHELL=/bin/sh' || char(0) || 'A=qqqqq');
                 DELETE FROM StringIds WHERE id = 5000;",
            )
            .unwrap();
        let before = std::fs::read(file.path()).unwrap();
        assert!(memchr::memmem::find_iter(&before, b"MY_KEY=hunter2").count() > 1, "a stale copy");
        drop(export);
        let environment = ["HOME=/root", "SHELL=/bin/sh", "MY_KEY=hunter2hunter2"];
        let pairs = environment.iter().filter_map(|pair| pair.split_once('='));
        let command = ["python3", "--key", "swordfish"].map(str::to_owned);
        let secrets =
            Secrets::of(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())), &command, false);
        assert!(redact(file.path(), &secrets).unwrap() >= 6);

        let bytes = std::fs::read(file.path()).unwrap();
        for gone in ["hunter2", "xyzzy", "qqqq", "plugh", "box17", "alice", "swordfish", "SHELL="] {
            assert!(memchr::memmem::find(&bytes, gone.as_bytes()).is_none(), "{gone}");
        }
        let names = range_names(file.path(), 100).unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["decode", "prefill"]);
        let sqlite = Connection::open(file.path()).unwrap();
        let count = |sql: &str| sqlite.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        // These are the analyzer's own questions after environments.
        let left =
            "SELECT count(*) FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE%'";
        assert_eq!(count(left), 0);
        let left = "SELECT count(*) FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment' AND length(value) > 0";
        assert_eq!(count(left), 0);
        assert_eq!(count("SELECT count(*) FROM TARGET_INFO_SYSTEM_ENV WHERE value = '16'"), 1);
        let sound: String = sqlite.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}
