//! One HTML file without anything next to it: style, script and charts are in it, and its Content-Security-Policy lets
//! no other in.

mod iterations;
mod shell;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Rendered;
use super::page::{Figure, Page, PageBlock, file_name, place};
use super::table::{Head, Table};
use super::text::{escape, joined};
use rooflens_diagnostic::Diagnostic;
use rooflens_document::report::{Kind, Report};
use rooflens_document::{ActionCard, Block, Finding, Inline, Tile};

/// Bytes of charts that a file holds; those that come after are said to be in the other formats. Text takes a third
/// of a large report's bytes, and the whole is to stay below 1 MB.
const CHARTS: usize = 640_000;

/// Tables of more rows can be filtered.
const FEW_ROWS: usize = 8;

/// Attributes of each line of a chart, which the style gives to all of them: an eighth of a file.
const LINE: &str = r#" stroke-linejoin="round" fill="none""#;

/// Texts of cells with at most so many characters do not wrap.
const SHORT: usize = 24;

/// Writes one document, such as `report.html`; the report holds the appendix, folded.
pub(super) fn render(report: &Report, kind: Kind) -> Rendered {
    let page = Page::whole(report, kind);
    let appendix = (kind == Kind::Report).then(|| Page::whole(report, Kind::Appendix));
    let mut writer = Writer::new(&page);
    match kind {
        Kind::Summary => writer.summary(),
        Kind::Report => {
            writer.summary();
            writer.report();
        }
        Kind::Appendix => writer.appendix(),
    }
    if let Some(appendix) = &appendix {
        writer.page = appendix;
        writer.appendix();
    }
    let bytes = shell::document(&page, &writer.contents, &writer.out).into_bytes();
    Rendered::one(&format!("{}.html", kind.name()), bytes)
}

/// A line of the table of contents.
struct Entry {
    /// 0 for chapters, 1 for what is in them.
    depth: usize,
    id: String,
    title: String,
}

/// The body in the making.
struct Writer<'a> {
    page: &'a Page,
    out: String,
    contents: Vec<Entry>,
    ids: BTreeSet<String>,
    /// Bytes that charts may still take.
    room: usize,
    /// Level of headings inside sections.
    level: usize,
}

impl<'a> Writer<'a> {
    fn new(page: &'a Page) -> Self {
        let (out, contents, ids) = (String::new(), Vec::new(), shell::ids());
        Self {
            page,
            out,
            contents,
            ids,
            room: CHARTS,
            level: 3,
        }
    }

    fn summary(&mut self) {
        let page = self.page;
        if page.summary.is_empty() {
            return;
        }
        self.chapter("summary");
        self.blocks(&page.summary);
        self.notes();
        self.out.push_str("</section>\n");
    }

    /// The analyst's notes, marked as not this program's words.
    fn notes(&mut self) {
        let page = self.page;
        if page.notes.is_empty() {
            return;
        }
        let (title, mark) = (page.words["notes"], page.words["notes_mark"]);
        let id = self.enter("notes", title);
        let _ = writeln!(
            self.out,
            "<section id=\"{id}\">\n{}",
            heading(3, &id, title)
        );
        let _ = writeln!(self.out, "<p class=\"missing\">{}</p>", escape(mark));
        self.blocks(&page.notes);
        self.out.push_str("</section>\n");
    }

    fn report(&mut self) {
        self.chapter("report");
        self.level = 4;
        let page = self.page;
        for section in &page.sections {
            let id = self.enter(&section.id, &section.title);
            let title = heading(3, &id, &section.title);
            let _ = writeln!(self.out, "<section id=\"{id}\">\n{title}");
            self.blocks(&section.blocks);
            self.out.push_str("</section>\n");
        }
        self.data_quality();
        self.out.push_str("</section>\n");
    }

    fn appendix(&mut self) {
        self.chapter("appendix");
        self.level = 4;
        let page = self.page;
        let ids: BTreeSet<&str> = page.sections.iter().map(|part| part.id.as_str()).collect();
        for section in &page.sections {
            let id = match section.id.strip_suffix("-appendix") {
                // The long lists of a section stand with it, and not after all others as on paper.
                Some(id) if ids.contains(id) => continue,
                Some(id) => id,
                None => &section.id,
            };
            self.details(&format!("appendix-{id}"), &section.title);
            self.blocks(&section.blocks);
            for lists in &page.sections {
                if lists.id.strip_suffix("-appendix") == Some(&section.id) {
                    self.blocks(&lists.blocks);
                }
            }
            self.out.push_str("</details>\n");
        }
        if !page.methods.is_empty() {
            self.details("appendix-method", page.words["method"]);
            self.out.push_str("<dl class=\"methods\">\n");
            for method in &page.methods {
                let (title, text) = (escape(&method.title), inlines(&method.text));
                let _ = writeln!(self.out, "<dt>{title}</dt><dd>{text}</dd>");
            }
            self.out.push_str("</dl>\n</details>\n");
        }
        self.data_quality();
        self.out.push_str("</section>\n");
    }

