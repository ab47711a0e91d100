//! Rows of a table that are added up before SQL sees them.
//!
//! SQLite takes about a microsecond for each row that it stores and sorts into groups. A statement that asks for nothing
//! but sums, least and greatest values gives the same answer if rows that agree in all other columns are one row. Of ten
//! million rows of kernels, `kernels.sql` then stores 24 thousand. A statement that could see the difference, because it
//! counts rows, joins tables or takes a median, is not recognized and gets all rows.

use std::mem;

use polars_core::prelude::DataFrame;
use rooflens_query::Value;
use rooflens_session::{StrId, Strings};
use rustc_hash::FxHashMap;

use super::query::Row;
use super::schema::{Column, Kind, Table, table};

/// Groups that are kept at a time. More are several rows each, which changes no sum.
const GROUPS: usize = 1 << 20;

/// Words that can follow the name of the only table.
const CLAUSES: [&str; 6] = ["where", "group", "having", "order", "limit", ";"];

/// Words before a parenthesis that see values and not the number of rows.
const SCALARS: [&str; 22] = [
    "abs", "and", "by", "case", "coalesce", "else", "having", "ifnull", "in", "length", "lower",
    "not", "nullif", "or", "round", "select", "substr", "then", "trim", "upper", "when", "where",
];

/// Words that see more than the values of columns that are named.
const REFUSED: [&str; 5] = ["collate", "rowid", "oid", "_rowid_", "using"];

/// How a statement uses a column: its values stay apart, or become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Key,
    Sum,
    Min,
    Max,
}

/// Sums of the rows of a table, as a statement asks for them.
pub(crate) struct Sums {
    pub(crate) table: &'static Table,
    keys: Vec<Key>,
    totals: Vec<Total>,
    /// Sums that the next value would have overflowed, as rows of their own.
    full: Vec<Row>,
    strings: Strings,
}

/// A value as 64 bits: the id of a text, an integer, or the bits of a double. None is null.
type Code = Option<u64>;

/// A column whose values stay apart, with the groups of it and the keys before it.
struct Key {
    column: &'static Column,
    place: usize,
    numbers: FxHashMap<(u32, Code), u32>,
    /// The group of the keys before, and the value, of each group.
    groups: Vec<(u32, Code)>,
}

/// A column whose values become one in each group.
struct Total {
    column: &'static Column,
    place: usize,
    aggregate: Use,
    codes: Vec<Code>,
}

impl Sums {
    /// The sums of a statement in lower case; none if it could tell sums from rows.
    pub(crate) fn of(tokens: &[&str]) -> Option<Self> {
        let count = |word: &str| tokens.iter().filter(|token| **token == word).count();
        let is_refused =
            |token: &&str| REFUSED.contains(token) || token.starts_with(QUOTES_OF_NAMES);
        let is_plain = !tokens.iter().any(is_refused) && !has_star(tokens);
        if !is_plain || count("select") != 1 || count("from") != 1 {
            return None;
        }
        let from = tokens.iter().position(|token| *token == "from")?;
        let table = table(tokens.get(from + 1)?)?;
        if !CLAUSES.contains(tokens.get(from + 2).unwrap_or(&";")) {
            return None;
        }
        let columns: Vec<&'static Column> = table.all_columns().collect();
        let place_of = |name: &str| columns.iter().position(|column| column.name == name);
        let mut uses: Vec<Option<Use>> = vec![None; columns.len()];
        let mut rest = tokens;
        while !rest.is_empty() {
            let (length, column, usage) = match rest {
                ["sum", "(", name, ")", ..] => (4, Some(place_of(name)?), Use::Sum),
                ["min", "(", name, ")", ..] => (4, Some(place_of(name)?), Use::Min),
                ["max", "(", name, ")", ..] => (4, Some(place_of(name)?), Use::Max),
                [word, "(", ..] if is_word(word) && !SCALARS.contains(word) => return None,
                ["as", _, ..] => (2, None, Use::Key),
                _ => (1, place_of(rest[0]), Use::Key),
            };
            rest = &rest[length..];
            let Some(column) = column else {
                continue;
            };
            let is_sum_of_texts = usage == Use::Sum && columns[column].kind == Kind::Text;
            if is_sum_of_texts || uses[column].is_some_and(|known| known != usage) {
                return None;
            }
            uses[column] = Some(usage);
        }
        let mut sums = Self {
            table,
            keys: Vec::new(),
            totals: Vec::new(),
            full: Vec::new(),
            strings: Strings::default(),
        };
        for (place, (column, usage)) in columns.into_iter().zip(uses).enumerate() {
            match usage {
                None => {}
                Some(Use::Key) => sums.keys.push(Key {
                    column,
                    place,
                    numbers: FxHashMap::default(),
                    groups: Vec::new(),
                }),
                Some(aggregate) => sums.totals.push(Total {
                    column,
                    place,
                    aggregate,
                    codes: Vec::new(),
                }),
            }
        }
        // Neighbors often have the same numbers and other texts: numbers first, a group is looked up once for many rows.
        sums.keys.sort_by_key(|key| key.column.kind == Kind::Text);
        (!sums.totals.is_empty()).then_some(sums)
    }

