//! `rooflens query`: SQL over the tables of a session.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::answer;
use super::args::{Answers, Input, Query};
use super::error::CliError;
use super::load::{check, errors, load, report};
use super::parquet;
use super::shell;
use super::term::Term;
use crate::bundle;
use crate::document::Lang;
use crate::pipeline::Capture;
use crate::query::{Answer, CATALOGUE, Database, Described, QueryError, Value};

/// Says whether the time of a query is over.
pub(super) type IsOver = Box<dyn FnMut() -> bool + Send>;

/// Rows of an answer for people, where `--limit` does not say.
const ROWS: usize = 1000;

/// What a text is asked that is no SQL.
pub(super) const HELP: &str = "\
.tables            tables with their rows
.schema [TABLE]    columns with type, unit and meaning; `describe TABLE` likewise
.quit              the end
SELECT …;          SQLite's dialect, and median(x), quantile_cont(x, share), stddev(x), sqrt(x), floor(x), ceil(x)
";

/// Answers the statements of the argument, of a file or of standard input; without them, those that are typed.
pub(super) fn run(args: &Query, term: &mut Term) -> Result<(), CliError> {
    let given = given(args)?;
    let input = Input {
        paths: vec![args.path.clone()],
        ..Input::default()
    };
    let capture = load(&input, term)?;
    check(&capture, term)?;
    let datasets = if args.report {
        report(&capture, &input, Lang::En, term)?.0.datasets
    } else {
        term.diagnostics(capture.diagnostics.iter());
        Vec::new()
    };
    let Capture {
        session,
        diagnostics,
        ..
    } = capture;
    let mut asked = Asked::new(&args.answers, |memory, is_over| {
        Database::new(&Arc::new(session), &datasets, memory, is_over)
    })?;
    asked.lacks_report = !args.report;
    match given {
        Some(sql) => asked.answer(&sql, term)?,
        None => shell::run(&asked, term)?,
    }
    errors(diagnostics.iter())
}

/// The SQL that is asked; none if it is to be typed.
fn given(args: &Query) -> Result<Option<String>, CliError> {
    if let Some(sql) = &args.sql {
        return Ok(Some(sql.clone()));
    }
    let stdin = args
        .file
        .as_ref()
        .is_none_or(|file| file.as_os_str() == "-");
    let sql = match &args.file {
        Some(file) if !stdin => bundle::argument_text(file)
            .map_err(|error| CliError::Usage(format!("cannot read {}: {error}", file.display())))?,
        None if io::stdin().is_terminal() => return Ok(None),
        _ => {
            let mut sql = String::new();
            let read = io::stdin().read_to_string(&mut sql);
            read.map_err(|error| CliError::Usage(format!("cannot read standard input: {error}")))?;
            sql
        }
    };
    if sql.trim().is_empty() {
        let message = "no SQL: give it as an argument, by -f FILE or on standard input";
        return Err(CliError::Usage(message.to_owned()));
    }
    Ok(Some(sql))
}

/// A database with what the arguments say of answers.
pub(super) struct Asked<'a> {
    args: &'a Answers,
    lacks_report: bool,
    pub(super) database: Database,
    deadline: Arc<Mutex<Option<Instant>>>,
}

impl<'a> Asked<'a> {
    /// Asks the database that is made: with so much memory, until the function says that time is over.
    pub(super) fn new(
        args: &'a Answers,
        make: impl FnOnce(u64, IsOver) -> Result<Database, QueryError>,
    ) -> Result<Self, CliError> {
        let deadline = Arc::<Mutex<Option<Instant>>>::default();
        let watched = Arc::clone(&deadline);
        let is_over = move || {
            let deadline = *watched.lock().unwrap_or_else(PoisonError::into_inner);
            deadline.is_some_and(|deadline| Instant::now() > deadline)
        };
        let memory = args.memory.saturating_mul(1 << 20);
        let database = make(memory, Box::new(is_over)).map_err(|error| refused(error, args))?;
        Ok(Self {
            args,
            lacks_report: false,
            database,
            deadline,
        })
    }

    /// Prints the answers of statements, or what a word with a dot asks for.
    pub(super) fn answer(&self, sql: &str, term: &mut Term) -> Result<(), CliError> {
        let mut answers = Vec::new();
        for part in parts(sql) {
            match described(&part, &self.database)? {
                Some(answer) => answers.push(answer),
                None => answers.extend(self.ask(&part, self.limit())?),
            }
        }
        self.print(&answers, term)
    }

