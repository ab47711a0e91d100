//! What went wrong or needs saying, collected on the way and printed in the report's data-quality section.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::fmt;

use rustc_hash::FxHashMap;
use serde::Serialize;

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// A limit on what the numbers mean.
    Notice,
    /// Rows or events are missing from what was read.
    DataLoss,
    /// An artifact could not be used.
    Error,
}

impl Severity {
    /// The word that is printed.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::DataLoss => "data loss",
            Self::Error => "error",
        }
    }
}

/// Where in an artifact something was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// The artifact as a whole.
    #[default]
    Whole,
    /// A table of it.
    Table(String),
    /// A row of a table.
    Row {
        /// Table name.
        table: String,
        /// SQLite rowid.
        rowid: i64,
    },
    /// A line of text, counted from 1.
    Line(u64),
    /// A byte offset.
    Byte(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Table(table) => write!(f, ", table {table}"),
            Self::Row { table, rowid } => write!(f, ", table {table}, row {rowid}"),
            Self::Line(line) => write!(f, ", line {line}"),
            Self::Byte(byte) => write!(f, ", byte {byte}"),
        }
    }
}

/// One message about the input or about what could be computed from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable name, such as `nsys/dropped-events`.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Path of the artifact in the bundle.
    pub artifact: Option<String>,
    /// Where in the artifact.
    pub at: Location,
    /// What happened; lower case, no trailing stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// How often it happened.
    pub count: u64,
}

impl Diagnostic {
    /// A message about the whole run.
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            artifact: None,
            at: Location::Whole,
            message: message.into(),
            hint: None,
            count: 1,
        }
    }

    /// The same, about one artifact.
    #[must_use]
    pub fn artifact(mut self, path: impl Into<String>) -> Self {
        self.artifact = Some(path.into());
        self
    }

    /// The same, at a place in the artifact.
    #[must_use]
    pub fn at(mut self, at: Location) -> Self {
        self.at = at;
        self
    }

    /// The same, with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, for something that happened `count` times.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.count = count;
        self
    }
}

/// The diagnostics of a run, in the order of their discovery; repeats are counted, not listed.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// Place in the list by code, artifact and message.
    index: FxHashMap<(&'static str, Option<String>, String), usize>,
    /// How many of a code are listed.
    listed: FxHashMap<&'static str, usize>,
}

/// Diagnostics of one code that are listed; what is beyond is one that counts the others.
const MAX_OF_CODE: usize = 200;

impl Diagnostics {
    /// Adds one; a repeat (same code, artifact and message) raises the count of the first.
    pub fn push(&mut self, mut new: Diagnostic) {
        let key = (new.code, new.artifact.clone(), new.message.clone());
        if let Some(at) = self.index.get(&key) {
            self.list[*at].count += new.count;
            return;
        }
        let listed = self.listed.entry(new.code).or_default();
        *listed += 1;
        if *listed == MAX_OF_CODE + 1 {
            new = Diagnostic {
                artifact: None,
                at: Location::Whole,
                message: format!("more like the {MAX_OF_CODE} that are listed"),
                ..new
            };
            self.index
                .insert((new.code, None, String::new()), self.list.len());
        } else if *listed > MAX_OF_CODE {
            let rest = self.index[&(new.code, None, String::new())];
            self.list[rest].count += new.count;
            return;
        } else {
            self.index.insert(key, self.list.len());
        }
        self.list.push(new);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// The first of the most severe ones, from [`Severity::Notice`] on: the reason where an input is of no use.
    pub fn most_severe(&self) -> Option<&Diagnostic> {
        let notices = self.list.iter().filter(|d| d.severity >= Severity::Notice);
        notices.min_by_key(|d| Reverse(d.severity))
    }

    /// The worst severity, if there is any.
    pub fn worst(&self) -> Option<Severity> {
        self.list.iter().map(|d| d.severity).max()
    }
}
