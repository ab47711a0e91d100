//! GitHub-flavoured Markdown with the charts as SVG files next to it.

use std::fmt::Write;

use super::Rendered;
use super::page::{Page, PageBlock, place};
use super::table::Table;
use rooflens_document::report::{Kind, Report};
use rooflens_document::{ActionCard, Block, Finding, Inline, Tile};

/// Writes one document, such as `report.md`, and its charts: `report_files/*.svg`. `stem` is its name without extension.
pub(super) fn render(report: &Report, kind: Kind, stem: Option<&str>) -> Rendered {
    let stem = stem.unwrap_or(kind.name());
    let page = Page::new(report, kind, &format!("{stem}_files"));
    let mut out = String::new();
    cover(&mut out, &page);
    write_blocks(&mut out, &page, &page.summary);
    notes(&mut out, &page);
    for section in &page.sections {
        block(&mut out, &format!("## {}", escape(&section.title)));
        write_blocks(&mut out, &page, &section.blocks);
    }
    data_quality(&mut out, &page);
    methods(&mut out, &page);
    let mut rendered = Rendered::one(&format!("{stem}.md"), out.into_bytes());
    rendered.files.extend(page.charts);
    rendered
}

/// Appends a block, which ends in an empty line.
fn block(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\n\n");
}

fn cover(out: &mut String, page: &Page) {
    let (cover, colon) = (&page.cover, page.words["colon"]);
    block(out, &format!("# {}", escape(&cover.title)));
    let mut lines = vec![(
        "bundle",
        format!("{} ({})", escape(&cover.bundle), code(&cover.bundle_id)),
    )];
    if let Some(captured_at) = &cover.captured_at {
        lines.push(("captured", escape(captured_at)));
    }
    lines.push(("report_by", escape(&page.generator())));
    let mut list = String::new();
    for (key, value) in lines {
        let _ = writeln!(list, "- {}{colon}{value}", page.words[key]);
    }
    for (name, value) in &cover.facts {
        let _ = writeln!(list, "- {}{colon}{}", escape(name), escape(value));
    }
    block(out, list.trim_end());
}

/// The analyst's notes as a quotation: they are not this program's words.
fn notes(out: &mut String, page: &Page) {
    if page.notes.is_empty() {
        return;
    }
    block(out, &format!("## {}", page.words["notes"]));
    let mut quoted = String::new();
    block(&mut quoted, &format!("*{}*", page.words["notes_mark"]));
    write_blocks(&mut quoted, page, &page.notes);
    let mut lines = Vec::new();
    for line in quoted.trim_end().lines() {
        lines.push(format!("> {line}").trim_end().to_owned());
    }
    block(out, &lines.join("\n"));
}

/// The card of a finding.
fn finding(out: &mut String, page: &Page, finding: &Finding) {
    let label = page.text.word(finding.severity.label());
    block(out, &format!("### {} ({label})", escape(&finding.title)));
    if !finding.statement.is_empty() {
        block(out, &paragraph(&inline(&finding.statement)));
    }
    let (mut list, colon) = (String::new(), page.words["colon"]);
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(list, "- {name}{colon}{text}");
        }
    };
    if let Some(gain) = &finding.gain {
        let bound = if gain.basis.is_empty() { "" } else { colon };
        let text = escape(&format!("{}{bound}{}", page.gain(gain), gain.basis));
        line(&format!("**{}**", page.words["gain"]), text);
    }
    if let Some(advice) = &finding.advice {
        line(&format!("**{}**", page.words["advice"]), inline(advice));
    }
    if let Some(next) = &finding.next {
        line(page.words["next"], inline(next));
    }
    let mut evidence = Vec::new();
    for source in &finding.evidence {
        evidence.push(escape(&page.evidence(source)));
    }
    let evidence = evidence.join(page.words["semicolon"]);
    line(page.words["evidence"], evidence);
    if let Some(query) = &finding.query {
        line(page.words["sql_on_export"], inline(&query.gives));
        if !query.sql.is_empty() {
            let fence = fence(&query.sql);
            let sql = query.sql.replace('\n', "\n  ");
            let _ = write!(list, "\n  {fence}sql\n  {sql}\n  {fence}\n");
        }
    }
    block(out, list.trim_end());
}