    /// Opens a chapter, whose id is the key of its title.
    fn chapter(&mut self, key: &'static str) {
        let title = self.page.words[key];
        let id = self.id(key);
        let _ = writeln!(
            self.out,
            "<section id=\"{id}\">\n{}",
            heading(2, &id, title)
        );
        self.contents.push(Entry {
            depth: 0,
            id,
            title: title.to_owned(),
        });
    }

    /// An id for a section, which the table of contents lists.
    fn enter(&mut self, id: &str, title: &str) -> String {
        let id = self.id(id);
        self.contents.push(Entry {
            depth: 1,
            id: id.clone(),
            title: title.to_owned(),
        });
        id
    }

    /// Opens a part of the appendix.
    fn details(&mut self, id: &str, title: &str) {
        let id = self.enter(id, title);
        let _ = writeln!(
            self.out,
            "<details id=\"{id}\">\n<summary>{}</summary>",
            heading(3, &id, title)
        );
    }

    /// The id, or with a number if there is one of that name.
    fn id(&mut self, id: &str) -> String {
        let mut unique = file_name(id).to_lowercase();
        for n in 2.. {
            if self.ids.insert(unique.clone()) {
                break;
            }
            unique = format!("{}-{n}", file_name(id).to_lowercase());
        }
        unique
    }

    fn data_quality(&mut self) {
        let page = self.page;
        if page.data_quality.is_empty() {
            return;
        }
        let title = page.words["data_quality"];
        let id = self.enter("data-quality", title);
        let _ = writeln!(
            self.out,
            "<section id=\"{id}\">\n{}",
            heading(3, &id, title)
        );
        let heads = ["severity", "what", "where", "hint"];
        let heads = heads.map(|key| sortable(page.words[key], false)).concat();
        let mut rows = String::new();
        for diagnostic in &page.data_quality {
            rows.push_str(&data_quality_row(page, diagnostic));
        }
        self.table(
            "table-data-quality",
            (title, None),
            &heads,
            &rows,
            page.data_quality.len(),
        );
        self.out.push_str("</section>\n");
    }

    fn blocks(&mut self, blocks: &[PageBlock]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &PageBlock) {
        let text = match block {
            Block::Heading(text) => format!("<h{0}>{1}</h{0}>\n", self.level, escape(text)),
            Block::Prose(text) => format!("<p>{}</p>\n", inlines(text)),
            Block::Table(table) => return self.data_table(table),
            Block::Chart(figure) => return self.chart(figure),
            Block::Iterations(iterations) => {
                let data = iterations::encoded(iterations);
                self.room = self.room.saturating_sub(data.len());
                shell::iterations(self.page, &data) + "\n"
            }
            Block::Facts(facts) => {
                let mut lines = Vec::new();
                for (name, value) in facts {
                    lines.push((name.clone(), inlines(value)));
                }
                definitions("facts", lines) + "\n"
            }
            Block::List(texts) => format!("<ol>\n{}</ol>\n", entries(texts)),
            Block::Bullets(texts) => format!("<ul>\n{}</ul>\n", entries(texts)),
            Block::Code(code) => {
                let code = code.strip_suffix('\n').unwrap_or(code);
                format!("<pre>{}</pre>\n", escape(code))
            }
            Block::Finding(finding) => return self.finding(finding),
            Block::Tiles(tiles) => self::tiles(tiles),
            Block::Actions(cards) => actions(cards),
            Block::Missing(reason) => {
                let [missing, colon] = ["not_available", "colon"].map(|key| self.page.words[key]);
                let reason = escape(reason);
                format!("<p class=\"missing\">{missing}{colon}{reason}</p>\n")
            }
        };
        self.out.push_str(&text);
    }

    /// The chart itself: its title and description are those of the SVG.
    fn chart(&mut self, figure: &Figure) {
        let (path, title) = (figure.path.as_str(), figure.title.as_str());
        let bytes = self.page.charts.get(path).map_or(&[][..], Vec::as_slice);
        let drawing = std::str::from_utf8(bytes).unwrap_or_default();
        let drawing = drawing.replace(LINE, "");
        let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
        let id = self.id(&format!("chart-{}", name.trim_end_matches(".svg")));
        let caption = format!(
            "<figcaption>{}{}</figcaption>",
            escape(title),
            anchor(&id, title)
        );
        let _ = if drawing.is_empty() || drawing.len() > self.room {
            let elsewhere = self.page.words["chart_elsewhere"];
            let mark = format!("<p class=\"missing\">{elsewhere}</p>");
            writeln!(self.out, "<figure id=\"{id}\">{mark}{caption}</figure>")
        } else {
            self.room -= drawing.len();
            let body = format!("<div class=\"chart\">\n{drawing}</div>");
            writeln!(self.out, "<figure id=\"{id}\">\n{body}\n{caption}</figure>")
        };
    }

