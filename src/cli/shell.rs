//! Queries that are typed, one after another, with the former ones to go back to.

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::error::CliError;
use super::query::{Asked, HELP};
use super::term::Term;

/// Reads statements up to their semicolon, and answers each. An error ends the statement and not the session.
pub(super) fn run(asked: &Asked<'_>, term: &mut Term) -> Result<(), CliError> {
    let failed =
        |error: ReadlineError| CliError::Usage(format!("cannot read what is typed: {error}"));
    let mut editor: Editor<Names, MemHistory> =
        Editor::with_history(Config::default(), MemHistory::new()).map_err(failed)?;
    editor.set_helper(Some(Names::of(asked)));
    term.note("SQL ends with a semicolon; .tables lists tables, .help helps, .quit ends");
    let mut statement = String::new();
    loop {
        match editor.readline(if statement.is_empty() {
            "rooflens> "
        } else {
            "       -> "
        }) {
            Ok(line) => statement.push_str(&format!("{line}\n")),
            Err(ReadlineError::Interrupted) => {
                statement.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let typed = statement.trim().to_owned();
        match typed.to_ascii_lowercase().as_str() {
            "" => statement.clear(),
            ".quit" | ".exit" | "quit" | "exit" => return Ok(()),
            ".help" => {
                statement.clear();
                term.print(HELP.as_bytes())?;
            }
            lower if lower.ends_with(';') || is_whole(lower) => {
                statement.clear();
                // Memory always takes it.
                let _ = editor.add_history_entry(&typed);
                if let Err(error) = asked.answer(&typed, term) {
                    term.error(&error);
                }
            }
            _ => {}
        }
    }
}

/// What ends with its line.
fn is_whole(typed: &str) -> bool {
    typed.starts_with('.')
        || ["describe ", "show tables"]
            .iter()
            .any(|word| typed.starts_with(word))
}

/// Names of tables and columns, by which words are completed.
struct Names(Vec<String>);

impl Names {
    fn of(asked: &Asked<'_>) -> Self {
        let tables = asked.database.tables().iter();
        let mut names: Vec<String> = tables
            .flat_map(|table| {
                let columns = table.columns.iter().map(|column| column.name.clone());
                columns.chain([table.name.clone()])
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        end: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..end];
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let start = before
            .rfind(|letter| !is_name(letter))
            .map_or(0, |end| end + 1);
        let names = self
            .0
            .iter()
            .filter(|name| name.starts_with(&before[start..]));
        let pair = |name: &String| Pair {
            display: name.clone(),
            replacement: name.clone(),
        };
        Ok((start, names.map(pair).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}
impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}
