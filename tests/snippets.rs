//! Code that reports tell readers to copy: it must come out of the PDF as it is, and run.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};

use rooflens::document::{Block, Lang};
use rooflens::render::{Format, RenderOptions, render};
use rooflens::report::{Kind, Report};

use crate::support::{FIXTURES, fixture};

/// The snippets of the actions of a report.
fn snippets(report: &Report) -> Vec<String> {
    let mut snippets = Vec::new();
    for block in &report.summary {
        if let Block::Actions(cards) = block {
            snippets.extend(cards.iter().filter_map(|card| card.snippet.clone()));
        }
    }
    snippets
}

/// What a program says of a text: whether it takes it; none if the program is not there.
fn takes(program: &str, arguments: &[&str], text: &str) -> Option<bool> {
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    Some(child.wait().unwrap().success())
}

/// The text of a PDF by `pdftotext`, if that is there.
fn text_of(pdf: &[u8]) -> Option<String> {
    let mut child = Command::new("pdftotext")
        .args(["-layout", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let pdf = pdf.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&pdf));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The lines of a PDF's text that a snippet stands in, as a reader copies them.
fn copied(text: &str, snippet: &str) -> Option<String> {
    let words = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_filled = |line: &&str| !line.trim().is_empty();
    let lines: Vec<&str> = text.lines().filter(is_filled).collect();
    let expected: Vec<String> = snippet
        .lines()
        .filter(is_filled)
        .map(|line| words(&line))
        .collect();
    let mut places = lines.windows(expected.len());
    let place = places.find(|place| place.iter().map(words).eq(expected.iter().cloned()));
    place.map(|lines| lines.join("\n"))
}

/// Whether a shell parses a snippet, or Python compiles it. None if the program is not there.
fn is_code(snippet: &str) -> Option<bool> {
    let compile =
        "import sys, textwrap; compile(textwrap.dedent(sys.stdin.read()), 'snippet', 'exec')";
    let commands = ["export ", "nvidia-smi "];
    let is_shell = |start: &&str| snippet.trim_start().starts_with(*start);
    match commands.iter().any(is_shell) {
        true => takes("sh", &["-n"], snippet),
        false => takes("python3", &["-c", compile], snippet),
    }
}

#[test]
fn code_of_actions_can_be_copied_and_run() {
    let mut with_code = Vec::new();
    for (name, lang) in FIXTURES
        .iter()
        .flat_map(|name| [(name, Lang::En), (name, Lang::Zh)])
    {
        let report = fixture(name).report(lang);
        let snippets = snippets(&report);
        for snippet in &snippets {
            assert_ne!(is_code(snippet), Some(false), "{name}: {snippet}");
        }
        let options = RenderOptions::default();
        let html = render(&report, Kind::Summary, Format::Html, &options).unwrap();
        let html = std::str::from_utf8(&html.files[&html.main]).unwrap();
        for snippet in &snippets {
            let mut escaped = snippet.trim_end().to_owned();
            for (mark, entity) in [
                ("&", "&amp;"),
                ("<", "&lt;"),
                (">", "&gt;"),
                ("\"", "&quot;"),
            ] {
                escaped = escaped.replace(mark, entity);
            }
            assert!(html.contains(&escaped), "{name}: {snippet}");
        }
        let pdf = render(&report, Kind::Summary, Format::Pdf, &options).unwrap();
        let Some(text) = text_of(&pdf.files[&pdf.main]) else {
            continue;
        };
        assert!(
            !text.contains('\u{200b}'),
            "{name}: a character of no width"
        );
        for snippet in &snippets {
            let copied = copied(&text, snippet);
            let copied = copied.unwrap_or_else(|| panic!("{name}: {snippet}\n{text}"));
            assert_ne!(is_code(&copied), Some(false), "{name}: {copied}");
            with_code.push(*name);
        }
    }
    with_code.dedup();
    assert!(
        with_code.is_empty() || with_code.len() >= 10,
        "{with_code:?}"
    );
}
