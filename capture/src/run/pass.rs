//! One pass: the workload runs, and what it leaves is harvested.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rooflens_schemas::{CommandRun, CommandRuns, Pass, PassKind, Tool, runs};

use super::child::{Ended, Run};
use super::client::{Client, Served};
use super::inject::Python;
use super::sampler::Sampler;
use super::watch::{Expectation, Writing};
use super::{Session, client, harvest, inject, refuse, window};
use crate::error::CaptureError;
use crate::files;
use crate::plan::{Harvest, PassPlan, WINDOW, work_folder};

/// Where the workload finds a folder for its own files.
const OUT: &str = "ROOFLENS_OUT";

/// File that the injected profiler of PyTorch makes when it begins.
const BEGUN: &str = "begun";

/// Folder with the files of the client that loads a server: hidden, and of the pass.
const CLIENT: &str = "client";

/// Between NVML samples while ncu runs. Each replay waits for the driver, which answers NVML at the same time: with samples
/// every 20 ms a launch took 1.0 s on two H200s, and 0.7 s with these.
const SELDOM: Duration = Duration::from_secs(1);

/// What a pass has become.
pub(super) struct Done {
    pub(super) pass: Pass,
    pub(super) notes: Vec<String>,
    pub(super) producer: Option<Tool>,
    /// The workload did well, but what it was run for is not there.
    pub(super) is_unfit: bool,
    /// What was seen of Python, if modules looked for it.
    pub(super) python: Option<Python>,
}

/// Folders of a pass.
pub(super) struct Folders {
    /// Name of the pass.
    pub(super) id: String,
    /// In the bundle.
    pub(super) pass: PathBuf,
    /// Hidden, gone afterwards.
    pub(super) work: PathBuf,
    /// The workload's own.
    pub(super) out: PathBuf,
    /// For what is written to standard output and error.
    pub(super) logs: PathBuf,
}

/// Runs it.
pub(super) fn run(
    plan: &PassPlan,
    limit: Option<Duration>,
    session: &Session<'_>,
) -> Result<Done, CaptureError> {
    let work = work_folder(&session.bundle, &plan.id);
    let folders = Folders {
        pass: session.bundle.join(&plan.id),
        id: plan.id.clone(),
        out: work.join("out"),
        work,
        logs: session.bundle.join("logs"),
    };
    refuse(&folders.pass)?;
    files::make(&folders.work)?;
    files::make(&folders.pass)?;
    files::make(&folders.out)?;
    if session.common.client.is_some() {
        files::make(&folders.work.join(CLIENT))?;
    }
    if let Some(folder) = &plan.window {
        files::make(folder)?;
    }
    let before = harvest::before(&plan.harvest);
    let mut notes = Vec::new();
    let runs = match repeat(plan, limit, session, &folders, &mut notes) {
        Ok(runs) => runs,
        Err(error) => {
            // It did not run: a folder for it would say that it did.
            fs::remove_dir_all(&folders.pass).map_err(CaptureError::io(&folders.pass))?;
            return Err(error);
        }
    };
    write_runs(plan, &runs, &folders.pass)?;
    let code = runs
        .iter()
        .map(|run| run.code)
        .find(|code| *code != 0)
        .unwrap_or(0);
    let cut = runs.iter().find(|run| run.is_cut).map(|run| cut(run.wall));
    notes.extend(cut.clone());
    notes.extend(unprofiled(plan, &runs));
    if session.common.client.is_some() {
        client::results(
            &folders.work.join(CLIENT),
            &folders.pass.join(CLIENT),
            session,
            &folders,
        )?;
        notes.extend(runs.iter().map(|run| client_note(run.served)));
    }
    notes.extend(window_trouble(plan));
    let harvested = harvest::after(plan, &before, session, &folders, code)?;
    let is_cut = cut.is_some();
    let is_ended = is_cut || is_killed(plan) && !harvested.is_unfit;
    notes.extend(harvested.notes);
    // Hidden files may hold what was not redacted: they go even if the next pass should fail.
    fs::remove_dir_all(&folders.work).map_err(CaptureError::io(&folders.work))?;
    let pass = Pass {
        id: plan.id.clone(),
        kind: plan.kind,
        command: session.secrets.masked(&plan.command),
        wall_ns: wall(&runs, plan.warmup),
        // Of a workload that we end, the exit code says nothing.
        exit_code: Some(code).filter(|code| *code == 0 || !is_ended),
        cut,
        started_utc_ns: runs.first().map(|run| run.started_utc_ns),
        skipped: None,
        notes: plan.notes.clone(),
    };
    Ok(Done {
        pass,
        notes,
        producer: harvested.producer,
        is_unfit: harvested.is_unfit,
        python: harvested.python.filter(|_| !is_cut),
    })
}

