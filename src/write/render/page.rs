//! The report as pages show it. PDF, Markdown and HTML are written from it, so all say the same.
//!
//! A page has the types of the document, [`Block`], [`Section`], [`Finding`], [`Method`], and differs in three
//! things: a view of a data set is a [`Table`] of texts, a chart is a [`Figure`] with its file, and characters that no
//! page may hold are replaced. A second set of types for pages was rejected: each block was declared twice and had to
//! be kept equal. Formats put the words around numbers themselves, by the functions of [`Page`], which clean them.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::{Evidence, Tool};

use super::pagination::fill_second_page;
use super::svg;
use super::table::{Names, Table};
use super::text::{clean, shorten};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::report::{Kind, Meta, Report, Section};
use rooflens_document::{
    ActionCard, Block, Catalogue, Cell, Chart, Finding, Gain, Inline, Method, Quantity, Query,
    Tile, View, words,
};

/// A block with its table laid out or its chart drawn.
pub(crate) type PageBlock = Block<Table, Figure>;

/// A section of such blocks.
pub(crate) type PageSection = Section<PageBlock>;

/// A document of a report as pages show it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The words of the report's language.
    pub(crate) text: &'static Catalogue,
    /// The words of pages by key.
    pub(crate) words: BTreeMap<&'static str, &'static str>,
    pub(crate) kind: Kind,
    /// Cover, with the first characters of the bundle's hash and the time of the capture to the minute.
    pub(crate) cover: Meta,
    /// The first two pages; empty in the appendix.
    pub(crate) summary: Vec<PageBlock>,
    /// The analyst's notes, after the summary; empty in the appendix.
    pub(crate) notes: Vec<PageBlock>,
    pub(crate) sections: Vec<PageSection>,
    /// What the input lacks or got wrong. The appendix has the diagnostics of severity info, the report the others.
    pub(crate) data_quality: Vec<Diagnostic>,
    /// How the numbers were made; in the appendix.
    pub(crate) methods: Vec<Method>,
    /// Files of the charts by path.
    pub(crate) charts: BTreeMap<String, Vec<u8>>,
}

/// A chart that is drawn into a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) path: String,
    pub(crate) title: String,
    pub(crate) description: String,
    /// Its number among the charts of the document.
    pub(crate) number: usize,
}

impl Page {
    /// Formats a document of a report for paper: names are whole only where the report lists them. `folder` is that of
    /// the charts.
    pub(crate) fn new(report: &Report, kind: Kind, folder: &str) -> Self {
        Builder::new(report, false, folder).page(kind)
    }

    /// Formats a document of a report with whole names.
    pub(crate) fn whole(report: &Report, kind: Kind) -> Self {
        Builder::new(report, true, CHARTS).page(kind)
    }

    /// Numbers tables and charts in the order of the document. Here, because a typesetter that counts lays out what has a
    /// number again.
    pub(super) fn number(&mut self) {
        let (mut tables, mut charts) = (0, 0);
        let sections = self.sections.iter_mut().map(|section| &mut section.blocks);
        let parts = [&mut self.summary, &mut self.notes].into_iter();
        for block in parts.chain(sections).flatten() {
            match block {
                Block::Table(table) => (tables, table.number) = (tables + 1, tables + 1),
                Block::Chart(figure) => (charts, figure.number) = (charts + 1, charts + 1),
                _ => {}
            }
        }
    }

    /// Name and version of the program that wrote the report.
    pub(crate) fn generator(&self) -> String {
        cleaned(generator(&self.cover.generator).trim())
    }

    /// `saves at most 12.0 ms of 33.7 ms of decode (35.6 %)`.
    pub(crate) fn gain(&self, gain: &Gain) -> String {
        cleaned(&words!(
            self,
            "page.saves",
            saved = gain.saved_ns,
            of = gain.of_ns,
            whole = gain.of.as_str(),
            share = gain.share(),
        ))
    }

    /// Artifact, table and number of rows that a finding rests on.
    pub(crate) fn evidence(&self, evidence: &Evidence) -> String {
        let mut parts = vec![evidence.artifact.clone()];
        parts.extend(evidence.table.clone());
        if let Some(rows) = evidence.rows {
            parts.push(words!(self, "page.rows", count = Quantity::count(rows)));
        }
        cleaned(&parts.join(self.text.comma()))
    }

