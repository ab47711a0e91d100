//! Tables that `nsys stats` prints: CSV, or columns under a line of dashes as it prints them to the console.
//!
//! A text may hold several tables, notes of progress and the output of the program. Formats and options are described in
//! the Nsight Systems User Guide, "nsys stats", "Output formats": `csv` and `column`, the default.

use std::borrow::Cow;

use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_units::Time;

/// Longest line that may be a head: of console tables it has the width of all columns.
const MAX_HEAD: usize = 16 << 10;

/// A column's head: its name, and the unit in parentheses behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
}

/// A table of a text.
pub(super) struct Table<'a> {
    pub(super) columns: Vec<Column<'a>>,
    /// Line of the head, from 1.
    pub(super) line: u64,
    layout: Layout,
    body: &'a str,
    /// The text ends within a row, which is dropped.
    is_cut: bool,
}

/// The separator of cells.
enum Layout {
    Csv,
    /// First and last sign of each column.
    Fixed(Vec<(usize, usize)>),
}

/// The tables of a text, in their order.
pub(super) fn tables(text: &str) -> impl Iterator<Item = Table<'_>> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 0;
    std::iter::from_fn(move || {
        while let Some((head, after)) = rest.split_once('\n') {
            line += 1;
            rest = after;
            let head = head.trim_end_matches('\r');
            if head.len() > MAX_HEAD {
                continue;
            }
            if let Some((columns, layout, body)) = fixed(head, after).or_else(|| csv(head, after)) {
                return Some(Table::new(columns, line, layout, body));
            }
        }
        None
    })
}

/// The head of a CSV table.
fn csv<'a>(head: &'a str, after: &'a str) -> Option<(Vec<Column<'a>>, Layout, &'a str)> {
    let is_head = ["Time", "Start", "Total (", "\"Time", "\"Start", "\"Total ("]
        .iter()
        .any(|start| head.starts_with(start));
    if !is_head || !head.contains(',') {
        return None;
    }
    let columns = head
        .split(',')
        .map(|cell| column(cell.trim().trim_matches('"')))
        .collect();
    Some((columns, Layout::Csv, until_empty(after)))
}

/// The head of a console table: the next line has a run of dashes for each column.
fn fixed<'a>(head: &'a str, after: &'a str) -> Option<(Vec<Column<'a>>, Layout, &'a str)> {
    let (dashes, body) = after.split_once('\n')?;
    let dashes = dashes.trim_end();
    if !dashes.starts_with([' ', '-']) || !dashes.bytes().all(|sign| matches!(sign, b'-' | b' ')) {
        return None;
    }
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (sign, _) in dashes.bytes().enumerate().filter(|(_, sign)| *sign == b'-') {
        match ranges.last_mut() {
            Some((_, end)) if *end == sign => *end = sign + 1,
            _ => ranges.push((sign, sign + 1)),
        }
    }
    let cells = cells(head, &ranges);
    let names = cells.iter().filter(|cell| !cell.is_empty()).count();
    (names > 2 && names == ranges.len()).then(|| {
        let columns = cells.into_iter().map(column).collect();
        (columns, Layout::Fixed(ranges), until_empty(body))
    })
}

fn column(head: &str) -> Column<'_> {
    let (name, unit) = head.split_once('(').unwrap_or((head, ""));
    Column {
        name: name.trim(),
        unit: unit.trim_end_matches(')').trim(),
    }
}

fn until_empty(text: &str) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() {
            break;
        }
        end += line.len();
    }
    &text[..end]
}

/// The cells of a line in columns. The last one goes on to the end.
fn cells<'a>(line: &'a str, ranges: &[(usize, usize)]) -> Vec<&'a str> {
    let offset = |sign: usize| {
        line.char_indices()
            .nth(sign)
            .map_or(line.len(), |(start, _)| start)
    };
    // Most lines have signs of one byte alone.
    let offset = |sign: usize| {
        if line.is_ascii() {
            sign.min(line.len())
        } else {
            offset(sign)
        }
    };
    let last = ranges.len().saturating_sub(1);
    let cell = |(number, (start, end)): (usize, &(usize, usize))| {
        let end = if number == last {
            line.len()
        } else {
            offset(*end)
        };
        line.get(offset(*start)..end).unwrap_or_default().trim()
    };
    ranges.iter().enumerate().map(cell).collect()
}

impl<'a> Table<'a> {
    fn new(columns: Vec<Column<'a>>, line: u64, layout: Layout, body: &'a str) -> Self {
        // Each row ends its line: a number or a name that is cut is another one.
        let end = body.rfind('\n').map_or(0, |last| last + 1);
        let body_end = &body[end..];
        let quotes = memchr::memchr_iter(b'"', body.as_bytes()).count();
        let is_open = matches!(layout, Layout::Csv) && quotes % 2 == 1;
        Self {
            columns,
            line,
            layout,
            body: &body[..end],
            is_cut: !body_end.is_empty() || is_open,
        }
    }

