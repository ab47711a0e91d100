//! Comparison of captures before and after a change.

use std::path::{Path, PathBuf};

use super::analyze::{Analysis, AnalyzeError, artifacts};
use super::load_tests::LoadTests;
use super::microbenchmarks::Microbenchmarks;
use super::open::Capture;
use crate::analysis::Options;
use crate::bundle::{self, Bundle, BundleError};
use crate::compare::conditions::{Condition, Stated, Subject};
use crate::compare::ledger::Ledger;
use crate::compare::{self, Analyzed, Comparison, Pair, Record, Side, load_tests, microbenchmarks};
use crate::diagnostic::Diagnostics;
use crate::document::{Catalogue, Finding, Lang};
use crate::report::{Provenance, Report};
use crate::sections;
use rooflens_schemas::Metric;
use rooflens_units::Ratio;

/// Reason why captures are not compared.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// One of them cannot be analyzed.
    #[error(transparent)]
    Analyze(#[from] AnalyzeError),
    /// They are not of the same work on the same machine.
    #[error("{} differs: {before} {}, {after} {}", subject.label(), names.before, names.after)]
    Conditions {
        /// What differs.
        subject: Subject,
        /// Value of the first capture.
        before: String,
        /// Value of the second one.
        after: String,
        /// The captures: `before` and `after`, or repeats of one side.
        names: Pair<String>,
    },
}

/// What a comparison is made by.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The factor from which on a stage counts as faster or slower.
    pub least: Ratio,
    /// Conditions that may differ.
    pub allowed: &'a [Subject],
    /// Language of findings and pages.
    pub lang: Lang,
}

/// Captures of one condition, one at least, reduced to what a comparison needs of them.
#[derive(Default)]
pub struct Repeats {
    side: Side,
    /// Name of each capture, and what it states.
    stated: Vec<(String, Stated)>,
    ids: Vec<String>,
    /// The files of each capture.
    artifacts: Vec<Vec<[String; 4]>>,
}

impl Repeats {
    /// Adds a capture, with findings in the language of the report. Its tables are not needed after that.
    ///
    /// # Errors
    /// It has nothing to analyze.
    pub fn add(&mut self, capture: &Capture, lang: Lang) -> Result<(), AnalyzeError> {
        let text = Catalogue::of(lang);
        let analysis = capture.analyze(&Options::default())?;
        let context = sections::Context::new(analysis.context(), text);
        let findings = analysis.judge(&context).findings.findings;
        self.add_analyzed(capture, &analysis, &findings, text);
        self.artifacts.push(capture.artifacts());
        Ok(())
    }

    fn add_analyzed(
        &mut self,
        capture: &Capture,
        analysis: &Analysis<'_>,
        findings: &[Finding],
        text: &'static Catalogue,
    ) {
        let bundle = &capture.bundle;
        let analyzed = Analyzed {
            context: analysis.context(),
            findings,
        };
        self.side.add(&analyzed, text);
        self.stated
            .push((bundle.name.clone(), Stated::of(&analyzed)));
        self.ids.push(bundle.id.clone());
        let names: Vec<&str> = self.stated.iter().map(|(name, _)| name.as_str()).collect();
        self.side.name = names.join(" + ");
    }

    /// Refuses repeats that are not of the same work on the same machine as the first of them.
    fn check(&self, side: &str, allowed: &[Subject]) -> Result<(), ComparisonError> {
        let Some((first, repeats)) = self.stated.split_first() else {
            return Ok(());
        };
        for repeat in repeats {
            let pair = Pair {
                before: first,
                after: repeat,
            };
            let names = Pair::of(&pair, |(name, _)| format!("in {name} ({side})"));
            let conditions = compare::conditions::conditions(Pair::of(&pair, |(_, stated)| stated));
            refuse(&conditions, allowed, &names)?;
        }
        Ok(())
    }
}