    /// The columns that are read.
    pub(crate) fn columns(&self) -> Vec<&'static Column> {
        let keys = self.keys.iter().map(|key| key.column);
        keys.chain(self.totals.iter().map(|total| total.column))
            .collect()
    }

    /// The sums of all rows of these frames.
    pub(crate) fn rows(
        mut self,
        frames: impl Iterator<Item = DataFrame>,
    ) -> impl Iterator<Item = Row> {
        // Freed when the next one is read. Otherwise the allocator returns the memory of each frame to the system, and gets
        // it back page by page, which takes a third of the CPU time.
        let mut last = None;
        frames.map(Some).chain([None]).flat_map(move |frame| {
            if let Some(frame) = &frame {
                self.add(frame);
            }
            let is_full = self.totals[0].codes.len() > GROUPS;
            let is_end = frame.is_none();
            drop(mem::replace(&mut last, frame));
            if is_full || is_end {
                self.take()
            } else {
                Vec::new()
            }
        })
    }

    fn add(&mut self, frame: &DataFrame) {
        let mut groups = vec![0; frame.height()];
        let mut count = 1;
        for key in &mut self.keys {
            let (numbers, known) = (&mut key.numbers, &mut key.groups);
            let mut last = None;
            read(frame, key.column, &mut self.strings, |row, code, _| {
                let group = (groups[row], code);
                groups[row] = match last {
                    Some((last, number)) if last == group => number,
                    _ => *numbers.entry(group).or_insert_with(|| {
                        known.push(group);
                        known.len() as u32 - 1
                    }),
                };
                last = Some((group, groups[row]));
            });
            count = known.len();
        }
        let mut full = Vec::new();
        for (number, total) in self.totals.iter_mut().enumerate() {
            total.codes.resize(count, None);
            let (aggregate, kind) = (total.aggregate, total.column.kind);
            read(
                frame,
                total.column,
                &mut self.strings,
                |row, code, strings| {
                    let Some(code) = code else {
                        return;
                    };
                    let sum = &mut total.codes[groups[row] as usize];
                    let joined = match *sum {
                        Some(sum) => aggregate.joined(kind, sum, code, strings),
                        None => Some(code),
                    };
                    if joined.is_none() {
                        full.push((number, groups[row], *sum));
                    }
                    *sum = joined.or(Some(code));
                },
            );
        }
        for (number, group, sum) in full {
            let mut row = self.row(group);
            let total = &self.totals[number];
            row[total.place] = self.value(total.column, sum);
            self.full.push(row);
        }
    }

    /// The sums so far; no row is part of those to come.
    fn take(&mut self) -> Vec<Row> {
        let mut rows = mem::take(&mut self.full);
        for group in 0..self.totals[0].codes.len() {
            let mut row = self.row(group as u32);
            for total in &self.totals {
                row[total.place] = self.value(total.column, total.codes[group]);
            }
            rows.push(row);
        }
        for key in &mut self.keys {
            key.numbers.clear();
            key.groups.clear();
        }
        for total in &mut self.totals {
            total.codes.clear();
        }
        self.strings = Strings::default();
        rows
    }

    /// A row with the keys of a group.
    fn row(&self, mut group: u32) -> Row {
        let mut row = vec![None; self.table.all_columns().count()];
        for key in self.keys.iter().rev() {
            let (before, code) = key.groups[group as usize];
            row[key.place] = self.value(key.column, code);
            group = before;
        }
        row
    }

    fn value(&self, column: &Column, code: Code) -> Option<Value> {
        let code = code?;
        Some(match column.kind {
            Kind::Text => Value::Text(self.strings.get(StrId(code as u32)).to_owned()),
            Kind::Int => Value::Int(code as i64),
            Kind::Float => Value::Float(f64::from_bits(code)),
        })
    }
}

