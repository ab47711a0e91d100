//! `rooflens compare`: what differs between captures before and after a change.

use std::path::PathBuf;

use super::args::{Compare as Args, Input};
use super::baseline::figures;
use super::error::CliError;
use super::gate::{record, refuse_other_work};
use super::load::{errors, load, useless};
use super::output::{Writer, file_stem};
use super::parquet;
use super::term::Term;
use crate::compare::{Pair, load_tests, microbenchmarks};
use crate::pipeline::{
    self, AnalyzeError, Capture, ComparisonError, LoadTests, Microbenchmarks, Settings, Study,
};
use crate::report::Report;
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
    let settings = Settings {
        least,
        allowed: &args.allowed,
        lang: writer.language(),
    };
    let mut paths = sides.before.iter().chain(sides.after);
    let has_figures = paths.try_fold(false, |has, path| -> Result<_, CliError> {
        Ok(has || figures(path)?.is_some())
    })?;
    let (report, captures, stems) = match has_figures {
        true => of_figures(sides, settings, term)?,
        false => of_inputs(sides, settings, term)?,
    };
    for capture in captures.before.iter().chain(&captures.after) {
        writer.protect(&capture.bundle);
    }
    let folder = format!("{}-{}-comparison", stems.before, stems.after);
    writer.write(&report, &folder, &|| parquet::of_report(&report), term)?;
    let captures = captures.before.iter().chain(&captures.after);
    errors(captures.flat_map(|capture| capture.diagnostics.iter()))
}

/// A report, the captures that it was made of, and the names of the sides for files.
type Compared = (Report, Pair<Vec<Capture>>, Pair<String>);

/// Compares sides of which one at least is known by its figures only.
fn of_figures(
    sides: Pair<&[PathBuf]>,
    settings: Settings<'_>,
    term: &mut Term,
) -> Result<Compared, CliError> {
    let (before, of_before) = record(sides.before, term)?;
    let (after, of_after) = record(sides.after, term)?;
    refuse_other_work(settings.allowed, &before, &after)?;
    let records = Pair {
        before: &before,
        after: &after,
    };
    let report = pipeline::compare_figures(&sides, records, settings)?;
    let captures = Pair {
        before: of_before,
        after: of_after,
    };
    let stems = Pair::of(&records, |record| file_stem(&record.name));
    Ok((report, captures, stems))
}

/// Compares captures, load tests, or microbenchmarks.
fn of_inputs(
    sides: Pair<&[PathBuf]>,
    settings: Settings<'_>,
    term: &mut Term,
) -> Result<Compared, CliError> {
    let captures = Pair {
        before: captures(sides.before, term)?,
        after: captures(sides.after, term)?,
    };
    term.step("comparing".to_owned());
    let report = match kind(&captures)? {
        Kind::Captures => of_captures(&captures, settings, term)?,
        Kind::LoadTests => of_load_tests(sides, settings)?,
        Kind::Microbenchmarks => of_microbenchmarks(sides, settings)?,
    };
    let stems = Pair::of(&captures, |captures| file_stem(&pipeline::name(captures)));
    Ok((report, captures, stems))
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Captures,
    LoadTests,
    Microbenchmarks,
}

/// What both sides are.
fn kind(captures: &Pair<Vec<Capture>>) -> Result<Kind, CliError> {
    let of = |capture: &Capture| match capture.study() {
        Study::Capture => Kind::Captures,
        Study::LoadTest { .. } => Kind::LoadTests,
        Study::Microbenchmarks => Kind::Microbenchmarks,
    };
    let mut kinds = captures.before.iter().chain(&captures.after).map(of);
    let first = kinds.next().unwrap_or(Kind::Captures);
    match kinds.all(|kind| kind == first) {
        true => Ok(first),
        false => Err(CliError::unusable(
            "captures, load tests and microbenchmarks are compared with their like only",
        )),
    }
}

fn of_load_tests(sides: Pair<&[PathBuf]>, settings: Settings<'_>) -> Result<Report, CliError> {
    let open = |paths: &[PathBuf]| LoadTests::open(paths, &[], &[], &mut |_| ());
    let tests = Pair {
        before: open(sides.before)?,
        after: open(sides.after)?,
    };
    pipeline::compare_load_tests(&tests, settings).map_err(|reason| CliError::Unusable {
        hint: match &reason {
            load_tests::Incomparable::Condition { subject, .. } => {
                Some(format!("--allow {subject} compares them nevertheless"))
            }
            load_tests::Incomparable::NoLoad { .. } => None,
        },
        message: reason.to_string(),
    })
}

fn of_microbenchmarks(sides: Pair<&[PathBuf]>, settings: Settings<'_>) -> Result<Report, CliError> {
    let benchmarks = Pair {
        before: Microbenchmarks::open(sides.before)?,
        after: Microbenchmarks::open(sides.after)?,
    };
    let report = pipeline::compare_microbenchmarks(&benchmarks, settings);
    report.map_err(|reason| CliError::Unusable {
        message: reason.to_string(),
        hint: matches!(reason, microbenchmarks::Incomparable::Gpu { .. })
            .then(|| "--allow gpu compares them nevertheless".to_owned()),
    })
}

fn of_captures(
    captures: &Pair<Vec<Capture>>,
    settings: Settings<'_>,
    term: &mut Term,
) -> Result<Report, CliError> {
    let report = pipeline::compare(Pair::of(captures, Vec::as_slice), settings);
    report.map_err(|error| {
        let captures = captures.before.iter().chain(&captures.after);
        refused(error, captures, term)
    })
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