    fn data_table(&mut self, table: &Table) {
        let (mut heads, mut classes) = (String::new(), Vec::new());
        for (column, head) in table.columns.iter().enumerate() {
            heads.push_str(&sortable(&head.title, head.numeric));
            classes.push(class_of(table, column));
        }
        let mut rows = String::new();
        for (n, row) in table.rows.iter().enumerate() {
            rows.push_str("<tr>");
            for (column, (text, head)) in row.iter().zip(&table.columns).enumerate() {
                cell(&mut rows, (n, column), text, (head, classes[column]));
            }
            rows.push_str("</tr>\n");
        }
        let caption = (table.caption.as_str(), table.note.as_deref());
        self.table(
            &format!("table-{}", table.dataset),
            caption,
            &heads,
            &rows,
            table.rows.len(),
        );
    }

    /// A table with its caption and a note, and a filter if it is long.
    fn table(
        &mut self,
        id: &str,
        (caption, note): (&str, Option<&str>),
        heads: &str,
        rows: &str,
        count: usize,
    ) {
        let id = self.id(id);
        let name = escape(caption);
        let note = match note {
            Some(note) => format!(" <small>{}</small>", escape(note)),
            None => String::new(),
        };
        let filter = if count > FEW_ROWS {
            shell::filter(self.page)
        } else {
            String::new()
        };
        let link = anchor(&id, caption);
        let _ = write!(
            self.out,
            r#"<div class="table" id="{id}">
{filter}<div class="scroll" role="region" aria-label="{name}" tabindex="0">
<table>
<caption><span>{name}{note}{link}</span></caption>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}</tbody>
</table>
</div>
</div>
"#
        );
    }

    /// The card of a finding.
    fn finding(&mut self, finding: &Finding) {
        let words = &self.page.words;
        let id = self.id(&format!("finding-{}", finding.id));
        let mut lines = Vec::new();
        let mut line = |key: &str, text: String| {
            if !text.is_empty() {
                lines.push((words[key].to_owned(), text));
            }
        };
        if let Some(gain) = &finding.gain {
            let (saved, basis) = (escape(&self.page.gain(gain)), escape(&gain.basis));
            let colon = if basis.is_empty() { "" } else { words["colon"] };
            line("gain", format!("<strong>{saved}</strong>{colon}{basis}"));
        }
        line(
            "advice",
            inlines(finding.advice.as_deref().unwrap_or_default()),
        );
        line("next", inlines(finding.next.as_deref().unwrap_or_default()));
        let mut evidence = Vec::new();
        for source in &finding.evidence {
            evidence.push(self.page.evidence(source));
        }
        line("evidence", escape(&evidence.join(words["semicolon"])));
        if let Some(query) = &finding.query
            && !query.sql.is_empty()
        {
            let (gives, sql) = (inlines(&query.gives), escape(&query.sql));
            let code = format!("<pre tabindex=\"0\"><code>{sql}</code></pre>");
            line("sql_on_export", gives + &code);
        }
        let (title, level) = (escape(&finding.title), self.level);
        let statement = match finding.statement.is_empty() {
            true => String::new(),
            false => format!("<p>{}</p>\n", inlines(&finding.statement)),
        };
        let severity = finding.severity.label();
        let badge = badge(severity, self.page.text.word(severity));
        let anchor = anchor(&id, &finding.title);
        let (class, card) = (class(severity), definitions("card", lines));
        let _ = writeln!(
            self.out,
            "<article id=\"{id}\" class=\"finding {class}\">\n<h{level}>{title} {badge}{anchor}</h{level}>\n{statement}{card}</article>",
        );
    }
}

/// A row of the table of diagnostics.
fn data_quality_row(page: &Page, diagnostic: &Diagnostic) -> String {
    let severity = diagnostic.severity.label();
    let severity = badge(severity, page.text.word(severity));
    let (message, place) = (escape(&diagnostic.message), escape(&place(diagnostic)));
    let times = escape(&page.times(diagnostic).unwrap_or_default());
    let hint = escape(diagnostic.hint.as_deref().unwrap_or_default());
    format!(
        "<tr><td>{severity}</td><td>{message}{times}</td><td>{place}</td><td>{hint}</td></tr>\n"
    )
}

