//! The HTML report in a browser, where there is one: `chromium` on the path.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

use rooflens::document::Catalogue;
use rooflens::render::{Format, RenderOptions, render};
use rooflens::report::Kind;

use crate::support::sample_report as sample;

/// What a reader does, and what comes of it, a line each.
const READER: &str = include_str!("support/reader.js");

/// What a reader of the tabs sees in windows of some widths.
const TABS: &str = include_str!("support/tabs.js");

/// The document with a script that the policy would not let in.
fn with_script(html: &str, script: &str) -> String {
    let policy = html.find("<meta http-equiv").unwrap();
    let end = policy + html[policy..].find("/>").unwrap() + 2;
    let script = format!("<script>{script}</script></body>");
    format!("{}{}", &html[..policy], &html[end..]).replace("</body>", &script)
}

/// Loads a document; returns its elements after the scripts ran, and what the console says.
fn load(html: &str, place: &str) -> Option<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    fs::write(&file, html).unwrap();
    let profile = format!(
        "--user-data-dir={}",
        folder.path().join("profile").display()
    );
    let output = Command::new("timeout")
        .args([
            "60",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
        ])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            &profile,
        ])
        .arg(format!("file://{}{place}", file.display()))
        .output()
        .ok()?;
    let [dom, log] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let console: String = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    dom.contains("<main").then_some((dom, console))
}

#[test]
#[allow(clippy::print_stderr)]
fn a_reader_sorts_filters_and_zooms_and_nothing_else_runs() {
    let options = RenderOptions::default();
    let rendered = render(&sample::report(), Kind::Report, Format::Html, &options).unwrap();
    let html = String::from_utf8(rendered.files[&rendered.main].clone()).unwrap();
    let Some((dom, console)) = load(&html, "") else {
        eprintln!("skipped: there is no chromium that runs");
        return;
    };
    assert_eq!(console, "");
    assert!(dom.contains("class=\"scripted\""), "the script did not run");

    // What gets into the file in spite of all is stopped by the policy.
    let intruder = "<script>document.body.id = 'taken'</script></body>";
    let (dom, console) = load(&html.replace("</body>", intruder), "").unwrap();
    assert!(console.contains("Content Security Policy"), "{console}");
    assert!(!dom.contains("id=\"taken\""));

    let open = with_script(&html, READER);
    // The reader scrolls to the iterations, and the browser then to the place in the address. With virtual time it may draw
    // no frame in between: then the iterations never came into sight.
    let shown = |(dom, _): &(String, String)| !dom.contains("\n0\n");
    let mut loads = (0..10).filter_map(|_| load(&open, "#appendix-names"));
    let (dom, console) = loads.find(shown).unwrap();
    assert_eq!(console, "");
    let said = dom
        .split("<pre id=\"result\">")
        .nth(1)
        .unwrap()
        .split("</pre>")
        .next()
        .unwrap();
    let lines: Vec<&str> = said.lines().collect();
    // Kernel n of 53 has 84 868 / (n + 1) launches and an intensity of 0.25 × 1.17 ^ n; every fifth has none.
    assert_eq!(
        lines[..2],
        ["descending 84868 1601", "ascending 1601 84868"]
    );
    // 0.25 × 1.17 ^ 52 = 878.22 is the greatest that is known: those of kernels 49, 44, … are missing.
    assert_eq!(lines[2], "descending 878.22 –");
    assert!(
        lines[3].starts_with("ascending &lt;script&gt;"),
        "{}",
        lines[3]
    );
    assert_eq!(lines[4..6], ["1 / 53", "1"]);
    assert_eq!(lines[6], "dark rgb(18, 24, 30)");
    assert_eq!(lines[7..10], ["true", "true", "true"]);
    assert_eq!(
        lines[10..12],
        ["Kernels on the roofline of device memory", "true"]
    );
    let words = |key: &str, values: &[(&str, &str)]| {
        let line = Catalogue::english().line(key, &[]);
        let fill = |line: String, (name, value): &(&str, &str)| line.replace(name, value);
        values.iter().fold(line, fill)
    };
    let operation = words(
        "page.iteration_event",
        &[
            ("%name", "gemm &lt;b&gt;"),
            ("%duration", "31.2 µs"),
            ("%start", "9.5 µs"),
        ],
    );
    let launch = words(
        "page.iteration_call",
        &[
            ("%name", "cudaLaunchKernel"),
            ("%duration", "5 µs"),
            ("%before", "7.5 µs"),
        ],
    );
    assert_eq!(lines[12..], ["1", &format!("{operation}; {launch}")]);
}

#[test]
#[allow(clippy::print_stderr)]
fn each_tab_shows_its_content_and_no_table_is_wider_than_the_window() {
    let options = RenderOptions::default();
    let rendered = render(&sample::report(), Kind::Report, Format::Html, &options).unwrap();
    let html = String::from_utf8(rendered.files[&rendered.main].clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tabs.html");
    fs::write(&file, with_script(&html, TABS)).unwrap();
    let listen = "addEventListener(\"message\", (event) => document.querySelector(\"main\").append(event.data));";
    let mut lines = Vec::new();
    for width in [1024, 1440, 390] {
        // A browser's window is not as narrow as a phone, but a frame is. What it finds, it tells the window around it.
        let frame = format!(
            "<iframe src=\"file://{}\" width=\"{width}\" height=\"500\"></iframe>",
            file.display()
        );
        let window =
            format!("<!doctype html><body><main></main><script>{listen}</script>{frame}</body>");
        let Some((dom, _)) = load(&window, "") else {
            eprintln!("skipped: there is no chromium that runs");
            return;
        };
        let (_, said) = dom.split_once("<main>").unwrap();
        let (said, _) = said.split_once("</main>").unwrap();
        lines.extend(
            said.lines()
                .filter(|line| !line.is_empty())
                .map(str::to_owned),
        );
    }
    lines.sort_unstable();
    let mut expected = Vec::new();
    for width in [1024, 1440, 390] {
        for tab in ["evidence", "kernels", "overview", "roofline", "timeline"] {
            expected.push(format!("{width} {tab}: shown alone, fits"));
        }
        // Kernel 0 has a row in both tables of kernels, which are in two tabs, a mark in the roofline and operations.
        expected.push(format!(
            "{width} selected: #kernels?kernel=nvjet_tst_192x192_64x4_1x2_h_bz_coopA_TNT"
        ));
        expected.push(format!("{width} shown: evidence kernels roofline"));
        expected.push(format!("{width} without selection: #kernels"));
        expected.push(format!("{width} filtered: #kernels?kernel=nvjet_tst_192x192_64x4_1x2_h_bz_coopA_TNT&amp;table-kernels=silu_38"));
        expected.push(format!("{width} filter of the address: silu_38"));
        expected.push(format!("{width} paper: 0 cut or wide"));
    }
    expected.sort_unstable();
    assert_eq!(lines, expected);
}