/// The report of what differs between captures before and after a change.
///
/// # Errors
/// A condition differs that makes times mean different things and is not allowed.
pub fn compare(
    mut sides: Pair<Repeats>,
    settings: Settings<'_>,
) -> Result<Report, ComparisonError> {
    let title = format!("{} → {}", sides.before.side.name, sides.after.side.name);
    let mut ids = Vec::new();
    let mut artifacts = Vec::new();
    for (side, repeats) in [("before", &mut sides.before), ("after", &mut sides.after)] {
        ids.append(&mut repeats.ids);
        let count = repeats.artifacts.len();
        for (number, files) in repeats.artifacts.drain(..).enumerate() {
            let folder = match count {
                1 => side.to_owned(),
                _ => format!("{side}-{}", number + 1),
            };
            for [path, kind, pass, hash] in files {
                artifacts.push([format!("{folder}/{path}"), kind, pass, hash]);
            }
        }
    }
    let comparison = comparison(sides, settings)?;
    let provenance = Provenance {
        bundle: &title,
        bundle_id: &ids.join(" "),
        artifacts,
        ..Provenance::default()
    };
    let text = Catalogue::of(settings.lang);
    Ok(compare::report(&comparison, text, provenance))
}

/// The figures of captures of one condition, which a gate compares.
///
/// # Errors
/// A capture has nothing to analyze, or the captures are not repeats of one run.
pub fn record(captures: &[Capture]) -> Result<Record, ComparisonError> {
    let mut repeats = Repeats::default();
    let mut metrics: Vec<Vec<Metric>> = Vec::new();
    let text = Catalogue::english();
    for capture in captures {
        let analysis = capture.analyze(&Options::default())?;
        let context = sections::Context::new(analysis.context(), text);
        let sections = sections::run(&context).into_iter();
        metrics.push(
            sections
                .flat_map(|(_, _, content)| content.metrics)
                .collect(),
        );
        repeats.add_analyzed(capture, &analysis, &[], text);
    }
    repeats.check("repeats", &[])?;
    Ok(Record::new(repeats.side, repeats.ids, &metrics))
}

/// The figures of load tests, which a gate or the experiments of a ledger compare.
pub fn record_of_load_tests(tests: &LoadTests) -> Record {
    let LoadTests { bundle, input, .. } = tests;
    load_tests::record(&bundle.name, &bundle.id, &input.runs)
}

/// Compares repeats before and after a change.
///
/// # Errors
/// Those of [`compare`].
pub fn comparison(
    sides: Pair<Repeats>,
    settings: Settings<'_>,
) -> Result<Comparison, ComparisonError> {
    for (repeats, side) in [(&sides.before, "before"), (&sides.after, "after")] {
        repeats.check(side, settings.allowed)?;
    }
    let sides = Pair {
        before: sides.before.side,
        after: sides.after.side,
    };
    let comparison = compare::compare(sides, settings.least);
    let names = Pair {
        before: "before".to_owned(),
        after: "after".to_owned(),
    };
    refuse(&comparison.conditions, settings.allowed, &names)?;
    Ok(comparison)
}

/// The report of load tests before and after a change.
///
/// # Errors
/// They are of another model or GPU that is not allowed, or no load was tested on both sides.
pub fn compare_load_tests(
    tests: &Pair<LoadTests>,
    settings: Settings<'_>,
) -> Result<Report, load_tests::Incomparable> {
    let bundles = Pair::of(tests, |tests| &tests.bundle);
    let runs = Pair::of(tests, |tests| tests.input.runs.clone());
    let names = Pair::of(&bundles, |bundle| bundle.name.clone());
    let is_allowed = |word: &str| {
        settings
            .allowed
            .iter()
            .any(|subject| subject.label() == word)
    };
    let comparison = load_tests::compare(names, &runs, is_allowed, settings.least)?;
    Ok(of_bundles(&bundles, "load test", |provenance| {
        compare::report_of_load_tests(&comparison, Catalogue::of(settings.lang), provenance)
    }))
}