/// A list of names and values, which are HTML.
fn definitions(class: &str, lines: Vec<(String, String)>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut list = format!("<dl class=\"{class}\">\n");
    for (name, value) in lines {
        let name = escape(&name);
        let _ = writeln!(list, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    list + "</dl>\n"
}

fn heading(level: usize, id: &str, title: &str) -> String {
    format!(
        "<h{level}>{}{}</h{level}>",
        escape(title),
        anchor(id, title)
    )
}

/// A link to the place itself, for those who want to point there.
fn anchor(id: &str, title: &str) -> String {
    format!(
        " <a class=\"anchor\" href=\"#{id}\" aria-label=\"# {}\">#</a>",
        escape(title)
    )
}

/// The heading of a column; the script sorts by it.
fn sortable(title: &str, numeric: bool) -> String {
    let class = if numeric { " class=\"n\"" } else { "" };
    format!(
        "<th scope=\"col\"{class} aria-sort=\"none\"><button type=\"button\">{}</button></th>",
        escape(title)
    )
}

/// The class of a column's cells: numbers at the right, short texts on one line.
fn class_of(table: &Table, column: usize) -> &'static str {
    let is_short = |row: &Vec<String>| row[column].chars().count() <= SHORT;
    let head = &table.columns[column];
    if head.numeric {
        " class=\"n\""
    } else if !head.mono && table.rows.iter().all(is_short) {
        " class=\"t\""
    } else {
        ""
    }
}

/// Appends a cell; the first of a row is its heading.
fn cell(out: &mut String, (row, column): (usize, usize), text: &str, (head, class): (&Head, &str)) {
    let (open, tag) = if column == 0 {
        ("th scope=\"row\"", "th")
    } else {
        ("td", "td")
    };
    let number = match head.numbers.get(row) {
        Some(Some(number)) => format!(" data-v=\"{number}\""),
        _ => String::new(),
    };
    let text = escape(text);
    let text = if head.mono && !text.is_empty() {
        format!("<code>{text}</code>")
    } else {
        text
    };
    let _ = write!(out, "<{open}{class}{number}>{text}</{tag}>");
}

/// The word of a severity in its colour.
fn badge(severity: &str, label: &str) -> String {
    format!(
        "<span class=\"badge {}\">{}</span>",
        class(severity),
        escape(label)
    )
}

/// A severity as a class: `data loss` is `data-loss`.
fn class(severity: &str) -> String {
    severity.replace(' ', "-")
}

fn inlines(text: &[Inline]) -> String {
    text.iter().map(inline).collect()
}

fn inline(inline: &Inline) -> String {
    match inline {
        Inline::Text(text) => escape(&joined(text)),
        Inline::Quantity(quantity) => {
            format!("<span class=\"q\">{}</span>", escape(&quantity.to_string()))
        }
        Inline::Code(text) => format!("<code>{}</code>", escape(text)),
        Inline::Strong(text) => format!("<strong>{}</strong>", escape(text)),
    }
}

/// Figures side by side.
fn tiles(tiles: &[Tile]) -> String {
    let mut list = "<dl class=\"tiles\">\n".to_owned();
    for tile in tiles {
        let (label, now) = (escape(&tile.label), escape(&tile.now.to_string()));
        let mut values = format!("<dd>{now}</dd>");
        for (name, value) in &tile.others {
            let _ = write!(
                values,
                "<dd class=\"other\">{} <span class=\"q\">{}</span></dd>",
                escape(name),
                escape(&value.to_string())
            );
        }
        let _ = writeln!(list, "<div><dt>{label}</dt>{values}</div>");
    }
    list + "</dl>\n"
}

/// What to do, with the code to copy.
fn actions(cards: &[ActionCard]) -> String {
    let mut list = "<ol class=\"actions\">\n".to_owned();
    for card in cards {
        let snippet = match &card.snippet {
            Some(code) => format!(
                "<pre tabindex=\"0\"><code>{}</code></pre>\n",
                escape(code.trim_end())
            ),
            None => String::new(),
        };
        let mut facts = Vec::new();
        for (name, value) in &card.facts {
            facts.push((name.clone(), inlines(value)));
        }
        let _ = write!(
            list,
            "<li><p><strong>{}</strong></p>\n{snippet}{}</li>\n",
            inlines(&card.what),
            definitions("facts", facts)
        );
    }
    list + "</ol>\n"
}

/// The entries of a list.
fn entries(texts: &[Vec<Inline>]) -> String {
    let mut list = String::new();
    for text in texts {
        let _ = writeln!(list, "<li>{}</li>", inlines(text));
    }
    list
}
