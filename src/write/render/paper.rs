//! What goes onto paper: typesetting costs some 15 µs a character and 1 ms a cell, so the length of a PDF is limited, and data
//! files have the rest.

use super::page::{Page, PageBlock, place};
use super::table::Table;
use super::text::shorten;
use rooflens_diagnostic::{Diagnostic, Location};
use rooflens_document::{Block, Catalogue, Finding, Inline, words};

/// Bytes of a document's tables and lists, with [`CELL`]. Appendices of large captures have up to two thirds of that.
const DOCUMENT: usize = 400_000;

/// Bytes of what is said about the quality of the data, and of a list of facts, with [`CELL`]: some 100 lines.
const LINES: usize = 30_000;

/// What a cell of a table, or a line of a list, costs more than its characters, in bytes.
const CELL: usize = 64;

/// Characters of a text; of a longer one the middle is excluded.
const TEXT: usize = 4096;

/// Cuts what is too long for paper, and says so where it was.
pub(super) fn fit(page: &mut Page) {
    let text = page.text;
    let mut paper = Paper {
        left: DOCUMENT,
        text,
    };
    clip(&mut page.cover.title);
    clip(&mut page.cover.bundle);
    for (_, value) in &mut page.cover.facts {
        clip(value);
    }
    Paper { left: LINES, text }.data_quality(&mut page.data_quality);
    for block in page.summary.iter_mut().chain(&mut page.notes) {
        paper.block(block);
    }
    for section in &mut page.sections {
        clip(&mut section.title);
        for block in &mut section.blocks {
            paper.block(block);
        }
    }
}

/// The room that is left.
struct Paper {
    /// Bytes.
    left: usize,
    text: &'static Catalogue,
}

impl Paper {
    fn block(&mut self, block: &mut PageBlock) {
        match block {
            Block::Heading(text) | Block::Missing(text) => clip(text),
            Block::Chart(figure) => {
                clip(&mut figure.title);
                clip(&mut figure.description);
            }
            Block::Prose(text) => self.prose(text),
            Block::Table(table) => self.table(table),
            Block::Facts(facts) => self.facts(facts),
            Block::List(texts) | Block::Bullets(texts) => self.list(texts),
            Block::Code(code) => clip_lines(code),
            Block::Finding(finding) => self::finding(finding),
            Block::Actions(cards) => {
                for card in cards {
                    clip_inlines(&mut card.what);
                    for (_, value) in &mut card.facts {
                        clip_inlines(value);
                    }
                }
            }
            Block::Iterations(_) | Block::Tiles(_) => {}
        }
    }

    fn data_quality(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let mut lengths = Vec::with_capacity(diagnostics.len());
        for diagnostic in diagnostics.iter_mut() {
            clip(&mut diagnostic.message);
            if let Some(hint) = &mut diagnostic.hint {
                clip(hint);
            }
            let hint = diagnostic.hint.as_ref().map_or(0, String::len);
            let location = clipped(place(diagnostic)).len();
            lengths.push(3 * CELL + diagnostic.message.len() + location + hint);
        }
        let kept = self.take(lengths);
        if kept < diagnostics.len() {
            diagnostics.truncate(kept + 1);
            diagnostics[kept] = Diagnostic {
                message: words!(self, "page.more_lines"),
                artifact: None,
                at: Location::Whole,
                hint: None,
                count: 1,
                ..diagnostics[kept]
            };
        }
    }

    /// Keeps the rows that there is room for, the first in any case.
    fn table(&mut self, table: &mut Table) {
        let mut lengths = Vec::with_capacity(table.rows.len());
        for row in &mut table.rows {
            let mut length = 0;
            for cell in row {
                clip(cell);
                length += CELL + cell.len();
            }
            lengths.push(length);
        }
        let kept = self.take(lengths);
        if kept < table.rows.len() {
            let rows = kept.to_string();
            let note = words!(self, "page.first_rows", rows = rows, file = table.dataset);
            table.keep(kept, note);
        }
    }

    fn facts(&mut self, facts: &mut Vec<(String, Vec<Inline>)>) {
        let mut lengths = Vec::with_capacity(facts.len());
        for (name, value) in facts.iter_mut() {
            clip(name);
            clip_inlines(value);
            lengths.push(2 * CELL + name.len() + length_of(value));
        }
        let room = self.left.min(LINES);
        let mut paper = Paper {
            left: room,
            text: self.text,
        };
        let kept = paper.take(lengths);
        self.left -= room - paper.left;
        if kept < facts.len() {
            facts.truncate(kept);
            let more = Inline::Text(words!(self, "page.more_lines"));
            facts.push(("…".to_owned(), vec![more]));
        }
    }

    fn prose(&mut self, text: &mut Vec<Inline>) {
        clip_inlines(text);
        let kept = self.take(text.iter().map(length));
        if kept < text.len() {
            text.truncate(kept);
            let more = words!(self, "page.more_lines");
            text.push(Inline::Text(format!(" … {more}")));
        }
    }

    fn list(&mut self, texts: &mut Vec<Vec<Inline>>) {
        let mut lengths = Vec::with_capacity(texts.len());
        for text in texts.iter_mut() {
            clip_inlines(text);
            lengths.push(CELL + length_of(text));
        }
        let kept = self.take(lengths);
        if kept < texts.len() {
            texts.truncate(kept);
            texts.push(vec![Inline::Text(words!(self, "page.more_lines"))]);
        }
    }

