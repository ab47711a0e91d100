//! `rooflens lake`: results of many captures in one folder.

use super::args::Lake as Args;
use super::error::CliError;
use super::term::Term;

#[cfg(feature = "tables")]
pub(super) use with_tables::run;

/// This build has no Parquet.
#[cfg(not(feature = "tables"))]
pub(super) fn run(args: &Args, _: &mut Term) -> Result<(), CliError> {
    super::parquet::missing(args)
}

#[cfg(feature = "tables")]
mod with_tables {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::num::NonZeroUsize;
    use std::panic::resume_unwind;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::thread;

    use super::{Args, CliError, Term};
    use crate::bundle;
    use crate::cli::args::{Answers, Color, Input, Output};
    use crate::cli::load::errors;
    use crate::cli::output::{Writer, file_stem};
    use crate::cli::query::Asked;
    use crate::cli::{load, trend};
    use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
    use crate::document::{Catalogue, Lang};
    use crate::lake::{Added, Fleet, Lake, LakeError, Staged, Unread, results, results_folder};
    use crate::pipeline::{LoadTests, Study};
    use crate::query::Database;
    use crate::report::Report;
    use crate::serving::analysis::{Options, Results};

    /// Folders of results that become visible after one write to the disk.
    const FOLDERS: usize = 256;

