//! `rooflens compare`: what differs between two captures.

use super::args::{Compare as Args, Input};
use super::error::CliError;
use super::load::{errors, load, useless};
use super::output::{Writer, file_stem};
use super::parquet;
use super::term::Term;
use crate::pipeline::{self, AnalyzeError, Capture, ComparisonError};
use rooflens_units::Ratio;

/// Writes the report of a comparison.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let mut writer = Writer::new(&args.output, [&args.before, &args.after])?;
    let least = Ratio(args.least / 100.0);
    if !(least.0 > 0.0 && least.0.is_finite()) {
        let message = format!("--least {}: expected a percentage above 0", args.least);
        return Err(CliError::Usage(message));
    }
    let mut open = |path: &std::path::Path| {
        let input = Input {
            paths: vec![path.to_owned()],
            ..Input::default()
        };
        load(&input, term)
    };
    let captures = [open(&args.before)?, open(&args.after)?];
    for capture in &captures {
        writer.protect(&capture.bundle);
        term.diagnostics(capture.diagnostics.iter());
    }
    let [before, after] = &captures;
    term.step("comparing".to_owned());
    let settings = (least, args.allowed.as_slice());
    let report = pipeline::compare(before, after, settings, writer.language());
    let report = report.map_err(|error| refused(error, &captures, term))?;
    let stems = [before, after].map(|capture| file_stem(&capture.bundle.name));
    let folder = format!("{}-{}-comparison", stems[0], stems[1]);
    writer.write(&report, &folder, &|| parquet::of_report(&report), term)?;
    errors(
        captures
            .iter()
            .flat_map(|capture| capture.diagnostics.iter()),
    )
}

fn refused(error: ComparisonError, captures: &[Capture; 2], term: &mut Term) -> CliError {
    match error {
        ComparisonError::Analyze(AnalyzeError::Gpu(error)) => error.into(),
        ComparisonError::Analyze(AnalyzeError::Nothing(_)) => {
            let empty = captures.iter().find(|capture| !capture.is_reportable());
            useless(empty.unwrap_or(&captures[0]), term)
        }
        ComparisonError::Conditions { subject, .. } => CliError::Unusable {
            message: error.to_string(),
            hint: Some(format!(
                "--allow {} compares them nevertheless",
                subject.label()
            )),
        },
    }
}
