//! What goes onto paper: typesetting costs some 15 µs a character and 1 ms a cell, so the length of a PDF is limited, and data
//! files have the rest.

use super::page::{Item, Page, Part, Piece, Quality, Statement};
use super::table::Table;
use super::text::shorten;
use rooflens_document::report::Report;
use rooflens_document::words;

/// Bytes of a document's tables and lists, with [`CELL`]. Appendices of large captures have up to two thirds of that.
const DOCUMENT: usize = 400_000;

/// Bytes of what is said about the quality of the data, and of a list of facts, with [`CELL`]: some 100 lines.
const LINES: usize = 30_000;

/// What a cell of a table, or a line of a list, costs more than its characters, in bytes.
const CELL: usize = 64;

/// Characters of a text; of a longer one the middle is left out.
const TEXT: usize = 4096;

/// Cuts what is too long for paper, and says so where it was.
pub(super) fn fit(page: &mut Page, report: &Report) {
    let mut paper = Paper {
        left: DOCUMENT,
        report,
    };
    let Page {
        cover,
        summary,
        notes,
        sections,
        data_quality,
        ..
    } = page;
    let facts = cover.facts.iter_mut().map(|(_, value)| value);
    [&mut cover.title, &mut cover.bundle]
        .into_iter()
        .chain(facts)
        .for_each(clip);
    Paper {
        left: LINES,
        report,
    }
    .quality(data_quality);
    let parts = sections.iter_mut().map(|Part { title, items, .. }| {
        clip(title);
        items
    });
    for items in [summary, notes].into_iter().chain(parts) {
        items.iter_mut().for_each(|item| paper.fit(item));
    }
}

/// The room that is left.
struct Paper<'a> {
    left: usize,
    report: &'a Report,
}

impl Paper<'_> {
    fn fit(&mut self, item: &mut Item) {
        match item {
            Item::Heading { text } | Item::Missing { reason: text } => clip(text),
            Item::Chart {
                title, description, ..
            } => [title, description].into_iter().for_each(clip),
            Item::Prose { text } => self.prose(text),
            Item::Table(table) => self.table(table),
            Item::Facts { facts } => self.facts(facts),
            Item::List { items } | Item::Bullets { items } => self.list(items),
            Item::Code { lines } => lines.iter_mut().for_each(clip),
            Item::Finding(statement) => finding(statement),
            Item::Iterations { .. } => {}
        }
    }

    fn quality(&mut self, lines: &mut Vec<Quality>) {
        for Quality {
            message,
            place,
            hint,
            ..
        } in lines.iter_mut()
        {
            [message, place].into_iter().chain(hint).for_each(clip);
        }
        let length = |one: &Quality| {
            let hint = one.hint.as_ref().map_or(0, String::len);
            3 * CELL + one.message.len() + one.place.len() + hint
        };
        let kept = self.take(lines.iter().map(length));
        if kept < lines.len() {
            lines.truncate(kept + 1);
            let message = words!(self.report, "page.more_lines");
            lines[kept] = Quality {
                message,
                place: String::new(),
                hint: None,
                count: None,
                ..lines[kept]
            };
        }
    }

    /// Keeps the rows that there is room for, the first in any case.
    fn table(&mut self, table: &mut Table) {
        table.rows.iter_mut().flatten().for_each(clip);
        let lengths = table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| CELL + cell.len()).sum());
        let kept = self.take(lengths);
        if kept < table.rows.len() {
            table.rows.truncate(kept);
            table
                .columns
                .iter_mut()
                .for_each(|column| column.numbers.truncate(kept));
            table.note = Some(words!(self.report, "page.more_rows", file = table.dataset));
        }
    }

    fn facts(&mut self, facts: &mut Vec<(String, Vec<Piece>)>) {
        for (name, value) in facts.iter_mut() {
            clip(name);
            pieces(value);
        }
        let length = |(name, value): &(String, Vec<Piece>)| {
            2 * CELL + name.len() + value.iter().map(|piece| text(piece).len()).sum::<usize>()
        };
        let room = self.left.min(LINES);
        let mut own = Paper {
            left: room,
            ..*self
        };
        let kept = own.take(facts.iter().map(length));
        self.left -= room - own.left;
        if kept < facts.len() {
            facts.truncate(kept);
            facts.push((
                "…".to_owned(),
                vec![Piece::Text(words!(self.report, "page.more_lines"))],
            ));
        }
    }

    fn prose(&mut self, text: &mut Vec<Piece>) {
        pieces(text);
        let kept = self.take(text.iter().map(|piece| self::text(piece).len()));
        if kept < text.len() {
            text.truncate(kept);
            text.push(Piece::Text(format!(
                " … {}",
                words!(self.report, "page.more_lines")
            )));
        }
    }

    fn list(&mut self, items: &mut Vec<Vec<Piece>>) {
        items.iter_mut().for_each(|one| pieces(one));
        let length =
            |one: &Vec<Piece>| CELL + one.iter().map(|piece| text(piece).len()).sum::<usize>();
        let kept = self.take(items.iter().map(length));
        if kept < items.len() {
            items.truncate(kept);
            items.push(vec![Piece::Text(words!(self.report, "page.more_lines"))]);
        }
    }

    /// How many of so long parts there is room for, one at the least.
    fn take(&mut self, lengths: impl Iterator<Item = usize>) -> usize {
        let fits = |length: &usize| {
            let fits = *length <= self.left;
            self.left = if fits { self.left - length } else { 0 };
            fits
        };
        lengths.take_while(fits).count().max(1)
    }
}

