//! What SQLite says, in words of the tables.

use rooflens_units::Ratio;
use rusqlite::{Error, ErrorCode};

use super::Described;

/// Names that a message offers at most.
const OFFERED: usize = 4;

/// Likeness from which a name is offered, of 1.
const ALIKE: Ratio = Ratio(0.55);

/// Characters of a line of SQL that a message shows.
const EXCERPT: usize = 100;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// It names a table that is not there.
    #[error("there is no table `{name}`; {}", offer(similar, "tables", tables))]
    UnknownTable {
        /// Name in the query.
        name: String,
        /// Names like it.
        similar: Vec<String>,
        /// Names of all tables.
        tables: Vec<String>,
    },
    /// It names a column that is not there.
    #[error(
        "there is no column `{name}`{}; {}",
        listed(tables),
        offer(similar, "columns", columns)
    )]
    UnknownColumn {
        /// Name in the query.
        name: String,
        /// Tables that the query names.
        tables: Vec<String>,
        /// Names of their columns like it.
        similar: Vec<String>,
        /// Names of all of their columns.
        columns: Vec<String>,
    },
    /// It does more than read.
    #[error("a query only reads the tables: SELECT, WITH, VALUES or EXPLAIN")]
    NotRead,
    /// It was stopped.
    #[error("the query was stopped")]
    Stopped,
    /// Its answer or what it sorts takes too much memory.
    #[error("the query takes more memory than it may; ask for fewer rows or columns")]
    Memory,
    /// It is not SQL, or no SQL that can be answered.
    #[error("{0}")]
    Sql(String),
}

fn listed(tables: &[String]) -> String {
    match tables {
        [] => String::new(),
        tables => format!(" in {}", tables.join(", ")),
    }
}

fn offer(similar: &[String], kind: &str, names: &[String]) -> String {
    match similar {
        [] if names.is_empty() => "`.tables` lists the tables".to_owned(),
        [] => format!("{kind}: {}", names.join(", ")),
        similar => format!("did you mean {}?", similar.join(", ")),
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
        error => (error.to_string(), String::new()),
    };
    // SQLite guesses at the mistake after a dash.
    let message = message.split(" - ").next().unwrap_or_default();
    let refused = ["not authorized", "prohibited", "may not be modified"];
    if refused.iter().any(|words| message.contains(words)) {
        return QueryError::NotRead;
    }
    if let Some(name) = message.strip_prefix("no such table: ") {
        let tables: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
        return QueryError::UnknownTable {
            similar: similar(name, &tables),
            name: name.to_owned(),
            tables,
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
    let name = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
    let sql = sql.to_lowercase();
    let words: Vec<&str> = sql
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .collect();
    let mut named = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for table in tables {
        if !words.iter().any(|word| table.is_named(word)) {
            continue;
        }
        named.push(table.name.clone());
        for column in &table.columns {
            if !columns.contains(&column.name) {
                columns.push(column.name.clone());
            }
        }
    }
    QueryError::UnknownColumn {
        similar: similar(name, &columns),
        name: name.to_owned(),
        tables: named,
        columns,
    }
}

/// The names that are like `name`, the most alike first.
fn similar(name: &str, candidates: &[String]) -> Vec<String> {
    let name = name.to_lowercase();
    let mut similar: Vec<(Ratio, &String)> = Vec::new();
    for candidate in candidates {
        let likeness = strsim::normalized_damerau_levenshtein(&name, candidate);
        let mut likeness = Ratio(likeness);
        if candidate.contains(&name) || name.contains(candidate.as_str()) {
            likeness = likeness.max(ALIKE);
        }
        if likeness >= ALIKE {
            similar.push((likeness, candidate));
        }
    }
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.truncate(OFFERED);
    similar.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The line of a query in which something is wrong, with a mark below the place; nothing if the place is not known.
fn excerpt(sql: &str, offset: i32) -> String {
    let Ok(offset) = usize::try_from(offset) else {
        return String::new();
    };
    let Some((before, after)) = sql.split_at_checked(offset) else {
        return String::new();
    };
    let start = before.rsplit('\n').next().unwrap_or_default();
    let skipped = start.chars().count().saturating_sub(EXCERPT / 2);
    let start: String = start.chars().skip(skipped).collect();
    let indent = start.chars().count();
    let rest = after.lines().next().unwrap_or_default();
    let rest: String = rest.chars().take(EXCERPT - indent).collect();
    format!("\n{start}{rest}\n{}^", " ".repeat(indent))
}
