//! GitHub-flavoured Markdown with the charts as SVG files beside it.

use std::fmt::Write;

use super::Rendered;
use super::page::{Item, Page, Piece, Statement};
use super::table::Table;
use rooflens_document::report::{Kind, Report};

/// Writes one document, such as `report.md`, and its charts: `report_files/*.svg`. `stem` is its name without extension.
pub(super) fn render(report: &Report, kind: Kind, stem: Option<&str>) -> Rendered {
    let stem = stem.unwrap_or(kind.name());
    let page = Page::new(report, kind, &format!("{stem}_files"));
    let mut out = String::new();
    cover(&mut out, &page);
    for item in &page.summary {
        write_item(&mut out, &page, item);
    }
    notes(&mut out, &page);
    for part in &page.sections {
        block(&mut out, &format!("## {}", escape(&part.title)));
        for item in &part.items {
            write_item(&mut out, &page, item);
        }
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
    lines.push(("report_by", escape(&cover.generator)));
    let mut list: String = lines
        .iter()
        .map(|(key, value)| format!("- {}{colon}{value}\n", page.words[key]))
        .collect();
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
    for item in &page.notes {
        write_item(&mut quoted, page, item);
    }
    let lines: Vec<String> = quoted
        .trim_end()
        .lines()
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect();
    block(out, &lines.join("\n"));
}

/// The card of a finding.
fn finding(out: &mut String, page: &Page, finding: &Statement) {
    block(
        out,
        &format!("### {} ({})", escape(&finding.title), finding.label),
    );
    if !finding.statement.is_empty() {
        block(out, &paragraph(&inline(&finding.statement)));
    }
    let (mut list, colon) = (String::new(), page.words["colon"]);
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(list, "- {name}{colon}{text}");
        }
    };
    let bound = if finding.bound.is_empty() { "" } else { colon };
    line(
        &format!("**{}**", page.words["gain"]),
        escape(&format!("{}{bound}{}", finding.gain, finding.bound)),
    );
    line(
        &format!("**{}**", page.words["advice"]),
        inline(&finding.advice),
    );
    line(page.words["next"], inline(&finding.next));
    line(
        page.words["evidence"],
        finding
            .evidence
            .iter()
            .map(|e| escape(e))
            .collect::<Vec<_>>()
            .join(page.words["semicolon"]),
    );
    line(page.words["sql_on_export"], inline(&finding.query));
    if !finding.sql.is_empty() {
        let fence = "`".repeat(longest_fence(&finding.sql).max(2) + 1);
        let _ = write!(
            list,
            "\n  {fence}sql\n  {}\n  {fence}\n",
            finding.sql.replace('\n', "\n  ")
        );
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
    for quality in &page.data_quality {
        let times = quality.count.as_deref().unwrap_or_default();
        let hint = quality.hint.as_deref().map(escape).unwrap_or_default();
        let message = escape(&quality.message);
        let place = escape(&quality.place);
        let _ = writeln!(
            rows,
            "| {} | {message}{times} | {place} | {hint} |",
            quality.label
        );
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

fn write_item(out: &mut String, page: &Page, item: &Item) {
    match item {
        Item::Heading { text } => block(out, &format!("### {}", escape(text))),
        Item::Prose { text } => block(out, &paragraph(&inline(text))),
        Item::Table(table) => write_table(out, table),
        Item::Chart {
            path,
            title,
            description,
            ..
        } => {
            block(
                out,
                &format!("![{}]({})", escape(description), target(path)),
            );
            block(out, &format!("*{}*", escape(title)));
        }
        Item::Iterations { .. } => {}
        Item::Facts { facts } => {
            let line = |(name, value): &(String, Vec<Piece>)| {
                let text = format!("{}{}{}", escape(name), page.words["colon"], inline(value));
                format!("- {}", paragraph(&text))
            };
            let lines: Vec<String> = facts.iter().map(line).collect();
            block(out, &lines.join("\n"));
        }
        Item::List { items } => {
            let lines = (1..)
                .zip(items)
                .map(|(n, item)| format!("{n}. {}", paragraph(&inline(item))));
            block(out, &lines.collect::<Vec<_>>().join("\n"));
        }
        Item::Bullets { items } => {
            let lines = items
                .iter()
                .map(|item| format!("- {}", paragraph(&inline(item))));
            block(out, &lines.collect::<Vec<_>>().join("\n"));
        }
        Item::Code { lines } => {
            let text = lines.join("\n");
            let fence = "`".repeat(longest_fence(&text).max(2) + 1);
            block(out, &format!("{fence}\n{text}\n{fence}"));
        }
        Item::Finding(card) => finding(out, page, card),
        Item::Missing { reason } => {
            block(
                out,
                &format!(
                    "> {}{}{}",
                    page.words["not_available"],
                    page.words["colon"],
                    escape(reason)
                ),
            );
        }
    }
}

/// A path as the target of a link.
fn target(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    path.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

fn write_table(out: &mut String, table: &Table) {
    block(out, &format!("**{}**", escape(&table.caption)));
    let titles: Vec<String> = table
        .columns
        .iter()
        .map(|head| escape(&head.title))
        .collect();
    let rules = table
        .columns
        .iter()
        .map(|head| if head.numeric { "---:" } else { "---" });
    let mut text = format!(
        "| {} |\n|{}|\n",
        titles.join(" | "),
        rules.collect::<Vec<_>>().join("|")
    );
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns).map(|(cell, head)| {
            if head.mono && !cell.is_empty() {
                code(cell).replace('|', "\\|")
            } else {
                escape(cell)
            }
        });
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    block(out, text.trim_end());
    if let Some(note) = &table.note {
        block(out, &escape(note));
    }
}

fn inline(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) | Piece::Quantity(text) => escape(text),
        Piece::Code(text) => code(text),
        Piece::Strong(text) if text.trim().is_empty() => escape(text),
        Piece::Strong(text) => format!("**{}**", escape(text.trim())),
    };
    pieces.iter().map(piece).collect()
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
