//! SQL over the tables of a session. Reads nothing but what it is given: no table function that opens a
//! file is compiled in.

use std::collections::BTreeMap;

use polars::prelude::{DataFrame, IntoLazy, PolarsError, PolarsResult, col};
use polars::sql::SQLContext;

use super::TablesError;
use super::answer::{Answer, Value};
use super::frame::{Texts, frame, from_answer, layout, to_answer};
use crate::model::table::Table;
use crate::model::{Session, StrId};

/// The table that describes all others: one row a column.
const CATALOGUE: &str = "columns";

/// Words of a query whose rows come in an order that depends on the number of threads.
const UNORDERED: [&str; 6] = ["distinct", "except", "group", "intersect", "join", "union"];

/// Longest query in bytes. With it, [`STACK`] suffices for the deepest nesting.
const LONGEST: usize = 16 << 10;

/// Stack of the thread that runs a query, in bytes; only what is used takes memory.
const STACK: usize = 512 << 20;

/// Answers one SQL statement over the tables of `session` and the plain tables `extra`.
///
/// Beside its own columns a table has `id`, its row number; `duration`, end − start in nanoseconds, where
/// it has both; and `name`, the kernel's, where it refers to kernels. The table `columns` describes them.
/// Rows come in the order that the query asks for; where it groups or joins without `order by`, they are
/// sorted by all columns, left to right.
pub fn query(
    session: &Session,
    extra: &[(&str, Answer)],
    sql: &str,
) -> Result<Answer, TablesError> {
    if sql.len() > LONGEST {
        return Err(TablesError::Query(format!("it is longer than {LONGEST} bytes")));
    }
    let mut frames = views(session, sql)?;
    for (name, answer) in extra {
        if frames.insert((*name).to_owned(), from_answer(name, answer)?).is_some() {
            return Err(TablesError::Duplicate((*name).to_owned()));
        }
    }
    let mut answer = isolated(|| run(&frames, sql))?;
    if !keeps_order(sql) {
        answer.sort();
    }
    Ok(answer)
}

fn run(frames: &BTreeMap<String, DataFrame>, sql: &str) -> Result<Answer, TablesError> {
    let mut context = SQLContext::new();
    for (name, frame) in frames {
        context.register(name, frame.clone().lazy());
    }
    let frame = context.execute(sql).and_then(|lazy| lazy.collect());
    frame.map(|frame| to_answer(&frame)).map_err(|error| explained(&error, frames, sql))
}

/// Runs `work` on a thread of its own: polars panics on some mistaken queries (`greatest()` of nothing)
/// and recurses once a nested expression.
fn isolated(
    work: impl FnOnce() -> Result<Answer, TablesError> + Send,
) -> Result<Answer, TablesError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("query".into()).stack_size(STACK);
        match thread.spawn_scoped(scope, work).map(|thread| thread.join()) {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(TablesError::Query("polars does not support it".into())),
            Err(error) => Err(TablesError::Query(error.to_string())),
        }
    })
}

/// All tables by name. Those that the query does not name are empty: laying out a table of millions of
/// rows takes longer than asking another one.
fn views(session: &Session, sql: &str) -> Result<BTreeMap<String, DataFrame>, TablesError> {
    let sql = sql.to_lowercase();
    let (texts, empty) = (Texts::new(&session.strings), Session::default());
    let mut views = BTreeMap::new();
    for (table, empty) in session.tables().into_iter().zip(empty.tables()) {
        let table = if sql.contains(table.name()) { table } else { empty };
        views.insert(table.name().to_owned(), view(table, session, &texts)?);
    }
    let catalogue = catalogue(session, &views);
    views.insert(CATALOGUE.to_owned(), from_answer(CATALOGUE, &catalogue)?);
    Ok(views)
}

/// A table with the columns that people would otherwise compute or join each time.
fn view(table: &dyn Table, session: &Session, texts: &Texts) -> Result<DataFrame, TablesError> {
    let frame = frame(table, texts)?;
    let frame = with_kernel_name(frame, session, texts).and_then(with_duration);
    frame.map_err(|error| layout(table.name(), &error))
}

fn with_duration(frame: DataFrame) -> PolarsResult<DataFrame> {
    if frame.column("start").is_err() || frame.column("end").is_err() {
        return Ok(frame);
    }
    frame.lazy().with_column((col("end") - col("start")).alias("duration")).collect()
}