impl Use {
    /// Two values as one; none if their sum is no 64-bit integer.
    fn joined(self, kind: Kind, one: u64, other: u64, strings: &Strings) -> Option<u64> {
        let (number, added) = (f64::from_bits(one), f64::from_bits(other));
        let order = match (self, kind) {
            (Self::Sum, Kind::Int) => {
                let sum = (one as i64).checked_add(other as i64);
                return sum.map(|sum| sum as u64);
            }
            (Self::Sum, _) => return Some((number + added).to_bits()),
            (_, Kind::Int) => (one as i64).cmp(&(other as i64)),
            (_, Kind::Float) => number.total_cmp(&added),
            (_, Kind::Text) if one == other => return Some(one),
            (_, Kind::Text) => {
                let text = |code: u64| strings.get(StrId(code as u32));
                text(one).cmp(text(other))
            }
        };
        let is_first = order.is_lt() == (self == Self::Min);
        Some(if is_first { one } else { other })
    }
}

/// Calls `each` with the rows and values of a column. Nothing is called for a column that the frame lacks.
fn read(
    frame: &DataFrame,
    column: &Column,
    strings: &mut Strings,
    mut each: impl FnMut(usize, Code, &Strings),
) {
    let Ok(values) = frame.column(column.name) else {
        return;
    };
    match column.kind {
        Kind::Text => {
            let mut row = 0;
            for array in values
                .str()
                .into_iter()
                .flat_map(|texts| texts.downcast_iter())
            {
                // The views of an entry of the file's dictionary are equal: its text is hashed once.
                let mut ids = FxHashMap::default();
                for (view, text) in array.views().iter().zip(array.iter()) {
                    let id = text.map(|text| {
                        let id = ids.entry(view.as_u128());
                        *id.or_insert_with(|| u64::from(strings.intern(text).0))
                    });
                    each(row, id, strings);
                    row += 1;
                }
            }
        }
        Kind::Int => {
            for (row, number) in values
                .i64()
                .into_iter()
                .flat_map(|numbers| numbers.iter())
                .enumerate()
            {
                each(row, number.map(|number| number as u64), strings);
            }
        }
        Kind::Float => {
            for (row, number) in values
                .f64()
                .into_iter()
                .flat_map(|numbers| numbers.iter())
                .enumerate()
            {
                // SQLite has no other value for what is no number.
                let number = number.filter(|number| !number.is_nan());
                each(row, number.map(f64::to_bits), strings);
            }
        }
    }
}

/// First letters of quoted names, and of quoted texts.
const QUOTES_OF_NAMES: [char; 3] = ['"', '`', '['];
const QUOTE_OF_TEXTS: char = '\'';