    /// Prints answers as the arguments say.
    pub(super) fn print(&self, answers: &[Answer], term: &mut Term) -> Result<(), CliError> {
        if let Some(path) = &self.args.parquet {
            let answer = single(answers)?;
            let bytes = parquet::of_answer(answer)?;
            fs::write(path, bytes).map_err(|error| CliError::Write {
                path: path.clone(),
                error,
            })?;
            let rows = answer.rows.len();
            term.note(&format!("wrote {}: {rows} rows", path.display()));
        } else if self.args.json {
            term.print(answer::json(single(answers)?).as_bytes())?;
        } else if self.args.csv {
            term.print(answer::csv(single(answers)?).as_bytes())?;
        } else {
            let texts: Vec<String> = answers.iter().map(answer::text).collect();
            term.print(texts.join("\n").as_bytes())?;
        }
        if answers.iter().any(|answer| answer.cut) {
            term.note(&format!(
                "cut at {} rows: --limit N shows more",
                self.limit()
            ));
        }
        Ok(())
    }

    fn limit(&self) -> usize {
        let is_data = self.args.csv || self.args.json || self.args.parquet.is_some();
        self.args
            .limit
            .unwrap_or(if is_data { usize::MAX } else { ROWS })
    }

    /// The answers of statements, of each at most so many rows.
    pub(super) fn ask(&self, sql: &str, limit: usize) -> Result<Vec<Answer>, CliError> {
        let seconds = self.args.timeout;
        let deadline = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        let answers = self.database.ask(sql, limit);
        answers.map_err(|error| match error {
            QueryError::UnknownTable { .. } if self.lacks_report => CliError::Query(format!(
                "{error}; --report adds the data sets of the report"
            )),
            error => refused(error, self.args),
        })
    }
}

/// An error with the argument that allows more.
fn refused(error: QueryError, args: &Answers) -> CliError {
    CliError::Query(match error {
        QueryError::Stopped => format!(
            "stopped after {} s; --timeout SECONDS allows more",
            args.timeout
        ),
        QueryError::Memory => {
            format!("{error}; --memory MIB allows more than {} MiB", args.memory)
        }
        error => error.to_string(),
    })
}

/// The answer of a format that has one.
fn single(answers: &[Answer]) -> Result<&Answer, CliError> {
    match answers {
        [answer] => Ok(answer),
        _ => Err(CliError::Usage(format!(
            "{} statements; --csv, --json and --parquet take one",
            answers.len()
        ))),
    }
}

/// The statements of a text, apart from the lines between them that begin with a dot.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        let is_between = parts
            .last()
            .is_none_or(|part| matches!(part.trim(), "") || part.trim().ends_with(';'));
        if is_between && line.trim_start().starts_with('.') {
            parts.extend([line.to_owned(), String::new()]);
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// What the database has, if that is asked instead of SQL.
fn described(asked: &str, database: &Database) -> Result<Option<Answer>, CliError> {
    let asked = asked.trim().trim_end_matches(';').trim();
    let (word, rest) = asked.split_once(char::is_whitespace).unwrap_or((asked, ""));
    let rest = rest.trim().trim_matches('"');
    match (word.to_ascii_lowercase().as_str(), rest) {
        (".tables", "") => {}
        ("show", rest) if rest.eq_ignore_ascii_case("tables") => {}
        (".schema" | "describe", name) => {
            let is_asked = |table: &&Described| match name {
                "" => table.rows > 0,
                name => table.is_named(name),
            };
            let tables: Vec<&Described> = database.tables().iter().filter(is_asked).collect();
            if tables.is_empty() {
                // The message of a query has the names that are like it.
                let sql = format!("select * from \"{}\"", name.replace('"', ""));
                return Err(CliError::Query(match database.ask(&sql, 1) {
                    Err(error) => error.to_string(),
                    Ok(_) => format!("{CATALOGUE} describes itself"),
                }));
            }
            return Ok(Some(columns(&tables)));
        }
        (word, _) if word.starts_with('.') => {
            return Err(CliError::Query(format!("there is no {word}\n{HELP}")));
        }
        _ => return Ok(None),
    }
    let columns = ["table", "rows", "description"];
    let mut rows = Vec::new();
    for table in database.tables() {
        let count = Some(Value::Int(table.rows as i64));
        rows.push(vec![text(&table.name), count, text(&table.doc)]);
    }
    Ok(Some(whole(&columns, rows)))
}

fn columns(tables: &[&Described]) -> Answer {
    let mut rows = Vec::new();
    for table in tables {
        for column in &table.columns {
            rows.push(vec![
                text(&table.name),
                text(&column.name),
                text(crate::query::declared(column.kind)),
                text(column.unit),
                text(&column.doc),
            ]);
        }
    }
    whole(&["table", "column", "type", "unit", "description"], rows)
}

pub(super) fn whole(columns: &[&str], rows: Vec<Vec<Option<Value>>>) -> Answer {
    Answer {
        columns: columns.iter().copied().map(String::from).collect(),
        rows,
        cut: false,
    }
}

fn text(text: &str) -> Option<Value> {
    Some(Value::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn lines_with_a_dot_stand_between_statements() {
        let text = ".tables\nselect 1\n.5 as a;\n.schema kernels\nselect 2";
        assert_eq!(
            parts(text),
            [
                ".tables",
                "select 1\n.5 as a;\n",
                ".schema kernels",
                "select 2\n"
            ]
        );
    }
}
