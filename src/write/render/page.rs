//! The report as pages show it: texts formatted, views resolved, names cleaned. PDF, Markdown and HTML are
//! made from this, so all say the same.

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Tool, Unit};
use serde::Serialize;

use super::brand::Brand;
use super::svg;
use super::table::{Names, Table};
use super::text::clean;
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::chart::Iteration;
use rooflens_document::report::{Kind, Report, Section};
use rooflens_document::{Block, Chart, Finding, Gain, Inline, Quantity, words};

/// A report as pages show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Page {
    /// The words around all that, by key.
    pub(crate) words: BTreeMap<&'static str, &'static str>,
    /// Code of the language.
    pub(crate) lang: &'static str,
    /// The document: `summary`, `report` or `appendix`.
    pub(crate) kind: &'static str,
    /// The look of the organization; only the PDF has one.
    pub(crate) brand: Option<Brand>,
    /// Cover.
    pub(crate) cover: Cover,
    /// The first two pages; empty in the appendix.
    pub(crate) summary: Vec<Item>,
    /// The analyst's notes, after the summary; empty in the appendix.
    pub(crate) notes: Vec<Item>,
    /// Sections.
    pub(crate) sections: Vec<Part>,
    /// What the input lacks or got wrong; in the appendix, what is but worth knowing.
    pub(crate) data_quality: Vec<Quality>,
    /// How the numbers were made; in the appendix.
    pub(crate) methods: Vec<Method>,
    /// Characters are written as their code points, which the PDF explains.
    pub(crate) code_points: bool,
    /// Files of the charts by path.
    #[serde(skip)]
    pub(crate) charts: BTreeMap<String, Vec<u8>>,
}

/// The cover block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cover {
    /// Title.
    pub(crate) title: String,
    /// Name of the bundle.
    pub(crate) bundle: String,
    /// First characters of the bundle's hash.
    pub(crate) bundle_id: String,
    /// Date and time of the capture, if known.
    pub(crate) captured_at: Option<String>,
    /// Program and version.
    pub(crate) generator: String,
    /// More lines.
    pub(crate) facts: Vec<(String, String)>,
}

/// The card of a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Statement {
    /// The rule.
    pub(crate) id: &'static str,
    /// Rule and what it is about.
    pub(crate) title: String,
    /// How much it matters.
    pub(crate) severity: &'static str,
    /// The word for that.
    pub(crate) label: &'static str,
    /// What is so.
    pub(crate) statement: Vec<Piece>,
    /// What could be saved at most; empty if that is not known.
    pub(crate) gain: String,
    /// Formula of that.
    pub(crate) bound: String,
    /// What to do.
    pub(crate) advice: Vec<Piece>,
    /// What to capture next.
    pub(crate) next: Vec<Piece>,
    /// What it rests on.
    pub(crate) evidence: Vec<String>,
    /// What the query gives; empty if there is none.
    pub(crate) query: Vec<Piece>,
    /// The query.
    pub(crate) sql: String,
}

/// A line about the data's quality.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Quality {
    /// How much it matters.
    pub(crate) severity: &'static str,
    /// The word for that.
    pub(crate) label: &'static str,
    /// What happened.
    pub(crate) message: String,
    /// Artifact and place.
    pub(crate) place: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// How often, if more than once.
    pub(crate) count: Option<String>,
}

/// A paragraph of the method appendix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Method {
    /// What it explains.
    pub(crate) title: String,
    /// How.
    pub(crate) text: Vec<Piece>,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    /// Letters, digits, `-` and `_`; one section of a document has it.
    pub(crate) id: String,
    /// Heading.
    pub(crate) title: String,
    /// Content.
    pub(crate) items: Vec<Item>,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Item {
    /// A heading inside the section.
    Heading { text: String },
    /// A paragraph.
    Prose { text: Vec<Piece> },
    /// A table.
    Table(Table),
    /// A chart, with its number among those of the document.
    Chart {
        path: String,
        title: String,
        description: String,
        number: usize,
    },
    /// Iterations to look at operation by operation; only where names are whole, which is in a browser.
    Iterations {
        #[serde(skip)]
        iterations: Vec<Iteration>,
    },
    /// Names and values.
    Facts { facts: Vec<(String, Vec<Piece>)> },
    /// A numbered list.
    List { items: Vec<Vec<Piece>> },
    /// A list without numbers.
    Bullets { items: Vec<Vec<Piece>> },
    /// Lines of code.
    Code { lines: Vec<String> },
    /// Something that is not there.
    Missing { reason: String },
    /// A finding.
    Finding(Box<Statement>),
}

