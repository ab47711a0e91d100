//! The output of ncu without `--csv` (`--page details`): for each launch a line with its name and extents, then a table for
//! each section, then what rules found. It becomes the details page, which has the same values.
//!
//! The output is described in the Nsight Compute CLI documentation, "Console output". Grid and block stand before the
//! context, `(grid)x(block)`, since 2021.3; before, a date stands there. Rules stand without their names: each is found by
//! its section.

use std::fmt::Write as _;

/// Columns of the page that is made.
const HEADER: &str = "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule Description\",\"Estimated Speedup Type\",\"Estimated Speedup\"\n";

/// The page may have so many times the bytes of the text, each row repeating the name of its kernel, and so many more.
const MAX_RATIO: usize = 16;
const MAX_BASE: usize = 16 << 20;

/// Types of rules, as the console and the CSV name them.
const RULE_TYPES: [&str; 3] = ["OPT", "WRN", "INF"];

/// A launch: the columns that all its rows begin with.
#[derive(Debug, Default, PartialEq, Eq)]
struct Launch<'a> {
    name: &'a str,
    extents: Option<(&'a str, &'a str)>,
    context: &'a str,
    stream: &'a str,
    device: &'a str,
    capability: &'a str,
}

/// True if a text is such output.
pub(super) fn recognizes(text: &str) -> bool {
    text.lines().any(|line| section(line).is_some())
        && text
            .lines()
            .any(|line| launch(line).is_some() || line.starts_with("==PROF== "))
}

/// The details page of a console report, and whether the text ends within a launch; none of another text, and of one that
/// would make too large a page.
pub(super) fn page(text: &str) -> Option<(String, bool)> {
    let mut page = Page {
        text: HEADER.to_owned(),
        ..Page::default()
    };
    let limit = text
        .len()
        .saturating_mul(MAX_RATIO)
        .saturating_add(MAX_BASE);
    // A last line without an end may be cut within a number.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    for line in whole.lines() {
        page.line(line.trim_end_matches('\r'));
        if page.text.len() > limit {
            return None;
        }
    }
    let last = text.rfind('\n').map_or(text, |end| &text[end..]);
    // Tables and rules end with an empty line.
    let is_open = page.columns.is_some() || page.rule.is_some() || page.section.is_empty();
    let is_cut = is_open || !last.trim().is_empty();
    page.end_rule();
    (page.launches > 0).then_some((page.text, is_cut))
}

