//! What stands around the body: head, navigation, style, script and the policy that admits only these.

use std::collections::BTreeSet;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::{Panel, definitions};
use crate::page::Page;
use crate::text::escape;
use rooflens_document::report::Kind;

/// Charts are laid out for these faces, so that each file has them.
const STYLE: &str = concat!(
    include_str!("../../../../templates/html/fonts.css"),
    include_str!("../../../../templates/html/report.css")
);
/// Before the body is read: the browser then lays out the first tab alone.
const FIRST_SCRIPT: &str = r#"document.documentElement.classList.add("scripted")"#;
const SCRIPT: &str = include_str!("../../../../templates/html/report.js");

/// Lines of the cover that stand under the title; the others are folded.
const SHOWN_FACTS: usize = 4;

/// Ids that the script and the style know.
pub(super) fn ids() -> BTreeSet<String> {
    let tabs = super::TABS.map(|(word, _)| super::tab_id(word));
    let others = [
        "main",
        "theme",
        "names",
        "unfold",
        "tip",
        "tabs",
        "zoom",
        "iterations",
        "capture",
        "selection",
    ];
    others.into_iter().chain(tabs).map(str::to_owned).collect()
}

/// The whole file.
pub(super) fn document(page: &Page, panels: &[Panel]) -> String {
    let words = &page.words;
    let title = escape(&page.cover.title);
    let body: usize = panels.iter().map(|panel| panel.body.len()).sum();
    let mut out = String::with_capacity(body + 100_000);
    let _ = write!(
        out,
        r##"<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="generator" content="{generator}"/>
<title>{title}</title>
<link rel="icon" href="data:,"/>
<style>{STYLE}</style>
<script>{FIRST_SCRIPT}</script>
</head>
<body>
<a class="skip" href="#main">{skip}</a>
{header}{tabs}<main id="main">
"##,
        lang = page.text.lang().code(),
        policy = policy(),
        generator = escape(&page.generator()),
        skip = words["skip"],
        header = header(page),
        tabs = tabs(page, panels),
    );
    for (n, panel) in panels.iter().enumerate() {
        let Panel { id, title, .. } = panel;
        let class = if n == 0 { "panel shown" } else { "panel" };
        let title = escape(title);
        let contents = contents(page, panel);
        let _ = write!(
            out,
            "<section id=\"{id}\" class=\"{class}\">\n<h2>{title}</h2>\n{contents}{}</section>\n",
            panel.body
        );
    }
    let _ = write!(
        out,
        r##"</main>
{template}{selection}<div id="tip" role="tooltip" hidden=""></div>
<script>{SCRIPT}</script>
</body>
</html>
"##,
        template = zoom(page),
        selection = selection(page),
    );
    out
}

/// Links to the tabs, where there are several.
fn tabs(page: &Page, panels: &[Panel]) -> String {
    if panels.len() < 2 {
        return String::new();
    }
    let links: Vec<(&str, &str)> = panels
        .iter()
        .map(|panel| (panel.id.as_str(), panel.title.as_str()))
        .collect();
    navigation("id=\"tabs\"", page.words["contents"], &links)
}

/// Links to the sections of a tab, where there are several.
fn contents(page: &Page, panel: &Panel) -> String {
    if panel.entries.len() < 2 {
        return String::new();
    }
    let links: Vec<(&str, &str)> = panel
        .entries
        .iter()
        .map(|entry| (entry.id.as_str(), entry.title.as_str()))
        .collect();
    let label = format!("{}: {}", page.words["contents"], escape(&panel.title));
    navigation("class=\"contents\"", &label, &links)
}

fn navigation(attribute: &str, label: &str, links: &[(&str, &str)]) -> String {
    let mut out = format!("<nav {attribute} aria-label=\"{label}\">\n<ul>\n");
    for (id, title) in links {
        let _ = writeln!(out, "<li><a href=\"#{id}\">{}</a></li>", escape(title));
    }
    out + "</ul>\n</nav>\n"
}

/// Where the script lists what is selected and the places that show it.
fn selection(page: &Page) -> String {
    let [selected, close] = ["selected", "close"].map(|key| escape(page.words[key]));
    format!(
        "<p id=\"selection\" class=\"script\" role=\"status\" hidden=\"\">{selected} <code></code> <span></span> \
         <button type=\"button\" aria-label=\"{close}\" title=\"{close}\">×</button></p>\n"
    )
}

