//! The analyst's notes: Markdown to blocks, in which metrics stand where the text refers to them.

mod references;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Report;
use crate::{Block, Inline};
use references::References;
use rooflens_diagnostic::Diagnostics;

/// Notes as the input holds them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    /// Path of the artifact.
    pub artifact: &'a str,
    /// Markdown.
    pub text: &'a str,
}

/// The notes as blocks, and what is wrong with their references. HTML is text, links and pictures are their words and
/// addresses, and tables are lists: nothing of the notes is markup of a report.
pub(super) fn read(notes: &Notes<'_>, report: &Report) -> (Vec<Block>, Diagnostics) {
    let mut reader = Reader {
        references: References::new(notes.artifact, report),
        blocks: Vec::new(),
        open: Vec::new(),
        strong: 0,
        addresses: Vec::new(),
        code: None,
        lists: Vec::new(),
        items: Vec::new(),
        cells: Vec::new(),
        heads: Vec::new(),
        rows: Vec::new(),
    };
    let mut lines = Lines {
        text: notes.text,
        byte: 0,
        line: 1,
    };
    for (event, at) in Parser::new_ext(notes.text, Options::ENABLE_TABLES).into_offset_iter() {
        if reader.open.is_empty() {
            reader.references.line = lines.of(&at);
        }
        reader.event(event);
    }
    (reader.blocks, reader.references.faults)
}

/// Counts lines up to places that come in order.
struct Lines<'a> {
    text: &'a str,
    byte: usize,
    line: u64,
}

impl Lines<'_> {
    fn of(&mut self, at: &Range<usize>) -> u64 {
        let passed = self
            .text
            .as_bytes()
            .get(self.byte..at.start)
            .unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.byte = self.byte.max(at.start);
        self.line
    }
}

struct Reader<'a> {
    references: References<'a>,
    blocks: Vec<Block>,
    /// The paragraph, item or cell that is being read.
    open: Vec<Inline>,
    /// Marks of weight around the text.
    strong: usize,
    /// Of the links and pictures around the text.
    addresses: Vec<String>,
    /// The code block that is being read.
    code: Option<String>,
    /// First numbers of the lists around the text; none without numbers.
    lists: Vec<Option<u64>>,
    /// Items of the outermost list.
    items: Vec<Vec<Inline>>,
    /// Cells of a row of a table, the row of its headings, and the rows as facts.
    cells: Vec<Vec<Inline>>,
    heads: Vec<Vec<Inline>>,
    rows: Vec<(String, Vec<Inline>)>,
}

impl Reader<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                match &mut self.code {
                    Some(code) => code.push_str(&text),
                    None => self.text(&text),
                }
            }
            Event::Code(text) => self.open.push(Inline::code(text.into_string())),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Strong => self.strong += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.addresses.push(dest_url.into_string());
            }
            Tag::CodeBlock(_) => self.code = Some(String::new()),
            Tag::List(first) => self.lists.push(first),
            // What is nested runs on in its item.
            Tag::Item if self.lists.len() > 1 => self.text(" – "),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong => self.strong -= 1,
            TagEnd::Link | TagEnd::Image => self.address(),
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::Item if self.lists.len() == 1 => {
                let item = self.taken();
                self.items.push(item);
            }
            TagEnd::List(_) => self.list(),
            _ if !self.lists.is_empty() => self.text(" "),
            TagEnd::TableCell => {
                let cell = self.taken();
                self.cells.push(cell);
            }
            TagEnd::TableHead => self.heads = std::mem::take(&mut self.cells),
            TagEnd::TableRow => self.row(),
            TagEnd::Table => self
                .blocks
                .push(Block::Facts(std::mem::take(&mut self.rows))),
            TagEnd::Heading(_) => {
                let heading = plain(&self.taken());
                self.blocks.push(Block::Heading(heading));
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                let text = self.taken();
                if !text.is_empty() {
                    self.blocks.push(Block::Prose(text));
                }
            }
            _ => {}
        }
    }

    /// Adds words; those of one weight are one piece, since the parser cuts where a mark could be.
    fn text(&mut self, text: &str) {
        let text = text.replace(['\n', '\t'], " ");
        match (self.open.last_mut(), self.strong > 0) {
            (Some(Inline::Strong(last)), true) | (Some(Inline::Text(last)), false) => {
                last.push_str(&text);
            }
            (_, true) => self.open.push(Inline::Strong(text)),
            (_, false) => self.open.push(Inline::Text(text)),
        }
    }

    /// The address after the words of a link, unless these are the address.
    fn address(&mut self) {
        let Some(address) = self.addresses.pop() else {
            return;
        };
        match self.open.last() {
            Some(Inline::Text(last) | Inline::Strong(last)) if last.ends_with(&address) => {}
            _ => self.text(&format!(" ({address})")),
        }
    }

    fn code_block(&mut self) {
        let code = self.code.take().unwrap_or_default();
        match self.lists.is_empty() {
            true => self.blocks.push(Block::Code(code.trim_end().to_owned())),
            false => self.open.push(Inline::Code(code.trim().replace('\n', " "))),
        }
    }

    fn list(&mut self) {
        let first = self.lists.pop().flatten();
        if !self.lists.is_empty() {
            return;
        }
        let items = std::mem::take(&mut self.items);
        match first {
            None => self.blocks.push(Block::Bullets(items)),
            Some(1) => self.blocks.push(Block::List(items)),
            // A list that goes on keeps its numbers.
            Some(first) => self
                .blocks
                .extend((first..).zip(items).map(|(n, mut item)| {
                    item.insert(0, format!("{n}. ").into());
                    Block::Prose(item)
                })),
        }
    }

    /// A row of a table as a fact: its first cell, then the others with their headings.
    fn row(&mut self) {
        let mut cells = std::mem::take(&mut self.cells).into_iter().zip(&self.heads);
        let name = cells
            .next()
            .map(|(cell, _)| plain(&cell))
            .unwrap_or_default();
        let mut value = Vec::new();
        for (cell, head) in cells {
            let separator = if value.is_empty() { "" } else { "; " };
            value.push(Inline::Text(format!("{separator}{}: ", plain(head))));
            value.extend(cell);
        }
        self.rows.push((name, value));
    }

    /// What was read since the last block, with metrics in place of references.
    fn taken(&mut self) -> Vec<Inline> {
        let mut pieces = Vec::new();
        for piece in std::mem::take(&mut self.open) {
            match piece {
                Inline::Text(text) => self.references.fill(&text, Inline::Text, &mut pieces),
                Inline::Strong(text) => self.references.fill(&text, Inline::Strong, &mut pieces),
                other => pieces.push(other),
            }
        }
        if let Some(Inline::Text(last)) = pieces.last_mut() {
            last.truncate(last.trim_end().len());
        }
        pieces.retain(|piece| !matches!(piece, Inline::Text(text) if text.is_empty()));
        pieces
    }
}

fn plain(pieces: &[Inline]) -> String {
    pieces.iter().map(Inline::plain).collect()
}

#[cfg(test)]
mod tests;