#[derive(Default)]
struct Page<'a> {
    text: String,
    process: [&'a str; 3],
    /// The columns of the launch, quoted.
    launch: String,
    launches: u64,
    section: &'a str,
    /// First and last byte of the three columns of a table that is open.
    columns: Option<[(usize, usize); 3]>,
    rule: Option<(&'a str, String)>,
}

impl<'a> Page<'a> {
    fn line(&mut self, line: &'a str) {
        if let Some(process) = process(line) {
            self.process = process;
        } else if let Some(launch) = launch(line) {
            self.begin(&launch);
        } else if self.launches == 0 {
        } else if let Some(section) = section(line) {
            self.end_rule();
            (self.section, self.columns) = (section, None);
        } else if let Some(columns) = dashes(line) {
            self.columns = Some(columns);
        } else if line.trim().is_empty() {
            // The line between head and values of a table follows at once.
            self.end_rule();
            self.columns = None;
        } else if line.bytes().all(|sign| matches!(sign, b'-' | b' ')) {
            // Newer versions rule off remarks by such a line.
            self.end_rule();
        } else if let Some((kind, words)) = rule(line) {
            self.end_rule();
            self.rule = Some((kind, words.trim().to_owned()));
        } else if let Some((_, words)) = &mut self.rule {
            words.push(' ');
            words.push_str(line.trim());
        } else if let Some(columns) = self.columns {
            self.metric(line, columns);
        }
    }

    fn begin(&mut self, launch: &Launch<'_>) {
        self.end_rule();
        let id = self.launches.to_string();
        let (grid, block) = launch.extents.unwrap_or_default();
        let [pid, name, host] = self.process;
        self.launch.clear();
        for cell in [
            &id,
            pid,
            name,
            host,
            launch.name,
            launch.context,
            launch.stream,
            block,
            grid,
            launch.device,
            launch.capability,
        ] {
            push(&mut self.launch, cell);
        }
        self.launches += 1;
        (self.section, self.columns) = ("", None);
    }

    fn metric(&mut self, line: &str, columns: [(usize, usize); 3]) {
        let cell = |(start, end): (usize, usize)| line.get(start..end.min(line.len()));
        let [name, unit, value] = columns.map(|range| cell(range).unwrap_or_default().trim());
        if name.is_empty() || value.is_empty() || value == "Metric Value" {
            return;
        }
        self.text.push_str(&self.launch);
        for cell in [self.section, name, unit, value] {
            push(&mut self.text, cell);
        }
        self.text.push_str("\"\",\"\",\"\",\"\",\"\"\n");
    }

    fn end_rule(&mut self) {
        let Some((kind, words)) = self.rule.take() else {
            return;
        };
        let (speedup_kind, speedup, words) = speedup(&words);
        self.text.push_str(&self.launch);
        let description = words.trim();
        for cell in [
            self.section,
            "",
            "",
            "",
            self.section,
            kind,
            description,
            speedup_kind,
        ] {
            push(&mut self.text, cell);
        }
        let _ = writeln!(self.text, "\"{speedup}\"");
    }
}

/// Adds a cell, with the comma behind it.
fn push(text: &mut String, cell: &str) {
    let _ = write!(text, "\"{}\",", cell.replace('"', "\"\""));
}

/// `[196950] python3.10@127.0.0.1`: process, name and host.
fn process(line: &str) -> Option<[&str; 3]> {
    let (pid, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (name, host) = rest.trim_end().rsplit_once('@')?;
    (!pid.is_empty() && pid.bytes().all(|sign| sign.is_ascii_digit())).then_some([pid, name, host])
}

/// `  name(args) (4, 1, 1)x(64, 1, 1), Context 1, Stream 7, Device 0, CC 9.0`, and the older
/// `  name(args), 2020-Nov-12 10:00:00, Context 1, Stream 7`.
fn launch(line: &str) -> Option<Launch<'_>> {
    let line = line
        .strip_prefix("  ")
        .filter(|line| !line.starts_with(' '))?
        .trim_end();
    let (rest, launch) = match line.rsplit_once(", CC ") {
        Some((rest, capability)) => {
            let (rest, device) = rest.rsplit_once(", Device ")?;
            (
                rest,
                Launch {
                    device,
                    capability,
                    ..Launch::default()
                },
            )
        }
        None => (line, Launch::default()),
    };
    let (rest, stream) = rest.rsplit_once(", Stream ")?;
    let (rest, context) = rest.rsplit_once(", Context ")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|sign| sign.is_ascii_digit());
    if !is_number(stream) || !is_number(context) {
        return None;
    }
    let extents = rest.rfind(")x(").and_then(|cross| {
        let name = &rest[..rest[..cross].rfind(" (")?];
        Some((name, extents(&rest[name.len() + 1..])?))
    });
    let (name, extents) = match extents {
        Some((name, extents)) => (name, Some(extents)),
        None => (
            rest.rsplit_once(", ").filter(|(_, date)| is_date(date))?.0,
            None,
        ),
    };
    Some(Launch {
        name,
        extents,
        context,
        stream,
        ..launch
    })
}

/// `(4, 1, 1)x(64, 1, 1)`: grid and block.
fn extents(text: &str) -> Option<(&str, &str)> {
    let (grid, block) = text.split_once(")x(")?;
    let is_extent = |text: &str| {
        text.bytes()
            .all(|sign| sign.is_ascii_digit() || matches!(sign, b',' | b' '))
    };
    let (grid, block) = (grid.strip_prefix('(')?, block.strip_suffix(')')?);
    (is_extent(grid) && is_extent(block)).then_some((grid, block))
}

/// `2020-Nov-12 10:00:00`.
fn is_date(text: &str) -> bool {
    let mut parts = text.split(['-', ' ', ':']);
    text.starts_with("20") && parts.by_ref().count() == 6
}

/// `    Section: Occupancy`.
fn section(line: &str) -> Option<&str> {
    line.trim_start()
        .strip_prefix("Section: ")
        .filter(|_| line.starts_with(' '))
        .map(str::trim)
}