/// The policy: nothing but this style with its faces and these scripts.
fn policy() -> String {
    let [style, first, script] =
        [STYLE, FIRST_SCRIPT, SCRIPT].map(|text| base64(&Sha256::digest(text.as_bytes())));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{first}' 'sha256-{script}'; img-src data:; font-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}

/// RFC 4648, section 4.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u32| {
        ALPHABET
            .get(bits as usize % 64)
            .copied()
            .map_or('=', char::from)
    };
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, n| {
            bits << 8 | u32::from(*group.get(n).unwrap_or(&0))
        });
        for n in 0..4 {
            let shown = n <= group.len();
            out.push(if shown {
                letter(bits >> (18 - 6 * n))
            } else {
                '='
            });
        }
    }
    out
}

fn header(page: &Page) -> String {
    let (words, cover) = (&page.words, &page.cover);
    let kicker = match page.kind {
        Kind::Summary => words["kicker_summary"],
        Kind::Appendix => words["kicker_appendix"],
        Kind::Report => words["kicker_report"],
    };
    let line = |key: &str, text: &str| (words[key].to_owned(), text.to_owned());
    let bundle = format!(
        "{} <code>{}</code>",
        escape(&cover.bundle),
        escape(&cover.bundle_id)
    );
    let mut lines = vec![line("bundle", &bundle)];
    if let Some(captured_at) = &cover.captured_at {
        lines.push(line("captured", &escape(captured_at)));
    }
    lines.push(line("report_by", &escape(&page.generator())));
    let mut facts = Vec::new();
    for (name, value) in &cover.facts {
        lines.push((name.clone(), escape(value)));
        facts.push(value.as_str());
    }
    let tool = |id: &str, key: &str| {
        let label = words[key];
        format!("<button type=\"button\" id=\"{id}\" aria-pressed=\"false\">{label}</button>\n")
    };
    let tools = [
        ("theme", "theme"),
        ("names", "whole_names"),
        ("unfold", "unfold"),
    ]
    .map(|(id, key)| tool(id, key));
    facts.truncate(SHOWN_FACTS);
    format!(
        "<header>\n<p class=\"kicker\">{kicker}</p>\n<h1>{}</h1>\n<details id=\"capture\">\n<summary>{}</summary>\n{}</details>\n\
         <div class=\"tools script\">\n{}</div>\n</header>\n",
        escape(&cover.title),
        escape(&match facts.is_empty() {
            true => cover.bundle.clone(),
            false => facts.join(" · "),
        }),
        definitions("cover", lines),
        tools.concat(),
    )
}

/// The field that filters a table, and how many rows it leaves.
pub(super) fn filter(page: &Page) -> String {
    let [label, all] = ["filter", "all"].map(|key| page.words[key]);
    format!(
        "<p class=\"filter script\" data-all=\"{all}\"><label>{label} <input type=\"search\"/></label> <output></output></p>\n"
    )
}

/// Where the script shows iterations operation by operation, with the data that it inflates.
pub(super) fn iterations(page: &Page, data: &str) -> String {
    let [label, hint, said, launched] = [
        "iteration",
        "iteration_hint",
        "iteration_event",
        "iteration_call",
    ]
    .map(|key| escape(page.words[key]));
    format!(
        "<figure id=\"iterations\" class=\"script\" data-iterations=\"{data}\" data-event=\"{said}\" data-call=\"{launched}\">\n\
         <p class=\"filter\"><label>{label} <select></select></label></p>\n\
         <div class=\"lanes\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"{label}\"></canvas></div>\n\
         <output aria-live=\"polite\">{hint}</output>\n</figure>"
    )
}

/// The buttons that the script puts on charts.
fn zoom(page: &Page) -> String {
    let buttons = [
        ("in", "+", "zoom_in"),
        ("out", "−", "zoom_out"),
        ("reset", "⟲", "zoom_reset"),
    ];
    let buttons = buttons.map(|(action, sign, key)| {
        let label = page.words[key];
        format!("<button type=\"button\" data-zoom=\"{action}\" aria-label=\"{label}\" title=\"{label}\">{sign}</button>")
    });
    format!(
        "<template id=\"zoom\"><div class=\"zoom\">{}</div></template>\n",
        buttons.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, encoded) in pairs {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn script_and_style_end_where_they_should() {
        for text in [STYLE, FIRST_SCRIPT, SCRIPT] {
            assert!(!text.contains("</") && !text.contains("<!--") && !text.contains("]]>"));
        }
    }
}
