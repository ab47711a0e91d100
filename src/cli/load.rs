//! Captures as the arguments name them: what all commands over captures share.

use std::path::PathBuf;

use rooflens_schemas::StageRule;

use super::args::{Classifier, Input};
use super::error::CliError;
use super::nsys::Nsys;
use super::spool::Spooled;
use super::term::Term;
use crate::analysis::{self, Options};
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::Lang;
use crate::hardware::Hardware;
use crate::pipeline::{self, Analysis, AnalyzeError, Capture, Exporter, Step};
use crate::report::Report;

/// Opens the input and reads it.
pub(super) fn load(input: &Input, term: &mut Term) -> Result<Capture, CliError> {
    let stages = stage_rules(&input.stages)?;
    if let Some(name) = &input.gpu {
        // Before the input is read, which may take long.
        Hardware::builtin().named(name)?;
    }
    term.step(format!("opening {}", shown(&input.paths)));
    let spooled = Spooled::new(&input.paths)?;
    let nsys = Nsys::find();
    let paths = pipeline::Input {
        paths: spooled.paths,
        model: input.model.clone(),
        workload: input.workload.clone(),
        notes: input.notes.clone(),
        stages,
        merge: input.merge,
        only: None,
        exporter: nsys.as_ref().map(|nsys| nsys as &dyn Exporter),
        hashed: input.hashed,
    };
    let mut capture = paths.open(&mut |step| show_step(step, nsys.as_ref(), term))?;
    if let Some(folder) = spooled.folder {
        capture.keep(folder);
    }
    Ok(capture)
}

fn show_step(step: Step<'_>, nsys: Option<&Nsys>, term: &mut Term) {
    match step {
        Step::Exporting(path) => term.step(format!("exporting {path} by nsys")),
        Step::Exported(path) => {
            let nsys = nsys.map_or_else(String::new, |nsys| nsys.0.display().to_string());
            term.note(&format!(
                "notice: {path} was exported by {nsys} into a temporary folder"
            ));
        }
        Step::Converting(path) => term.step(format!("reading the tables of {path}")),
        Step::Reading(path) => term.step(format!("reading {path}")),
    }
}

/// The inputs in a line.
fn shown(paths: &[PathBuf]) -> String {
    match paths {
        [path] => path.display().to_string(),
        paths => format!("{} inputs", paths.len()),
    }
}

fn stage_rules(stages: &[String]) -> Result<Vec<StageRule>, CliError> {
    let mut rules = Vec::new();
    for stage in stages {
        let rule = pipeline::stage_rule(stage);
        rules.push(rule.map_err(|error| CliError::Usage(format!("--stage {error}")))?);
    }
    Ok(rules)
}

/// Fails where some diagnostics are errors; what could be done is done by then.
pub(super) fn errors<'a>(
    diagnostics: impl Iterator<Item = &'a Diagnostic>,
) -> Result<(), CliError> {
    match count(diagnostics, Severity::Error) {
        0 => Ok(()),
        count => Err(CliError::Errors(count)),
    }
}

/// Fails if data was lost and `--strict` is on.
pub(super) fn strict<'a>(
    input: &Input,
    diagnostics: impl Iterator<Item = &'a Diagnostic>,
) -> Result<(), CliError> {
    match count(diagnostics, Severity::DataLoss) {
        lost if input.strict && lost > 0 => Err(CliError::Strict(format!("{lost} part(s)"))),
        _ => Ok(()),
    }
}

/// The number of diagnostics of a severity or a higher one.
pub(super) fn count<'a>(
    diagnostics: impl Iterator<Item = &'a Diagnostic>,
    severity: Severity,
) -> usize {
    diagnostics
        .filter(|diagnostic| diagnostic.severity >= severity)
        .count()
}

/// Analyzes and arranges, in a language. Prints the diagnostics.
///
/// # Errors
/// When nothing of the input can be reported, or something was lost and `--strict` is on.
pub(super) fn report<'a>(
    capture: &'a Capture,
    input: &Input,
    lang: Lang,
    term: &mut Term,
) -> Result<(Report, Analysis<'a>), CliError> {
    term.step(format!("analyzing {}", capture.bundle.name));
    let analysis = match capture.analyze(&options(input)) {
        Ok(analysis) => analysis,
        Err(AnalyzeError::Nothing(_)) => return Err(useless(capture, term)),
        Err(AnalyzeError::Gpu(error)) => return Err(error.into()),
    };
    let report = analysis.report(lang);
    term.diagnostics(&report.data_quality);
    strict(input, report.data_quality.iter())?;
    Ok((report, analysis))
}

/// Prints what the input lacks if it has no measurements.
///
/// # Errors
/// When it has none.
pub(super) fn check(capture: &Capture, term: &mut Term) -> Result<(), CliError> {
    match capture.has_measurements() {
        true => Ok(()),
        false => Err(useless(capture, term)),
    }
}

/// Prints what an input lacks that is of no use, and gives the reason.
pub(super) fn useless(capture: &Capture, term: &mut Term) -> CliError {
    let reason = capture.diagnostics.most_severe();
    term.diagnostics(
        capture
            .diagnostics
            .iter()
            .filter(|diagnostic| Some(*diagnostic) != reason),
    );
    capture.nothing_to_report().into()
}

fn options(input: &Input) -> Options {
    let classifier = match input.classifier {
        Classifier::Rooflens => analysis::Classifier::Rooflens,
        Classifier::Seed => analysis::Classifier::Seed,
    };
    Options {
        gpu: input.gpu.clone(),
        classifier,
    }
}
