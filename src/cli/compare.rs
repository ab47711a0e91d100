//! `rooflens compare`: what differs between captures before and after a change.

use std::path::{Path, PathBuf};

use super::args::{Compare as Args, Input};
use super::baseline::figures;
use super::error::CliError;
use super::gate::{record, refuse_other_work};
use super::load::{errors, load, useless};
use super::output::{Writer, file_stem};
use super::term::Term;
use crate::compare::{Pair, load_tests, microbenchmarks};
use crate::pipeline::{
    self, AnalyzeError, Capture, ComparisonError, LoadTests, Microbenchmarks, Repeats, Settings,
    Study,
};
use crate::report::Report;
use crate::session::Session;
use rooflens_units::Ratio;

/// Bytes of a file that no manifest states up to which it is hashed: a larger one takes longer to hash than to compare.
const HASHED: u64 = 64 << 20;

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
    let is_option = |path: &&PathBuf| path.to_string_lossy().starts_with('-') && !path.exists();
    if let Some(option) = args.after.iter().find(is_option) {
        let message = format!(
            "{} stands after `--` and is read as a capture: give options before `--`",
            option.display()
        );
        return Err(CliError::Usage(message));
    }
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
    writer.write(&report, None, &folder, term)?;
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
    let mut captures = Pair::<Vec<Capture>>::default();
    let mut repeats = Pair::<Repeats>::default();
    let mut kinds = Vec::new();
    for (paths, captures, repeats) in [
        (sides.before, &mut captures.before, &mut repeats.before),
        (sides.after, &mut captures.after, &mut repeats.after),
    ] {
        for path in paths {
            let mut capture = capture(path, Some(HASHED), term)?;
            let kind = Kind::of(&capture);
            kinds.push(kind);
            if kind == Kind::Captures {
                term.step(format!("analyzing {}", path.display()));
                let added = repeats.add(&capture, settings.lang);
                added.map_err(|error| refused(error.into(), [&capture], term))?;
                // The tables of several captures may not fit into memory.
                capture.session = Session::default();
            }
            captures.push(capture);
        }
    }
    term.step("comparing".to_owned());
    let report = match kind(&kinds)? {
        Kind::Captures => {
            let report = pipeline::compare(repeats, settings);
            report.map_err(|error| refused(error, [], term))?
        }
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

impl Kind {
    fn of(capture: &Capture) -> Self {
        match capture.study() {
            Study::Capture => Self::Captures,
            Study::LoadTest { .. } => Self::LoadTests,
            Study::Microbenchmarks => Self::Microbenchmarks,
        }
    }
}

/// What both sides are.
fn kind(kinds: &[Kind]) -> Result<Kind, CliError> {
    let first = kinds.first().copied().unwrap_or(Kind::Captures);
    match kinds.iter().all(|kind| *kind == first) {
        true => Ok(first),
        false => Err(CliError::unusable(
            "captures, load tests and microbenchmarks are compared with their like only",
        )),
    }
}

fn of_load_tests(sides: Pair<&[PathBuf]>, settings: Settings<'_>) -> Result<Report, CliError> {
    let open = |paths: &[PathBuf]| LoadTests::open(paths, &[], &[], None, &mut |_| ());
    let tests = Pair {
        before: open(sides.before)?,
        after: open(sides.after)?,
    };
    pipeline::compare_load_tests(&tests, settings).map_err(|reason| CliError::Unusable {
        hint: match &reason {
            load_tests::Incomparable::Condition { subject, .. } => {
                Some(format!("--allow {subject} compares them nevertheless"))
            }
            load_tests::Incomparable::NoLoad { .. } => Some(
                "test both sides at the same load, with mean lengths within 10 % of each other"
                    .to_owned(),
            ),
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

/// Opens the captures of a side, each by itself, and prints what is wrong with them.
pub(super) fn captures(paths: &[PathBuf], term: &mut Term) -> Result<Vec<Capture>, CliError> {
    paths.iter().map(|path| capture(path, None, term)).collect()
}

/// Opens a capture, of which files that no manifest states are hashed up to these bytes.
fn capture(path: &Path, hashed: Option<u64>, term: &mut Term) -> Result<Capture, CliError> {
    let input = Input {
        paths: vec![path.to_owned()],
        hashed,
        ..Input::default()
    };
    let capture = load(&input, term)?;
    term.diagnostics(capture.diagnostics.iter());
    Ok(capture)
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
