//! One HTML file without anything beside it: style, script and charts are in it, and its Content-Security-Policy lets
//! no other in.

mod iterations;
mod shell;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Rendered;
use super::page::{Item, Page, Part, Piece, Quality, Statement, file_name};
use super::table::{Head, Table};
use super::text::{escape, joined};
use rooflens_document::report::{Kind, Report};

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
        self.items(&page.summary);
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
        self.items(&page.notes);
        self.out.push_str("</section>\n");
    }

    fn report(&mut self) {
        self.chapter("report");
        self.level = 4;
        let page = self.page;
        for part in &page.sections {
            let id = self.enter(&part.id, &part.title);
            let _ = writeln!(
                self.out,
                "<section id=\"{id}\">\n{}",
                heading(3, &id, &part.title)
            );
            self.items(&part.items);
            self.out.push_str("</section>\n");
        }
        self.data_quality();
        self.out.push_str("</section>\n");
    }

    fn appendix(&mut self) {
        self.chapter("appendix");
        self.level = 4;
        let page = self.page;
        let of = |part: &Part| part.id.strip_suffix("-appendix").map(str::to_owned);
        let begun = |id: &str| page.sections.iter().any(|part| part.id == id);
        for part in page
            .sections
            .iter()
            .filter(|part| !of(part).is_some_and(|id| begun(&id)))
        {
            let id = of(part).unwrap_or_else(|| part.id.clone());
            self.details(&format!("appendix-{id}"), &part.title);
            self.items(&part.items);
            // The long lists of a section stand with it, and not after all others as on paper.
            let rest = page
                .sections
                .iter()
                .filter(|other| of(other).is_some_and(|own| own == part.id));
            rest.for_each(|rest| self.items(&rest.items));
            self.out.push_str("</details>\n");
        }
        if !page.methods.is_empty() {
            let item = |method: &super::page::Method| {
                format!(
                    "<dt>{}</dt><dd>{}</dd>\n",
                    escape(&method.title),
                    inline(&method.text)
                )
            };
            let list: String = page.methods.iter().map(item).collect();
            self.details("appendix-method", page.words["method"]);
            let _ = writeln!(self.out, "<dl class=\"methods\">\n{list}</dl>\n</details>");
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
        let row = |one: &Quality| {
            let [message, place] = [&one.message, &one.place].map(|text| escape(text));
            let times = escape(one.count.as_deref().unwrap_or_default());
            let hint = escape(one.hint.as_deref().unwrap_or_default());
            let severity = badge(one.severity, one.label);
            format!(
                "<tr><td>{severity}</td><td>{message}{times}</td><td>{place}</td><td>{hint}</td></tr>\n"
            )
        };
        let rows: String = page.data_quality.iter().map(row).collect();
        self.table(
            "table-data-quality",
            (title, None),
            &heads,
            &rows,
            page.data_quality.len(),
        );
        self.out.push_str("</section>\n");
    }

    fn items(&mut self, items: &[Item]) {
        items.iter().for_each(|item| self.item(item));
    }

    fn item(&mut self, item: &Item) {
        let _ = match item {
            Item::Heading { text } => {
                writeln!(self.out, "<h{0}>{1}</h{0}>", self.level, escape(text))
            }
            Item::Prose { text } => writeln!(self.out, "<p>{}</p>", inline(text)),
            Item::Table(table) => return self.data_table(table),
            Item::Chart { path, title, .. } => return self.chart(path, title),
            Item::Iterations { iterations } => {
                let data = iterations::encoded(iterations);
                self.room = self.room.saturating_sub(data.len());
                writeln!(self.out, "{}", shell::iterations(self.page, &data))
            }
            Item::Facts { facts } => {
                let pair = |(name, value): &(String, Vec<Piece>)| (name.clone(), inline(value));
                writeln!(self.out, "{}", definitions("facts", facts.iter().map(pair)))
            }
            Item::List { items } => writeln!(self.out, "<ol>\n{}</ol>", entries(items)),
            Item::Bullets { items } => writeln!(self.out, "<ul>\n{}</ul>", entries(items)),
            Item::Code { lines } => {
                writeln!(self.out, "<pre>{}</pre>", escape(&lines.join("\n")))
            }
            Item::Finding(card) => return self.finding(card),
            Item::Missing { reason } => {
                let [words, colon] = ["not_available", "colon"].map(|key| self.page.words[key]);
                writeln!(
                    self.out,
                    "<p class=\"missing\">{words}{colon}{}</p>",
                    escape(reason)
                )
            }
        };
    }

    /// The chart itself: its title and description are those of the SVG.
    fn chart(&mut self, path: &str, title: &str) {
        let drawing = self
            .page
            .charts
            .get(path)
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        let drawing = drawing.map(|drawing| drawing.replace(LINE, ""));
        let name = path
            .rsplit('/')
            .next()
            .unwrap_or(path)
            .trim_end_matches(".svg");
        let id = self.id(&format!("chart-{name}"));
        let caption = format!(
            "<figcaption>{}{}</figcaption>",
            escape(title),
            anchor(&id, title)
        );
        let _ = match drawing.filter(|drawing| drawing.len() <= self.room) {
            Some(drawing) => {
                self.room -= drawing.len();
                let body = format!("<div class=\"chart\">\n{drawing}</div>");
                writeln!(self.out, "<figure id=\"{id}\">\n{body}\n{caption}</figure>")
            }
            None => {
                let said = self.page.words["chart_elsewhere"];
                writeln!(
                    self.out,
                    "<figure id=\"{id}\"><p class=\"missing\">{said}</p>{caption}</figure>"
                )
            }
        };
    }

    fn data_table(&mut self, table: &Table) {
        let heads: String = table
            .columns
            .iter()
            .map(|head| sortable(&head.title, head.numeric))
            .collect();
        let classes: Vec<&str> = (0..table.columns.len())
            .map(|n| class_of(table, n))
            .collect();
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
        let note = note
            .map(|note| format!(" <small>{}</small>", escape(note)))
            .unwrap_or_default();
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
    fn finding(&mut self, card: &Statement) {
        let page = self.page;
        let id = self.id(&format!("finding-{}", card.id));
        let mut lines = Vec::new();
        let mut line = |key: &str, text: String| {
            if !text.is_empty() {
                lines.push((page.words[key].to_owned(), text));
            }
        };
        let bound = if card.bound.is_empty() {
            ""
        } else {
            page.words["colon"]
        };
        let gain = format!(
            "<strong>{}</strong>{bound}{}",
            escape(&card.gain),
            escape(&card.bound)
        );
        line(
            "gain",
            if card.gain.is_empty() {
                String::new()
            } else {
                gain
            },
        );
        line("advice", inline(&card.advice));
        line("next", inline(&card.next));
        line(
            "evidence",
            escape(&card.evidence.join(page.words["semicolon"])),
        );
        if !card.sql.is_empty() {
            let query = inline(&card.query);
            line(
                "sql_on_export",
                format!(
                    "{query}<pre tabindex=\"0\"><code>{}</code></pre>",
                    escape(&card.sql)
                ),
            );
        }
        let (title, level) = (escape(&card.title), self.level);
        let statement = match card.statement.is_empty() {
            true => String::new(),
            false => format!("<p>{}</p>\n", inline(&card.statement)),
        };
        let _ = writeln!(
            self.out,
            "<article id=\"{id}\" class=\"finding {}\">\n<h{level}>{title} {}{}</h{level}>\n{statement}{}</article>",
            class(card.severity),
            badge(card.severity, card.label),
            anchor(&id, &card.title),
            definitions("card", lines),
        );
    }
}

/// A list of names and values, which are HTML.
fn definitions(class: &str, lines: impl IntoIterator<Item = (String, String)>) -> String {
    let line = |(name, value): (String, String)| {
        format!("<div><dt>{}</dt><dd>{value}</dd></div>\n", escape(&name))
    };
    let lines: String = lines.into_iter().map(line).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("<dl class=\"{class}\">\n{lines}</dl>\n")
    }
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
    let texts = || table.rows.iter().filter_map(|row| row.get(column));
    match table.columns.get(column) {
        Some(head) if head.numeric => " class=\"n\"",
        Some(head) if !head.mono && texts().all(|text| text.chars().count() <= SHORT) => {
            " class=\"t\""
        }
        _ => "",
    }
}

/// Appends a cell; the first of a row is its heading.
fn cell(out: &mut String, (row, column): (usize, usize), text: &str, (head, class): (&Head, &str)) {
    let (open, tag) = if column == 0 {
        ("th scope=\"row\"", "th")
    } else {
        ("td", "td")
    };
    let number = head.numbers.get(row).copied().flatten();
    let number = number
        .map(|number| format!(" data-v=\"{number}\""))
        .unwrap_or_default();
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

fn inline(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => escape(&joined(text)),
        Piece::Quantity(text) => format!("<span class=\"q\">{}</span>", escape(text)),
        Piece::Code(text) => format!("<code>{}</code>", escape(text)),
        Piece::Strong(text) => format!("<strong>{}</strong>", escape(text)),
    };
    pieces.iter().map(piece).collect()
}

/// The entries of a list.
fn entries(items: &[Vec<Piece>]) -> String {
    items
        .iter()
        .map(|one| format!("<li>{}</li>\n", inline(one)))
        .collect()
}
