//! What becomes of the files that a run leaves.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rooflens_schemas::{Tool, manifest, workload};

use super::Session;
use super::child::Run;
use super::counters;
use super::inject::{self, Python};
use super::pass::Folders;
use crate::error::CaptureError;
use crate::files;
use crate::infer;
use crate::plan::{Harvest, PassPlan};
use crate::redact::export;

/// Ranges that are named when the gate's did not occur.
const RANGES: usize = 40;

/// Part of the names of traces with Python stacks.
const STACKS: &str = ".stacks.";

/// Name of a hidden copy that is made ready for the bundle.
pub(super) const TAKEN: &str = "taken";

/// How long a profiler may read its own report: at least so long, and so long for each MiB.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(2));

/// When a program that reads this report is given up.
pub(super) fn patience(report: &Path) -> Duration {
    let size = fs::metadata(report).map_or(0, |report| report.len() >> 20);
    PATIENCE.0 + PATIENCE.1 * u32::try_from(size).unwrap_or(u32::MAX)
}

/// What a harvest brought.
#[derive(Default)]
pub(super) struct Harvested {
    pub(super) notes: Vec<String>,
    pub(super) producer: Option<Tool>,
    pub(super) is_unfit: bool,
    /// What was seen of Python, if modules looked for it.
    pub(super) python: Option<Python>,
}

impl Harvested {
    /// What the pass was run for is not there.
    pub(super) fn unfit(mut self, note: String) -> Self {
        self.notes.push(note);
        self.is_unfit = true;
        self
    }
}

/// The traces that are there before the run.
pub(super) fn before(harvest: &Harvest) -> BTreeSet<PathBuf> {
    let Harvest::Torch(collection) = harvest else {
        return BTreeSet::new();
    };
    collection
        .trace_dir
        .as_deref()
        .map(traces)
        .unwrap_or_default()
}

/// Takes files into the bundle.
pub(super) fn after(
    plan: &PassPlan,
    before: &BTreeSet<PathBuf>,
    session: &Session<'_>,
    folders: &Folders,
    code: i32,
) -> Result<Harvested, CaptureError> {
    descriptions(session, folders)?;
    match &plan.harvest {
        Harvest::Timings => {
            let to = folders.pass.join("timings.json");
            take(&folders.out.join("timings.json"), &to, session, folders)?;
            inferred(session, folders)
        }
        Harvest::Nsys(nsys) => timeline(nsys, session, folders),
        Harvest::Ncu(ncu) => counters::take(ncu, session, folders, code),
        Harvest::Torch(collection) => {
            let folder = collection.trace_dir.as_deref().unwrap_or(&folders.work);
            let mut found = traces(folder);
            if collection.trace_dir.is_none() {
                let (working, idle): (BTreeSet<_>, _) =
                    found.into_iter().partition(|trace| has_operators(trace));
                found = if working.is_empty() { idle } else { working };
            }
            found.extend(traces(&folders.out));
            let (stacks, found): (BTreeSet<_>, _) = found
                .difference(before)
                .cloned()
                .partition(|trace| has_stacks(trace));
            let mut harvested = collect(&found, collection.is_expected, session, folders)?;
            harvested
                .notes
                .extend(take_stacks(&stacks, session, folders)?);
            Ok(harvested)
        }
        Harvest::GemmLog => pack_logs(session, folders),
    }
}

/// The workload says itself what it is.
fn descriptions(session: &Session<'_>, folders: &Folders) -> Result<(), CaptureError> {
    for name in [workload::FILE_NAME, "config.json"] {
        let to = session.bundle.join(name);
        if !to.exists() {
            take(&folders.out.join(name), &to, session, folders)?;
        }
    }
    Ok(())
}

/// What the workload does not say itself is detected by the injected modules.
fn inferred(session: &Session<'_>, folders: &Folders) -> Result<Harvested, CaptureError> {
    let notes = inject::notes_folder(&folders.work);
    let said = infer::write(&notes, &session.bundle, &folders.pass, &session.secrets)?;
    Ok(Harvested {
        notes: said.into_iter().collect(),
        python: notes.exists().then(|| Python::of(&notes)),
        ..Harvested::default()
    })
}

