//! `rooflens report --jobs`: a report of each input, several at a time.
//!
//! Each input has a process of its own. Its memory is free afterwards, and what ends it costs its report alone.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Ended, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::ValueEnum;

use super::args::{Input, Output, Report};
use super::error::CliError;
use super::output::{file_stem, is_file};
use super::report::stem;
use super::term::Term;
use crate::diagnostic::{Diagnostic, Severity};

/// Writes a report of each input into a folder of its own. What fails is listed at the end, in the order of the inputs.
/// `program` starts this program; without words, its own file does.
pub(super) fn run(
    args: &Report,
    jobs: NonZeroUsize,
    program: &[OsString],
    term: &mut Term,
) -> Result<(), CliError> {
    let file = env::current_exe().map_err(|error| cannot_start(&error))?;
    let (program, first_words) = match program {
        [] => (file.as_os_str(), &[][..]),
        [program, words @ ..] => (program.as_os_str(), words),
    };
    let folders = folders(&args.input.paths, place(&args.output.outputs)?);
    let mut words = words(args);
    let threads = rayon::current_num_threads() / jobs;
    words.push(format!("--threads={}", threads.max(1)).into());
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let shared = Mutex::new(&mut *term);
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(folders.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(folder) = folders.get(number) else {
                        break;
                    };
                    let path = &args.input.paths[number];
                    let mut command = Command::new(program);
                    command
                        .args(first_words)
                        .args(&words)
                        .arg("--output")
                        .arg(folder);
                    command.arg("--").arg(path).stdin(Stdio::null());
                    match failure(command.output()) {
                        None => {
                            let mut term = shared.lock().unwrap_or_else(PoisonError::into_inner);
                            term.note(&format!("wrote {}", folder.display()));
                        }
                        Some(reason) => {
                            let failed = Diagnostic::new(Severity::Error, "report/failed", reason);
                            let failed = failed.artifact(path.display().to_string());
                            let mut all = failures.lock().unwrap_or_else(PoisonError::into_inner);
                            all.push((number, failed));
                        }
                    }
                }
            });
        }
    });
    let mut failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(number, _)| *number);
    let failures: Vec<Diagnostic> = failures.into_iter().map(|(_, failed)| failed).collect();
    term.failures(&failures)
}

fn cannot_start(error: &io::Error) -> CliError {
    CliError::unusable(format!("cannot start rooflens again: {error}"))
}

/// What a process says of its errors; none if it has none.
fn failure(ended: io::Result<Ended>) -> Option<String> {
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Some(cannot_start(&error).to_string()),
    };
    if ended.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&ended.stderr);
    match text.trim() {
        "" => Some(ended.status.to_string()),
        text => Some(text.trim_start_matches("error: ").to_owned()),
    }
}

/// The folder that holds those of all reports.
fn place(outputs: &[PathBuf]) -> Result<&Path, CliError> {
    match outputs {
        [] => Ok(Path::new("")),
        [folder] if folder != Path::new("-") && !is_file(folder) => Ok(folder),
        _ => {
            let message = "--jobs writes one folder for each input: give one folder as --output";
            Err(CliError::Usage(message.to_owned()))
        }
    }
}

/// The folder of each report. Inputs of one name have a number from the second on.
fn folders(paths: &[PathBuf], place: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in paths {
        let full = path.canonicalize().ok();
        let name = path.file_name();
        let name = name.or_else(|| full.as_ref().and_then(|full| full.file_name()));
        let name = name.map_or_else(|| "input".into(), OsStr::to_string_lossy);
        let name = file_stem(stem(&name));
        let mut folder = place.join(format!("{name}-report"));
        let mut number = 1;
        while folders.contains(&folder) {
            number += 1;
            folder = place.join(format!("{name}-{number}-report"));
        }
        folders.push(folder);
    }
    folders
}

/// The arguments that all reports share.
fn words(args: &Report) -> Vec<OsString> {
    let Report {
        input,
        output,
        jobs: _,
    } = args;
    let Input {
        paths: _,
        gpu,
        model,
        workload,
        notes,
        stages,
        classifier,
        strict,
        merge: _,
        hashed: _,
    } = input;
    let Output {
        outputs: _,
        force,
        kind,
        formats,
        lang,
        templates,
        brand,
    } = output;
    // The options of the project file are among the arguments.
    let mut words = ["report", "--quiet", "--no-config"]
        .map(OsString::from)
        .to_vec();
    add(&mut words, "gpu", gpu);
    add(&mut words, "model", model);
    add(&mut words, "workload", workload);
    add(&mut words, "notes", notes);
    add(&mut words, "stage", stages);
    add(&mut words, "classifier", [word(classifier)]);
    add(&mut words, "kind", kind.as_ref().map(word));
    add(&mut words, "format", formats.iter().map(word));
    add(&mut words, "lang", [word(lang)]);
    add(&mut words, "templates", templates);
    add(&mut words, "brand", brand);
    for (name, is_on) in [("--strict", strict), ("--force", force)] {
        if *is_on {
            words.push(name.into());
        }
    }
    words
}

fn add<T: AsRef<OsStr>>(
    words: &mut Vec<OsString>,
    name: &str,
    values: impl IntoIterator<Item = T>,
) {
    for value in values {
        let mut word = OsString::from(format!("--{name}="));
        word.push(value);
        words.push(word);
    }
}

fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::folders;

    #[test]
    fn inputs_of_one_name_have_folders_of_their_own() {
        let paths = ["a/run.tar.zst", "b/run", "run-2", "."].map(PathBuf::from);
        let folders = folders(&paths, Path::new("out"));
        let first = ["run-report", "run-2-report", "run-2-2-report"];
        assert_eq!(folders[..3], first.map(|name| Path::new("out").join(name)));
        assert_ne!(folders[3], Path::new("out/input-report"));
    }
}