/// The report of microbenchmarks before and after a change.
///
/// # Errors
/// They are of other GPUs, which is not allowed, or no operation is in both.
pub fn compare_microbenchmarks(
    benchmarks: &Pair<Microbenchmarks>,
    settings: Settings<'_>,
) -> Result<Report, microbenchmarks::Incomparable> {
    let bundles = Pair::of(benchmarks, |benchmarks| &benchmarks.bundle);
    let devices = Pair::of(benchmarks, |benchmarks| benchmarks.devices.clone());
    let names = Pair::of(&bundles, |bundle| bundle.name.clone());
    let is_gpu_allowed = settings.allowed.contains(&Subject::Gpu);
    let comparison = microbenchmarks::compare(names, &devices, is_gpu_allowed, settings.least)?;
    Ok(of_bundles(&bundles, "microbenchmark", |provenance| {
        compare::report_of_microbenchmarks(&comparison, Catalogue::of(settings.lang), provenance)
    }))
}

/// The report of figures before and after a change: a side is a `metrics.json`, or a stored record.
///
/// # Errors
/// A file cannot be read.
pub fn compare_figures(
    paths: &Pair<&[PathBuf]>,
    records: Pair<&Record>,
    settings: Settings<'_>,
) -> Result<Report, BundleError> {
    let open = |paths| bundle::open(paths, &mut Diagnostics::default());
    let bundles = Pair {
        before: &open(paths.before)?,
        after: &open(paths.after)?,
    };
    let comparison = compare::figures::compare(records, settings.least);
    Ok(of_bundles(&bundles, "figures", |provenance| {
        compare::report_of_figures(&comparison, Catalogue::of(settings.lang), provenance)
    }))
}

/// The report of a study: `path` is its ledger, and the records are those of the runs of its experiments.
///
/// # Errors
/// The file of the ledger cannot be read.
pub fn experiments(
    path: &Path,
    ledger: &Ledger,
    records: &[Option<Record>],
    settings: Settings<'_>,
) -> Result<Report, BundleError> {
    let bundle = bundle::open(&[path.to_owned()], &mut Diagnostics::default())?;
    let study = compare::experiments::study(ledger, records, settings.least);
    let provenance = Provenance {
        bundle: &ledger.name,
        bundle_id: &bundle.id,
        artifacts: artifacts(&bundle, "ledger"),
        ..Provenance::default()
    };
    let text = Catalogue::of(settings.lang);
    Ok(compare::report_of_experiments(&study, text, provenance))
}

/// A report on the files of two bundles.
fn of_bundles(
    bundles: &Pair<&Bundle>,
    unknown: &str,
    report: impl FnOnce(Provenance<'_>) -> Report,
) -> Report {
    let mut files = Vec::new();
    for (side, bundle) in [("before", bundles.before), ("after", bundles.after)] {
        for [path, kind, pass, hash] in artifacts(bundle, unknown) {
            files.push([format!("{side}/{path}"), kind, pass, hash]);
        }
    }
    report(Provenance {
        bundle: &format!("{} → {}", bundles.before.name, bundles.after.name),
        bundle_id: &format!("{} {}", bundles.before.id, bundles.after.id),
        artifacts: files,
        ..Provenance::default()
    })
}

/// The name of the captures of a side.
pub fn name(captures: &[Capture]) -> String {
    let names: Vec<&str> = captures
        .iter()
        .map(|capture| capture.bundle.name.as_str())
        .collect();
    names.join(" + ")
}

/// Refuses a condition that makes times mean different things, unless it is allowed.
fn refuse(
    conditions: &[Condition],
    allowed: &[Subject],
    names: &Pair<String>,
) -> Result<(), ComparisonError> {
    let is_refused = |subject: Subject| subject.prevents() && !allowed.contains(&subject);
    let refused = conditions
        .iter()
        .find(|condition| is_refused(condition.subject));
    let Some(condition) = refused else {
        return Ok(());
    };
    let Pair { before, after } = condition.values.clone();
    Err(ComparisonError::Conditions {
        subject: condition.subject,
        before,
        after,
        names: names.clone(),
    })
}