    /// How often a diagnostic was met, if more than once.
    pub(crate) fn times(&self, diagnostic: &Diagnostic) -> Option<String> {
        let count = Quantity::count(diagnostic.count);
        (diagnostic.count > 1).then(|| words!(self, "page.times", count = count))
    }
}

/// Artifact and place of a diagnostic.
pub(crate) fn place(diagnostic: &Diagnostic) -> String {
    let artifact = diagnostic.artifact.as_deref().unwrap_or_default();
    let location = cleaned(&format!("{artifact}{}", diagnostic.at));
    location.trim_start_matches(", ").to_owned()
}

/// Data sets of which a browser shows all rows of a pass in one table, which it can filter.
pub(crate) const ALL_ROWS: [&str; 2] = ["stage_kernels", "kernels"];

/// Rows of such a table: more make a browser slow.
const MOST_ROWS: usize = 2000;

/// Folder of the charts where they are not files.
pub(crate) const CHARTS: &str = "charts";

/// A page in the making.
struct Builder<'a> {
    report: &'a Report,
    text: &'static Catalogue,
    /// Names are whole everywhere, and iterations are shown: in a browser.
    whole: bool,
    folder: &'a str,
    charts: BTreeMap<String, Vec<u8>>,
    /// Data sets that are shown with all rows already, by their first row.
    in_whole: BTreeSet<(&'static str, usize)>,
}

impl<'a> Builder<'a> {
    fn new(report: &'a Report, whole: bool, folder: &'a str) -> Self {
        Self {
            report,
            text: report.text,
            whole,
            folder,
            charts: BTreeMap::new(),
            in_whole: BTreeSet::new(),
        }
    }

    fn page(mut self, kind: Kind) -> Page {
        let report = self.report;
        let (summary, notes) = match kind {
            Kind::Summary | Kind::Report => {
                let summary = self.blocks(&report.summary, Names::Shortened);
                (summary, self.blocks(&report.notes, Names::Shortened))
            }
            Kind::Appendix => (Vec::new(), Vec::new()),
        };
        let (sections, methods) = match kind {
            Kind::Summary => (&[][..], &[][..]),
            Kind::Report => (&report.sections[..], &[][..]),
            Kind::Appendix => (&report.appendix[..], &report.methods[..]),
        };
        let sections = sections.iter().map(|section| self.section(section));
        let mut page = Page {
            text: report.text,
            words: report.text.group("page"),
            kind,
            cover: self::cover(report),
            summary,
            notes,
            sections: sections.collect(),
            data_quality: data_quality(report, kind),
            methods: methods.iter().map(method).collect(),
            charts: self.charts,
        };
        if !self.whole {
            fill_second_page(&mut page);
        }
        page.number();
        page
    }

    fn section(&mut self, section: &Section) -> PageSection {
        let names = if section.id.ends_with("-appendix") {
            Names::Whole
        } else {
            Names::Shortened
        };
        Section {
            id: file_name(&section.id),
            title: self.heading(&section.title),
            blocks: self.blocks(&section.blocks, names),
        }
    }

    fn blocks(&mut self, blocks: &[Block], names: Names) -> Vec<PageBlock> {
        let names = if self.whole { Names::Whole } else { names };
        let mut shown = Vec::with_capacity(blocks.len());
        for block in blocks {
            match block {
                Block::Iterations(_) if !self.whole => {}
                Block::Table(view) if self.whole && ALL_ROWS.contains(&view.dataset) => {
                    let view = self.all_rows(view);
                    if self.in_whole.insert((view.dataset, view.skip)) {
                        let mut block = self.table(&view, names);
                        if let Block::Table(table) = &mut block
                            && table.rows.len() < MOST_ROWS
                        {
                            // Other passes have the other rows.
                            table.note = None;
                        }
                        shown.push(block);
                    }
                }
                _ => shown.push(self.block(block, names)),
            }
        }
        shown
    }

