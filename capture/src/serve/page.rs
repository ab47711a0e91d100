//! A page that follows a load test: rates and percentiles of each level so far, written anew every two seconds.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rooflens_units::{Ratio, Time};

use super::tally::{Tally, percentile};
use crate::files;

/// How often it is written, and how often a browser reads it.
const PERIOD: Duration = Duration::from_secs(2);

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:1rem;color:#222;background:#fff}\
    table{border-collapse:collapse}td,th{padding:.25rem .5rem;text-align:right;border-bottom:1px solid #ddd}\
    td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}td{white-space:nowrap}tr.now{background:#eef5ff}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#111}td,th{border-color:#333}tr.now{background:#123}}";

const HEADINGS: [&str; 12] = [
    "Pass",
    "Level",
    "Time (s)",
    "Sent",
    "Answered",
    "Failed",
    "Requests/s",
    "Tokens/s",
    "TTFT P50 (ms)",
    "TTFT P99 (ms)",
    "TPOT P50 (ms)",
    "TPOT P99 (ms)",
];

/// The page; nothing is written without a path.
pub(crate) struct Page {
    path: Option<PathBuf>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    rows: Vec<[String; 12]>,
    written: Option<Instant>,
}

impl Page {
    pub(crate) fn of(path: Option<&Path>) -> Self {
        Self {
            path: path.map(Path::to_owned),
            state: RefCell::default(),
        }
    }

    /// Shows how far a level is.
    pub(super) fn update(&self, pass: &str, level: &str, tally: &Tally, time: Duration) {
        if self.path.is_none() {
            return;
        }
        let mut state = self.state.borrow_mut();
        let row = row(pass, level, tally, time);
        match state.rows.last_mut().filter(|last| last[..2] == row[..2]) {
            Some(last) => *last = row,
            None => state.rows.push(row),
        }
        if state.written.is_none_or(|at| at.elapsed() >= PERIOD) {
            state.written = Some(Instant::now());
            self.write(&state.rows, true);
        }
    }

    /// Writes it a last time: it does not change any more.
    pub(crate) fn finish(&self) {
        self.write(&self.state.borrow().rows, false);
    }

    /// A page that cannot be written costs the page, not the test.
    fn write(&self, rows: &[[String; 12]], goes_on: bool) {
        let Some(path) = &self.path else {
            return;
        };
        // A browser must not read half of it.
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let written = files::write(&part, page(rows, goes_on));
        let _ = written.and_then(|()| fs::rename(&part, path));
    }
}

fn row(pass: &str, level: &str, tally: &Tally, time: Duration) -> [String; 12] {
    let seconds = time.as_secs_f64().max(1e-3);
    let rate = |count: u64| format!("{:.1}", count as f64 / seconds);
    let of = |values: &[Time], share: f64| {
        let value = percentile(values, Ratio(share));
        value.map_or("–".to_owned(), |time| format!("{:.1}", time.0 / 1e6))
    };
    [
        escaped(pass),
        escaped(level),
        format!("{seconds:.0}"),
        tally.sent.to_string(),
        tally.ok.to_string(),
        (tally.all() - tally.ok).to_string(),
        rate(tally.ok),
        rate(tally.output_tokens),
        of(&tally.ttft, 0.5),
        of(&tally.ttft, 0.99),
        of(&tally.tpot, 0.5),
        of(&tally.tpot, 0.99),
    ]
}

fn page(rows: &[[String; 12]], goes_on: bool) -> String {
    let refresh = match goes_on {
        true => format!(
            "<meta http-equiv=\"refresh\" content=\"{}\">",
            PERIOD.as_secs()
        ),
        false => String::new(),
    };
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">{refresh}<title>Load test</title>\
         <style>{STYLE}</style><h1>Load test</h1><table><tr>"
    );
    for heading in HEADINGS {
        let _ = write!(html, "<th>{heading}");
    }
    for (index, row) in rows.iter().enumerate() {
        let is_now = goes_on && index + 1 == rows.len();
        html += if is_now { "<tr class=\"now\">" } else { "<tr>" };
        for cell in row {
            let _ = write!(html, "<td>{cell}");
        }
    }
    html + "</table></html>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_follows_each_level() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("live.html");
        let page = Page::of(Some(&path));
        let mut tally = Tally::default();
        let text = || std::fs::read_to_string(&path).expect("is there");
        page.update("a<b", "open-1", &tally, Duration::from_secs(1));
        assert!(text().contains("refresh") && text().contains("<td>a&lt;b<td>open-1"));
        tally.ok = 30;
        page.update("a<b", "open-1", &tally, Duration::from_secs(10));
        page.update("a<b", "open-2", &tally, Duration::from_secs(20));
        page.finish();
        let text = text();
        assert_eq!(text.matches("<td>a&lt;b").count(), 2);
        // 30 answers in 10 s, and in 20 s.
        assert!(text.contains("<td>3.0") && text.contains("<td>1.5") && !text.contains("refresh"));
    }
}
