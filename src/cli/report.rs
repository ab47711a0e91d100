//! `rooflens report`.

use std::path::PathBuf;

use super::args::{BenchReport, Report as Args, ServeReport};
use super::error::CliError;
use super::load::{Loaded, errors, load, nothing_to_report, report};
use super::microbench;
use super::output::{Writer, file_stem};
use super::serve;
use super::term::Term;

/// Writes a report in the formats that the outputs ask for.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let mut writer = Writer::new(&args.output, args.input.files())?;
    let loaded = load(&args.input, term)?;
    if microbench::is_all_of(&loaded.bundle) {
        term.note("notice: these are microbenchmarks: the report is that of rooflens bench-report");
        let (results, notes) = (args.input.paths.clone(), args.input.notes.clone());
        return microbench::run(
            &BenchReport {
                results,
                notes,
                output: args.output.clone(),
            },
            term,
        );
    }
    if nothing_to_report(&loaded.session)
        && let Some((path, format)) = serve::find(&loaded.bundle)
    {
        term.note(&format!(
            "notice: {path} is a load test ({format}): the report is that of rooflens serve-report"
        ));
        return serve::run(&as_load_test(args), term);
    }
    writer.protect(&loaded.bundle);
    let wanted = (writer.language(), writer.writes_data());
    let report = report(&loaded, &args.input, wanted, term)?;
    let folder = format!("{}-report", default_name(&args.input.paths, &loaded));
    writer.write(
        &report,
        &folder,
        &|| super::parquet::of_session(&loaded),
        term,
    )?;
    errors(report.data_quality.iter())
}

/// The same inputs and outputs for `rooflens serve-report`.
fn as_load_test(args: &Args) -> ServeReport {
    ServeReport {
        results: args.input.paths.clone(),
        slo: None,
        thresholds: None,
        predicted: None,
        gpu_metrics: Vec::new(),
        labels: Vec::new(),
        notes: args.input.notes.clone(),
        output: args.output.clone(),
    }
}

/// What the user called the input, without the ending of an archive; the bundle's name for `.` and for several.
fn default_name(paths: &[PathBuf], loaded: &Loaded) -> String {
    let named = match paths {
        [path] => path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
        _ => None,
    };
    let name = named.unwrap_or_else(|| loaded.bundle.name.clone());
    let ends = [
        ".zst", ".gz", ".xz", ".bz2", ".tgz", ".tar", ".zip", ".sqlite", ".json", ".csv",
    ];
    file_stem(ends.iter().fold(name.as_str(), |name, end| {
        name.strip_suffix(end).unwrap_or(name)
    }))
}
