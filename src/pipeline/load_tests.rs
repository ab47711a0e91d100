//! Load tests of serving engines and their report.

use std::path::PathBuf;

use rooflens_schemas::{ArtifactKind, manifest};

use super::analyze::artifacts;
use crate::bundle::{self, ArtifactFile, Bundle, BundleError};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Catalogue;
use crate::ingest;
use crate::report::{Notes, Provenance, Report};
use crate::serving;
use crate::serving::analysis::Results;
use crate::serving::import::{File, Input, Reader};
use crate::serving::runs::GpuSample;
use crate::session::Session;
use rooflens_units::{Bytes, Ratio, Time, Watts};

/// Largest result in bytes: raw samples of ten million requests.
const MAX_BYTES: u64 = 4 << 30;

/// Kinds of files next to results that describe the test.
const CONTEXT: [ArtifactKind; 6] = [
    ArtifactKind::NvmlCsv,
    ArtifactKind::Notes,
    ArtifactKind::Environment,
    ArtifactKind::SmiXml,
    ArtifactKind::ModelConfig,
    ArtifactKind::Workload,
];

/// Opened load tests.
pub struct LoadTests {
    /// Files of the input, in the order of the arguments.
    pub bundle: Bundle,
    /// Runs and samples of GPUs.
    pub input: Input,
    /// Remarks on what was read.
    pub diagnostics: Diagnostics,
}

/// Reason why files cannot be opened as load tests.
#[derive(Debug, thiserror::Error)]
pub enum LoadTestError {
    /// The paths are no bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Another number of labels than of results.
    #[error("{labels} labels are given for {results} result files")]
    Labels {
        /// Number of labels.
        labels: usize,
        /// Number of result files.
        results: usize,
    },
    /// Files for samples of GPUs have none.
    #[error("no sample of a GPU in {}", paths(.0))]
    NoGpuSample(Vec<PathBuf>),
}

fn paths(paths: &[PathBuf]) -> String {
    let mut names = Vec::new();
    for path in paths {
        names.push(path.display().to_string());
    }
    names.join(", ")
}

