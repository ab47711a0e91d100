//! Analysis: typed results of a capture, and the report on them.

use std::sync::OnceLock;

use rooflens_schemas::Metric;
use rooflens_units::{Bytes, BytesPerSecond, Hertz};

use super::open::Capture;
use super::study::NothingToReport;
use crate::analysis::{Context, Facts, Options, Results};
use crate::bundle::{ArtifactFile, Bundle};
use crate::document::{Catalogue, Dataset, Finding, Lang, SectionContent};
use crate::hardware::{Device, Hardware, UnknownGpu};
use crate::report::{Document, Notes, Provenance, Report};
use crate::rules;
use crate::sections;
use crate::session::Session;

/// A section of a report: id, heading and content.
pub type Section = (&'static str, &'static str, SectionContent);

/// Typed results of a capture, each computed when it is first asked for.
pub struct Analysis<'a> {
    capture: &'a Capture,
    hardware: Hardware,
    options: Options,
    facts: Facts,
    results: OnceLock<Results>,
    sections: OnceLock<Vec<Section>>,
    judgement: OnceLock<Judgement>,
}

/// What the rules say.
pub(super) struct Judgement {
    summary: SectionContent,
    pub(super) findings: SectionContent,
}

/// Reason why a capture cannot be analyzed.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// The GPU of the options is not in the table.
    #[error(transparent)]
    Gpu(#[from] UnknownGpu),
    /// The capture has no measurements.
    #[error(transparent)]
    Nothing(#[from] NothingToReport),
}

impl Capture {
    /// Analyzes the tables. A GPU of the options may be named by a part of its name.
    ///
    /// # Errors
    /// There is nothing to report, or no GPU of that name.
    pub fn analyze(&self, options: &Options) -> Result<Analysis<'_>, AnalyzeError> {
        let mut options = options.clone();
        if let Some(name) = &options.gpu {
            options.gpu = Some(Hardware::builtin().named(name)?.name.clone());
        }
        if !self.is_reportable() {
            return Err(self.nothing_to_report().into());
        }
        Ok(Analysis::new(self, known_gpus(&self.session), options))
    }

    /// Path, kind, pass and SHA-256 of the files; those of no known kind are `unknown`.
    pub(super) fn artifacts(&self) -> Vec<[String; 4]> {
        artifacts(&self.bundle, rooflens_schemas::ArtifactKind::Other.label())
    }
}

/// Path, kind, pass and SHA-256 of the files of a bundle; those of no known kind are `unknown`.
pub(super) fn artifacts(bundle: &Bundle, unknown: &str) -> Vec<[String; 4]> {
    let row = |file: &ArtifactFile| {
        let kind = file.kind.map_or(unknown, |kind| kind.label()).to_owned();
        let hash = file.sha256.clone().unwrap_or_default();
        [file.path.clone(), kind, file.pass.clone(), hash]
    };
    bundle.files.iter().map(row).collect()
}

/// The table of GPUs, with those that a capture describes and the table lacks.
fn known_gpus(session: &Session) -> Hardware {
    let mut hardware = Hardware::builtin();
    for row in 0..session.gpus.len() {
        if let Some(device) = described_gpu(session, row) {
            hardware.describe(&device);
        }
    }
    hardware
}

fn described_gpu(session: &Session, row: usize) -> Option<Device<'_>> {
    let gpus = &session.gpus;
    Some(Device {
        name: session.text(gpus.name[row]),
        capability: gpus.compute_capability[row]?,
        sm_count: gpus.sm_count[row]?,
        clock: Hertz(gpus.clock_hz[row]? as f64),
        memory_bandwidth: BytesPerSecond(gpus.memory_bandwidth[row]? as f64),
        memory: Bytes(gpus.memory_bytes[row]? as f64),
    })
}

impl<'a> Analysis<'a> {
    /// An analysis by the peaks of a table of GPUs, of a capture that may hold nothing to report.
    pub fn new(capture: &'a Capture, hardware: Hardware, options: Options) -> Self {
        Self {
            facts: Facts::new(&capture.session),
            capture,
            hardware,
            options,
            results: OnceLock::new(),
            sections: OnceLock::new(),
            judgement: OnceLock::new(),
        }
    }

