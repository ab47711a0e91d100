//! `rooflens compare`: what differs between captures before and after a change.

use std::path::PathBuf;

use super::args::{Compare as Args, Input};
use super::error::CliError;
use super::load::{errors, load, useless};
use super::output::{Writer, file_stem};
use super::parquet;
use super::term::Term;
use crate::compare::Pair;
use crate::pipeline::{self, AnalyzeError, Capture, ComparisonError, Settings};
use rooflens_units::Ratio;

/// Writes the report of a comparison.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let mut writer = Writer::new(&args.output, args.before.iter().chain(&args.after))?;
    let least = Ratio(args.least / 100.0);
    if !(least.0 > 0.0 && least.0.is_finite()) {
        let message = format!("--least {}: expected a percentage above 0", args.least);
        return Err(CliError::Usage(message));
    }
    let sides = args.sides().ok_or_else(|| {
        let message =
            "expected BEFORE AFTER, or several captures of each side as BEFORE… -- AFTER…";
        CliError::Usage(message.to_owned())
    })?;
    let captures = Pair {
        before: captures(sides.before, term)?,
        after: captures(sides.after, term)?,
    };
    for capture in captures.before.iter().chain(&captures.after) {
        writer.protect(&capture.bundle);
    }
    term.step("comparing".to_owned());
    let settings = Settings {
        least,
        allowed: &args.allowed,
        lang: writer.language(),
    };
    let report = pipeline::compare(Pair::of(&captures, Vec::as_slice), settings);
    let report = report.map_err(|error| {
        let captures = captures.before.iter().chain(&captures.after);
        refused(error, captures, term)
    })?;
    let stems = Pair::of(&captures, |captures| file_stem(&pipeline::name(captures)));
    let folder = format!("{}-{}-comparison", stems.before, stems.after);
    writer.write(&report, &folder, &|| parquet::of_report(&report), term)?;
    let captures = captures.before.iter().chain(&captures.after);
    errors(captures.flat_map(|capture| capture.diagnostics.iter()))
}

/// Opens the captures of a side, each by itself, and prints what is wrong with them.
pub(super) fn captures(paths: &[PathBuf], term: &mut Term) -> Result<Vec<Capture>, CliError> {
    let mut captures = Vec::new();
    for path in paths {
        let input = Input {
            paths: vec![path.clone()],
            ..Input::default()
        };
        let capture = load(&input, term)?;
        term.diagnostics(capture.diagnostics.iter());
        captures.push(capture);
    }
    Ok(captures)
}

/// The reason why captures are not compared, with what to do.
pub(super) fn refused<'a>(
    error: ComparisonError,
    captures: impl IntoIterator<Item = &'a Capture>,
    term: &mut Term,
) -> CliError {
    match error {
        ComparisonError::Analyze(AnalyzeError::Gpu(error)) => error.into(),
        ComparisonError::Analyze(AnalyzeError::Nothing(nothing)) => {
            let mut captures = captures.into_iter();
            match captures.find(|capture| !capture.is_reportable()) {
                Some(capture) => useless(capture, term),
                None => nothing.into(),
            }
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