fn data_quality(out: &mut String, page: &Page) {
    if page.data_quality.is_empty() {
        return;
    }
    block(out, &format!("## {}", page.words["data_quality"]));
    let heads = ["severity", "what", "where", "hint"]
        .map(|key| page.words[key])
        .join(" | ");
    let mut rows = format!("| {heads} |\n|---|---|---|---|\n");
    for diagnostic in &page.data_quality {
        let label = page.text.word(diagnostic.severity.label());
        let times = page.times(diagnostic).unwrap_or_default();
        let hint = diagnostic.hint.as_deref().map(escape).unwrap_or_default();
        let message = escape(&diagnostic.message);
        let location = escape(&place(diagnostic));
        let _ = writeln!(rows, "| {label} | {message}{times} | {location} | {hint} |");
    }
    block(out, rows.trim_end());
}

fn methods(out: &mut String, page: &Page) {
    if page.methods.is_empty() {
        return;
    }
    block(out, &format!("## {}", page.words["method"]));
    for method in &page.methods {
        block(
            out,
            &format!("**{}.** {}", escape(&method.title), inline(&method.text)),
        );
    }
}

fn write_blocks(out: &mut String, page: &Page, blocks: &[PageBlock]) {
    for block in blocks {
        write_block(out, page, block);
    }
}

fn write_block(out: &mut String, page: &Page, shown: &PageBlock) {
    match shown {
        Block::Heading(text) => block(out, &format!("### {}", escape(text))),
        Block::Prose(text) => block(out, &paragraph(&inline(text))),
        Block::Table(table) => write_table(out, table),
        Block::Chart(figure) => {
            let description = escape(&figure.description);
            block(out, &format!("![{description}]({})", target(&figure.path)));
            block(out, &format!("*{}*", escape(&figure.title)));
        }
        Block::Iterations(_) => {}
        Block::Facts(facts) => {
            let mut lines = Vec::new();
            for (name, value) in facts {
                let text = format!("{}{}{}", escape(name), page.words["colon"], inline(value));
                lines.push(format!("- {}", paragraph(&text)));
            }
            block(out, &lines.join("\n"));
        }
        Block::List(texts) => {
            let mut lines = Vec::new();
            for (n, text) in (1..).zip(texts) {
                lines.push(format!("{n}. {}", paragraph(&inline(text))));
            }
            block(out, &lines.join("\n"));
        }
        Block::Bullets(texts) => {
            let mut lines = Vec::new();
            for text in texts {
                lines.push(format!("- {}", paragraph(&inline(text))));
            }
            block(out, &lines.join("\n"));
        }
        Block::Code(code) => {
            let text = code.strip_suffix('\n').unwrap_or(code);
            let fence = fence(text);
            block(out, &format!("{fence}\n{text}\n{fence}"));
        }
        Block::Finding(finding) => self::finding(out, page, finding),
        Block::Tiles(tiles) => write_tiles(out, page, tiles),
        Block::Actions(cards) => {
            for (n, card) in (1..).zip(cards) {
                write_action(out, page, n, card);
            }
        }
        Block::Missing(reason) => {
            let [missing, colon] = ["not_available", "colon"].map(|key| page.words[key]);
            block(out, &format!("> {missing}{colon}{}", escape(reason)));
        }
    }
}

fn write_tiles(out: &mut String, page: &Page, tiles: &[Tile]) {
    let mut lines = Vec::new();
    for tile in tiles {
        let mut parts = vec![format!("**{}**", escape(&tile.now.to_string()))];
        for (name, value) in &tile.others {
            parts.push(escape(&format!("{name} {value}")));
        }
        let (label, colon) = (escape(&tile.label), page.words["colon"]);
        lines.push(format!(
            "- {label}{colon}{}",
            parts.join(page.words["semicolon"])
        ));
    }
    block(out, &lines.join("\n"));
}

fn write_action(out: &mut String, page: &Page, number: usize, card: &ActionCard) {
    block(out, &format!("**{number}. {}**", inline(&card.what)));
    if let Some(snippet) = &card.snippet {
        let text = snippet.trim_end();
        let fence = fence(text);
        block(out, &format!("{fence}\n{text}\n{fence}"));
    }
    write_block(out, page, &Block::Facts(card.facts.clone()));
}

