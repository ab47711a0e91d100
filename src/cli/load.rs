//! From paths to a session, its findings and the report: what all commands share.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rooflens_schemas::ranges::given_name;
use rooflens_schemas::{ArtifactKind, Manifest, Metric, StageRule, manifest, workload};
use rooflens_units::{Bytes, BytesPerSecond, Hertz};
use tempfile::TempDir;

use super::args::{Classifier, Input};
use super::error::CliError;
use super::gpus;
use super::nsys;
use super::parquetdir;
use super::serve;
use super::spool::Spooled;
use super::term::Term;
use super::unrelated;
use crate::analysis::{self, Context, Facts, Options};
use crate::bundle::{self, ArtifactFile, Bundle};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::{self, Catalogue, Lang};
use crate::hardware::{Device, Hardware};
use crate::ingest;
use crate::report::{self, Notes, Provenance, Report};
use crate::rules;
use crate::sections;
use crate::session::pattern::whole_match;
use crate::session::{Session, StrId};

/// What to offer instead of an input that is of no use.
const READABLE: &str = "a report is made of nsys exports (SQLite, Parquet, JSON Lines), nsys stats, ncu CSV, PyTorch and \
                        XLA traces, rocpd databases, NVML CSV, timings.json or peaks.json";

/// A bundle that was read.
pub(super) struct Loaded {
    pub(super) bundle: Bundle,
    pub(super) session: Session,
    pub(super) diagnostics: Diagnostics,
    /// Inputs that came through pipes, which the bundle reads from here.
    _spooled: Spooled,
    /// Where SQLite was made of reports and Parquet exports of nsys; removed with the bundle.
    _exported: [Option<TempDir>; 2],
}

/// Opens, identifies and reads.
pub(super) fn load(input: &Input, term: &mut Term) -> Result<Loaded, CliError> {
    let mut diagnostics = Diagnostics::default();
    let rules = stage_rules(&input.stages)?;
    check_gpu(input.gpu.as_deref())?;
    term.step(format!("opening {}", shown(&input.paths)));
    let spooled = Spooled::new(&input.paths)?;
    let mut bundle = bundle::open(&spooled.paths, &mut diagnostics)?;
    if !input.merge {
        refuse_several(&bundle)?;
    }
    ingest::identify(&mut bundle, &mut diagnostics);
    let exported = [
        nsys::export(&mut bundle, &mut diagnostics, term)?,
        parquetdir::export(&mut bundle, &mut diagnostics, term)?,
    ];
    replace(
        &mut bundle,
        input.model.as_deref(),
        ArtifactKind::ModelConfig,
    )?;
    replace(
        &mut bundle,
        input.workload.as_deref(),
        ArtifactKind::Workload,
    )?;
    replace(&mut bundle, input.notes.as_deref(), ArtifactKind::Notes)?;
    let mut session = ingest::import(&bundle, &mut diagnostics, &mut |file| {
        term.step(format!("reading {}", file.path))
    });
    refuse_unread(&bundle, &diagnostics)?;
    if !input.merge {
        unrelated::refuse(&bundle, &session, &spooled.paths)?;
    }
    if !rules.is_empty() {
        session.workload.stages = rules;
    }
    if !input.stages.is_empty() || input.workload.is_some() {
        refuse_unmatched(&session, !input.stages.is_empty())?;
    }
    Ok(Loaded {
        bundle,
        session,
        diagnostics,
        _spooled: spooled,
        _exported: exported,
    })
}

/// The inputs in a line.
fn shown(paths: &[PathBuf]) -> String {
    match paths {
        [path] => path.display().to_string(),
        paths => format!("{} inputs", paths.len()),
    }
}

fn check_gpu(name: Option<&str>) -> Result<(), CliError> {
    name.map_or(Ok(()), |name| {
        gpus::named(&Hardware::builtin(), name).map(drop)
    })
}

