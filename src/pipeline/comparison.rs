//! Comparison of captures before and after a change.

use std::path::{Path, PathBuf};

use super::analyze::{Analysis, AnalyzeError, artifacts};
use super::load_tests::LoadTests;
use super::microbenchmarks::Microbenchmarks;
use super::open::Capture;
use crate::analysis::Options;
use crate::bundle::{self, Bundle, BundleError};
use crate::compare::conditions::{Condition, Subject};
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

/// The report of what differs between captures before and after a change: one at least, or repeats, on each side.
///
/// # Errors
/// A capture has nothing to analyze, or a condition differs that makes times mean different things and is not allowed.
pub fn compare(
    captures: Pair<&[Capture]>,
    settings: Settings<'_>,
) -> Result<Report, ComparisonError> {
    let text = Catalogue::of(settings.lang);
    with_comparison(captures, settings, |comparison| {
        let Pair { before, after } = Pair::of(&captures, |captures| name(captures));
        let title = format!("{before} → {after}");
        let mut ids = Vec::new();
        let mut artifacts = Vec::new();
        for (side, captures) in [("before", captures.before), ("after", captures.after)] {
            for (number, capture) in captures.iter().enumerate() {
                ids.push(capture.bundle.id.as_str());
                let folder = match captures.len() {
                    1 => side.to_owned(),
                    _ => format!("{side}-{}", number + 1),
                };
                for [path, kind, pass, hash] in capture.artifacts() {
                    artifacts.push([format!("{folder}/{path}"), kind, pass, hash]);
                }
            }
        }
        let provenance = Provenance {
            bundle: &title,
            bundle_id: &ids.join(" "),
            artifacts,
            ..Provenance::default()
        };
        compare::report(comparison, text, provenance)
    })
}

/// The figures of captures of one condition, which a gate compares.
///
/// # Errors
/// A capture has nothing to analyze, or the captures are not repeats of one run.
pub fn record(captures: &[Capture]) -> Result<Record, ComparisonError> {
    let analyses = analyses(captures, &Options::default())?;
    check_repeats(&analyses, "repeats", &[])?;
    let findings = vec![Vec::new(); analyses.len()];
    let metrics: Vec<Vec<Metric>> = analyses
        .iter()
        .map(|analysis| analysis.metrics().cloned().collect())
        .collect();
    let bundles = captures.iter().map(|capture| capture.bundle.id.clone());
    let side = side(captures, &analyses, &findings);
    Ok(Record::new(&side, bundles.collect(), &metrics))
}

/// Gives the comparison to a function.
///
/// # Errors
/// Those of [`compare`].
pub fn with_comparison<T>(
    captures: Pair<&[Capture]>,
    settings: Settings<'_>,
    show: impl FnOnce(&Comparison<'_>) -> T,
) -> Result<T, ComparisonError> {
    let options = Options::default();
    let analyses = Pair {
        before: analyses(captures.before, &options)?,
        after: analyses(captures.after, &options)?,
    };
    let text = Catalogue::of(settings.lang);
    let findings = Pair::of(&analyses, |analyses| {
        let of_captures = analyses.iter().map(|analysis| findings(analysis, text));
        of_captures.collect::<Vec<_>>()
    });
    for (analyses, side) in [(&analyses.before, "before"), (&analyses.after, "after")] {
        check_repeats(analyses, side, settings.allowed)?;
    }
    let sides = Pair {
        before: side(captures.before, &analyses.before, &findings.before),
        after: side(captures.after, &analyses.after, &findings.after),
    };
    let comparison = compare::compare(sides, settings.least);
    let names = Pair {
        before: "before".to_owned(),
        after: "after".to_owned(),
    };
    refuse(&comparison.conditions, settings.allowed, &names)?;
    Ok(show(&comparison))
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

fn analyses<'a>(
    captures: &'a [Capture],
    options: &Options,
) -> Result<Vec<Analysis<'a>>, AnalyzeError> {
    captures
        .iter()
        .map(|capture| capture.analyze(options))
        .collect()
}

fn side<'a>(
    captures: &[Capture],
    analyses: &'a [Analysis<'_>],
    findings: &'a [Vec<Finding>],
) -> Side<'a> {
    let of_captures = analyses.iter().zip(findings);
    Side {
        name: name(captures),
        captures: of_captures
            .map(|(analysis, findings)| Analyzed {
                context: analysis.context(),
                findings,
            })
            .collect(),
    }
}

/// Repeats of one side are of the same work on the same machine as the first of them.
fn check_repeats(
    analyses: &[Analysis<'_>],
    side: &str,
    allowed: &[Subject],
) -> Result<(), ComparisonError> {
    let Some((first, repeats)) = analyses.split_first() else {
        return Ok(());
    };
    let alone = |analysis: &'_ Analysis<'_>| analysis.capture().bundle.name.clone();
    for repeat in repeats {
        let pair = Pair {
            before: first,
            after: repeat,
        };
        let names = Pair::of(&pair, |analysis| format!("in {} ({side})", alone(analysis)));
        let sides = Pair::of(&pair, |analysis| Side {
            name: alone(analysis),
            captures: vec![Analyzed {
                context: analysis.context(),
                findings: &[],
            }],
        });
        refuse(&compare::conditions::conditions(&sides), allowed, &names)?;
    }
    Ok(())
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

/// What the rules found, in the words of the report.
fn findings(analysis: &Analysis<'_>, text: &'static Catalogue) -> Vec<Finding> {
    let context = sections::Context::new(analysis.context(), text);
    analysis.judge(&context).findings.findings
}
