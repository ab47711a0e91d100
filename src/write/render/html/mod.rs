//! One HTML file without anything next to it: style, script and charts are in it, and its Content-Security-Policy lets
//! no other in.

mod iterations;
mod shell;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Rendered;
use super::page::{ALL_ROWS, Figure, Page, PageBlock, file_name, place};
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

/// Columns of kernels that can be added up.
const SUMMED: [&str; 2] = ["count", "total_ns"];

/// Attributes of each line of a chart, which the style gives to all of them: an eighth of a file.
const LINE: &str = r#" stroke-linejoin="round" fill="none""#;

/// Texts of cells with at most so many characters do not wrap.
const SHORT: usize = 24;

/// Parts of the file that a reader sees one at a time: the word of each, and the sections that it has in this order. Sections of the report that stand nowhere are in the first tab, those of the appendix in the last.
const TABS: [(&str, &[&str]); 5] = [
    ("tab_overview", &["breakdown", "account"]),
    (
        "tab_timeline",
        &[
            "timeline",
            "idle",
            "stages",
            "concurrency",
            "pace",
            "synchronization",
            "copies",
            "communication",
            "ranks",
            "critical-path",
            "graphs",
            "memory",
            "power",
        ],
    ),
    (
        "tab_kernels",
        &[
            "kernels",
            "gemms",
            "attention",
            "operators",
            "modules",
            "python",
        ],
    ),
    (
        "tab_roofline",
        &[
            "roofline",
            "utilization",
            "flops",
            "profiled",
            "representativeness",
            "deep_dive",
        ],
    ),
    (
        "tab_evidence",
        &["findings", "quality", "repeats", "environment", "glossary"],
    ),
];

/// The id of a tab, by its word.
fn tab_id(word: &str) -> &str {
    word.trim_start_matches("tab_")
}

/// Places in [`TABS`].
const OVERVIEW: usize = 0;
const EVIDENCE: usize = TABS.len() - 1;

/// Writes one document, such as `report.html`; the report holds the appendix, folded.
pub(super) fn render(report: &Report, kind: Kind) -> Rendered {
    let page = Page::whole(report, kind);
    let appendix = (kind == Kind::Report).then(|| Page::whole(report, Kind::Appendix));
    let mut writer = Writer::new(&page);
    let parts = parts(&page, appendix.as_ref());
    for (tab, (word, _)) in TABS.iter().enumerate() {
        writer.panel(tab, word, &parts, appendix.as_ref());
    }
    let bytes = shell::document(&page, &writer.panels).into_bytes();
    Rendered::one(&format!("{}.html", kind.name()), bytes)
}

/// A section with what the appendix has of it.
struct Part<'a> {
    tab: usize,
    /// Its place in the tab.
    rank: usize,
    id: &'a str,
    title: &'a str,
    main: &'a [PageBlock],
    more: Vec<&'a [PageBlock]>,
}

/// The sections of both documents in the order of the tabs. What stood in both stands once.
fn parts<'a>(page: &'a Page, appendix: Option<&'a Page>) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let is_appendix = page.kind == Kind::Appendix;
    let of_report = page.sections.iter().map(|section| (section, is_appendix));
    let others = appendix.into_iter().flat_map(|page| &page.sections);
    for (section, is_more) in of_report.chain(others.map(|section| (section, true))) {
        let id = section.id.strip_suffix("-appendix").unwrap_or(&section.id);
        // The proofs of findings stand with their claims.
        let id = if id == "evidence" { "findings" } else { id };
        let known = parts.iter().position(|part| part.id == id);
        let place = known.unwrap_or_else(|| {
            let (tab, rank) = place_of(id, is_more);
            parts.push(Part {
                tab,
                rank,
                id,
                title: &section.title,
                main: &[],
                more: Vec::new(),
            });
            parts.len() - 1
        });
        match is_more {
            true => parts[place].more.push(&section.blocks),
            false => parts[place].main = &section.blocks,
        }
    }
    parts.sort_by_key(|part| (part.tab, part.rank));
    parts
}

/// Tab and place of a section.
fn place_of(id: &str, is_of_appendix: bool) -> (usize, usize) {
    for (tab, (_, sections)) in TABS.iter().enumerate() {
        if let Some(rank) = sections.iter().position(|section| *section == id) {
            return (tab, rank);
        }
    }
    let tab = if is_of_appendix { EVIDENCE } else { OVERVIEW };
    (tab, usize::MAX)
}

/// What stands around the rows of a table.
struct Frame<'t> {
    id: String,
    class: &'static str,
    caption: &'t str,
    note: Option<&'t str>,
    total: String,
}

/// A line of a table of contents.
struct Entry {
    id: String,
    title: String,
}

/// A tab with its content.
struct Panel {
    id: String,
    title: String,
    entries: Vec<Entry>,
    body: String,
}

