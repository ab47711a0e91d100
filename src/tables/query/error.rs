//! What SQLite says, in words of the tables.

use rusqlite::{Error, ErrorCode};

use super::Described;

/// Names that a message offers at most.
const OFFERED: usize = 4;

/// Likeness from which a name is offered, of 1.
const ALIKE: f64 = 0.55;

/// Characters of a line of SQL that a message shows.
const EXCERPT: usize = 100;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// It names a table that is not there.
    #[error("there is no table `{name}`; {}", offer(near, "tables", all))]
    UnknownTable {
        /// Name in the query.
        name: String,
        /// Names like it.
        near: Vec<String>,
        /// All names.
        all: Vec<String>,
    },
    /// It names a column that is not there.
    #[error(
        "there is no column `{name}`{}; {}",
        tables(of),
        offer(near, "columns", all)
    )]
    UnknownColumn {
        /// Name in the query.
        name: String,
        /// Tables that the query names.
        of: Vec<String>,
        /// Names of their columns like it.
        near: Vec<String>,
        /// All names of their columns.
        all: Vec<String>,
    },
    /// It does more than read.
    #[error("a query only reads the tables: SELECT, WITH, VALUES or EXPLAIN")]
    NotRead,
    /// It was stopped.
    #[error("the query was stopped")]
    Stopped,
    /// Its answer or what it sorts takes too much memory.
    #[error("the query takes too much memory; ask for fewer rows or columns")]
    Memory,
    /// It is not SQL, or no SQL that can be answered.
    #[error("{0}")]
    Sql(String),
}

fn tables(of: &[String]) -> String {
    if of.is_empty() {
        String::new()
    } else {
        format!(" in {}", of.join(", "))
    }
}

fn offer(near: &[String], what: &str, all: &[String]) -> String {
    match near {
        [] if all.is_empty() => "`.tables` lists the tables".to_owned(),
        [] => format!("{what}: {}", all.join(", ")),
        near => format!("did you mean {}?", near.join(", ")),
    }
}

/// An error of the preparation, which no query is to blame for.
pub(super) fn setup(error: &Error) -> QueryError {
    QueryError::Sql(format!("SQLite cannot be set up: {error}"))
}

/// The error of an answer that is too large.
pub(super) fn too_large() -> Error {
    Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOMEM), None)
}

/// What SQLite says of a query over these tables.
pub(super) fn explained(error: Error, sql: &str, tables: &[Described]) -> QueryError {
    let (message, place) = match error {
        Error::SqlInputError {
            msg, sql, offset, ..
        } => (msg, excerpt(&sql, offset)),
        Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::OperationInterrupted => return QueryError::Stopped,
            ErrorCode::OutOfMemory | ErrorCode::TooBig => return QueryError::Memory,
            ErrorCode::AuthorizationForStatementDenied => return QueryError::NotRead,
            _ => (
                message.unwrap_or_else(|| failure.to_string()),
                String::new(),
            ),
        },
        other => (other.to_string(), String::new()),
    };
    // SQLite guesses at the mistake after a dash.
    let message = message.split(" - ").next().unwrap_or_default();
    let refused = ["not authorized", "prohibited", "may not be modified"];
    if refused.iter().any(|words| message.contains(words)) {
        return QueryError::NotRead;
    }
    if let Some(name) = message.strip_prefix("no such table: ") {
        let all: Vec<String> = tables.iter().map(|table| table.name.to_owned()).collect();
        return QueryError::UnknownTable {
            near: near(name, &all),
            name: name.to_owned(),
            all,
        };
    }
    if let Some(name) = message.strip_prefix("no such column: ") {
        return unknown_column(name, sql, tables);
    }
    let message = match message {
        "incomplete input" => "the query ends where more must follow".to_owned(),
        message => message.replace('\n', ""),
    };
    QueryError::Sql(format!("{message}{place}"))
}

fn unknown_column(name: &str, sql: &str, tables: &[Described]) -> QueryError {
    let name = name
        .rsplit('.')
        .next()
        .unwrap_or(name)
        .trim_matches('"')
        .to_owned();
    let sql = sql.to_lowercase();
    let words: Vec<&str> = sql
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let named: Vec<&Described> = tables
        .iter()
        .filter(|table| words.contains(&table.name))
        .collect();
    let mut all: Vec<String> = Vec::new();
    for column in named.iter().flat_map(|table| &table.columns) {
        if !all.contains(&column.name) {
            all.push(column.name.clone());
        }
    }
    let of = named.iter().map(|table| table.name.to_owned()).collect();
    QueryError::UnknownColumn {
        near: near(&name, &all),
        name,
        of,
        all,
    }
}

/// The names that are like `name`, the most alike first.
fn near(name: &str, all: &[String]) -> Vec<String> {
    let name = name.to_lowercase();
    let likeness = |other: &String| {
        let contains = other.contains(&name) || name.contains(other.as_str());
        let alike = strsim::normalized_damerau_levenshtein(&name, other);
        if contains { alike.max(ALIKE) } else { alike }
    };
    let mut near: Vec<(f64, &String)> = all.iter().map(|other| (likeness(other), other)).collect();
    near.retain(|(likeness, _)| *likeness >= ALIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.into_iter()
        .take(OFFERED)
        .map(|(_, name)| name.clone())
        .collect()
}

/// The line of a query in which something is wrong, with a mark below the place; nothing if the place is not known.
fn excerpt(sql: &str, offset: i32) -> String {
    let Some(offset) = usize::try_from(offset)
        .ok()
        .filter(|at| sql.is_char_boundary(*at))
    else {
        return String::new();
    };
    let (before, after) = sql.split_at(offset);
    let start = before.rsplit('\n').next().unwrap_or_default();
    let skipped = start.chars().count().saturating_sub(EXCERPT / 2);
    let start: String = start.chars().skip(skipped).collect();
    let indent = start.chars().count();
    let rest: String = after
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(EXCERPT - indent)
        .collect();
    format!("\n{start}{rest}\n{}^", " ".repeat(indent))
}