/// Folders side by side that each have a manifest or a workload are runs of their own: one report of them would mix
/// their figures.
fn refuse_several(bundle: &Bundle) -> Result<(), CliError> {
    let run = |file: &ArtifactFile| {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let read = || std::fs::read(&file.location).ok();
        let is_run = name == workload::FILE_NAME
            || name == manifest::FILE_NAME
                && read().is_some_and(|bytes| Manifest::from_json(&bytes).is_ok());
        is_run.then(|| folder.to_owned())
    };
    let runs: BTreeSet<String> = bundle.files.iter().filter_map(run).collect();
    if bundle.manifest.is_some() || runs.len() < 2 {
        return Ok(());
    }
    let (count, names) = (runs.len(), runs.into_iter().collect::<Vec<_>>().join(", "));
    Err(CliError::Usage(format!(
        "{count} bundles are given, which are runs of their own: {names}; report one at a time, or --merge parts of one run"
    )))
}

/// Refuses a file of the command line that says nothing of what it was given for.
fn refuse_unread(bundle: &Bundle, diagnostics: &Diagnostics) -> Result<(), CliError> {
    for file in bundle
        .files
        .iter()
        .filter(|file| file.pass == bundle::COMMAND_LINE)
    {
        let unread = diagnostics.iter().find(|one| {
            one.artifact.as_ref() == Some(&file.path)
                && (one.severity >= Severity::DataLoss || one.code == ingest::config::UNSUPPORTED)
        });
        if let Some(one) = unread {
            let message = format!("{}{}: {}", file.location.display(), one.at, one.message);
            return Err(CliError::Unusable {
                message,
                hint: one.hint.clone(),
            });
        }
    }
    Ok(())
}

/// Refuses stages that the input does not have, where `each` is asked for; else if it has none of them: a misspelt
/// pattern would leave the report without them.
fn refuse_unmatched(session: &Session, each: bool) -> Result<(), CliError> {
    let names: BTreeSet<StrId> = session.ranges.name.iter().copied().collect();
    let mut unmatched = Vec::new();
    let stages = &session.workload.stages;
    for (stage, pattern) in stages
        .iter()
        .filter_map(|stage| Some((stage, stage.pattern.as_ref()?)))
    {
        let Ok(pattern) = whole_match(pattern) else {
            continue;
        };
        if !names
            .iter()
            .any(|name| pattern.is_match(given_name(session.text(*name))))
        {
            unmatched.push(stage.name.as_str());
        }
    }
    let is_fault = if each {
        !unmatched.is_empty()
    } else {
        unmatched.len() == stages.len()
    };
    if !is_fault || stages.is_empty() || names.is_empty() && !each {
        return Ok(());
    }
    let message = format!(
        "no range of the input matches stage {}",
        unmatched.join(", ")
    );
    let hint = "rooflens inspect lists the stages that are found by their names".to_owned();
    Err(CliError::Unusable {
        message,
        hint: Some(hint),
    })
}

/// Fails where some of what was said is an error; what could be done is done by then.
pub(super) fn errors<'a>(
    diagnostics: impl Iterator<Item = &'a Diagnostic>,
) -> Result<(), CliError> {
    match diagnostics
        .filter(|one| one.severity == Severity::Error)
        .count()
    {
        0 => Ok(()),
        count => Err(CliError::Errors(count)),
    }
}

/// Analyzes and arranges, in a language, with or without data that no page shows. Prints what the input lacks.
///
/// # Errors
/// When nothing of the input can be reported, or something was lost and `--strict` is on.
pub(super) fn report(
    loaded: &Loaded,
    input: &Input,
    (lang, data): (Lang, bool),
    term: &mut Term,
) -> Result<Report, CliError> {
    let Loaded {
        bundle,
        session,
        diagnostics,
        ..
    } = loaded;
    if nothing_to_report(session) {
        return Err(useless(loaded, term));
    }
    term.step(format!("analyzing {}", bundle.name));
    let (facts, hardware) = (Facts::new(session), known_gpus(session));
    let options = options(input);
    let context = Context::new(session, &facts, &hardware, &options);
    let results = analysis::Results::compute(&context);
    let context = context.with(&results);
    let text = Catalogue::of(lang);
    let judged = session.is_measured().then(|| rules::run(&context, text));
    let context = sections::Context::new(context, text).with_data(data);
    let conclusions = judged.unwrap_or_else(|| {
        (
            sections::first_page(&context),
            document::SectionContent::default(),
        )
    });
    let sections = sections::run(&context);
    let provenance = provenance(loaded, &context);
    let mut report = report::build(text, &provenance, conclusions, sections, diagnostics);
    if lang != Lang::default() {
        report.metrics = metrics(&context);
    }
    for diagnostic in &report.data_quality {
        term.diagnostic(diagnostic);
    }
    strict(input, report.data_quality.iter())?;
    Ok(report)
}

