//! `rooflens serve-report`: load tests into a report.

use std::path::Path;

use super::args::ServeReport as Args;
use super::error::CliError;
use super::load::errors;
use super::output::{Writer, file_stem};
use super::term::Term;
use crate::bundle;
use crate::document::Catalogue;
use crate::pipeline::{LoadTests, NotesFile};
use crate::serving::analysis::goodput::Slo;
use crate::serving::analysis::predicted::Predicted;
use crate::serving::analysis::thresholds::Thresholds;
use crate::serving::analysis::{Options, Results};

/// Writes the report of load tests.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let files = args
        .results
        .iter()
        .chain(&args.thresholds)
        .chain(&args.predicted)
        .chain(&args.gpu_metrics)
        .chain(&args.notes);
    let mut writer = Writer::new(&args.output, files)?;
    let options = options(args)?;
    term.step("opening");
    let progress = &mut |path: &str| term.step(format!("reading {path}"));
    let tests = LoadTests::open(
        &args.results,
        &args.gpu_metrics,
        &args.labels,
        args.unit,
        progress,
    )?;
    let Some(results) = Results::compute(&tests.input, &options) else {
        return Err(useless(&tests, term));
    };
    term.diagnostics(tests.diagnostics.iter());
    let notes = NotesFile::read(args.notes.as_deref(), &tests.bundle)?;
    let text = Catalogue::of(writer.language());
    let report = tests.report(&results, text, notes.as_ref().map(NotesFile::notes));
    let folder = format!("{}-report", file_stem(&tests.bundle.name));
    writer.protect(&tests.bundle);
    writer.write(&report, None, &folder, term)?;
    errors(tests.diagnostics.iter())
}

/// Prints what files without a load test lack, and gives the reason.
fn useless(tests: &LoadTests, term: &mut Term) -> CliError {
    let reason = tests.diagnostics.most_severe();
    let diagnostics = tests.diagnostics.iter();
    term.diagnostics(diagnostics.filter(|diagnostic| Some(*diagnostic) != reason));
    let mut message = format!("no load test in {}", tests.bundle.name);
    if let Some(reason) = reason {
        message = format!("{message}: {}", reason.message);
    }
    let hint = reason.and_then(|reason| reason.hint.as_deref());
    let hint = hint.unwrap_or("docs/serving.md lists the results that are read");
    CliError::Unusable {
        message,
        hint: Some(hint.to_owned()),
    }
}

/// Limits and references that the arguments state.
fn options(args: &Args) -> Result<Options, CliError> {
    let mut options = Options::default();
    if let Some(limits) = &args.slo {
        let slo = Slo::parse(limits);
        options.slo = slo.map_err(|error| CliError::Usage(format!("--slo {error}")))?;
        if options.slo.is_empty() {
            let message = "--slo states no limit: expected ttft=200ms,tpot=50ms,e2e=5s";
            return Err(CliError::Usage(message.to_owned()));
        }
    }
    if let Some(path) = &args.thresholds {
        options.thresholds = thresholds(path)?;
    }
    if let Some(path) = &args.predicted {
        options.predicted = Some(predicted(path)?);
    }
    Ok(options)
}

fn thresholds(path: &Path) -> Result<Thresholds, CliError> {
    let bytes = read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    Thresholds::parse(&text).map_err(|error| refused(path, &error))
}

fn predicted(path: &Path) -> Result<Predicted, CliError> {
    Predicted::parse(&read(path)?).map_err(|error| refused(path, &error))
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    bundle::argument(path).map_err(|error| refused(path, &error.to_string()))
}

fn refused(path: &Path, reason: &str) -> CliError {
    CliError::Usage(format!("{}: {reason}", path.display()))
}
