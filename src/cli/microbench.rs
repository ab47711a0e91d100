//! `rooflens bench-report`: microbenchmarks of GPUs into a report.

use super::args::BenchReport as Args;
use super::error::CliError;
use super::load::errors;
use super::output::{Writer, file_stem};
use super::term::Term;
use crate::document::Catalogue;
use crate::pipeline::{Microbenchmarks, NotesFile};

/// Writes the report of microbenchmarks.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let mut writer = Writer::new(&args.output, args.results.iter().chain(&args.notes))?;
    let microbenchmarks = Microbenchmarks::open(&args.results)?;
    let bundle = &microbenchmarks.bundle;
    let diagnostics = &microbenchmarks.diagnostics;
    if microbenchmarks.devices.is_empty() {
        let mut message = format!("no microbenchmark in {}", bundle.name);
        if let Some(reason) = diagnostics.most_severe() {
            message = format!("{message}: {}", reason.message);
        }
        return Err(CliError::Unusable {
            message,
            hint: Some("expected bench.json or peaks.json of rooflens-capture".to_owned()),
        });
    }
    term.diagnostics(diagnostics.iter());
    let notes = NotesFile::read(args.notes.as_deref(), bundle)?;
    let text = Catalogue::of(writer.language());
    let report = microbenchmarks.report(text, notes.as_ref().map(NotesFile::notes));
    writer.protect(bundle);
    let folder = format!("{}-report", file_stem(&bundle.name));
    writer.write(&report, None, &folder, term)?;
    errors(diagnostics.iter())
}