/// The table of GPUs, with those that the capture describes and the table lacks.
fn known_gpus(session: &Session) -> Hardware {
    let (mut hardware, gpus) = (Hardware::builtin(), &session.gpus);
    for row in 0..gpus.len() {
        let device = || {
            Some(Device {
                name: session.text(gpus.name[row]),
                capability: gpus.compute_capability[row]?,
                sm_count: gpus.sm_count[row]?,
                clock: Hertz(gpus.clock_hz[row]? as f64),
                memory_bandwidth: BytesPerSecond(gpus.memory_bandwidth[row]? as f64),
                memory: Bytes(gpus.memory_bytes[row]? as f64),
            })
        };
        if let Some(device) = device() {
            hardware.describe(&device);
        }
    }
    hardware
}

/// The metrics, which are data: what they say of themselves is English in reports of any language.
fn metrics(context: &sections::Context<'_>) -> Vec<Metric> {
    let english = sections::Context::new(**context, Catalogue::english());
    sections::run(&english)
        .into_iter()
        .flat_map(|(_, _, findings)| findings.metrics)
        .collect()
}

/// Whether the input holds rows of something; if not, prints what it lacks.
///
/// # Errors
/// When it holds none.
pub(super) fn check(loaded: &Loaded, term: &mut Term) -> Result<(), CliError> {
    if has_rows(&loaded.session) {
        Ok(())
    } else {
        Err(useless(loaded, term))
    }
}

/// Prints what an input lacks that is of no use, and gives the reason.
fn useless(loaded: &Loaded, term: &mut Term) -> CliError {
    let Loaded {
        bundle,
        diagnostics,
        ..
    } = loaded;
    let told = gravest(diagnostics);
    for diagnostic in diagnostics.iter().filter(|one| Some(*one) != told) {
        term.diagnostic(diagnostic);
    }
    unusable(bundle, diagnostics)
}

/// Fails if data was lost and `--strict` is on.
pub(super) fn strict<'a>(
    input: &Input,
    diagnostics: impl Iterator<Item = &'a Diagnostic>,
) -> Result<(), CliError> {
    let lost = diagnostics
        .filter(|one| one.severity >= Severity::DataLoss)
        .count();
    if input.strict && lost > 0 {
        return Err(CliError::Strict(format!("{lost} part(s)")));
    }
    Ok(())
}

fn options(input: &Input) -> Options {
    let classifier = match input.classifier {
        Classifier::Rooflens => analysis::Classifier::Rooflens,
        Classifier::Seed => analysis::Classifier::Seed,
    };
    // The name was looked up before the bundle was read.
    let named = |name| Some(gpus::named(&Hardware::builtin(), name).ok()?.name.clone());
    let gpu = input.gpu.as_deref().and_then(named);
    Options { gpu, classifier }
}

/// Where a bundle's data came from, for the cover.
pub(super) fn provenance<'a>(
    loaded: &'a Loaded,
    context: &sections::Context<'_>,
) -> Provenance<'a> {
    let Loaded {
        bundle, session, ..
    } = loaded;
    let cover = sections::headline::cover(context);
    Provenance {
        bundle: &bundle.name,
        bundle_id: &bundle.id,
        manifest: bundle.manifest.as_ref(),
        artifacts: artifacts(bundle, ArtifactKind::Other.label()),
        title: cover.title,
        facts: cover.facts,
        notes: session
            .notes
            .as_ref()
            .map(|(artifact, text)| Notes { artifact, text }),
        ..Provenance::default()
    }
}