/// What the manifest says if not all steps of the window were recorded.
fn window_trouble(plan: &PassPlan) -> Option<String> {
    let is_in_steps = plan.variables.iter().any(|(name, _)| name == WINDOW);
    let folder = plan.window.as_deref().filter(|_| is_in_steps)?;
    window::trouble(folder)
}

/// What the manifest says of a client.
fn client_note(served: Option<Served>) -> String {
    let Some(Served { code, ready }) = served else {
        return "the server ended before its client: see logs".to_owned();
    };
    let ready = ready.as_secs_f64();
    match code {
        Some(code) => format!(
            "the server was ready after {ready:.1} s and ended when the client had, with exit code {code}"
        ),
        None => format!(
            "the server was ready after {ready:.1} s; it and its client were ended when all was recorded"
        ),
    }
}

/// What the manifest says of a run that was ended early.
fn cut(wall: Duration) -> String {
    let seconds = wall.as_secs_f64();
    format!(
        "ended after {seconds:.1} s, when its time was up; it holds what was recorded until then. A longer --budget, \
         or --budget none, lets it end by itself"
    )
}

/// What the manifest says if ncu profiled fewer launches than planned.
fn unprofiled(plan: &PassPlan, runs: &[Ended]) -> Option<String> {
    let Harvest::Ncu(export) = &plan.harvest else {
        return None;
    };
    let (planned, profiled) = (export.planned?, runs.last()?.launches);
    (profiled < planned).then(|| format!("profiled {profiled} of {planned} planned launches"))
}

/// Whether ncu kills the workload when it has profiled what it was asked for.
fn is_killed(plan: &PassPlan) -> bool {
    matches!(&plan.harvest, Harvest::Ncu(export) if export.kills)
}

/// Runs for warm-up, then those that count.
fn repeat(
    plan: &PassPlan,
    limit: Option<Duration>,
    session: &Session<'_>,
    folders: &Folders,
    notes: &mut Vec<String>,
) -> Result<Vec<Ended>, CaptureError> {
    let mut runs = Vec::new();
    for index in 0..plan.warmup + plan.repeats {
        let past = runs.iter().map(|run: &Ended| run.wall).sum();
        let expectation = expectation(
            plan,
            limit.map(|limit| limit.saturating_sub(past)),
            session,
            folders,
        );
        let counted = index.checked_sub(plan.warmup);
        runs.push(one(plan, session, folders, counted, &expectation, notes)?);
        if session.signals.interrupted() {
            notes.push("interrupted".to_owned());
            break;
        }
        if runs.last().is_some_and(|run| run.is_cut) {
            break;
        }
    }
    Ok(runs)
}

/// The client of this pass.
fn client_of(plan: &PassPlan, session: &Session<'_>, folders: &Folders) -> Option<Client> {
    let out = folders.work.join(CLIENT).to_string_lossy().into_owned();
    Some(Client {
        command: session.common.client.clone()?,
        ready: session.common.ready.clone()?,
        variables: vec![(OUT.to_owned(), out)],
        log: folders.logs.join(format!("{}.client.txt", plan.id)),
        is_profiled: matches!(plan.kind, PassKind::Timeline | PassKind::Counters),
        window: plan.window.clone(),
    })
}

fn expectation(
    plan: &PassPlan,
    limit: Option<Duration>,
    session: &Session<'_>,
    folders: &Folders,
) -> Expectation {
    let runs = plan.warmup + plan.repeats;
    let mut expectation = Expectation {
        name: plan.id.clone(),
        estimate: session
            .budget
            .estimate(plan)
            .map(|estimate| estimate / runs),
        limit,
        is_profiled: matches!(plan.kind, PassKind::Timeline | PassKind::Counters),
        writing: writing(plan, folders),
        client: client_of(plan, session, folders),
        ..Expectation::default()
    };
    if let Harvest::Ncu(export) = &plan.harvest {
        expectation.launches = export.planned;
        expectation.schedule = export.schedule.clone();
        let is_seen = session
            .python
            .is_none_or(|python| python == Python::WithTorch);
        expectation.deadline = export.deadline.clone().filter(|_| is_seen);
        expectation.stops = export.stops.clone();
    }
    expectation
}