/// The body in the making.
struct Writer<'a> {
    page: &'a Page,
    panels: Vec<Panel>,
    out: String,
    entries: Vec<Entry>,
    ids: BTreeSet<String>,
    /// Bytes that charts may still take.
    room: usize,
    /// Level of headings inside sections.
    level: usize,
    /// Iterations can be looked at, to which findings lead.
    has_iterations: bool,
}

impl<'a> Writer<'a> {
    fn new(page: &'a Page) -> Self {
        let is_iterations = |block: &PageBlock| matches!(block, Block::Iterations(_));
        let mut sections = page.sections.iter();
        Self {
            page,
            panels: Vec::new(),
            out: String::new(),
            entries: Vec::new(),
            ids: shell::ids(),
            room: CHARTS,
            level: 3,
            has_iterations: sections.any(|section| section.blocks.iter().any(is_iterations)),
        }
    }

    /// A tab, if there is something in it.
    fn panel(&mut self, tab: usize, word: &str, parts: &[Part<'a>], appendix: Option<&'a Page>) {
        let page = self.page;
        if tab == OVERVIEW {
            self.level = 3;
            self.blocks(&page.summary);
            self.notes();
        }
        self.level = 4;
        for part in parts.iter().filter(|part| part.tab == tab) {
            self.part(part, appendix);
        }
        if tab == EVIDENCE {
            self.data_quality(appendix);
            self.methods(appendix.unwrap_or(page));
        }
        let body = std::mem::take(&mut self.out);
        let entries = std::mem::take(&mut self.entries);
        if !body.is_empty() {
            self.panels.push(Panel {
                id: tab_id(word).to_owned(),
                title: page.words[word].to_owned(),
                entries,
                body,
            });
        }
    }

    /// A section, with what the appendix has of it folded.
    fn part(&mut self, part: &Part<'a>, appendix: Option<&'a Page>) {
        // Sections of the appendix alone have ids that no section of the report can have.
        let id = match part.main {
            [] => format!("appendix-{}", part.id),
            _ => part.id.to_owned(),
        };
        let id = self.enter(&id, part.title);
        let title = heading(3, &id, part.title);
        let _ = writeln!(self.out, "<section id=\"{id}\">\n{title}");
        if part.id == "findings" {
            self.findings(part);
        } else {
            self.blocks(part.main);
            let is_folded = !part.main.is_empty();
            if is_folded && !part.more.is_empty() {
                let id = self.id(&format!("appendix-{}", part.id));
                let details = self.page.words["details"];
                let _ = writeln!(
                    self.out,
                    "<details id=\"{id}\">\n<summary>{details}</summary>"
                );
            }
            // Charts of the appendix are files of that document.
            let report = self.page;
            self.page = appendix.unwrap_or(report);
            for blocks in &part.more {
                self.blocks(blocks);
            }
            self.page = report;
            if is_folded && !part.more.is_empty() {
                self.out.push_str("</details>\n");
            }
        }
        self.out.push_str("</section>\n");
    }

    /// Each finding with what proves it, then the other blocks of both documents.
    fn findings(&mut self, part: &Part<'a>) {
        let is_same = |a: &Finding, b: &Finding| (a.id, &a.title) == (b.id, &b.title);
        let find = |blocks: &'a [PageBlock], finding: &Finding| {
            blocks.iter().find_map(|block| match block {
                Block::Finding(other) if is_same(other, finding) => Some(&**other),
                _ => None,
            })
        };
        for block in part.main {
            let Block::Finding(claim) = block else {
                self.block(block);
                continue;
            };
            let mut proofs = part.more.iter().filter_map(|blocks| find(blocks, claim));
            match proofs.next() {
                Some(proof) => self.finding(&Finding {
                    evidence: proof.evidence.clone(),
                    query: proof.query.clone(),
                    ..(**claim).clone()
                }),
                None => self.finding(claim),
            }
        }
        for block in part.more.iter().copied().flatten() {
            match block {
                Block::Finding(proof) if find(part.main, proof).is_some() => {}
                block => self.block(block),
            }
        }
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

    fn methods(&mut self, page: &Page) {
        if page.methods.is_empty() {
            return;
        }
        let title = page.words["method"];
        let id = self.enter("appendix-method", title);
        let _ = writeln!(
            self.out,
            "<details id=\"{id}\">\n<summary>{}</summary>\n<dl class=\"methods\">",
            heading(3, &id, title)
        );
        for method in &page.methods {
            let (title, text) = (escape(&method.title), inlines(&method.text));
            let _ = writeln!(self.out, "<dt>{title}</dt><dd>{text}</dd>");
        }
        self.out.push_str("</dl>\n</details>\n");
    }

    /// An id for a section, which the table of contents lists.
    fn enter(&mut self, id: &str, title: &str) -> String {
        let id = self.id(id);
        self.entries.push(Entry {
            id: id.clone(),
            title: title.to_owned(),
        });
        id
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

    fn data_quality(&mut self, appendix: Option<&Page>) {
        let page = self.page;
        let mut rows = String::new();
        let mut count = 0;
        for page in [page].into_iter().chain(appendix) {
            for diagnostic in &page.data_quality {
                rows.push_str(&data_quality_row(page, diagnostic));
                count += 1;
            }
        }
        if count == 0 {
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
        let frame = Frame {
            id: "table-data-quality".to_owned(),
            class: "",
            caption: title,
            note: None,
            total: String::new(),
        };
        self.table(&frame, &heads, &rows, count);
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
                format!("<pre>{}</pre>\n", escape_lines(code))
            }
            Block::Finding(finding) => return self.finding(finding),
            Block::Tiles(tiles) => self::tiles(tiles),
            Block::Actions(cards) => actions(self.page, cards),
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
            let hint = format!("<p class=\"hint\">{}</p>", self.page.words["scroll_hint"]);
            writeln!(
                self.out,
                "<figure id=\"{id}\">\n{hint}{body}\n{caption}</figure>"
            )
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
        let (class, total) = match ALL_ROWS.contains(&table.dataset) {
            true => (" all", self.totals(table)),
            false => ("", String::new()),
        };
        let frame = Frame {
            id: format!("table-{}", table.dataset),
            class,
            caption: &table.caption,
            note: table.note.as_deref(),
            total,
        };
        self.table(&frame, &heads, &rows, table.rows.len());
    }

    /// The last row of a table with all rows, into which the script writes the sums of those that the filter leaves.
    fn totals(&self, table: &Table) -> String {
        let mut cells = String::new();
        for (column, head) in table.columns.iter().enumerate() {
            let cell = match column {
                0 => format!("<th scope=\"row\">{}</th>", self.page.words["total"]),
                _ if SUMMED.contains(&head.id) => "<td class=\"n\" data-sum=\"\"></td>".to_owned(),
                _ => "<td></td>".to_owned(),
            };
            cells.push_str(&cell);
        }
        format!("<tfoot class=\"script\"><tr>{cells}</tr></tfoot>\n")
    }

    /// A table with its caption and a note, and a filter if it is long.
    fn table(&mut self, frame: &Frame<'_>, heads: &str, rows: &str, count: usize) {
        let id = self.id(&frame.id);
        let (class, total) = (frame.class, &frame.total);
        let name = escape(frame.caption);
        let note = match frame.note {
            Some(note) => format!(" <small>{}</small>", escape(note)),
            None => String::new(),
        };
        let filter = if count > FEW_ROWS {
            shell::filter(self.page)
        } else {
            String::new()
        };
        let link = anchor(&id, frame.caption);
        let _ = write!(
            self.out,
            r#"<div class="table{class}" id="{id}">
{filter}<div class="scroll" role="region" aria-label="{name}" tabindex="0">
<table>
<caption><span>{name}{note}{link}</span></caption>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}</tbody>
{total}</table>
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
        let stage = finding.scope.stage.as_deref().unwrap_or_default();
        let (of_stage, link) = match stage {
            "" => (String::new(), String::new()),
            stage => (
                format!(" data-stage=\"{}\"", escape(stage)),
                self.timeline_link(),
            ),
        };
        let _ = writeln!(
            self.out,
            "<article id=\"{id}\" class=\"finding {class}\"{of_stage}>\n<h{level}>{title} {badge}{anchor}</h{level}>\n{statement}{card}{link}</article>",
        );
    }

    /// A link from a finding to the iterations of its stage, where they can be looked at.
    fn timeline_link(&self) -> String {
        let title = self.page.words["tab_timeline"];
        match self.has_iterations {
            true => format!("<p class=\"script\"><a href=\"#iterations\">{title}</a></p>\n"),
            false => String::new(),
        }
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

/// Code with its line breaks, which elsewhere are no text.
fn escape_lines(code: &str) -> String {
    let lines: Vec<String> = code.lines().map(escape).collect();
    lines.join("\n")
}

/// What to do, with the code to copy.
fn actions(page: &Page, cards: &[ActionCard]) -> String {
    let mut list = "<ol class=\"actions\">\n".to_owned();
    for card in cards {
        let snippet = match &card.snippet {
            Some(code) => format!(
                "<pre tabindex=\"0\"><code>{}</code></pre>\n",
                escape_lines(code.trim_end())
            ),
            None => String::new(),
        };
        let mut facts = Vec::new();
        for (name, value) in &card.facts {
            facts.push((name.clone(), inlines(value)));
        }
        let evidence = page.words["evidence"];
        let link = match card.finding {
            "" => String::new(),
            // The script takes it away where the file has no such finding.
            id => {
                format!(" <a class=\"script\" data-finding=\"{id}\" href=\"#main\">{evidence}</a>")
            }
        };
        let _ = write!(
            list,
            "<li><p><strong>{}</strong>{link}</p>\n{snippet}{}</li>\n",
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
