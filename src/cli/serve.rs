//! `rooflens serve-report`: load tests into a report.

use std::path::{Path, PathBuf};

use rooflens_schemas::ArtifactKind;

use super::args::{Color, ServeReport as Args};
use super::error::CliError;
use super::load::{artifacts, errors, gravest};
use super::output::{Writer, file_stem};
use super::parquet;
use super::term::Term;
use crate::bundle::{self, ArtifactFile, Bundle, Content};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Catalogue;
use crate::ingest;
use crate::report::{Notes, Provenance};
use crate::serving::analysis::goodput::Slo;
use crate::serving::analysis::predicted::Predicted;
use crate::serving::analysis::thresholds::Thresholds;
use crate::serving::analysis::{Options, Results};
use crate::serving::import::{File, Input, read};
use crate::serving::model::GpuSample;
use crate::serving::{self};
use crate::session::Session;

/// Largest result file: raw samples of ten million requests.
const MAX_BYTES: u64 = 4 << 30;

/// What may lie beside results and says something of them.
const CONTEXT: [ArtifactKind; 6] = [
    ArtifactKind::NvmlCsv,
    ArtifactKind::Notes,
    ArtifactKind::Environment,
    ArtifactKind::SmiXml,
    ArtifactKind::ModelConfig,
    ArtifactKind::Workload,
];

/// Bytes by which a result is recognized among the files of other commands.
const SMALL: u64 = 256 << 20;

/// Writes the report of load tests.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let files = args
        .results
        .iter()
        .chain(&args.thresholds)
        .chain(&args.predicted);
    let files = files.chain(&args.gpu_metrics).chain(&args.notes);
    let mut writer = Writer::new(&args.output, files)?;
    let options = options(args)?;
    let mut diagnostics = Diagnostics::default();
    term.step("opening");
    let mut bundle = bundle::open(&args.results, &mut diagnostics)?;
    identify(&mut bundle, &mut diagnostics);
    refuse(&mut bundle, &mut diagnostics);
    in_order(&mut bundle, &args.results);
    let mut input = results(&bundle, &mut diagnostics, term);
    label(&mut input, args)?;
    input
        .gpu
        .extend(gpu_metrics(args, &bundle, &mut diagnostics)?);
    serving::check(&mut input, &mut diagnostics);
    let text = Catalogue::of(writer.language());
    let Some(results) = Results::compute(&input, &options) else {
        let told = gravest(&diagnostics);
        let others = diagnostics.iter().filter(|one| Some(*one) != told);
        others.for_each(|one| term.diagnostic(one));
        let why = told.map_or_else(String::new, |one| format!(": {}", one.message));
        let hint = told.and_then(|one| one.hint.clone());
        return Err(CliError::Unusable {
            message: format!("no load test in {}{why}", bundle.name),
            hint: hint
                .or_else(|| Some("docs/serving.md lists the results that are read".to_owned())),
        });
    };
    diagnostics.iter().for_each(|one| term.diagnostic(one));
    let notes = notes(args.notes.as_deref(), &bundle)?;
    let provenance = provenance(&bundle, notes.as_ref());
    let report = serving::report(&results, text, provenance, &diagnostics);
    let folder = format!("{}-report", file_stem(&bundle.name));
    writer.protect(&bundle);
    writer.write(&report, &folder, &|| parquet::of_report(&report), term)?;
    errors(diagnostics.iter())
}

/// What the user states beside the results.
fn options(args: &Args) -> Result<Options, CliError> {
    let usage =
        |path: &Path, error: String| CliError::Usage(format!("{}: {error}", path.display()));
    let bytes = |path: &Path| std::fs::read(path).map_err(|error| usage(path, error.to_string()));
    let slo = args.slo.as_deref().map(Slo::parse).transpose();
    let thresholds = args.thresholds.as_deref().map(|path| {
        let text = String::from_utf8_lossy(&bytes(path)?).into_owned();
        Thresholds::parse(&text).map_err(|error| usage(path, error))
    });
    let predicted = args
        .predicted
        .as_deref()
        .map(|path| Predicted::parse(&bytes(path)?).map_err(|error| usage(path, error)));
    if matches!(&slo, Ok(Some(limits)) if limits.is_empty()) {
        return Err(CliError::Usage(
            "--slo states no limit: expected ttft=200ms,tpot=50ms,e2e=5s".to_owned(),
        ));
    }
    Ok(Options {
        slo: slo
            .map_err(|error| CliError::Usage(format!("--slo {error}")))?
            .unwrap_or_default(),
        thresholds: thresholds.transpose()?.unwrap_or_default(),
        predicted: predicted.transpose()?,
    })
}

/// Says what files are. Text of DCGM's exporter is read with the results here, which know when each scrape was made.
fn identify(bundle: &mut Bundle, diagnostics: &mut Diagnostics) {
    ingest::identify(bundle, diagnostics);
    for file in bundle
        .files
        .iter_mut()
        .filter(|file| file.kind == Some(ArtifactKind::NvmlCsv))
    {
        if ingest::nvml::is_dcgm(file) {
            file.kind = None;
        }
    }
}

/// Whether a file may hold a load test: it is of no kind that `report` reads.
fn may_be_result(file: &ArtifactFile) -> bool {
    matches!(
        file.kind,
        None | Some(ArtifactKind::Other | ArtifactKind::Serving | ArtifactKind::ServerMetrics)
    )
}

