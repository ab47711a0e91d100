//! nsys exports: what they tell of the process's environment is removed, and which ranges they hold is read.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rooflens_schemas::marks;
use rooflens_sqlite_pages::Record;

use super::Secrets;
use super::sqlite::{Database, Table};

/// Tables that hold facts of the process and the machine, a name and a value each.
const FACTS: [&str; 3] = [
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "TARGET_INFO_SYSTEM_ENV",
];

/// Removes environments, and host and user names, from an export. Gives the number of values that are gone.
///
/// Better no export than one with an environment in it: a file with parts that are not looked through is an error.
pub(crate) fn redact(path: &Path, secrets: &Secrets) -> io::Result<u64> {
    let refused = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let db = Database::open(path)?;
    if db.has_free_pages()? {
        return Err(refused("it has pages that belong to no table".to_owned()));
    }
    let schema = db.schema()?;
    if let Some(name) = schema.unreadable.first() {
        return Err(refused(format!("{name} is no ordinary table")));
    }
    let mut gone = 0;
    for table in &schema.tables {
        let before = gone;
        let named = table.column("name").zip(table.column("value"));
        if named.is_none()
            && FACTS
                .iter()
                .any(|name| table.name.eq_ignore_ascii_case(name))
        {
            return Err(refused(format!("{} has no name and value", table.name)));
        }
        db.rows(table, |row| {
            if row.width() > table.columns.len() {
                return Err(refused(format!(
                    "{} has more columns than it states",
                    table.name
                )));
            }
            if let Some((name, value)) = named {
                gone += redact_fact(&db, row, name, value, secrets)?;
            }
            gone += redact_dumps(&db, row, secrets)?;
            Ok(())
        })?;
        db.clear_unused(table)?;
        if gone > before && schema.indexed.contains(&table.name.to_ascii_lowercase()) {
            return Err(refused(format!(
                "an index of {} holds what was removed",
                table.name
            )));
        }
    }
    Ok(gone + secrets.mask_file(path)?)
}