    /// All rows of the pass that a view shows, with the stage where there are several.
    fn all_rows(&self, view: &View) -> View {
        let Some(dataset) = self.report.dataset(view.dataset) else {
            return view.clone();
        };
        let cells = |id: &str| {
            let place = dataset.position(id);
            let cell = |row: &Vec<Cell>| row.get(place?).cloned();
            dataset.rows.iter().map(cell).collect::<Vec<_>>()
        };
        let passes = cells("pass");
        let Some(pass) = passes.get(view.skip) else {
            return view.clone();
        };
        let is_of_pass = |other: &Option<Cell>| other == pass;
        let skip = passes.iter().position(is_of_pass).unwrap_or_default();
        let count = passes[skip..]
            .iter()
            .take_while(|other| is_of_pass(other))
            .count();
        let stages = &cells("stage")[skip..skip + count];
        let mut columns = view.columns.clone();
        if stages.iter().any(|stage| *stage != stages[0]) {
            columns.insert(1, "stage");
        }
        let pass = pass.as_ref().map(Cell::plain).unwrap_or_default();
        View {
            caption: words!(
                self,
                "page.of_pass",
                title = dataset.title.as_str(),
                pass = pass
            ),
            columns,
            skip,
            limit: count.min(MOST_ROWS),
            ..*view
        }
    }

    fn block(&mut self, block: &Block, names: Names) -> PageBlock {
        match block {
            Block::Heading(text) => Block::Heading(self.heading(text)),
            Block::Prose(text) => Block::Prose(inlines(text)),
            Block::Table(view) => self.table(view, names),
            Block::Chart(chart) => Block::Chart(self.figure(chart)),
            Block::Iterations(iterations) => Block::Iterations(iterations.clone()),
            Block::Facts(facts) => Block::Facts(facts.iter().map(fact).collect()),
            Block::List(texts) => Block::List(all_inlines(texts)),
            Block::Bullets(texts) => Block::Bullets(all_inlines(texts)),
            Block::Code(code) => Block::Code(cleaned_lines(code)),
            Block::Missing(reason) => Block::Missing(cleaned(reason)),
            Block::Finding(finding) => Block::Finding(Box::new(self::finding(finding))),
            Block::Tiles(tiles) => Block::Tiles(tiles.iter().map(tile).collect()),
            Block::Actions(cards) => Block::Actions(cards.iter().map(action_card).collect()),
        }
    }

    fn table(&self, view: &View, names: Names) -> PageBlock {
        let caption = view.caption.as_str();
        let Some(dataset) = self.report.dataset(view.dataset) else {
            return Block::Missing(words!(self, "page.no_data", caption = caption));
        };
        match Table::new(self.report, dataset, view, names) {
            Some(table) => Block::Table(table),
            None => Block::Missing(words!(self, "page.no_rows", caption = caption)),
        }
    }

    fn figure(&mut self, chart: &Chart) -> Figure {
        let drawing = svg::draw(self.text, chart).into_bytes();
        let folder = self.folder;
        let mut path = format!("{folder}/{}.svg", file_name(&chart.id));
        // Two charts of one name must not share a file, unless they are the same chart.
        for n in 2.. {
            match self.charts.get(&path) {
                Some(other) if *other != drawing => {
                    path = format!("{folder}/{}-{n}.svg", file_name(&chart.id));
                }
                _ => break,
            }
        }
        self.charts.insert(path.clone(), drawing);
        let description = match chart.description.trim() {
            "" => &chart.title,
            _ => &chart.description,
        };
        Figure {
            path,
            title: self.heading(&chart.title),
            description: self.heading(description),
            number: 0,
        }
    }

    /// A heading or the words for a picture, which must not be empty: readers find their way by them.
    fn heading(&self, text: &str) -> String {
        match text.trim() {
            "" => words!(self, "page.untitled"),
            _ => cleaned(text),
        }
    }
}

/// A file name in which only letters, digits, `-` and `_` of the id are left.
pub(super) fn file_name(id: &str) -> String {
    let mut name = String::new();
    for c in id.chars().take(80) {
        let stays = c.is_ascii_alphanumeric() || c == '-' || c == '_';
        name.push(if stays { c } else { '-' });
    }
    if name.is_empty() {
        name.push_str("unnamed");
    }
    name
}

/// Characters of a title that is the name of a file or folder.
const TITLE: usize = 40;

fn cover(report: &Report) -> Meta {
    let meta = &report.meta;
    let fact = |(name, value): &(String, String)| (cleaned(name), cleaned(value));
    Meta {
        title: match meta.title.trim() {
            "" => words!(report, "page.no_title"),
            title if title == meta.bundle => shorten(&cleaned(title), TITLE),
            _ => cleaned(&meta.title),
        },
        bundle: cleaned(&meta.bundle),
        bundle_id: cleaned(&meta.bundle_id).chars().take(12).collect(),
        captured_at: meta.captured_at.as_deref().map(date),
        generator: meta.generator.clone(),
        facts: meta.facts.iter().map(fact).collect(),
        ..Meta::default()
    }
}