fn with_kernel_name(
    mut frame: DataFrame,
    session: &Session,
    texts: &Texts,
) -> PolarsResult<DataFrame> {
    let Ok(kernels) = frame.column("kernel") else {
        return Ok(frame);
    };
    let name = |kernel: i64| -> Option<StrId> {
        session.kernels.name.get(usize::try_from(kernel).ok()?).copied()
    };
    let ids = kernels.i64()?.iter().map(|kernel| kernel.and_then(name));
    let names = texts.gather("name", ids)?;
    frame.with_column(names)?;
    Ok(frame)
}

fn catalogue(session: &Session, views: &BTreeMap<String, DataFrame>) -> Answer {
    let mut rows = Vec::new();
    for table in session.tables() {
        let described: BTreeMap<_, _> =
            table.columns().into_iter().map(|c| (c.name, c.doc)).collect();
        let columns = views.get(table.name()).map(DataFrame::columns).unwrap_or_default();
        for column in columns {
            let doc = described.get(column.name().as_str()).copied();
            let texts = [
                table.name(),
                column.name().as_str(),
                &column.dtype().to_string(),
                doc.unwrap_or_else(|| added_doc(column.name())),
            ];
            rows.push(texts.map(|text| Some(Value::Text(text.to_owned()))).to_vec());
        }
    }
    Answer { columns: ["table", "column", "type", "description"].map(String::from).to_vec(), rows }
}

fn added_doc(column: &str) -> &'static str {
    match column {
        "id" => "Row number; columns of other tables refer to it.",
        "duration" => "End − start, nanoseconds.",
        "name" => "Name of the kernel.",
        _ => "",
    }
}

/// Whether the rows come in a fixed order without our help: asked for, or that of a single table.
fn keeps_order(sql: &str) -> bool {
    let words = words(sql);
    let orders = |pair: &[(usize, String)]| {
        pair.iter().all(|(depth, _)| *depth == 0) && pair[0].1 == "order" && pair[1].1 == "by"
    };
    let unordered = |(_, word): &(usize, String)| UNORDERED.contains(&word.as_str());
    words.windows(2).any(orders) || !words.iter().any(unordered)
}

/// The words of a query in lower case, each with the number of parentheses around it; quoted texts are
/// left out.
fn words(sql: &str) -> Vec<(usize, String)> {
    let (mut words, mut word, mut depth) = (Vec::new(), String::new(), 0_usize);
    let mut characters = sql.chars().chain([' ']);
    while let Some(character) = characters.next() {
        if character.is_alphanumeric() || character == '_' {
            word.extend(character.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push((depth, std::mem::take(&mut word)));
        }
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '\'' | '"' => characters.by_ref().take_while(|c| *c != character).for_each(drop),
            _ => {}
        }
    }
    words
}

/// The error of polars as ours: what is there beside what was asked for.
fn explained(error: &PolarsError, frames: &BTreeMap<String, DataFrame>, sql: &str) -> TablesError {
    let message = error.to_string();
    for before in ["relation ", "no table or alias named ", "no table or struct column named "] {
        if let Some(name) = quoted_after(&message, before) {
            return TablesError::UnknownTable { name, known: frames.keys().cloned().collect() };
        }
    }
    for before in ["no column named ", "unable to find column "] {
        if let Some(name) = quoted_after(&message, before) {
            return TablesError::UnknownColumn { name, known: named_tables(frames, sql) };
        }
    }
    // What follows the first empty line is the query plan.
    let reason = message.split("\n\n").next().unwrap_or_default();
    TablesError::Query(reason.to_owned())
}

fn quoted_after(message: &str, before: &str) -> Option<String> {
    let (_, rest) = message.split_once(before)?;
    let quote = rest.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    rest[1..].split(quote).next().map(str::to_owned)
}

fn named_tables(frames: &BTreeMap<String, DataFrame>, sql: &str) -> Vec<(String, Vec<String>)> {
    let words = words(sql);
    let named = |name: &str| words.iter().any(|(_, word)| word == name);
    let columns = |frame: &DataFrame| {
        frame.get_column_names().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let tables = frames.iter().filter(|(name, _)| named(name));
    tables.map(|(name, frame)| (name.clone(), columns(frame))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_where_it_is_asked_for_at_the_outside() {
        assert!(keeps_order("select * from launches limit 3"));
        assert!(keeps_order("select a, sum(b) from t group by a ORDER  BY a"));
        assert!(!keeps_order("select a, sum(b) from t group by a"));
        assert!(!keeps_order("select a from (select a from t order by a) group by a"));
        assert!(!keeps_order("select distinct 'order by' from t"));
        assert!(keeps_order("select 'group' from t"));
    }
}