/// Backticks around lines of code, more than there are in them.
fn fence(text: &str) -> String {
    "`".repeat(longest_fence(text).max(2) + 1)
}

/// A path as the target of a link.
fn target(path: &str) -> String {
    let mut target = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            target.push(char::from(byte));
        } else {
            let _ = write!(target, "%{byte:02X}");
        }
    }
    target
}

fn write_table(out: &mut String, table: &Table) {
    block(out, &format!("**{}**", escape(&table.caption)));
    let (mut titles, mut rules) = (Vec::new(), Vec::new());
    for head in &table.columns {
        titles.push(escape(&head.title));
        rules.push(if head.numeric { "---:" } else { "---" });
    }
    let mut text = format!("| {} |\n|{}|\n", titles.join(" | "), rules.join("|"));
    for row in &table.rows {
        let mut cells = Vec::new();
        for (cell, head) in row.iter().zip(&table.columns) {
            cells.push(if head.mono && !cell.is_empty() {
                code(cell).replace('|', "\\|")
            } else {
                escape(cell)
            });
        }
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    block(out, text.trim_end());
    if let Some(note) = &table.note {
        block(out, &escape(note));
    }
}

fn inline(text: &[Inline]) -> String {
    text.iter().map(inline_piece).collect()
}

fn inline_piece(inline: &Inline) -> String {
    match inline {
        Inline::Text(text) => escape(text),
        Inline::Quantity(quantity) => escape(&quantity.to_string()),
        Inline::Code(text) => code(text),
        Inline::Strong(text) if text.trim().is_empty() => escape(text),
        Inline::Strong(text) => format!("**{}**", escape(text.trim())),
    }
}

/// A paragraph whose first character starts no list and no heading.
fn paragraph(text: &str) -> String {
    let text = text.trim_start();
    let after_digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let ordered = after_digits.len() < text.len() && after_digits.starts_with(['.', ')']);
    if ordered {
        let digits = text.len() - after_digits.len();
        return format!("{}\\{after_digits}", text.get(..digits).unwrap_or_default());
    }
    if text.starts_with(['-', '+', '=']) {
        format!("\\{text}")
    } else {
        text.to_owned()
    }
}

/// A code span that holds `text` whatever it is.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_fence(text) + 1);
    let edge = |c: Option<char>| matches!(c, Some('`' | ' '));
    let space = if edge(text.chars().next()) || edge(text.chars().last()) {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Backticks in a row in `text`, at most.
fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// `text` in which nothing is markup: punctuation is escaped and addresses are no links.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_[]<>|~$&#!@{}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out.replace("://", ":\\//")
        .replace("www.", "www\\.")
        .replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulldown_cmark::{Event, Options, Parser};

    /// The text that a reader sees, if the Markdown is one paragraph of nothing but text and code.
    fn seen(markdown: &str) -> String {
        Parser::new_ext(markdown, Options::all() - Options::ENABLE_SMART_PUNCTUATION)
            .filter_map(|event| match event {
                Event::Text(text) | Event::Code(text) => Some(text.into_string()),
                Event::Start(tag) if !matches!(tag, pulldown_cmark::Tag::Paragraph) => {
                    Some(format!("TAG {tag:?}"))
                }
                Event::Html(html) | Event::InlineHtml(html) => Some(format!("HTML {html}")),
                Event::InlineMath(math) => Some(format!("MATH {math}")),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn hostile_texts_are_seen_as_they_are() {
        let texts = [
            "<script>alert(1)</script> | #eval(\"x\") $\\alpha$",
            "void k<float, (a)1>(T*, _b_, **c**) [x](http://y) ![i](j) `q` ~~s~~",
            "&amp; ![](x) <!-- --> \\",
        ];
        for text in texts {
            assert_eq!(seen(&paragraph(&escape(text))), text);
            assert_eq!(seen(&code(text)), text);
        }
        assert_eq!(seen(&code("`a``b`")), "`a``b`");
        for text in ["1. one", "- a", "+ b", "# c", "=== d"] {
            assert_eq!(seen(&paragraph(&escape(text))), text);
        }
    }
}
