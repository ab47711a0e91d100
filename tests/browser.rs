//! The HTML report in a browser, where there is one: `chromium` on the path.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

use rooflens::document::Catalogue;
use rooflens::render::{Format, RenderOptions, render};
use rooflens::report::Kind;

use crate::support::{path, rooflens, sample_report as sample};

/// What a reader does, and what comes of it, a line each.
const READER: &str = include_str!("support/reader.js");

/// What a reader of the tabs sees in windows of some widths.
const TABS: &str = include_str!("support/tabs.js");

/// Notes what answers to the mouse, before the document's own script runs.
const ANSWERS: &str = r#"<script>
const answers = new Set(), listen = EventTarget.prototype.addEventListener;
EventTarget.prototype.addEventListener = function (name, ...rest) {
  if (["click", "pointerdown"].includes(name)) answers.add(this);
  return listen.call(this, name, ...rest);
};
</script>"#;

/// A browser's window is not as narrow as a phone, but a frame is. What it finds, it tells the window around it.
const FRAME: &str = r#"<!doctype html><body><main></main><iframe height="500"></iframe><script>
const widths = [390, 1024, 1440], frame = document.querySelector("iframe");
function next() {
  if (widths.length === 0) return;
  frame.width = widths.shift();
  frame.src = "tabs.html";
}
addEventListener("message", (event) => {
  document.querySelector("main").append(event.data);
  next();
});
next();
</script></body>"#;

const WIDTHS: [u32; 3] = [390, 1024, 1440];
const TAB_NAMES: [&str; 5] = ["overview", "timeline", "kernels", "roofline", "evidence"];

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
    browse(&format!("{}{place}", file.display()), 2000)
}

/// Loads a file for some milliseconds of the browser's own time.
fn browse(file: &str, budget: u32) -> Option<(String, String)> {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["120", "chromium", "--headless", "--no-sandbox"])
        .args(["--disable-gpu", "--dump-dom", "--enable-logging=stderr"])
        .arg(format!("--virtual-time-budget={budget}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{file}"))
        .output()
        .ok()?;
    let [dom, log] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let console: String = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    dom.contains("<main").then_some((dom, console))
}

/// What a reader of the tabs sees, a line each; nothing without a browser.
#[allow(clippy::print_stderr)]
fn seen(html: &str, is_sample: bool) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let tabs = format!("const isSample = {is_sample};\n{TABS}");
    let html = with_script(html, &tabs).replace("<head>", &format!("<head>{ANSWERS}"));
    fs::write(folder.path().join("tabs.html"), html).unwrap();
    let window = folder.path().join("window.html");
    fs::write(&window, FRAME).unwrap();
    let Some((dom, _)) = browse(&window.display().to_string(), 3000) else {
        eprintln!("skipped: there is no chromium that runs");
        return None;
    };
    let (_, said) = dom.split_once("<main>").unwrap();
    let (said, _) = said.split_once("</main>").unwrap();
    let lines = said.lines().filter(|line| !line.is_empty());
    Some(lines.map(str::to_owned).collect())
}

/// What is expected of a width: each tab is shown alone, and nothing in it is cut, faint in a theme or out of reach.
fn expected(width: u32, tabs: &[&str], walk: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for tab in tabs {
        lines.push(format!("{width} {tab}: shown alone"));
    }
    for line in walk {
        lines.push(format!("{width} {line}"));
    }
    if width == WIDTHS[2] {
        lines.push(format!("{width} paper: shown"));
    }
    lines
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
fn each_tab_shows_its_content_and_a_kernel_is_found_in_all() {
    let options = RenderOptions::default();
    let rendered = render(&sample::report(), Kind::Report, Format::Html, &options).unwrap();
    let html = String::from_utf8(rendered.files[&rendered.main].clone()).unwrap();
    let Some(lines) = seen(&html, true) else {
        return;
    };
    // Kernel 0 has a row in both tables of kernels, which are in two tabs, a mark in the roofline and operations.
    let kernel = "nvjet_tst_192x192_64x4_1x2_h_bz_coopA_TNT";
    let selected = format!("selected: #kernels?kernel={kernel}");
    let filtered = format!("filtered: #roofline?kernel={kernel}&amp;table-kernels=silu_38");
    let walk = [
        selected.as_str(),
        "shown: evidence kernels roofline",
        "explained: true",
        "without selection: #roofline",
        filtered.as_str(),
        "filter of the address: silu_38",
    ];
    let mut all = Vec::new();
    for width in WIDTHS {
        all.extend(expected(width, &TAB_NAMES, &walk));
    }
    assert_eq!(lines, all);
}

#[test]
fn reports_of_real_captures_fit_all_widths_in_both_themes() {
    for fixture in ["h200-llama-8b", "h100-vit-train", "h200x2-ddp"] {
        let input = path(fixture);
        let output = rooflens(&[
            "report",
            input.to_str().unwrap(),
            "--format",
            "html",
            "-o",
            "-",
        ]);
        let html = String::from_utf8(output.stdout).unwrap();
        let Some(lines) = seen(&html, false) else {
            return;
        };
        let mut all = Vec::new();
        for width in WIDTHS {
            all.extend(expected(width, &TAB_NAMES, &[]));
        }
        assert_eq!(lines, all, "{fixture}");
    }
}
