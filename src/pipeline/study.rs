//! What an input is: a capture, microbenchmarks, a load test, or nothing that a report is made of.

use std::collections::BTreeSet;
use std::fmt;

use rooflens_schemas::ArtifactKind;

use super::load_tests::may_be_result;
use super::open::Capture;
use crate::bundle::Bundle;
use crate::diagnostic::Severity;
use crate::serving;

/// Bytes of a file by which other commands decide whether it is a load test.
const PREFIX_BYTES: usize = 64 << 10;

/// What to offer instead of an input that is of no use.
const READABLE: &str = "a report is made of nsys exports (SQLite, Parquet, JSON Lines), nsys stats, ncu CSV, PyTorch and \
                        XLA traces, rocpd databases, NVML CSV, timings.json, runs.json or peaks.json";

/// The report that an input is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study<'a> {
    /// The report of a capture.
    Capture,
    /// The report of microbenchmarks.
    Microbenchmarks,
    /// The report of a load test.
    LoadTest {
        /// Path of the result in the bundle.
        path: &'a str,
        /// Program that wrote it.
        format: &'static str,
    },
}

/// Reason why no report can be made of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingToReport {
    /// Name of the input.
    name: String,
    reason: Reason,
    hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    LoadTest(&'static str),
    Remark(String),
    Unknown,
    Context(Vec<&'static str>),
}

impl NothingToReport {
    /// Advice that goes with the message.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl std::error::Error for NothingToReport {}

impl fmt::Display for NothingToReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.reason {
            Reason::LoadTest(format) => {
                write!(f, "{name} is a load test ({format}), not a capture")
            }
            Reason::Remark(message) => write!(f, "nothing to report from {name}: {message}"),
            Reason::Unknown => write!(f, "nothing in {name} is of a known format"),
            Reason::Context(kinds) => {
                let kinds = kinds.join(", ");
                write!(f, "{name} holds context but no measurement: {kinds}")
            }
        }
    }
}

impl Capture {
    /// The report that the input is for. A load test next to a capture does not count.
    pub fn study(&self) -> Study<'_> {
        if is_microbenchmarks(&self.bundle) {
            return Study::Microbenchmarks;
        }
        if self.is_reportable() {
            return Study::Capture;
        }
        match load_test(&self.bundle) {
            Some((path, format)) => Study::LoadTest { path, format },
            None => Study::Capture,
        }
    }

    /// Whether some section of a report can say something: there are measurements, or a model.
    pub fn is_reportable(&self) -> bool {
        self.has_measurements() || self.session.model.is_some()
    }

    /// Whether the tables hold more than the environment.
    pub fn has_measurements(&self) -> bool {
        let session = &self.session;
        session.is_measured()
            || session.has_host_work()
            || !session.gpu_snapshots.is_empty()
            || !session.process_samples.is_empty()
            || !session.gemm_calls.is_empty()
    }

    /// Whether no file is of a known kind, or none of those that are could be read.
    pub fn is_unreadable(&self) -> bool {
        let is_error = |severity| severity == Severity::Error;
        let diagnostics = self.diagnostics.iter();
        let errors = diagnostics.filter(|diagnostic| is_error(diagnostic.severity));
        let files = self.bundle.files.iter();
        let recognized = files.filter(|file| file.kind.is_some()).count();
        let is_empty = || self.session.tables().iter().all(|table| table.rows() == 0);
        recognized == 0 || (errors.count() >= recognized && is_empty())
    }

    /// The reason why no report can be made: the most severe remark on the input, or what the input holds instead.
    pub fn nothing_to_report(&self) -> NothingToReport {
        let bundle = &self.bundle;
        if let Some((path, format)) = load_test(bundle) {
            return NothingToReport {
                name: path.to_owned(),
                reason: Reason::LoadTest(format),
                hint: Some("rooflens serve-report FILE… makes a report of it".to_owned()),
            };
        }
        let name = match &bundle.files[..] {
            [file] => file.path.clone(),
            _ => bundle.name.clone(),
        };
        let remark = self.diagnostics.most_severe();
        let kinds: BTreeSet<&str> = bundle
            .files
            .iter()
            .filter_map(|file| file.kind)
            .map(ArtifactKind::label)
            .collect();
        let reason = match remark {
            Some(remark) => Reason::Remark(remark.message.clone()),
            None if kinds.is_empty() => Reason::Unknown,
            None => Reason::Context(kinds.into_iter().collect()),
        };
        let hint = remark.and_then(|remark| remark.hint.clone());
        NothingToReport {
            name,
            reason,
            hint: hint.or_else(|| Some(READABLE.to_owned())),
        }
    }
}

/// Whether a file of a bundle, whose files are identified, is of a format that some command reads.
pub fn is_recognized(bundle: &Bundle) -> bool {
    let is_known =
        |kind: Option<ArtifactKind>| kind.is_some_and(|kind| kind != ArtifactKind::Other);
    bundle.files.iter().any(|file| is_known(file.kind)) || load_test(bundle).is_some()
}

/// Whether files are microbenchmarks and nothing else that has a report.
fn is_microbenchmarks(bundle: &Bundle) -> bool {
    let mut has_peaks = false;
    for file in &bundle.files {
        match file.kind {
            Some(ArtifactKind::Peaks) => has_peaks = true,
            None | Some(ArtifactKind::Notes | ArtifactKind::Other) => {}
            Some(_) => return false,
        }
    }
    has_peaks
}

/// The first load test among files that are no part of a capture: its path and format.
fn load_test(bundle: &Bundle) -> Option<(&str, &'static str)> {
    for file in &bundle.files {
        if !may_be_result(file) {
            continue;
        }
        let prefix = file
            .content()
            .and_then(|content| content.prefix(PREFIX_BYTES));
        let Ok(prefix) = prefix else { continue };
        let is_whole = prefix.len() < PREFIX_BYTES;
        if let Some(format) = serving::import::format_of(&prefix, is_whole) {
            return Some((&file.path, format));
        }
    }
    None
}