    /// The capture that is analyzed.
    pub fn capture(&self) -> &'a Capture {
        self.capture
    }

    /// Tables that several results are computed from: stages, operations, attribution.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What results are computed from, without results.
    pub fn inputs(&self) -> Context<'_> {
        let session = &self.capture.session;
        Context::new(session, &self.facts, &self.hardware, &self.options)
    }

    /// All results, and what they are computed from.
    pub fn context(&self) -> Context<'_> {
        let inputs = self.inputs();
        inputs.with(self.results.get_or_init(|| Results::compute(&inputs)))
    }

    /// Sections in reading order, in English: id, heading and content.
    pub fn sections(&self) -> &[Section] {
        self.sections.get_or_init(|| {
            let words = Catalogue::english();
            sections::run(&sections::Context::new(self.context(), words))
        })
    }

    /// The first pages: conclusion, figures, actions; in English.
    pub fn summary(&self) -> &SectionContent {
        &self.judgement().summary
    }

    /// Findings with their data sets and methods; in English.
    pub fn rules(&self) -> &SectionContent {
        &self.judgement().findings
    }

    /// The metrics of all sections.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> {
        let sections = self.sections().iter();
        sections.flat_map(|(_, _, content)| &content.metrics)
    }

    /// The data sets of the summary, of the findings and of all sections.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        let rules = [self.summary(), self.rules()];
        let sections = self.sections().iter().map(|(_, _, content)| content);
        let contents = rules.into_iter().chain(sections);
        contents.flat_map(|content| &content.datasets)
    }

    /// What is slow, why, and what to do, the largest gain first; in English.
    pub fn findings(&self) -> &[Finding] {
        &self.rules().findings
    }

    fn judgement(&self) -> &Judgement {
        self.judgement.get_or_init(|| {
            let words = Catalogue::english();
            self.judge(&sections::Context::new(self.context(), words))
        })
    }

    /// The summary and the findings. Without a measurement there is nothing to judge, and the first page says what
    /// the capture holds.
    pub(super) fn judge(&self, context: &sections::Context<'_>) -> Judgement {
        if !self.capture.session.is_measured() {
            return Judgement {
                summary: sections::first_page(context),
                findings: SectionContent::default(),
            };
        }
        let (summary, findings) = rules::run(context, context.text);
        Judgement { summary, findings }
    }

    /// Every metric of every profiled launch: parts of a data set that no report holds.
    pub fn ncu_metrics(&self) -> impl Iterator<Item = Dataset> {
        let context = sections::Context::new(self.context(), Catalogue::english());
        sections::ncu_metrics(&context).into_iter().flatten()
    }

    /// The report.
    pub fn report(&self, lang: Lang) -> Report {
        let text = Catalogue::of(lang);
        let context = sections::Context::new(self.context(), text);
        let Judgement { summary, findings } = self.judge(&context);
        let provenance = self.capture.provenance(&context);
        let mut document = Document::new(text, &provenance);
        document.diagnostics(&self.capture.diagnostics);
        document.summary(summary);
        document.findings(findings);
        for (id, title, content) in sections::run(&context) {
            document.section(id, title, content);
        }
        let mut report = document.build_of_artifacts();
        report.only_in_csv = sections::has_ncu_metrics(&context);
        report
    }
}

impl Capture {
    /// Where the data of a report came from, for its cover.
    pub fn provenance<'a>(&'a self, context: &sections::Context<'_>) -> Provenance<'a> {
        let bundle = &self.bundle;
        let cover = sections::headline::cover(context);
        let notes = self.session.notes.as_ref();
        Provenance {
            bundle: &bundle.name,
            bundle_id: &bundle.id,
            manifest: bundle.manifest.as_ref(),
            artifacts: self.artifacts(),
            title: cover.title,
            facts: cover.facts,
            subject: sections::headline::of_results(context),
            notes: notes.map(|(artifact, text)| Notes { artifact, text }),
            ..Provenance::default()
        }
    }
}