/// Takes a file into the bundle if it is there.
pub(super) fn take(
    from: &Path,
    to: &Path,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<bool, CaptureError> {
    let Some(hidden) = masked(from, TAKEN, session, folders)? else {
        return Ok(false);
    };
    files::publish(&hidden, to).map_err(CaptureError::io(to))?;
    Ok(true)
}

/// A hidden copy without secrets of a file, if that is there: what is in the bundle never held any.
pub(super) fn masked(
    from: &Path,
    name: &str,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<Option<PathBuf>, CaptureError> {
    if !from.is_file() {
        return Ok(None);
    }
    let hidden = folders.work.join(name);
    files::copy(from, &hidden).map_err(CaptureError::io(&hidden))?;
    session
        .secrets
        .mask_file(&hidden)
        .map_err(CaptureError::io(&hidden))?;
    Ok(Some(hidden))
}

fn timeline(
    export: &crate::plan::NsysExport,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<Harvested, CaptureError> {
    let producer = Some(Tool {
        name: "nsys".to_owned(),
        version: Some(export.version.clone()),
    });
    let mut harvested = Harvested {
        producer,
        ..Harvested::default()
    };
    let reports = reports(&folders.work).map_err(CaptureError::io(&folders.work))?;
    for name in &reports {
        match exported(name, export, session, folders) {
            Ok(notes) => harvested.notes.extend(notes),
            Err(reason) => return Ok(harvested.unfit(reason)),
        }
        let report = format!("{name}.nsys-rep");
        if export.keep_report {
            take(
                &folders.work.join(&report),
                &folders.pass.join(&report),
                session,
                folders,
            )?;
            harvested.notes.push(format!(
                "{report} is kept as nsys wrote it, with the environment of the process; rooflens pack leaves it out"
            ));
        }
    }
    if reports.is_empty() && holds_stream(&folders.work) {
        let note = "nsys left a .qdstrm but made no report of it: its own words are in logs";
        return Ok(harvested.unfit(note.to_owned()));
    }
    match (&export.gate, reports.is_empty()) {
        (_, false) => Ok(harvested),
        (None, true) => Ok(harvested.unfit("nsys left no report: see logs".to_owned())),
        (Some(gate), true) if session.signals.interrupted() => {
            Ok(harvested.unfit(format!("interrupted before range {gate} occurred")))
        }
        (Some(gate), true) => {
            let ranges = existing_ranges(export, session, folders);
            let note =
                format!("range {gate} did not occur, so that nsys recorded nothing; {ranges}");
            Ok(harvested.unfit(note))
        }
    }
}

/// What nsys recorded before it makes a report of it.
fn holds_stream(folder: &Path) -> bool {
    let is_stream = |entry: fs::DirEntry| entry.path().extension().is_some_and(|e| e == "qdstrm");
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .any(is_stream)
}

/// Names of the reports, without the ending.
fn reports(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".nsys-rep").map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Exports a report, redacts it while it is hidden, and only then takes it into the bundle.
fn exported(
    name: &str,
    nsys: &crate::plan::NsysExport,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<Vec<String>, String> {
    export_one(name, nsys, session, folders)?;
    let file = format!("{name}.sqlite");
    let hidden = folders.work.join(&file);
    let gone = export::redact(&hidden, &session.secrets)
        .map_err(|error| format!("{file} is skipped: it cannot be redacted: {error}"))?;
    let mut notes = vec![format!(
        "{file}: {gone} values with environments, names or secrets removed"
    )];
    if let Some(gate) = &nsys.gate {
        let names = export::range_names(&hidden, usize::MAX).unwrap_or_default();
        let wanted = gate
            .rsplit_once('@')
            .map_or(gate.as_str(), |(name, _)| name);
        let found = names.contains(wanted) || names.contains(gate);
        notes.push(match found {
            true => format!("range {gate} occurred"),
            false => format!(
                "range {gate} is not in {file}, though it began the recording; {}",
                listed(&names)
            ),
        });
    }
    files::publish(&hidden, &folders.pass.join(&file)).map_err(|error| error.to_string())?;
    Ok(notes)
}

fn export_one(
    name: &str,
    nsys: &crate::plan::NsysExport,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<(), String> {
    let command = nsys.command(name);
    let log = |stream: &str| folders.logs.join(format!("export-{name}.{stream}.txt"));
    let (stdout, stderr) = (log("stdout"), log("stderr"));
    let run = Run {
        command: &command,
        variables: &[],
        stdout: &stdout,
        stderr: &stderr,
        is_quiet: true,
        secrets: &session.secrets,
        expectation: None,
        limit: Some(patience(&folders.work.join(format!("{name}.nsys-rep")))),
    };
    match run.wait(&session.signals) {
        Ok(ended) if ended.code == 0 => {
            // Logs of what did well say nothing.
            let _ = (fs::remove_file(&stdout), fs::remove_file(&stderr));
            Ok(())
        }
        Ok(ended) if ended.is_cut => Err(format!(
            "nsys export did not end within {} s",
            ended.wall.as_secs()
        )),
        Ok(ended) => Err(format!(
            "nsys export ended with {}: see {}",
            ended.code,
            stderr.display()
        )),
        Err(error) => Err(format!("nsys export: {error}")),
    }
}

/// Which ranges there are, by one more run that records nothing else.
fn existing_ranges(
    nsys: &crate::plan::NsysExport,
    session: &Session<'_>,
    folders: &Folders,
) -> String {
    crate::say("the gate's range did not occur: one more run tells which ranges there are");
    let log = |stream: &str| folders.logs.join(format!("ranges.{stream}.txt"));
    let variables = [(
        "ROOFLENS_OUT".to_owned(),
        folders.out.to_string_lossy().into_owned(),
    )];
    let run = Run {
        command: &nsys.ranges,
        variables: &variables,
        stdout: &log("stdout"),
        stderr: &log("stderr"),
        is_quiet: true,
        secrets: &session.secrets,
        expectation: None,
        limit: session.budget.left(),
    };
    let names = run
        .wait(&session.signals)
        .map_err(|error| error.to_string())
        .and_then(|_| export_one("ranges", nsys, session, folders))
        .and_then(|()| {
            let path = folders.work.join("ranges.sqlite");
            export::range_names(&path, RANGES).map_err(|error| error.to_string())
        });
    match names {
        Ok(names) => listed(&names),
        Err(reason) => format!("which ranges there are is not known: {reason}"),
    }
}

fn listed(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().take(RANGES).map(String::as_str).collect();
    match names.is_empty() {
        true => "there are no ranges".to_owned(),
        false => format!("ranges there are: {}", names.join(", ")),
    }
}

/// Traces in a folder and those below.
fn traces(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (
            entry.path(),
            entry.file_name().to_string_lossy().into_owned(),
        );
        if path.is_dir() {
            found.extend(traces(&path));
        } else if name.ends_with(".pt.trace.json") || name.ends_with(".pt.trace.json.gz") {
            found.insert(path);
        }
    }
    found
}

/// Whether a trace of ours holds an operator. Processes in which `torch.compile` compiles import torch, too, and run none.
fn has_operators(trace: &Path) -> bool {
    let Ok(file) = fs::File::open(trace) else {
        return true;
    };
    let mut lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let finder = memchr::memmem::Finder::new("\"cat\": \"cpu_op\"");
    lines.any(|line| finder.find(&line).is_some())
}

/// Whether a trace of ours holds Python stacks: no time of it is right.
fn has_stacks(trace: &Path) -> bool {
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    name.contains(STACKS)
}

/// The pass of the stacks that a pass recorded.
pub(super) fn stacks_of(pass: &str) -> String {
    format!("{pass}{}", manifest::STACKS)
}

/// Takes traces with stacks as a pass of their own.
fn take_stacks(
    traces: &BTreeSet<PathBuf>,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<Vec<String>, CaptureError> {
    let folder = session.bundle.join(stacks_of(&folders.id));
    let mut notes = Vec::new();
    if !traces.is_empty() {
        files::make(&folder)?;
        notes = take_traces(traces, &folder, session, folders)?.1;
    }
    Ok(notes)
}

/// Traces under names that tell ranks: PyTorch's own begin with the name of the host.
fn collect(
    traces: &BTreeSet<PathBuf>,
    is_expected: bool,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<Harvested, CaptureError> {
    let producer = Some(Tool {
        name: "torch.profiler".to_owned(),
        version: None,
    });
    let mut harvested = Harvested {
        producer,
        ..Harvested::default()
    };
    let (count, notes) = take_traces(traces, &folders.pass, session, folders)?;
    harvested.notes.extend(notes);
    if count == 0 {
        let note = "there is no trace: torch was not imported, the range did not occur, or the process \
                    was killed";
        harvested.producer = None;
        harvested = harvested.unfit(note.to_owned());
        harvested.is_unfit = is_expected;
    }
    Ok(harvested)
}

/// Takes traces to a folder. Gives how many, and what is to be said of them.
fn take_traces(
    traces: &BTreeSet<PathBuf>,
    folder: &Path,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<(usize, Vec<String>), CaptureError> {
    let (mut names, mut notes) = (BTreeSet::new(), Vec::new());
    for trace in traces {
        let stem = rank(trace).map_or_else(|| "trace".to_owned(), |rank| format!("rank{rank}"));
        let free = (1..).map(|index| match index {
            1 => stem.clone(),
            _ => format!("{stem}.{index}"),
        });
        let name = free
            .into_iter()
            .find(|name| !names.contains(name))
            .unwrap_or_default();
        let to = folder.join(format!("{name}.pt.trace.json"));
        notes.extend(take_packed(trace, &to, session, folders)?);
        names.insert(name);
    }
    Ok((names.len(), notes))
}

/// The number after `rank` in a file's name.
fn rank(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let (_, rest) = name.split_once("rank")?;
    let rest = rest.trim_start_matches(['-', '_']);
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn pack_logs(session: &Session<'_>, folders: &Folders) -> Result<Harvested, CaptureError> {
    let mut harvested = Harvested::default();
    let mut is_empty = true;
    for name in ["cublas.log", "cublaslt.log"] {
        let log = folders.work.join(name);
        if log.is_file() {
            is_empty = false;
            harvested.notes.extend(take_packed(
                &log,
                &folders.pass.join(name),
                session,
                folders,
            )?);
        }
    }
    match is_empty {
        true => Ok(harvested.unfit("neither cuBLAS nor cuBLASLt wrote a log".to_owned())),
        false => Ok(harvested),
    }
}

/// Takes a file, packed or not, into the bundle and packs it. Gives what is to be said of it: where it cannot be
/// unpacked, it is excluded.
fn take_packed(
    from: &Path,
    to: &Path,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<Option<String>, CaptureError> {
    let hidden = folders.work.join(TAKEN);
    let packed = folders.work.join(format!("{TAKEN}.gz"));
    if from.extension().is_some_and(|ending| ending == "gz") {
        files::copy(from, &packed).map_err(CaptureError::io(&packed))?;
        if let Err(reason) = gzip(&["-df"], &packed) {
            let name = from.file_name().unwrap_or_default().to_string_lossy();
            return Ok(Some(format!(
                "{name} is skipped: it cannot be unpacked: {reason}"
            )));
        }
    } else {
        files::copy(from, &hidden).map_err(CaptureError::io(&hidden))?;
    }
    session
        .secrets
        .mask_file(&hidden)
        .map_err(CaptureError::io(&hidden))?;
    let ending = to.extension().unwrap_or_default().to_string_lossy();
    let (done, to, note) = match gzip(&["-nf"], &hidden) {
        Ok(()) => (packed, to.with_extension(format!("{ending}.gz")), None),
        // It stays as it is.
        Err(reason) => (
            hidden,
            to.to_owned(),
            Some(format!("{} is not packed: {reason}", to.display())),
        ),
    };
    files::publish(&done, &to).map_err(CaptureError::io(&to))?;
    Ok(note)
}

/// Runs gzip, which is everywhere, on a file.
fn gzip(options: &[&str], path: &Path) -> Result<(), String> {
    let status = Command::new("gzip")
        .args(options)
        .arg(path)
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("gzip failed: {status}")),
        Err(error) => Err(format!("no gzip: {error}")),
    }
}
