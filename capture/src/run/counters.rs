//! What becomes of ncu's report.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use rooflens_schemas::{Tool, ncu_report};

use super::Session;
use super::child::Run;
use super::harvest::{Harvested, TAKEN, masked, patience};
use super::pass::Folders;
use crate::error::CaptureError;
use crate::files;
use crate::plan::counters::shortened;
use crate::plan::ncu;

/// Takes the report of ncu into the bundle, and prints its pages there.
pub(super) fn take(
    export: &ncu::Export,
    session: &Session<'_>,
    folders: &Folders,
    code: i32,
) -> Result<Harvested, CaptureError> {
    let producer = Some(Tool {
        name: "ncu".to_owned(),
        version: Some(export.version.clone()),
    });
    let mut harvested = Harvested {
        producer,
        ..Harvested::default()
    };
    let Some(hidden) = masked(&export.report, TAKEN, session, folders)? else {
        let why = match code {
            0 => "no launch was selected",
            _ => "it failed",
        };
        let note = format!("ncu left no report: {why}; its own words are in logs");
        return Ok(harvested.unfit(note));
    };
    harvested.notes.extend(absent(export, folders));
    if !session.secrets.keep_names {
        harvested.notes.push(cover_names(&hidden)?);
    }
    if hidden.exists() {
        let report = folders.pass.join("kernels.ncu-rep");
        files::publish(&hidden, &report).map_err(CaptureError::io(&report))?;
    }
    // Each takes a while, and neither waits for the other.
    thread::scope(|scope| {
        let page = |page| scope.spawn(move || printed(page, export, session, folders));
        let pages: Vec<_> = export.pages().into_iter().map(page).collect();
        let said = pages
            .into_iter()
            .filter_map(|page| page.join().ok().flatten());
        harvested.notes.extend(said);
    });
    Ok(harvested)
}

/// Prints a page of the report into the bundle. Gives what is to be said where that fails.
fn printed(
    (name, command): (String, Vec<String>),
    export: &ncu::Export,
    session: &Session<'_>,
    folders: &Folders,
) -> Option<String> {
    let log = folders.logs.join(format!("{name}.stderr.txt"));
    let page = folders.pass.join(&name);
    let run = Run {
        command: &command,
        variables: &[],
        stdout: &page,
        stderr: &log,
        is_quiet: true,
        secrets: &session.secrets,
        expectation: None,
        limit: Some(patience(&export.report)),
    };
    match run.wait(&session.signals) {
        Ok(ended) if ended.code == 0 => {
            let _ = fs::remove_file(&log);
            None
        }
        Ok(ended) => {
            let _ = fs::remove_file(&page);
            Some(format!("{name} is skipped: ncu ended with {}", ended.code))
        }
        Err(error) => Some(format!("{name} is skipped: {error}")),
    }
}

/// The listed kernels that ncu did not profile.
fn absent(export: &ncu::Export, folders: &Folders) -> Option<String> {
    let log = folders.logs.join(format!("{}.stdout.txt", folders.id));
    let text = String::from_utf8_lossy(&fs::read(log).ok()?).into_owned();
    let names = text.split("==PROF== Profiling \"").skip(1);
    let names: BTreeSet<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
    // ncu may cut long names.
    let is_there = |name: &str| {
        names
            .iter()
            .any(|one| one.contains(name) || name.starts_with(one.trim_end_matches("...")))
    };
    let absent = export.kernels.iter().filter(|(name, _)| !is_there(name));
    let absent: Vec<String> = absent.map(|(_, shown)| shortened(shown)).collect();
    let words = format!("listed kernels that did not occur: {}", absent.join("; "));
    (!absent.is_empty()).then_some(words)
}

/// Covers host and user in a report. One that cannot be redacted does not stay.
fn cover_names(report: &Path) -> Result<String, CaptureError> {
    let file = fs::File::options().read(true).write(true).open(report);
    match file.and_then(|mut file| ncu_report::cover(&mut file)) {
        Ok(covered) => Ok(format!(
            "kernels.ncu-rep: {covered} names and addresses of host and user covered"
        )),
        Err(error) => {
            fs::remove_file(report).map_err(CaptureError::io(report))?;
            Ok(format!(
                "kernels.ncu-rep is skipped: it cannot be redacted: {error}"
            ))
        }
    }
}