/// Names of the ranges in an export, sorted, at most so many.
pub(crate) fn range_names(path: &Path, most: usize) -> io::Result<BTreeSet<String>> {
    let db = Database::open(path)?;
    let tables = db.schema()?.tables;
    let find = |name: &str| tables.iter().find(|table| table.name == name);
    let mut names = BTreeSet::new();
    let mut ids = BTreeSet::new();
    let Some(events) = find("NVTX_EVENTS") else {
        return Ok(names);
    };
    let (text, id) = (events.column("text"), events.column("textId"));
    db.rows(events, |row| {
        if let Some(name) = text.and_then(|column| row.value(column).text()) {
            if names.len() < most && !name.starts_with(marks::PREFIX) {
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
    let key = row
        .value(name)
        .bytes()
        .and_then(|key| std::str::from_utf8(key).ok());
    let key = key.unwrap_or_default();
    let is_secret = |text: &[u8]| secrets.is_argument(text);
    if row.value(value).bytes().is_some_and(is_secret) {
        db.overwrite(row, value, b'*')?;
        return Ok(1);
    }
    if key.to_ascii_uppercase().contains("ENVIRONMENT_VARIABLE") {
        db.overwrite(row, name, 0)?;
        db.overwrite(row, value, 0)?;
        return Ok(1);
    }
    let is_name = ["Hostname", "DEVICE_DISPLAY_NAME"].contains(&key) || key.ends_with("USER_NAME");
    if key == "DeviceEnvironment" || is_name && !secrets.keep_names {
        db.overwrite(row, value, 0)?;
        return Ok(u64::from(
            row.value(value)
                .bytes()
                .is_some_and(|bytes| !bytes.is_empty()),
        ));
    }
    Ok(0)
}

/// Dumps of a whole environment in any column of any table, and texts of several pages with a secret.
fn redact_dumps(db: &Database, row: &Record<'_>, secrets: &Secrets) -> io::Result<u64> {
    let mut gone = 0;
    for column in 0..row.width() {
        if row
            .value(column)
            .bytes()
            .is_some_and(|text| secrets.is_dump(text))
        {
            db.overwrite(row, column, 0)?;
            gone += 1;
        } else if row.places(column).count() > 1
            && row
                .value(column)
                .bytes()
                .is_some_and(|text| secrets.are_in(text))
        {
            // Byte by byte the file would not show what lies across the end of a page.
            db.overwrite(row, column, b'*')?;
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

    /// An export with more SQL, redacted by someone who knows of one variable.
    fn redacted(sql: &str) -> Result<Vec<u8>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let export = Connection::open(file.path()).unwrap();
        export
            .execute_batch(&format!("PRAGMA page_size = 1024; {EXPORT} {sql}"))
            .unwrap();
        drop(export);
        let environment = [
            ("SOME_TOKEN", "hunter2hunter2"),
            ("HOME", "/root"),
            ("SHELL", "/bin/sh"),
            ("MY_KEY", "x"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let command = ["run", "--pin-pass", "abc"].map(str::to_owned);
        let secrets = Secrets::of(environment.into_iter(), &command, false);
        redact(file.path(), &secrets).map_err(|error| error.to_string())?;
        Ok(std::fs::read(file.path()).unwrap())
    }

    #[test]
    fn an_export_that_is_not_understood_is_refused() {
        for (sql, reason) in [
            (
                "CREATE TABLE W (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
                "W is no ordinary",
            ),
            (
                "CREATE TABLE Meta_Data_Export (key TEXT, text TEXT)",
                "no name and value",
            ),
            (
                "CREATE INDEX i ON META_DATA_CAPTURE (value)",
                "an index of META_DATA_CAPTURE",
            ),
            (
                "CREATE INDEX i ON StringIds (value)",
                "an index of StringIds",
            ),
            (
                "CREATE TABLE big (x); INSERT INTO big VALUES (zeroblob(9999)); DROP TABLE big",
                "pages",
            ),
            (
                "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE t(name)'
                 WHERE name = 'META_DATA_CAPTURE'",
                "no name and value",
            ),
        ] {
            let refused = redacted(sql).map(drop).expect_err(sql);
            assert!(refused.contains(reason), "{sql}: {refused}");
        }
    }

    #[test]
    fn other_spellings_and_tables_are_redacted_too() {
        let sql = "
            CREATE INDEX i ON NVTX_EVENTS (start);
            CREATE TABLE [meta_data_export] (\"name\" TEXT, `Value` BLOB, /* a, b */ x);
            INSERT INTO meta_data_export VALUES ('p:Environment_Variable_7', x'7868616d6c6574', 1);
            CREATE TABLE EXPORT_META_DATA (name, value);
            INSERT INTO EXPORT_META_DATA SELECT i, substr(hex(zeroblob(9000)), 1, 900 + i) || 'hunter2hunter2'
                FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n);
            INSERT INTO EXPORT_META_DATA VALUES ('ARGUMENT', 'abc'), ('other', 'abcd'),
                ('text', '{\"a\": \"hunter2hunter2\"}'), ('64', 'aHVudGVyMmh1bnRlcjI=');";
        let bytes = redacted(sql).unwrap();
        let holds = |text: &str| memchr::memmem::find(&bytes, text.as_bytes()).is_some();
        for gone in [
            "xhamlet",
            "Environment_Variable",
            "ARGUMENTabc\u{1}",
            "hunter2",
            "aHVudGVy",
        ] {
            assert!(!holds(gone), "{gone}");
        }
        assert!(holds("ARGUMENT***") && holds("otherabcd"));
    }

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
        assert!(
            memchr::memmem::find_iter(&before, b"MY_KEY=hunter2").count() > 1,
            "a stale copy"
        );
        drop(export);
        let environment = ["HOME=/root", "SHELL=/bin/sh", "MY_KEY=hunter2hunter2"];
        let pairs = environment.iter().filter_map(|pair| pair.split_once('='));
        let command = ["python3", "--key", "swordfish"].map(str::to_owned);
        let secrets = Secrets::of(
            pairs.map(|(a, b)| (a.to_owned(), b.to_owned())),
            &command,
            false,
        );
        assert!(redact(file.path(), &secrets).unwrap() >= 6);

        let bytes = std::fs::read(file.path()).unwrap();
        for gone in [
            "hunter2",
            "xyzzy",
            "qqqq",
            "plugh",
            "box17",
            "alice",
            "swordfish",
            "SHELL=",
        ] {
            assert!(
                memchr::memmem::find(&bytes, gone.as_bytes()).is_none(),
                "{gone}"
            );
        }
        let names = range_names(file.path(), 100).unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["decode", "prefill"]);
        let sqlite = Connection::open(file.path()).unwrap();
        let count = |sql: &str| {
            sqlite
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        // These are the analyzer's own questions after environments.
        let left =
            "SELECT count(*) FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE%'";
        assert_eq!(count(left), 0);
        let left = "SELECT count(*) FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment' AND length(value) > 0";
        assert_eq!(count(left), 0);
        assert_eq!(
            count("SELECT count(*) FROM TARGET_INFO_SYSTEM_ENV WHERE value = '16'"),
            1
        );
        let sound: String = sqlite
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
    }
}