    /// How many of so long parts there is room for, one at the least.
    fn take(&mut self, lengths: impl IntoIterator<Item = usize>) -> usize {
        let mut kept = 0;
        for length in lengths {
            if length > self.left {
                self.left = 0;
                break;
            }
            self.left -= length;
            kept += 1;
        }
        kept.max(1)
    }
}

fn finding(finding: &mut Finding) {
    clip(&mut finding.title);
    clip_inlines(&mut finding.statement);
    for text in [&mut finding.advice, &mut finding.next]
        .into_iter()
        .flatten()
    {
        clip_inlines(text);
    }
    if let Some(gain) = &mut finding.gain {
        clip(&mut gain.basis);
    }
    if let Some(query) = &mut finding.query {
        clip_inlines(&mut query.gives);
        clip(&mut query.sql);
    }
}

fn clip_inlines(text: &mut [Inline]) {
    for inline in text {
        match inline {
            Inline::Text(text) | Inline::Code(text) | Inline::Strong(text) => clip(text),
            Inline::Quantity(_) => {}
        }
    }
}

fn length_of(text: &[Inline]) -> usize {
    text.iter().map(length).sum()
}

/// Bytes of a piece of text.
fn length(inline: &Inline) -> usize {
    match inline {
        Inline::Text(text) | Inline::Code(text) | Inline::Strong(text) => text.len(),
        Inline::Quantity(quantity) => quantity.to_string().len(),
    }
}

fn clip_lines(code: &mut String) {
    let mut lines = String::with_capacity(code.len());
    for line in code.lines() {
        lines.push_str(&clipped(line.to_owned()));
        lines.push('\n');
    }
    *code = lines;
}

fn clip(text: &mut String) {
    if text.len() > TEXT {
        *text = shorten(text, TEXT);
    }
}

/// A text that is short enough for paper.
pub(super) fn clipped(mut text: String) -> String {
    clip(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_n;

    use super::*;
    use crate::page::CHARTS;
    use rooflens_diagnostic::Severity;
    use rooflens_document::report::{Kind, Report, Section};
    use rooflens_document::{Cell, Column, Dataset, View};

    fn paper(rows: Vec<String>, facts: Vec<(String, Vec<Inline>)>) -> Vec<PageBlock> {
        let columns = vec![Column::text("kernel", "Kernel")];
        let view = View::new("kernels", "Kernels", &["kernel"], rows.len());
        let rows = rows
            .into_iter()
            .map(|name| vec![Cell::Name(name.into())])
            .collect();
        let dataset = Dataset {
            id: "kernels",
            title: "Kernels".to_owned(),
            columns,
            rows,
        };
        let blocks = vec![Block::Table(view), Block::Facts(facts)];
        let section = Section {
            id: "a-appendix".to_owned(),
            title: "A".to_owned(),
            blocks,
        };
        let report = Report {
            datasets: vec![dataset],
            appendix: vec![section],
            ..Report::default()
        };
        let mut page = Page::new(&report, Kind::Appendix, CHARTS);
        fit(&mut page);
        page.sections.remove(0).blocks
    }

    #[test]
    fn long_tables_and_lists_end_with_where_the_rest_is() {
        // 2439 names of 100 characters, 164 bytes each, fill the document; of the facts after them one stays.
        let facts = vec![("pass".to_owned(), vec![Inline::code("python")]); 3];
        let blocks = paper(repeat_n("k".repeat(100), 5000).collect(), facts.clone());
        let Block::Table(table) = &blocks[0] else {
            panic!("{blocks:?}")
        };
        let note = Catalogue::english().line(
            "page.first_rows",
            &[("rows", "2439".into()), ("file", "kernels".into())],
        );
        assert_eq!((table.rows.len(), &table.note), (2439, &Some(note)));
        let Block::Facts(kept) = &blocks[1] else {
            panic!("{blocks:?}")
        };
        assert_eq!((kept.len(), kept[1].0.as_str()), (2, "…"));
        let short = paper(vec!["k".to_owned()], facts);
        let Block::Facts(kept) = &short[1] else {
            panic!("{short:?}")
        };
        assert_eq!(kept.len(), 3);
        // Facts have 30 000 bytes, of which one of 4 + 6 characters takes 138: 217 stay, and where the rest is.
        let facts = vec![("pass".to_owned(), vec![Inline::code("python")]); 5000];
        let many = paper(vec!["k".to_owned()], facts);
        let Block::Facts(kept) = &many[1] else {
            panic!("{many:?}")
        };
        assert_eq!(kept.len(), 218);
    }

    #[test]
    fn a_text_of_a_megabyte_loses_its_middle() {
        let blocks = paper(vec![format!("a{}z", "n".repeat(1 << 20))], Vec::new());
        let Block::Table(table) = &blocks[0] else {
            panic!("{blocks:?}")
        };
        let name = &table.rows[0][0];
        assert!(name.starts_with("an") && name.contains("n…n") && name.ends_with("nz"));
        assert_eq!(name.chars().count(), TEXT);
    }

    #[test]
    fn many_lines_about_the_data_end_with_where_the_rest_is() {
        let line = || {
            let message = "m".repeat(100);
            Diagnostic::new(Severity::Notice, "test", message).artifact("p".repeat(8))
        };
        // 3 × 64 + 108 = 300 bytes a line: 100 of them.
        let mut lines: Vec<Diagnostic> = std::iter::repeat_with(line).take(500).collect();
        Paper {
            left: LINES,
            text: Catalogue::english(),
        }
        .data_quality(&mut lines);
        assert_eq!((lines.len(), place(&lines[100])), (101, String::new()));
        assert!(
            lines[100].message.contains("report.json"),
            "{:?}",
            lines[100]
        );
    }
}