/// Path, kind, pass and SHA-256 of the files of a bundle; those of no known kind are `unknown`.
pub(super) fn artifacts(bundle: &Bundle, unknown: &str) -> Vec<[String; 4]> {
    let row = |file: &ArtifactFile| {
        let kind = file.kind.map_or(unknown, |kind| kind.label()).to_owned();
        [
            file.path.clone(),
            kind,
            file.pass.clone(),
            file.sha256.clone().unwrap_or_default(),
        ]
    };
    bundle.files.iter().map(row).collect()
}

/// A session from which not one section could say anything.
pub(super) fn nothing_to_report(session: &Session) -> bool {
    !has_rows(session) && session.model.is_none()
}

/// Whether the tables hold more than the environment.
fn has_rows(session: &Session) -> bool {
    let others = [
        session.gpu_snapshots.len(),
        session.process_samples.len(),
        session.gemm_calls.len(),
    ];
    session.is_measured() || session.has_host_work() || others.iter().any(|rows| *rows > 0)
}

/// The first of the gravest remarks, which is the reason where nothing can be used.
pub(super) fn gravest(diagnostics: &Diagnostics) -> Option<&Diagnostic> {
    let all = diagnostics
        .iter()
        .filter(|one| one.severity >= Severity::Notice);
    all.min_by_key(|one| std::cmp::Reverse(one.severity))
}

/// Why nothing of the input could be used: the gravest remark on it, or what it holds instead.
pub(super) fn unusable(bundle: &Bundle, diagnostics: &Diagnostics) -> CliError {
    if let Some((path, format)) = serve::find(bundle) {
        let message = format!("{path} is a load test ({format}), not a capture");
        return CliError::Unusable {
            message,
            hint: Some("rooflens serve-report FILE… makes a report of it".to_owned()),
        };
    }
    let gravest = gravest(diagnostics);
    let kinds: BTreeSet<&str> = bundle
        .files
        .iter()
        .filter_map(|file| file.kind)
        .map(ArtifactKind::label)
        .collect();
    let name = match &bundle.files[..] {
        [file] => &file.path,
        _ => &bundle.name,
    };
    let message = match gravest {
        Some(reason) => format!("nothing to report from {name}: {}", reason.message),
        None if kinds.is_empty() => format!("nothing in {name} is of a known format"),
        None => format!(
            "{name} holds context but no measurement: {}",
            kinds.into_iter().collect::<Vec<_>>().join(", ")
        ),
    };
    let hint = gravest
        .and_then(|reason| reason.hint.clone())
        .unwrap_or_else(|| READABLE.to_owned());
    CliError::Unusable {
        message,
        hint: Some(hint),
    }
}

/// A file given on the command line takes the place of the bundle's own.
fn replace(bundle: &mut Bundle, path: Option<&Path>, kind: ArtifactKind) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    if !path.is_file() {
        return Err(CliError::Usage(format!("{} is not a file", path.display())));
    }
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    bundle.files.retain(|file| file.kind != Some(kind));
    bundle.files.push(ArtifactFile {
        path: name,
        location: path.to_owned(),
        kind: Some(kind),
        pass: bundle::COMMAND_LINE.to_owned(),
        ..ArtifactFile::default()
    });
    Ok(())
}

fn stage_rules(stages: &[String]) -> Result<Vec<StageRule>, CliError> {
    let rule = |text: &String| {
        let (name, pattern) = text
            .split_once('=')
            .ok_or_else(|| CliError::Usage(format!("--stage {text}: expected NAME=REGEX")))?;
        if name.trim().is_empty() {
            return Err(CliError::Usage(format!(
                "--stage {text}: the stage has no name"
            )));
        }
        whole_match(pattern)
            .map_err(|error| CliError::Usage(format!("--stage {name}: {error}")))?;
        Ok(StageRule {
            name: name.to_owned(),
            pattern: Some(pattern.to_owned()),
            kind: None,
        })
    };
    stages.iter().map(rule).collect()
}
