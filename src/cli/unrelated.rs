//! Files that were named side by side and are of different runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rooflens_schemas::PassKind;

use super::error::CliError;
use crate::bundle::{ArtifactFile, Bundle};
use crate::hardware::Hardware;
use crate::session::{Ns, PassId, Session};

/// A recording, as far as it tells which run it is of.
struct Recording<'a> {
    artifact: &'a str,
    kind: PassKind,
    /// Names in the table of GPUs of those that it used.
    gpus: BTreeSet<String>,
    /// Process ids.
    processes: BTreeSet<i64>,
    /// UTC time of its first and its last event.
    time: Option<(Ns, Ns)>,
}

/// Refuses files of the command line that are of different runs, for one report of them would mix their figures: those of
/// different GPUs, and recordings of one kind by different processes, where they did not run at the same time. Files in folders
/// belong together.
pub(super) fn refuse(
    bundle: &Bundle,
    session: &Session,
    given: &[PathBuf],
) -> Result<(), CliError> {
    let folders: Vec<&PathBuf> = given.iter().filter(|path| path.is_dir()).collect();
    let is_named = |file: &&ArtifactFile| {
        !folders
            .iter()
            .any(|folder| file.location.starts_with(folder))
    };
    let named: BTreeSet<&str> = bundle
        .files
        .iter()
        .filter(is_named)
        .map(|file| file.path.as_str())
        .collect();
    if given.len() < 2 || bundle.manifest.is_some() || named.len() < 2 {
        return Ok(());
    }
    let passes = session
        .passes
        .ids()
        .filter(|pass| named.contains(session.artifact_of(*pass)));
    let all: Vec<Recording<'_>> = recordings(session, &passes.collect::<Vec<_>>());
    for (at, one) in all.iter().enumerate() {
        for other in &all[..at] {
            if let Some(why) = other.differs(one) {
                let (one, other) = (one.artifact, other.artifact);
                return Err(CliError::Usage(format!(
                    "{other} and {one} are of runs of their own: {why}; report one at a time, or --merge parts of one run"
                )));
            }
        }
    }
    Ok(())
}

impl Recording<'_> {
    /// Why the other one is of another run; none if it may be of the same.
    fn differs(&self, other: &Self) -> Option<String> {
        let times = self.time.zip(other.time);
        let apart = times.map(|(one, other)| one.1 < other.0 || other.1 < one.0);
        let shared = |one: &BTreeSet<_>, other| !one.is_empty() && one.is_disjoint(other);
        if apart != Some(false) && !other.gpus.is_empty() && shared(&self.gpus, &other.gpus) {
            let list =
                |gpus: &BTreeSet<String>| gpus.iter().cloned().collect::<Vec<_>>().join(", ");
            return Some(format!(
                "they ran on {} and {}",
                list(&self.gpus),
                list(&other.gpus)
            ));
        }
        let alike = self.kind == other.kind && self.artifact != other.artifact;
        (alike && apart == Some(true) && self.processes.is_disjoint(&other.processes))
            .then(|| "other processes at another time".to_owned())
    }
}

fn recordings<'a>(session: &'a Session, passes: &[PassId]) -> Vec<Recording<'a>> {
    let (gpus, processes, hardware) = (&session.gpus, &session.processes, Hardware::builtin());
    let spans = spans(session);
    let recording = |pass: &PassId| {
        let own = gpus.ids().filter(|gpu| gpus.pass[gpu.index()] == *pass);
        let names = own.filter_map(|gpu| hardware.find(session.text(gpus.name[gpu.index()])));
        let own = processes
            .ids()
            .filter(|process| processes.pass[process.index()] == *pass);
        let origin = session.passes.utc_origin[pass.index()];
        Recording {
            artifact: session.artifact_of(*pass),
            kind: session.passes.kind[pass.index()],
            gpus: names.map(|gpu| gpu.name.clone()).collect(),
            processes: own.map(|process| processes.pid[process.index()]).collect(),
            time: origin
                .zip(spans[pass.index()])
                .map(|(origin, (start, end))| {
                    (origin.saturating_add(start), origin.saturating_add(end))
                }),
        }
    };
    passes.iter().map(recording).collect()
}

/// First start and last end of what each pass recorded, on its clock.
fn spans(session: &Session) -> Vec<Option<(Ns, Ns)>> {
    let mut spans: Vec<Option<(Ns, Ns)>> = vec![None; session.passes.len()];
    let (launches, calls, operators) = (&session.launches, &session.api_calls, &session.operators);
    let rows = |pass: &[PassId], start: &[Ns], end: &[Ns], spans: &mut Vec<Option<(Ns, Ns)>>| {
        for ((pass, start), end) in pass.iter().zip(start).zip(end) {
            let span = spans[pass.index()].get_or_insert((*start, *end));
            *span = (span.0.min(*start), span.1.max(*end));
        }
    };
    rows(&launches.pass, &launches.start, &launches.end, &mut spans);
    rows(&calls.pass, &calls.start, &calls.end, &mut spans);
    rows(
        &operators.pass,
        &operators.start,
        &operators.end,
        &mut spans,
    );
    spans
}