/// A piece of a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub(crate) enum Piece {
    /// Words.
    Text(String),
    /// A name from the data.
    Code(String),
    /// A number with its unit.
    Quantity(String),
    /// Words with weight.
    Strong(String),
}

impl Page {
    /// Formats a document of a report for paper: names are whole only where the report lists them. `folder` is that of
    /// the charts.
    pub(crate) fn new(report: &Report, kind: Kind, folder: &str) -> Self {
        Self::with(
            Pages {
                report,
                whole: false,
                folder,
                charts: BTreeMap::new(),
            },
            kind,
        )
    }

    /// Formats a document of a report with whole names.
    pub(crate) fn whole(report: &Report, kind: Kind) -> Self {
        Self::with(
            Pages {
                report,
                whole: true,
                folder: CHARTS,
                charts: BTreeMap::new(),
            },
            kind,
        )
    }

    fn with(mut pages: Pages<'_>, kind: Kind) -> Self {
        let report = pages.report;
        let names = pages.names(false);
        let (summary, notes) = match kind {
            Kind::Summary | Kind::Report => {
                let mut items = |blocks| pages.items(blocks, names);
                (items(&report.summary), items(&report.notes))
            }
            Kind::Appendix => (Vec::new(), Vec::new()),
        };
        let sections = match kind {
            Kind::Summary => Vec::new(),
            Kind::Report => pages.parts(&report.sections),
            Kind::Appendix => pages.parts(&report.appendix),
        };
        let of_severity = |is_shown: fn(Severity) -> bool| {
            let shown = report
                .data_quality
                .iter()
                .filter(|one| is_shown(one.severity));
            shown.map(|one| quality(report, one)).collect()
        };
        let method = |m: &rooflens_document::Method| Method {
            title: clean(&m.title).into_owned(),
            text: pieces(&m.text),
        };
        let mut page = Self {
            words: report.text.group("page"),
            lang: report.text.lang().code(),
            kind: kind.name(),
            brand: None,
            cover: cover(report),
            summary,
            notes,
            sections,
            data_quality: match kind {
                Kind::Report => of_severity(|severity| severity > Severity::Info),
                Kind::Appendix => of_severity(|severity| severity == Severity::Info),
                Kind::Summary => Vec::new(),
            },
            methods: match kind {
                Kind::Appendix => report.methods.iter().map(method).collect(),
                Kind::Summary | Kind::Report => Vec::new(),
            },
            code_points: false,
            charts: pages.charts,
        };
        page.number();
        page
    }

    /// Numbers tables and charts in the order of the document. Here, because a typesetter that counts lays out what has a
    /// number again.
    fn number(&mut self) {
        let (mut tables, mut charts) = (0, 0);
        let parts = self.sections.iter_mut().map(|part| &mut part.items);
        for item in [&mut self.summary, &mut self.notes]
            .into_iter()
            .chain(parts)
            .flatten()
        {
            match item {
                Item::Table(table) => (tables, table.number) = (tables + 1, tables + 1),
                Item::Chart { number, .. } => (charts, *number) = (charts + 1, charts + 1),
                _ => {}
            }
        }
    }
}

/// Folder of the charts where they are not files.
pub(crate) const CHARTS: &str = "charts";

/// Pages in the making.
struct Pages<'a> {
    report: &'a Report,
    whole: bool,
    folder: &'a str,
    charts: BTreeMap<String, Vec<u8>>,
}