impl LoadTests {
    /// Reads results, and samples of GPUs from `gpu_metrics` and from files among the results. `labels` are names of
    /// the results in their order; none for those of the files. `unit` is that of times in tables that
    /// name none. `progress` is called with each path before it is read.
    ///
    /// # Errors
    /// The paths are no bundle, or labels or samples do not fit.
    pub fn open(
        results: &[PathBuf],
        gpu_metrics: &[PathBuf],
        labels: &[String],
        unit: Option<Time>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, LoadTestError> {
        let mut diagnostics = Diagnostics::default();
        let mut bundle = open_results(results, &mut diagnostics)?;
        sort_as_given(&mut bundle, results);
        let mut input = read(&bundle, unit, &mut diagnostics, progress);
        label(&mut input, labels)?;
        let session = ingest::import(&bundle, &mut diagnostics, &mut |_| ());
        input.gpu.extend(gpu_samples(&session));
        if !gpu_metrics.is_empty() {
            let samples = read_gpu_metrics(gpu_metrics, &mut diagnostics)?;
            if samples.is_empty() {
                return Err(LoadTestError::NoGpuSample(gpu_metrics.to_vec()));
            }
            input.gpu.extend(samples);
        }
        serving::check(&mut input, &mut diagnostics);
        Ok(Self {
            bundle,
            input,
            diagnostics,
        })
    }

    /// The report of results.
    pub fn report(
        &self,
        results: &Results<'_>,
        text: &'static Catalogue,
        notes: Option<Notes<'_>>,
    ) -> Report {
        let provenance = Provenance {
            bundle: &self.bundle.name,
            bundle_id: &self.bundle.id,
            manifest: self.bundle.manifest.as_ref(),
            artifacts: artifacts(&self.bundle, "load test"),
            notes,
            ..Provenance::default()
        };
        serving::report(results, text, provenance, &self.diagnostics)
    }
}

/// Opens files and refuses those of captures.
fn open_results(paths: &[PathBuf], diagnostics: &mut Diagnostics) -> Result<Bundle, BundleError> {
    let mut bundle = bundle::open(paths, diagnostics)?;
    ingest::identify(&mut bundle, diagnostics);
    for file in &mut bundle.files {
        // Text of DCGM's exporter is read with the results, which know when each scrape was made.
        if file.kind == Some(ArtifactKind::NvmlCsv) && ingest::nvml::is_dcgm(file) {
            file.kind = None;
        }
    }
    // Of several bundles each has a manifest, which describes its results.
    bundle.files.retain(|file| !is_manifest(file));
    bundle.files.retain(|file| match file.kind {
        Some(kind) if !may_be_result(file) && !CONTEXT.contains(&kind) => {
            let message = format!("a {}, not a load test", kind.label());
            let refused = Diagnostic::new(Severity::Error, "serving/refused", message);
            let hint = "rooflens report makes a report of it";
            diagnostics.push(refused.artifact(&file.path).hint(hint));
            false
        }
        _ => true,
    });
    Ok(bundle)
}

/// Whether a file is the manifest of a bundle.
fn is_manifest(file: &ArtifactFile) -> bool {
    let name = file.location.file_name();
    name.is_some_and(|name| name == manifest::FILE_NAME) && file.is_manifest()
}

/// Whether a file may hold a load test: it is of no kind that a report of a capture reads.
pub(super) fn may_be_result(file: &ArtifactFile) -> bool {
    matches!(
        file.kind,
        None | Some(ArtifactKind::Other | ArtifactKind::Serving | ArtifactKind::ServerMetrics)
    )
}

/// Puts files in the order of the arguments: the first one is what the others are compared with.
fn sort_as_given(bundle: &mut Bundle, given: &[PathBuf]) {
    bundle.files.sort_by_key(|file| {
        let number = given
            .iter()
            .position(|path| file.location.starts_with(path));
        number.unwrap_or(given.len())
    });
}

/// Reads results one after the other: only what they hold stays.
fn read(
    bundle: &Bundle,
    unit: Option<Time>,
    diagnostics: &mut Diagnostics,
    progress: &mut dyn FnMut(&str),
) -> Input {
    let mut reader = Reader::of(bundle.input_bytes).with_unit(unit);
    for file in &bundle.files {
        if !may_be_result(file) {
            continue;
        }
        progress(&file.path);
        let path = &file.path;
        let (mut of_file, is_output) = (Diagnostics::default(), is_output(bundle, path));
        match file.content().and_then(|content| content.bytes(MAX_BYTES)) {
            Ok(bytes) => reader.read(
                &File {
                    path,
                    bytes: &bytes,
                },
                &mut of_file,
            ),
            Err(error) => {
                let message = error.to_string();
                let unread = Diagnostic::new(Severity::Error, "serving/unreadable", message);
                diagnostics.push(unread.artifact(path));
            }
        }
        if !is_output {
            for found in of_file.iter() {
                diagnostics.push(found.clone());
            }
        }
        if reader.is_full() {
            break;
        }
    }
    reader.finish(diagnostics)
}

/// Whether a file is what the command of a pass printed: a result only if it is the log of an engine.
fn is_output(bundle: &Bundle, path: &str) -> bool {
    bundle.manifest.is_some() && path.starts_with("logs/")
}

/// Gives runs the names that were stated, in the order of their files.
fn label(input: &mut Input, labels: &[String]) -> Result<(), LoadTestError> {
    if labels.is_empty() {
        return Ok(());
    }
    let mut artifacts: Vec<String> = input.runs.iter().map(|run| run.artifact.clone()).collect();
    artifacts.dedup();
    if artifacts.len() != labels.len() {
        return Err(LoadTestError::Labels {
            labels: labels.len(),
            results: artifacts.len(),
        });
    }
    for run in &mut input.runs {
        let number = artifacts
            .iter()
            .position(|artifact| *artifact == run.artifact);
        if let Some(label) = number.and_then(|number| labels.get(number)) {
            run.label.clone_from(label);
        }
    }
    Ok(())
}

/// Samples of GPUs of files that were named for them.
fn read_gpu_metrics(
    paths: &[PathBuf],
    diagnostics: &mut Diagnostics,
) -> Result<Vec<GpuSample>, BundleError> {
    let bundle = open_results(paths, diagnostics)?;
    let mut samples = gpu_samples(&ingest::import(&bundle, diagnostics, &mut |_| ()));
    samples.extend(read(&bundle, None, diagnostics, &mut |_| ()).gpu);
    Ok(samples)
}

fn gpu_samples(session: &Session) -> Vec<GpuSample> {
    let columns = &session.device_samples;
    let mut samples = Vec::new();
    for row in 0..columns.len() {
        samples.push(GpuSample {
            utc: Some(columns.utc[row].0),
            gpu: columns.device[row],
            utilization: columns.gpu_util[row].map(|percent| Ratio(f64::from(percent) / 100.0)),
            power: columns.power_mw[row].map(|power| Watts(power as f64 / 1000.0)),
            memory_used: columns.memory_used[row].map(|bytes| Bytes(bytes as f64)),
        });
    }
    samples
}
