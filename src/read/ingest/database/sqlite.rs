//! SQLite itself, opened so that it can do nothing but read: for the schema, and for tables that are not
//! plain b-trees.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::IngestError;

/// A table as the schema describes it.
#[derive(Default)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    /// The column whose value is the rowid: the `INTEGER PRIMARY KEY`.
    pub(super) rowid: Option<usize>,
    /// Page at which its tree begins.
    pub(super) root: u32,
    /// Records hold the columns in this order, and one that is not there is `NULL`.
    pub(super) is_plain: bool,
}

/// The columns of a table. A hidden column is a generated one, which a record may lack. An integer
/// primary key is the rowid unless SQLite keeps an index for it, as it does where it is declared `DESC`.
const COLUMNS: &str = "SELECT name, hidden, dflt_value,
    pk = 1 AND type = 'INTEGER' COLLATE NOCASE
        AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')
    FROM pragma_table_xinfo(?1)";

/// Lists tables and columns. Views and virtual tables, which have no root page, are not tables: tools
/// leave views of their own.
pub(super) fn schema(path: &Path) -> Result<BTreeMap<String, Table>, IngestError> {
    let connection = connect(path)?;
    let mut list = connection.prepare(
        "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' AND rootpage > 0",
    )?;
    let roots = list.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?))
    })?;
    let mut tables = BTreeMap::new();
    for (name, root) in roots.collect::<Result<Vec<_>, _>>()? {
        let mut table = Table {
            root,
            is_plain: true,
            ..Table::default()
        };
        let mut info = connection.prepare_cached(COLUMNS)?;
        let mut rows = info.query([&name])?;
        while let Some(row) = rows.next()? {
            let is_hidden = row.get::<_, i64>(1)? != 0;
            let has_default = row.get_ref(2)? != ValueRef::Null;
            table.is_plain &= !is_hidden && !has_default;
            if row.get(3)? {
                table.rowid = Some(table.columns.len());
            }
            if !is_hidden {
                table.columns.push(row.get(0)?);
            }
        }
        tables.insert(name, table);
    }
    Ok(tables)
}

/// A connection that can select and nothing else.
pub(super) fn locked_connection(path: &Path) -> Result<Connection, IngestError> {
    let mut connection = connect(path)?;
    let allow = |context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Function { .. } => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    };
    connection.authorizer(Some(allow))?;
    Ok(connection)
}

/// A read-only connection to a file that is taken as immutable: no lock, no journal, no shared memory.
fn connect(path: &Path) -> Result<Connection, IngestError> {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let path: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
    let uri = format!("file:{path}?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(uri, flags)?;
    for (option, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(option, on)?;
    }
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON;")?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, 64 << 20),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 16),
        (Limit::SQLITE_LIMIT_COLUMN, 512),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 32),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 4),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(connection)
}

/// The name as an SQL identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