impl Pages<'_> {
    fn names(&self, whole: bool) -> Names {
        if whole || self.whole {
            Names::Whole
        } else {
            Names::Shortened
        }
    }

    fn parts(&mut self, sections: &[Section]) -> Vec<Part> {
        sections.iter().map(|section| self.part(section)).collect()
    }

    fn part(&mut self, section: &Section) -> Part {
        let long = section.id.ends_with("-appendix");
        let names = self.names(long);
        Part {
            id: file_name(&section.id),
            title: heading(self.report, &section.title),
            items: self.items(&section.blocks, names),
        }
    }

    fn items(&mut self, blocks: &[Block], names: Names) -> Vec<Item> {
        let is_shown = |block: &&Block| self.whole || !matches!(block, Block::Iterations(_));
        let shown: Vec<&Block> = blocks.iter().filter(is_shown).collect();
        shown
            .into_iter()
            .map(|block| self.item(block, names))
            .collect()
    }

    fn item(&mut self, block: &Block, names: Names) -> Item {
        match block {
            Block::Heading(text) => Item::Heading {
                text: heading(self.report, text),
            },
            Block::Prose(text) => Item::Prose { text: pieces(text) },
            Block::Table(view) => match self.report.dataset(view.dataset) {
                Some(dataset) => match Table::new(self.report, dataset, view, names) {
                    Some(table) => Item::Table(table),
                    None => missing(words!(
                        self.report,
                        "page.no_rows",
                        caption = view.caption.as_str()
                    )),
                },
                None => missing(words!(
                    self.report,
                    "page.no_data",
                    caption = view.caption.as_str()
                )),
            },
            Block::Chart(chart) => self.chart(chart),
            Block::Iterations(iterations) => Item::Iterations {
                iterations: iterations.clone(),
            },
            Block::Facts(facts) => Item::Facts {
                facts: facts
                    .iter()
                    .map(|(name, value)| (clean(name).into_owned(), pieces(value)))
                    .collect(),
            },
            Block::List(items) => Item::List {
                items: all_pieces(items),
            },
            Block::Bullets(items) => Item::Bullets {
                items: all_pieces(items),
            },
            Block::Code(text) => Item::Code {
                lines: text
                    .lines()
                    .map(|line| clean(&line.replace('\t', "    ")).into_owned())
                    .collect(),
            },
            Block::Missing(reason) => missing(clean(reason).into_owned()),
            Block::Finding(finding) => Item::Finding(Box::new(statement(self.report, finding))),
        }
    }

    fn chart(&mut self, chart: &Chart) -> Item {
        let drawing = svg::draw(self.report.text, chart).into_bytes();
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
        let blank = chart.description.trim().is_empty();
        let description = if blank {
            &chart.title
        } else {
            &chart.description
        };
        Item::Chart {
            path,
            title: heading(self.report, &chart.title),
            description: heading(self.report, description),
            number: 0,
        }
    }
}

/// A heading or the words for a picture, which must not be empty: readers find their way by them.
fn heading(report: &Report, text: &str) -> String {
    match text.trim() {
        "" => words!(report, "page.untitled"),
        _ => clean(text).into_owned(),
    }
}

fn missing(reason: String) -> Item {
    Item::Missing { reason }
}

/// A file name in which only letters, digits, `-` and `_` of the id are left.
pub(super) fn file_name(id: &str) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = id.chars().take(80).map(keep).collect();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}

fn cover(report: &Report) -> Cover {
    let meta = &report.meta;
    let own = |text: &str| clean(text).into_owned();
    Cover {
        title: match meta.title.trim() {
            "" => words!(report, "page.no_title"),
            _ => own(&meta.title),
        },
        bundle: own(&meta.bundle),
        bundle_id: own(&meta.bundle_id).chars().take(12).collect(),
        captured_at: meta.captured_at.as_deref().map(date),
        generator: own(generator(&meta.generator).trim()),
        facts: meta
            .facts
            .iter()
            .map(|(name, value)| (own(name), own(value)))
            .collect(),
    }
}

/// Name and version of a program.
pub(super) fn generator(tool: &Tool) -> String {
    format!(
        "{} {}",
        tool.name,
        tool.version.as_deref().unwrap_or_default()
    )
}

/// `2026-03-01T12:34:56.7Z` as `2026-03-01 12:34 UTC`; anything else as it is.
fn date(captured_at: &str) -> String {
    match (
        captured_at.get(..10),
        captured_at.get(10..11),
        captured_at.get(11..16),
    ) {
        (Some(day), Some("T"), Some(time)) if captured_at.ends_with('Z') => {
            clean(&format!("{day} {time} UTC")).into_owned()
        }
        _ => clean(captured_at).into_owned(),
    }
}

