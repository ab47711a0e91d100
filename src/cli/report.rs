//! `rooflens report`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args::{BenchReport, Report as Args, ServeReport};
use super::each;
use super::error::CliError;
use super::load::{errors, load, report};
use super::microbench;
use super::output::{Writer, file_stem};
use super::serve;
use super::term::Term;
use crate::pipeline::{Capture, Study};

/// Endings that a folder named after the input loses, in this order.
const ENDINGS: [&str; 10] = [
    ".zst", ".gz", ".xz", ".bz2", ".tgz", ".tar", ".zip", ".sqlite", ".json", ".csv",
];

/// Writes a report in the formats that the outputs ask for.
pub(super) fn run(args: &Args, program: &[OsString], term: &mut Term) -> Result<(), CliError> {
    if let Some(jobs) = args.jobs {
        return each::run(args, jobs, program, term);
    }
    let mut writer = Writer::new(&args.output, args.input.files())?;
    let capture = load(&args.input, term)?;
    match capture.study() {
        Study::Capture => {}
        Study::Microbenchmarks => {
            term.note(
                "notice: these are microbenchmarks: the report is that of rooflens bench-report",
            );
            return microbench::run(&as_microbenchmarks(args), term);
        }
        Study::LoadTest { path, format } => {
            term.note(&format!(
                "notice: {path} is a load test ({format}): the report is that of rooflens serve-report"
            ));
            return serve::run(&as_load_test(args), term);
        }
    }
    writer.protect(&capture.bundle);
    let (report, analysis) = report(&capture, &args.input, writer.language(), term)?;
    let folder = format!("{}-report", default_name(&args.input.paths, &capture));
    writer.write(&report, Some(&analysis), &folder, term)?;
    errors(report.data_quality.iter())
}

/// The same inputs and outputs for `rooflens bench-report`.
fn as_microbenchmarks(args: &Args) -> BenchReport {
    BenchReport {
        results: args.input.paths.clone(),
        notes: args.input.notes.clone(),
        output: args.output.clone(),
    }
}

/// The same inputs and outputs for `rooflens serve-report`.
fn as_load_test(args: &Args) -> ServeReport {
    ServeReport {
        results: args.input.paths.clone(),
        slo: None,
        thresholds: None,
        predicted: None,
        gpu_metrics: Vec::new(),
        unit: None,
        labels: Vec::new(),
        notes: args.input.notes.clone(),
        output: args.output.clone(),
    }
}

/// What the user called the input, without the ending of an archive; the bundle's name for `.` and for several.
fn default_name(paths: &[PathBuf], capture: &Capture) -> String {
    let file_name = match paths {
        [path] => path.file_name(),
        _ => None,
    };
    let name = match file_name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => capture.bundle.name.clone(),
    };
    file_stem(stem(&name))
}

/// A name without the endings of archives and exports.
pub(super) fn stem(name: &str) -> &str {
    let mut stem = name;
    for ending in ENDINGS {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    stem
}