    /// What a text that ends within a row loses.
    pub(super) fn loss(&self, file: &ArtifactFile) -> Option<Diagnostic> {
        let message = "the text ends within a row: rows are missing";
        let cut = Diagnostic::new(Severity::DataLoss, "stats/cut", message);
        let hint = "write it again, or copy it whole";
        self.is_cut.then(|| cut.artifact(&file.path).hint(hint))
    }

    /// Where a column of one of these names is.
    pub(super) fn position(&self, names: &[&str]) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| names.contains(&column.name))
    }

    /// Where a column of times is, and nanoseconds per unit of it; without a unit they are nanoseconds.
    pub(super) fn time(&self, names: &[&str]) -> Option<(usize, u32)> {
        let column = self.position(names)?;
        let scale = match self.columns[column].unit {
            "" | "ns" | "nsec" => 1,
            "us" | "usec" | "μs" | "µs" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            _ => return None,
        };
        Some((column, scale))
    }

    /// Calls `each` with the line and the cells of every row until it is done.
    ///
    /// # Errors
    /// Those of `each`, and of CSV that is damaged.
    pub(super) fn rows<E: From<csv::Error>>(
        &self,
        mut each: impl FnMut(u64, &[Cow<'a, str>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Layout::Fixed(ranges) = &self.layout else {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .from_reader(self.body.as_bytes());
            for record in reader.records() {
                let record = record?;
                let line = self.line + record.position().map_or(0, csv::Position::line);
                let row: Vec<Cow<'_, str>> = record
                    .iter()
                    .map(|cell| Cow::Owned(cell.trim().to_owned()))
                    .collect();
                each(line, &row)?;
            }
            return Ok(());
        };
        for (number, line) in (2..).zip(self.body.lines()) {
            let row: Vec<Cow<'_, str>> =
                cells(line, ranges).into_iter().map(Cow::Borrowed).collect();
            each(self.line + number, &row)?;
        }
        Ok(())
    }
}

/// The number in a cell; the console groups digits by commas.
pub(super) fn number<T: std::str::FromStr>(cell: &str) -> Option<T> {
    match cell.contains(',') {
        true => cell.replace(',', "").parse().ok(),
        false => cell.parse().ok(),
    }
}

/// A time from a cell in units of `scale` nanoseconds.
pub(super) fn time(cell: &str, scale: u32) -> Option<Time> {
    let time = f64::from(scale) * Time(number(cell)?);
    (Time::ZERO..Time(1e18)).contains(&time).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let mut lines = Vec::new();
        for table in tables(text) {
            let add = |line: u64, row: &[Cow<'_, str>]| {
                let cells = row.iter().map(ToString::to_string);
                lines.push([line.to_string()].into_iter().chain(cells).collect());
                Ok::<(), csv::Error>(())
            };
            table.rows(add).expect("whole rows");
        }
        lines
    }

    #[test]
    fn both_layouts_give_the_same_cells() {
        let csv = "Processing [x.sqlite] with [x.py]...\nTime (%),Total Time (ns),Name\n50.0,1234,\"f<int, 2>(T)\"\n\nend\n";
        let console = " ** Summary (x):\n\n Time (%)  Total Time (ns)  Name        \n --------  ---------------  ------------\n     50.0            1,234  f<int, 2>(T)\n\nend\n";
        assert_eq!(rows(csv), [["3", "50.0", "1234", "f<int, 2>(T)"]]);
        assert_eq!(rows(console), [["5", "50.0", "1,234", "f<int, 2>(T)"]]);
        assert_eq!(number::<u64>("1,234"), Some(1234));
        let table = tables(console).next().expect("a table");
        assert_eq!(
            table.columns[1],
            Column {
                name: "Total Time",
                unit: "ns"
            }
        );
        assert_eq!(table.time(&["Total Time"]), Some((1, 1)));
    }

    #[test]
    fn dashes_that_fit_no_head_and_long_lines_are_no_table() {
        assert_eq!(tables("abc\n----\n1\n").count(), 0);
        assert_eq!(tables("a b\n- - - -\n1\n").count(), 0);
        assert_eq!(tables("Time\n").count(), 0);
        assert_eq!(
            tables(&format!("Time,{}\n1\n", "x".repeat(MAX_HEAD))).count(),
            0
        );
        // A name that is cut ends in a sign of three bytes.
        let cut = " Time  Total  Name\n ----  -----  ----\n    1      2  ab…\n é\n";
        assert_eq!(rows(cut), [["3", "1", "2", "ab…"], ["4", "é", "", ""]]);
    }
}
