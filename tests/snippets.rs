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
        .args(["-raw", "-", "-"])
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

#[test]
fn code_of_actions_can_be_copied_and_run() {
    let mut count = 0;
    for name in FIXTURES {
        let report = fixture(name).pages(Lang::En);
        let snippets = snippets(&report);
        for snippet in &snippets {
            count += 1;
            let compile = "import sys; compile(sys.stdin.read(), 'snippet', 'exec')";
            let compiles = match snippet.starts_with("export ") {
                true => takes("sh", &["-n"], snippet),
                false => takes("python3", &["-c", compile], snippet),
            };
            assert_ne!(compiles, Some(false), "{name}: {snippet}");
        }
        let options = RenderOptions::default();
        let pdf = render(&report, Kind::Summary, Format::Pdf, &options).unwrap();
        let Some(text) = text_of(&pdf.files[&pdf.main]) else {
            continue;
        };
        assert!(
            !text.contains('\u{200b}'),
            "{name}: a character of no width"
        );
        // pdftotext gives one space for several.
        for line in snippets.iter().flat_map(|snippet| snippet.lines()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(text.contains(&words.join(" ")), "{name}: {line}");
        }
    }
    assert!(count > 0);
}