/// The columns under three runs of dashes.
fn dashes(line: &str) -> Option<[(usize, usize); 3]> {
    if !line.trim_start().starts_with("---")
        || !line.bytes().all(|sign| matches!(sign, b'-' | b' '))
    {
        return None;
    }
    let mut runs = line.split(' ').scan(0, |next_start, run| {
        let start = *next_start;
        *next_start += run.len() + 1;
        Some((start, start + run.len()))
    });
    let mut next = || runs.by_ref().find(|(start, end)| start < end);
    let columns = [next()?, next()?, next()?];
    next().is_none().then_some(columns)
}

/// `    OPT   Words`: the type of a rule and the first of its words.
fn rule(line: &str) -> Option<(&str, &str)> {
    let (kind, words) = line.trim_start().split_once("   ")?;
    (RULE_TYPES.contains(&kind) && line.starts_with("    ")).then_some((kind, words))
}

/// `Est. Local Speedup: 12.5% Words`: whose speedup, how many percent, and the words.
fn speedup(words: &str) -> (&str, &str, &str) {
    for (start, kind) in [
        ("Est. Speedup: ", "global"),
        ("Est. Local Speedup: ", "local"),
    ] {
        if let Some((percent, rest)) = words
            .strip_prefix(start)
            .and_then(|rest| rest.split_once('%'))
        {
            return (kind, percent, rest);
        }
    }
    ("", "", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = include_str!("../../../../tests/data/seeds/ncu_console.txt");

    #[test]
    fn launches_metrics_and_rules_become_rows() {
        let (page, is_cut) = page(REPORT).unwrap_or_default();
        assert!(is_cut);
        let rows: Vec<&str> = page.lines().skip(1).collect();
        let f = "\"0\",\"7\",\"a.out\",\"host\",\"void f<(int)4>(T1 *, \"\"x\"\")\",\"1\",\"7\",\"64, 1, 1\",\"4, 1, 2\",\"0\",\"9.0\"";
        let g = "\"1\",\"7\",\"a.out\",\"host\",\"g()\",\"2\",\"13\",\"\",\"\",\"\",\"\"";
        let metric =
            |launch: &str, cells: &str| format!("{launch},{cells},\"\",\"\",\"\",\"\",\"\"");
        assert_eq!(
            rows[0],
            metric(f, "\"Occupancy\",\"Achieved Occupancy\",\"%\",\"10.54\"")
        );
        assert_eq!(
            rows[1],
            metric(f, "\"Occupancy\",\"Waves Per SM\",\"\",\"0.11\"")
        );
        let rule = "\"Occupancy\",\"\",\"\",\"\",\"Occupancy\",\"OPT\",\"The difference is large.\",\"local\",\"89.46\"";
        assert_eq!(rows[2], format!("{f},{rule}"));
        let rule = "\"Launch\",\"\",\"\",\"\",\"Launch\",\"INF\",\"Nothing.\",\"\",\"\"";
        assert_eq!(rows[3], format!("{f},{rule}"));
        assert_eq!(rows[4], metric(g, "\"Cut\",\"Dur\",\"us\",\"12\""));
        assert_eq!(rows.len(), 5, "the last line may be cut");
        assert!(recognizes(REPORT));
    }

    #[test]
    fn other_texts_are_none() {
        assert_eq!(page("    Section: x\n    --- --- ---\n    a b 1\n"), None);
        assert!(!recognizes("Section: x\n  f(int), Context 1\n"));
        for line in [
            "",
            "  ",
            "  f() (1, 1, 1)x(1, 1), Context , Stream 7",
            "f (1)x(2), Context 1, Stream 7",
            "  é (1)x(é), Context 1, Stream 7",
        ] {
            assert_eq!(launch(line), None, "{line}");
        }
        // Each row would repeat a name of a megabyte.
        let long = format!(
            "  {} (1, 1, 1)x(1, 1, 1), Context 1, Stream 7\n    Section: s\n    --- --- ---\n{}",
            "f".repeat(1 << 20),
            "    a   b   1  \n".repeat(100)
        );
        assert_eq!(page(&long), None);
    }
}