/// Takes files away that are captures: they are refused by name.
fn refuse(bundle: &mut Bundle, diagnostics: &mut Diagnostics) {
    bundle.files.retain(|file| {
        let context = matches!(file.kind, Some(kind) if CONTEXT.contains(&kind));
        let kind = file.kind.filter(|_| !may_be_result(file) && !context);
        if let Some(kind) = kind {
            let message = format!("a {}, not a load test", kind.label());
            let refused = Diagnostic::new(Severity::Error, "serving/refused", message);
            diagnostics.push(
                refused
                    .artifact(&file.path)
                    .hint("rooflens report makes a report of it"),
            );
        }
        kind.is_none()
    });
}

/// Puts files in the order of the arguments, for the first one is what others are compared with.
fn in_order(bundle: &mut Bundle, given: &[PathBuf]) {
    let place = |file: &ArtifactFile| {
        given
            .iter()
            .position(|path| file.location.starts_with(path))
    };
    bundle
        .files
        .sort_by_key(|file| place(file).unwrap_or(given.len()));
}

/// Reads the results.
fn results(bundle: &Bundle, diagnostics: &mut Diagnostics, term: &Term) -> Input {
    let mut contents: Vec<(&str, Vec<u8>)> = Vec::new();
    for file in bundle.files.iter().filter(|file| may_be_result(file)) {
        term.step(format!("reading {}", file.path));
        match Content::open(&file.location).and_then(|content| content.bytes(MAX_BYTES)) {
            Ok(bytes) => contents.push((&file.path, bytes)),
            Err(error) => {
                let unread =
                    Diagnostic::new(Severity::Error, "serving/unreadable", error.to_string());
                diagnostics.push(unread.artifact(&file.path));
            }
        }
    }
    let files: Vec<File<'_>> = contents
        .iter()
        .map(|(path, bytes)| File { path, bytes })
        .collect();
    read(&files, diagnostics)
}

/// The names that the user gave, in the order of the files.
fn label(input: &mut Input, args: &Args) -> Result<(), CliError> {
    if args.labels.is_empty() {
        return Ok(());
    }
    let mut files: Vec<String> = input.runs.iter().map(|run| run.artifact.clone()).collect();
    files.dedup();
    if files.len() != args.labels.len() {
        let (labels, files) = (args.labels.len(), files.len());
        return Err(CliError::Usage(format!(
            "--label is given {labels} times for {files} result files"
        )));
    }
    for run in &mut input.runs {
        let file = files.iter().position(|file| *file == run.artifact);
        if let Some(label) = file.and_then(|file| args.labels.get(file)) {
            run.label.clone_from(label);
        }
    }
    Ok(())
}

/// Samples of GPUs: those of `--gpu-metrics`, and those among the results.
fn gpu_metrics(
    args: &Args,
    bundle: &Bundle,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<GpuSample>, CliError> {
    let mut all = samples(&ingest::import(bundle, diagnostics, &mut |_| {}));
    if !args.gpu_metrics.is_empty() {
        let mut given = bundle::open(&args.gpu_metrics, diagnostics)?;
        identify(&mut given, diagnostics);
        refuse(&mut given, diagnostics);
        let before = all.len();
        all.extend(samples(&ingest::import(&given, diagnostics, &mut |_| {})));
        all.extend(results(&given, diagnostics, &Term::new(true, Color::Never)).gpu);
        if all.len() == before {
            let names: Vec<_> = args
                .gpu_metrics
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let message = format!("no sample of a GPU in {}", names.join(", "));
            let hint = "--gpu-metrics takes NVML CSV, or text of DCGM's exporter".to_owned();
            return Err(CliError::Unusable {
                message,
                hint: Some(hint),
            });
        }
    }
    Ok(all)
}

fn samples(session: &Session) -> Vec<GpuSample> {
    let all = &session.device_samples;
    let sample = |row: usize| GpuSample {
        utc: Some(all.utc[row]),
        gpu: all.device[row],
        utilization: all.gpu_util[row].map(|percent| f64::from(percent) / 100.0),
        power: all.power_mw[row].map(|power| power as f64 / 1000.0),
        memory_used: all.memory_used[row].map(|bytes| bytes as f64),
    };
    (0..all.len()).map(sample).collect()
}

/// The analyst's notes: those of the command line, else those beside the results. Path and text.
pub(super) fn notes(
    given: Option<&Path>,
    bundle: &Bundle,
) -> Result<Option<(String, String)>, CliError> {
    let beside = bundle
        .files
        .iter()
        .find(|file| file.kind == Some(ArtifactKind::Notes));
    let path = given.or(beside.map(|file| file.location.as_path()));
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?;
    Ok(Some((path.display().to_string(), text)))
}

fn provenance<'a>(bundle: &'a Bundle, notes: Option<&'a (String, String)>) -> Provenance<'a> {
    Provenance {
        bundle: &bundle.name,
        bundle_id: &bundle.id,
        manifest: bundle.manifest.as_ref(),
        artifacts: artifacts(bundle, "load test"),
        notes: notes.map(|(artifact, text)| Notes { artifact, text }),
        ..Provenance::default()
    }
}

/// The first load test among files that `report` cannot read: its path and format.
pub(super) fn find(bundle: &Bundle) -> Option<(&str, &'static str)> {
    bundle
        .files
        .iter()
        .filter(|file| may_be_result(file))
        .find_map(|file| {
            let bytes = Content::open(&file.location).ok()?.bytes(SMALL).ok()?;
            Some((file.path.as_str(), serving::import::format_of(&bytes)?))
        })
}