/// Words, numbers, quoted texts and signs of a statement, without its comments.
pub(crate) fn tokens(sql: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let after = |end: &str| {
            rest.get(first.len_utf8()..)
                .and_then(|inner| inner.find(end))
        };
        let (length, is_token) = if rest.starts_with("--") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").map_or(rest.len(), |end| end + 4);
            (end, false)
        } else if first == QUOTE_OF_TEXTS || QUOTES_OF_NAMES.contains(&first) {
            let end = if first == '[' { "]" } else { &rest[..1] };
            (after(end).map_or(rest.len(), |end| end + 2), true)
        } else if is_part(first) {
            (
                rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()),
                true,
            )
        } else {
            (first.len_utf8(), true)
        };
        let (token, others) = rest.split_at(length);
        if is_token {
            tokens.push(token);
        }
        rest = others.trim_start();
    }
    tokens
}

pub(crate) fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_word(token: &str) -> bool {
    token.chars().all(is_part)
}

/// Whether a statement asks for all columns: a star that no operand and no parenthesis is before.
pub(crate) fn has_star(tokens: &[&str]) -> bool {
    const BEFORE: [&str; 5] = [",", ".", "select", "distinct", "all"];
    tokens
        .windows(2)
        .any(|pair| pair[1] == "*" && BEFORE.contains(&pair[0]))
}

#[cfg(test)]
mod tests {
    use super::{Sums, has_star, tokens};

    #[test]
    fn a_star_of_columns_is_no_product_and_no_count() {
        for all in [
            "select * from a",
            "select b, * from a",
            "select a.* from a",
            "select /* b */ * from a",
        ] {
            assert!(has_star(&tokens(all)), "{all}");
        }
        for product in ["select count(*) from a", "select 2 * b from a", "select b"] {
            assert!(!has_star(&tokens(product)), "{product}");
        }
    }

    #[test]
    fn tokens_have_no_comments_and_keep_quoted_texts_whole() {
        let sql = "select a_1, 'x -- y' -- comment\n from \"b c\"/* d */;";
        assert_eq!(
            tokens(sql),
            ["select", "a_1", ",", "'x -- y'", "from", "\"b c\"", ";"]
        );
        assert_eq!(tokens("'open"), ["'open"]);
        assert_eq!(tokens("é /* open"), ["é"]);
    }

    #[test]
    fn only_statements_that_cannot_tell_sums_from_rows_are_recognized() {
        let sums = |sql| Sums::of(&tokens(sql));
        for sql in [
            "select name, sum(count) from kernels group by name",
            "select max(class) as class, round(sum(total_ns) / 1e9, 6) from kernels where counted = 1",
            "select sum(count) from kernels where (counted = 1) and class = 'from' and counted in (1, 2) group by pass having sum(count) > 3",
        ] {
            assert!(sums(sql).is_some(), "{sql}");
        }
        for sql in [
            "select name from kernels",
            "select name, sum(count), count(*) from kernels group by name",
            "select count(name), sum(count) from kernels",
            "select count, sum(count) from kernels group by count",
            "select min(count), max(count) from kernels",
            "select sum(count), avg(total_ns) from kernels",
            "select sum(distinct count) from kernels",
            "select sum(2 * count) from kernels",
            "select sum(1) from kernels",
            "select sum(name) from kernels",
            "select *, sum(count) from kernels",
            "select sum(count) over (order by name) from kernels",
            "select sum(count) filter (where counted = 1) from kernels",
            "select sum(count) from kernels, captures",
            "select sum(count) from kernels join captures",
            "select sum(count) from kernels as k",
            "select sum(count) from (select count from kernels)",
            "select sum(count) from kernels union select sum(gaps) from idle",
            "select sum(count) from kernels where \"name\" = 'a'",
            "select max(name collate nocase) from kernels",
            "select sum(count), rowid from kernels",
            "select sum(count) from nothing",
        ] {
            assert!(sums(sql).is_none(), "{sql}");
        }
    }
}