/// What the profiler of a pass writes at its end.
fn writing(plan: &PassPlan, folders: &Folders) -> Option<Writing> {
    match &plan.harvest {
        Harvest::Nsys(_) => Some(Writing::NSYS),
        Harvest::Torch(_) => Some(Writing::of_trace(folders.work.join(BEGUN))),
        _ => None,
    }
}

/// One run of the command. Samples are kept of the first counted one.
fn one(
    plan: &PassPlan,
    session: &Session<'_>,
    folders: &Folders,
    counted: Option<u32>,
    expectation: &Expectation,
    notes: &mut Vec<String>,
) -> Result<Ended, CaptureError> {
    let mut variables = plan.variables.clone();
    variables.push((OUT.to_owned(), folders.out.to_string_lossy().into_owned()));
    let has_notes = !session.common.no_inject;
    variables.extend(inject::prepare(
        plan,
        folders,
        &session.bundle,
        session.common,
    )?);
    if has_notes && plan.harvest == Harvest::Timings {
        variables.push(inject::notes_of(folders, counted)?);
    }
    let suffix = match (counted, plan.warmup + plan.repeats) {
        (_, 1) => String::new(),
        (None, _) => ".warmup".to_owned(),
        (Some(index), _) => format!(".{}", index + 1),
    };
    let log = |stream: &str| {
        folders
            .logs
            .join(format!("{}{suffix}.{stream}.txt", plan.id))
    };
    let sampler = (counted == Some(0)).then(|| sampler(plan, session, &folders.pass));
    let run = Run {
        command: &plan.command,
        variables: &variables,
        stdout: &log("stdout"),
        stderr: &log("stderr"),
        is_quiet: false,
        secrets: &session.secrets,
        expectation: Some(expectation),
        limit: None,
    };
    let ended = run.wait(&session.signals);
    match sampler {
        Some(Some(Ok(sampler))) => notes.extend(sampler.finish().err()),
        Some(Some(Err(reason))) => notes.push(format!("no NVML samples: {reason}")),
        _ => {}
    }
    ended.map_err(|error| {
        CaptureError::Start(plan.command.first().cloned().unwrap_or_default(), error)
    })
}

fn sampler(
    plan: &PassPlan,
    session: &Session<'_>,
    folder: &Path,
) -> Option<Result<Sampler, String>> {
    let period = Duration::from_millis(session.common.nvml_period);
    let is_baseline = plan.kind == PassKind::Baseline;
    let wanted = !period.is_zero() && plan.harvest != Harvest::GemmLog;
    let period = if plan.kind == PassKind::Counters {
        period.max(SELDOM)
    } else {
        period
    };
    wanted.then(|| Sampler::start(&folder.join("nvml.csv"), period, is_baseline))
}

/// Wall time of the only counted run, or the median of several (the lower of the two in the middle).
fn wall(runs: &[Ended], warmup: u32) -> Option<u64> {
    let counted = runs.get(warmup as usize..).unwrap_or_default();
    let mut walls: Vec<u128> = counted.iter().map(|run| run.wall.as_nanos()).collect();
    walls.sort_unstable();
    let middle = walls.len().checked_sub(1)? / 2;
    u64::try_from(walls[middle]).ok()
}

/// Several runs are listed in `runs.json`.
fn write_runs(plan: &PassPlan, ended: &[Ended], folder: &Path) -> Result<(), CaptureError> {
    if plan.warmup + plan.repeats == 1 {
        return Ok(());
    }
    let mut listed = Vec::new();
    for (index, run) in (0..).zip(ended) {
        listed.push(CommandRun {
            warmup: index < plan.warmup,
            exit_code: run.code,
            wall_ns: u64::try_from(run.wall.as_nanos()).unwrap_or(u64::MAX),
            started_utc_ns: run.started_utc_ns,
        });
    }
    let listed = CommandRuns {
        version: runs::VERSION,
        runs: listed,
    };
    let path = folder.join(runs::FILE_NAME);
    let text = serde_json::to_string_pretty(&listed).map_err(io::Error::other);
    let written = text.and_then(|text| files::write(&path, text + "\n"));
    written.map_err(CaptureError::io(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_time_is_the_median_of_counted_runs() {
        let run = |seconds| Ended {
            wall: Duration::from_secs(seconds),
            ..Ended::default()
        };
        let runs = [9, 5, 1, 3, 4].map(run);
        // Of 1, 3, 4, 5 the lower middle is 3.
        assert_eq!(wall(&runs, 1), Some(3_000_000_000));
        assert_eq!(wall(&runs[..1], 1), None);
    }
}