/// Name and version of a program.
pub(super) fn generator(tool: &Tool) -> String {
    let version = tool.version.as_deref().unwrap_or_default();
    format!("{} {version}", tool.name)
}

/// `2026-03-01T12:34:56.7Z` as `2026-03-01 12:34 UTC`; anything else as it is.
fn date(captured_at: &str) -> String {
    match (
        captured_at.get(..10),
        captured_at.get(10..11),
        captured_at.get(11..16),
    ) {
        (Some(day), Some("T"), Some(time)) if captured_at.ends_with('Z') => {
            cleaned(&format!("{day} {time} UTC"))
        }
        _ => cleaned(captured_at),
    }
}

/// The diagnostics that a document shows.
fn data_quality(report: &Report, kind: Kind) -> Vec<Diagnostic> {
    let mut shown = Vec::new();
    for diagnostic in &report.data_quality {
        let is_shown = match kind {
            Kind::Report => diagnostic.severity > Severity::Info,
            Kind::Appendix => diagnostic.severity == Severity::Info,
            Kind::Summary => false,
        };
        if is_shown {
            shown.push(Diagnostic {
                message: cleaned(&diagnostic.message),
                hint: diagnostic.hint.as_deref().map(cleaned),
                ..diagnostic.clone()
            });
        }
    }
    shown
}

fn method(method: &Method) -> Method {
    Method {
        title: cleaned(&method.title),
        text: inlines(&method.text),
    }
}

fn finding(finding: &Finding) -> Finding {
    let query = finding.query.as_ref().map(|query| Query {
        gives: inlines(&query.gives),
        sql: cleaned(&query.sql),
    });
    let gain = finding.gain.as_ref().map(|gain| Gain {
        basis: cleaned(&gain.basis),
        ..gain.clone()
    });
    Finding {
        title: cleaned(&finding.title),
        statement: inlines(&finding.statement),
        gain,
        advice: finding.advice.as_deref().map(inlines),
        next: finding.next.as_deref().map(inlines),
        query,
        ..finding.clone()
    }
}

fn fact((name, value): &(String, Vec<Inline>)) -> (String, Vec<Inline>) {
    (cleaned(name), inlines(value))
}

fn tile(tile: &Tile) -> Tile {
    let other = |(name, value): &(String, Quantity)| (cleaned(name), *value);
    Tile {
        label: cleaned(&tile.label),
        others: tile.others.iter().map(other).collect(),
        ..*tile
    }
}

fn action_card(card: &ActionCard) -> ActionCard {
    ActionCard {
        what: inlines(&card.what),
        snippet: card.snippet.as_deref().map(cleaned_lines),
        facts: card.facts.iter().map(fact).collect(),
        finding: card.finding,
    }
}

fn cleaned(text: &str) -> String {
    clean(text).into_owned()
}

/// Lines without tabs, each with its end.
fn cleaned_lines(code: &str) -> String {
    let mut lines = String::with_capacity(code.len() + 1);
    for line in code.lines() {
        lines.push_str(&clean(&line.replace('\t', "    ")));
        lines.push('\n');
    }
    lines
}

fn all_inlines(texts: &[Vec<Inline>]) -> Vec<Vec<Inline>> {
    texts.iter().map(|text| inlines(text)).collect()
}

fn inlines(text: &[Inline]) -> Vec<Inline> {
    text.iter().map(inline).collect()
}

fn inline(inline: &Inline) -> Inline {
    match inline {
        Inline::Text(text) => Inline::Text(cleaned(text)),
        Inline::Code(text) => Inline::Code(cleaned(text)),
        Inline::Strong(text) => Inline::Strong(cleaned(text)),
        Inline::Quantity(quantity) => Inline::Quantity(*quantity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_lose_their_seconds() {
        assert_eq!(date("2026-03-01T12:34:56.789Z"), "2026-03-01 12:34 UTC");
        assert_eq!(date("yesterday"), "yesterday");
        assert_eq!(
            date("2026-03-01T12:34:56+08:00"),
            "2026-03-01T12:34:56+08:00"
        );
    }

    #[test]
    fn chart_ids_stay_in_their_folder() {
        assert_eq!(file_name("../../etc/passwd"), "------etc-passwd");
        assert_eq!(file_name(""), "unnamed");
    }
}