fn finding(statement: &mut Statement) {
    let Statement {
        title,
        gain,
        bound,
        evidence,
        sql,
        ..
    } = statement;
    [title, gain, bound, sql]
        .into_iter()
        .chain(evidence)
        .for_each(clip);
    let Statement {
        statement,
        advice,
        next,
        query,
        ..
    } = statement;
    [statement, advice, next, query]
        .into_iter()
        .for_each(|text| pieces(text));
}

fn pieces(pieces: &mut [Piece]) {
    for piece in pieces {
        let (Piece::Text(text) | Piece::Code(text) | Piece::Quantity(text) | Piece::Strong(text)) =
            piece;
        clip(text);
    }
}

fn text(piece: &Piece) -> &str {
    let (Piece::Text(text) | Piece::Code(text) | Piece::Quantity(text) | Piece::Strong(text)) =
        piece;
    text
}

fn clip(text: &mut String) {
    if text.len() > TEXT {
        *text = shorten(text, TEXT);
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_n;

    use super::*;
    use crate::page::CHARTS;
    use rooflens_document::report::{Kind, Section};
    use rooflens_document::{Block, Cell, Column, Dataset, Inline, View};

    fn paper(rows: Vec<String>, facts: Vec<(String, Vec<Inline>)>) -> Vec<Item> {
        let columns = vec![Column::text("kernel", "Kernel")];
        let view = View::new("kernels", "Kernels", &["kernel"], rows.len());
        let rows = rows
            .into_iter()
            .map(|name| vec![Cell::Name(name)])
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
        fit(&mut page, &report);
        page.sections.remove(0).items
    }

    #[test]
    fn long_tables_and_lists_end_with_where_the_rest_is() {
        // 2439 names of 100 characters, 164 bytes each, fill the document; of the facts after them one stays.
        let facts = vec![("pass".to_owned(), vec![Inline::code("python")]); 3];
        let items = paper(repeat_n("k".repeat(100), 5000).collect(), facts.clone());
        let Item::Table(table) = &items[0] else {
            panic!("{items:?}")
        };
        assert_eq!(
            (table.rows.len(), table.note.as_deref()),
            (2439, Some("more rows in kernels.csv"))
        );
        let Item::Facts { facts: kept } = &items[1] else {
            panic!("{items:?}")
        };
        assert_eq!((kept.len(), kept[1].0.as_str()), (2, "…"));
        let short = paper(vec!["k".to_owned()], facts);
        let Item::Facts { facts: kept } = &short[1] else {
            panic!("{short:?}")
        };
        assert_eq!(kept.len(), 3);
        // Facts have 30 000 bytes, of which one of 4 + 6 characters takes 138: 217 stay, and where the rest is.
        let facts = vec![("pass".to_owned(), vec![Inline::code("python")]); 5000];
        let many = paper(vec!["k".to_owned()], facts);
        let Item::Facts { facts: kept } = &many[1] else {
            panic!("{many:?}")
        };
        assert_eq!(kept.len(), 218);
    }

    #[test]
    fn a_text_of_a_megabyte_loses_its_middle() {
        let items = paper(vec![format!("a{}z", "n".repeat(1 << 20))], Vec::new());
        let Item::Table(table) = &items[0] else {
            panic!("{items:?}")
        };
        let name = &table.rows[0][0];
        assert!(name.starts_with("an") && name.contains("n…n") && name.ends_with("nz"));
        assert_eq!(name.chars().count(), TEXT);
    }

    #[test]
    fn many_lines_about_the_data_end_with_where_the_rest_is() {
        let line = || Quality {
            severity: "notice",
            label: "notice",
            message: "m".repeat(100),
            place: "p".repeat(8),
            hint: None,
            count: None,
        };
        // 3 × 64 + 108 = 300 bytes a line: 100 of them.
        let report = Report::default();
        let mut lines: Vec<Quality> = std::iter::repeat_with(line).take(500).collect();
        Paper {
            left: LINES,
            report: &report,
        }
        .quality(&mut lines);
        assert_eq!((lines.len(), lines[100].place.as_str()), (101, ""));
        assert!(
            lines[100].message.contains("report.json"),
            "{:?}",
            lines[100]
        );
    }
}