fn statement(report: &Report, observation: &Finding) -> Statement {
    let maybe = |words: &Option<Vec<Inline>>| words.as_deref().map(pieces).unwrap_or_default();
    let own = |text: &str| clean(text).into_owned();
    let gain = observation.gain.as_ref();
    let query = observation.query.as_ref();
    Statement {
        id: observation.id,
        title: own(&observation.title),
        severity: observation.severity.label(),
        label: report.text.word(observation.severity.label()),
        statement: pieces(&observation.statement),
        gain: gain.map(|gain| bound(report, gain)).unwrap_or_default(),
        bound: gain.map(|gain| own(&gain.basis)).unwrap_or_default(),
        advice: maybe(&observation.advice),
        next: maybe(&observation.next),
        evidence: observation
            .evidence
            .iter()
            .map(|one| evidence(report, one))
            .collect(),
        query: query.map(|query| pieces(&query.gives)).unwrap_or_default(),
        sql: query.map(|query| own(&query.sql)).unwrap_or_default(),
    }
}

/// `saves at most 12.0 ms of 33.7 ms of decode (35.6 %)`.
fn bound(report: &Report, gain: &Gain) -> String {
    let time = |value| Quantity::new(value, Unit::Nanoseconds);
    let said = words!(
        report,
        "page.saves",
        saved = time(gain.saved_ns),
        of = time(gain.of_ns),
        whole = gain.of.as_str(),
        share = Quantity::ratio(gain.share()),
    );
    clean(&said).into_owned()
}

fn evidence(report: &Report, evidence: &Evidence) -> String {
    let rows = evidence
        .rows
        .map(|rows| words!(report, "page.rows", count = Quantity::count(rows)));
    let parts = [
        Some(evidence.artifact.clone()),
        evidence.table.clone(),
        rows,
    ];
    clean(
        &parts
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(report.text.comma()),
    )
    .into_owned()
}

fn quality(report: &Report, diagnostic: &Diagnostic) -> Quality {
    let place = diagnostic.artifact.as_deref().unwrap_or_default();
    Quality {
        severity: diagnostic.severity.label(),
        label: report.text.word(diagnostic.severity.label()),
        message: clean(&diagnostic.message).into_owned(),
        place: clean(&format!("{place}{}", diagnostic.at))
            .trim_start_matches(", ")
            .to_owned(),
        hint: diagnostic
            .hint
            .as_deref()
            .map(|hint| clean(hint).into_owned()),
        count: (diagnostic.count > 1).then(|| {
            words!(
                report,
                "page.times",
                count = Quantity::count(diagnostic.count)
            )
        }),
    }
}

fn all_pieces(items: &[Vec<Inline>]) -> Vec<Vec<Piece>> {
    items.iter().map(|one| pieces(one)).collect()
}

fn pieces(inlines: &[Inline]) -> Vec<Piece> {
    let piece = |inline: &Inline| match inline {
        Inline::Text(text) => Piece::Text(clean(text).into_owned()),
        Inline::Code(text) => Piece::Code(clean(text).into_owned()),
        Inline::Quantity(quantity) => Piece::Quantity(quantity.to_string()),
        Inline::Strong(text) => Piece::Strong(clean(text).into_owned()),
    };
    inlines.iter().map(piece).collect()
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
    fn templates_are_told_of_each_key() {
        let document = include_str!("../../../templates/README.md");
        let (_, document) = document.split_once("## data.json").expect("a chapter");
        let rows = document.lines().skip_while(|line| !line.starts_with("| `"));
        let rows = rows.take_while(|line| line.starts_with("| `"));
        let told: Vec<_> = rows
            .map(|row| row.split('`').nth(1).unwrap_or_default())
            .collect();
        let page = serde_json::to_value(Page::new(&Report::default(), Kind::Report, CHARTS));
        let page = page.expect("JSON");
        let mut keys: Vec<_> = page.as_object().expect("an object").keys().collect();
        keys.sort_by_key(|key| told.iter().position(|told| told == key));
        assert_eq!(keys, told);
    }

    #[test]
    fn chart_ids_stay_in_their_folder() {
        assert_eq!(file_name("../../etc/passwd"), "------etc-passwd");
        assert_eq!(file_name(""), "unnamed");
    }
}