    pub(in crate::cli) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
        match args {
            Args::Add {
                lake,
                bundles,
                jobs,
            } => add(lake, bundles, *jobs, term),
            Args::Compact { lake } => compact(lake, term),
            Args::Query { lake, sql, answers } => query(lake, sql, answers, term),
            Args::Report { lake, output } => report_of_all(lake, output, term),
            Args::Trend {
                lake,
                metric,
                least,
                answers,
            } => {
                let sql = trend::sql(metric);
                asked(lake, &sql, answers, term, |asked, term| {
                    trend::run(asked, metric, *least, term)
                })
            }
        }
    }

    /// Adds results. What fails costs its capture, and is named at the end.
    fn add(
        root: &Path,
        paths: &[PathBuf],
        jobs: NonZeroUsize,
        term: &mut Term,
    ) -> Result<(), CliError> {
        let lake = Lake::create(root)?;
        let known = lake.captures()?;
        let is_folder = |path: &&PathBuf| results_folder(path).is_some();
        let (folders, bundles): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(is_folder);
        // A report takes long: it is not to wait for others.
        let chunks = folders.chunks(FOLDERS).chain(bundles.chunks(jobs.get()));
        let (mut new, mut old, mut failed) = (0, 0, Vec::new());
        let (sender, receiver) = sync_channel(1);
        let published = thread::scope(|scope| {
            // The disk takes some while the next are read.
            let publisher = scope.spawn(|| publish(&lake, receiver));
            for chunk in chunks {
                term.step(format!("adding {}", chunk[0].display()));
                let outcomes = in_threads(jobs, chunk, |path| stage(&lake, path, &known));
                let mut staged = Vec::new();
                for (path, outcome) in chunk.iter().zip(outcomes) {
                    match outcome {
                        Ok(Some(results)) => staged.push(results),
                        Ok(None) => old += 1,
                        Err(error) => failed.push((*path, error)),
                    }
                }
                if sender.send(staged).is_err() {
                    // The publisher failed, and says why.
                    break;
                }
            }
            drop(sender);
            publisher
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic))
        });
        for added in published? {
            match added {
                Added::New => new += 1,
                Added::Known => old += 1,
            }
        }
        term.note(&format!("{}: {new} added, {old} known", root.display()));
        let mut errors = Vec::new();
        for (path, error) in &failed {
            errors.push(failure(error).artifact(path.display().to_string()));
        }
        term.failures(&errors)
    }

    fn publish(lake: &Lake, all: Receiver<Vec<Staged>>) -> Result<Vec<Added>, LakeError> {
        let mut added = Vec::new();
        for staged in all {
            added.extend(lake.publish(staged)?);
        }
        Ok(added)
    }

    fn failure(error: &impl ToString) -> Diagnostic {
        Diagnostic::new(Severity::Error, "lake/failed", error.to_string())
    }

    /// Works on items in threads of their own. Threads of rayon that wait for polars would begin with the next item, one
    /// within the other, until the stack ends.
    fn in_threads<T: Sync, R: Send>(
        threads: NonZeroUsize,
        items: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        let parts = items.chunks(items.len().div_ceil(threads.get()).max(1));
        thread::scope(|scope| {
            let work = &work;
            let mut running = Vec::new();
            for part in parts {
                running.push(scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()));
            }
            let mut outcomes = Vec::new();
            for thread in running {
                outcomes.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            outcomes
        })
    }

    /// Puts the results of a path aside; none if its capture is known.
    fn stage(
        lake: &Lake,
        path: &Path,
        known: &BTreeSet<String>,
    ) -> Result<Option<Staged>, CliError> {
        if let Some(folder) = results_folder(path) {
            return Ok(lake.stage_folder(&folder, known)?);
        }
        let Some(report) = report(path, known)? else {
            return Ok(None);
        };
        Ok(Some(lake.stage(&results(&report)?)?))
    }

    /// The report of a capture or of a load test; none if it is known.
    fn report(path: &Path, known: &BTreeSet<String>) -> Result<Option<Report>, CliError> {
        let mut silent = Term::new(true, Color::Never);
        let input = Input {
            paths: vec![path.to_owned()],
            ..Input::default()
        };
        let capture = load::load(&input, &mut silent)?;
        if known.contains(&capture.bundle.id) {
            return Ok(None);
        }
        match capture.study() {
            Study::LoadTest { .. } => {
                let tests = LoadTests::open(&input.paths, &[], &[], None, &mut |_| {})?;
                let options = Options::default();
                let results = Results::compute(&tests.input, &options);
                let results = results.ok_or_else(|| CliError::from(capture.nothing_to_report()))?;
                Ok(Some(tests.report(&results, Catalogue::english(), None)))
            }
            _ => {
                let (report, _) = load::report(&capture, &input, Lang::En, &mut silent)?;
                Ok(Some(report))
            }
        }
    }

    fn compact(root: &Path, term: &mut Term) -> Result<(), CliError> {
        let compacted = Lake::compact(root)?;
        let (root, folders) = (root.display(), compacted.folders);
        term.note(&format!("{root}: {folders} folders merged"));
        let errors: Vec<Diagnostic> = compacted.errors.iter().map(failure).collect();
        term.failures(&errors)
    }

    /// Answers SQL, or that of a file.
    fn query(root: &Path, sql: &str, answers: &Answers, term: &mut Term) -> Result<(), CliError> {
        let path = Path::new(sql);
        let of_file = match path.extension() {
            Some(ending) if ending == "sql" => {
                Some(bundle::argument_text(path).map_err(|error| {
                    CliError::Usage(format!("cannot read {}: {error}", path.display()))
                })?)
            }
            _ => None,
        };
        let sql = of_file.as_deref().unwrap_or(sql);
        asked(root, sql, answers, term, |asked, term| {
            asked.answer(sql, term)
        })
    }

    /// Writes the report of all captures.
    fn report_of_all(root: &Path, output: &Output, term: &mut Term) -> Result<(), CliError> {
        let writer = Writer::new(output, [])?;
        let lake = Lake::open(root)?;
        let unread = Unread::default();
        term.step(format!("reading {}", root.display()));
        let fleet = Fleet::read(&lake, &unread)?;
        if fleet.is_empty() {
            let message = format!(
                "{}: no captures; add some: rooflens lake add",
                root.display()
            );
            return Err(CliError::unusable(message));
        }
        let mut diagnostics = Diagnostics::default();
        for (path, error) in &unread.into_inner() {
            diagnostics.push(failure(error).artifact(path.display().to_string()));
        }
        let name = root
            .file_name()
            .map_or_else(|| "lake".into(), OsStr::to_string_lossy);
        let text = Catalogue::of(writer.language());
        let report = crate::lake::report(&fleet, &name, text, &diagnostics);
        let folder = format!("{}-report", file_stem(&name));
        writer.write(&report, None, &folder, term)?;
        errors(diagnostics.iter())
    }

    /// Does something with the tables that a statement names. Files that cannot be read are named at the end.
    fn asked(
        root: &Path,
        sql: &str,
        answers: &Answers,
        term: &mut Term,
        work: impl FnOnce(&Asked<'_>, &mut Term) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let lake = Lake::open(root)?;
        let unread = Unread::default();
        term.step(format!("reading {}", root.display()));
        let tables = lake.copied(sql, &unread)?;
        let asked = Asked::new(answers, |memory, is_over| {
            Database::of_rows(tables, memory, is_over)
        })?;
        work(&asked, term)?;
        let errors: Vec<Diagnostic> = unread.into_inner().values().map(failure).collect();
        term.failures(&errors)
    }

    impl From<LakeError> for CliError {
        fn from(error: LakeError) -> Self {
            Self::unusable(error.to_string())
        }
    }
}
