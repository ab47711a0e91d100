//! Which files are of one run.
//!
//! One report of several runs would mix their figures. Folders with a manifest or a workload each are runs; so are
//! files that were named one by one and were recorded on different GPUs, or by different processes at different times.
//! Files in one folder belong together: whoever put them there says so.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rooflens_schemas::{PassKind, manifest, workload};

use crate::bundle::Bundle;
use crate::hardware::Hardware;
use crate::session::{Ns, PassId, Session};

/// Several runs where one is expected.
#[derive(Debug, thiserror::Error)]
pub enum SeveralRuns {
    /// Folders that are bundles.
    #[error("{} bundles are given, which are runs of their own: {}", .0.len(), .0.join(", "))]
    Bundles(Vec<String>),
    /// Files of different runs.
    #[error("{first} and {second} are of runs of their own: {difference}")]
    Recordings {
        /// Path of a file in the bundle.
        first: String,
        /// Path of a file in the bundle that was recorded in another run.
        second: String,
        /// Evidence for it.
        difference: Difference,
    },
}

/// Evidence that two recordings are of different runs.
#[derive(Debug, thiserror::Error)]
pub enum Difference {
    /// Names of the GPUs of each.
    #[error("they ran on {0} and {1}")]
    Gpus(String, String),
    /// Other processes, one after the other.
    #[error("other processes at another time")]
    Processes,
}

/// Refuses folders side by side that each have a manifest or a workload.
pub(super) fn refuse_bundles(bundle: &Bundle) -> Result<(), SeveralRuns> {
    let mut folders = BTreeSet::new();
    for file in &bundle.files {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        if name == workload::FILE_NAME || name == manifest::FILE_NAME && file.is_manifest() {
            folders.insert(folder.to_owned());
        }
    }
    if bundle.manifest.is_some() || folders.len() < 2 {
        return Ok(());
    }
    Err(SeveralRuns::Bundles(folders.into_iter().collect()))
}

/// Refuses files named one by one that were recorded on different GPUs, or by different processes at different times.
pub(super) fn refuse_recordings(
    bundle: &Bundle,
    session: &Session,
    given: &[PathBuf],
) -> Result<(), SeveralRuns> {
    let named = named_files(bundle, given);
    if given.len() < 2 || bundle.manifest.is_some() || named.len() < 2 {
        return Ok(());
    }
    let recordings = recordings(session, &named);
    for (number, second) in recordings.iter().enumerate() {
        for first in &recordings[..number] {
            if let Some(difference) = first.difference(second) {
                return Err(SeveralRuns::Recordings {
                    first: first.artifact.to_owned(),
                    second: second.artifact.to_owned(),
                    difference,
                });
            }
        }
    }
    Ok(())
}

/// Paths in the bundle of files that are not in a folder that was given.
fn named_files<'a>(bundle: &'a Bundle, given: &[PathBuf]) -> BTreeSet<&'a str> {
    let mut named = BTreeSet::new();
    for file in &bundle.files {
        let is_in = |path: &PathBuf| path.is_dir() && file.location.starts_with(path);
        if !given.iter().any(is_in) {
            named.insert(file.path.as_str());
        }
    }
    named
}

/// A recording, as far as it shows which run it is of.
struct Recording<'a> {
    artifact: &'a str,
    kind: PassKind,
    /// Names in the table of GPUs of those that it used.
    gpus: BTreeSet<String>,
    /// Process ids.
    processes: BTreeSet<i64>,
    /// UTC time of its first and its last event.
    time: Option<Span>,
}

/// First start and last end.
#[derive(Clone, Copy)]
struct Span {
    start: Ns,
    end: Ns,
}

impl Span {
    fn is_apart(self, other: Self) -> bool {
        self.end < other.start || other.end < self.start
    }
}

impl Recording<'_> {
    /// Evidence that the other one is of another run; none if it may be of the same.
    fn difference(&self, other: &Self) -> Option<Difference> {
        let is_apart = match (self.time, other.time) {
            (Some(time), Some(other_time)) => Some(time.is_apart(other_time)),
            _ => None,
        };
        let has_gpus = !self.gpus.is_empty() && !other.gpus.is_empty();
        if is_apart != Some(false) && has_gpus && self.gpus.is_disjoint(&other.gpus) {
            return Some(Difference::Gpus(list(&self.gpus), list(&other.gpus)));
        }
        let is_alike = self.kind == other.kind && self.artifact != other.artifact;
        let is_other_process = self.processes.is_disjoint(&other.processes);
        (is_alike && is_apart == Some(true) && is_other_process).then_some(Difference::Processes)
    }
}

fn list(names: &BTreeSet<String>) -> String {
    Vec::from_iter(names.iter().cloned()).join(", ")
}

/// The recordings of files.
fn recordings<'a>(session: &'a Session, files: &BTreeSet<&str>) -> Vec<Recording<'a>> {
    let (gpus, processes, hardware) = (&session.gpus, &session.processes, Hardware::builtin());
    let spans = spans(session);
    let mut recordings = Vec::new();
    for pass in session.passes.ids() {
        let artifact = session.artifact_of(pass);
        if !files.contains(artifact) {
            continue;
        }
        let mut recording = Recording {
            artifact,
            kind: session.passes.kind[pass.index()],
            gpus: BTreeSet::new(),
            processes: BTreeSet::new(),
            time: None,
        };
        for row in 0..gpus.len() {
            let gpu = hardware.find(session.text(gpus.name[row]));
            if let Some(gpu) = gpu.filter(|_| gpus.pass[row] == pass) {
                recording.gpus.insert(gpu.name.clone());
            }
        }
        for row in 0..processes.len() {
            if processes.pass[row] == pass {
                recording.processes.insert(processes.pid[row]);
            }
        }
        let origin = session.passes.utc_origin[pass.index()];
        if let (Some(origin), Some(span)) = (origin, spans[pass.index()]) {
            recording.time = Some(Span {
                start: origin.saturating_add(span.start),
                end: origin.saturating_add(span.end),
            });
        }
        recordings.push(recording);
    }
    recordings
}

/// The time of what each pass recorded, on its clock.
fn spans(session: &Session) -> Vec<Option<Span>> {
    let mut spans: Vec<Option<Span>> = vec![None; session.passes.len()];
    let (launches, calls, operators) = (&session.launches, &session.api_calls, &session.operators);
    let columns: [(&[PassId], &[Ns], &[Ns]); 3] = [
        (&launches.pass, &launches.start, &launches.end),
        (&calls.pass, &calls.start, &calls.end),
        (&operators.pass, &operators.start, &operators.end),
    ];
    for (pass, start, end) in columns {
        for ((pass, start), end) in pass.iter().zip(start).zip(end) {
            let (start, end) = (*start, *end);
            let span = spans[pass.index()].get_or_insert(Span { start, end });
            span.start = span.start.min(start);
            span.end = span.end.max(end);
        }
    }
    spans
}
