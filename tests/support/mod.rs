//! What tests of the fixtures share: each is read and computed once.

#[cfg(target_os = "linux")]
pub(crate) mod cpu;
pub(crate) mod sample_report;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex, OnceLock};

use rooflens::analysis::Facts;
use rooflens::bundle::ArtifactFile;
use rooflens::document::{Catalogue, Dataset, SectionContent};
use rooflens::hardware::Hardware;
use rooflens::sections;
use rooflens::session::Session;
use rooflens::{Analysis, Capture, Input, Options};

/// A capture with its analysis, for as long as the tests run.
pub(crate) struct Loaded {
    pub(crate) session: &'static Session,
    pub(crate) facts: &'static Facts,
    analysis: &'static Analysis<'static>,
}

/// Fixtures by name and the files that are kept.
type Cache = BTreeMap<(String, Vec<String>), &'static OnceLock<Loaded>>;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// The fixtures with whole reports.
pub(crate) const FIXTURES: [&str; 14] = [
    "edge-empty-window",
    "h100-train",
    "h100-vit-train",
    "h100x2-parallel",
    "h200-cuda-graph",
    "h200-graph-ranges",
    "h200-llama-1b",
    "h200-llama-8b",
    "h200-llama-capture",
    "h200-qwen-0.5b",
    "h200-qwen3-compiled",
    "h200-vit-train",
    "h200x2-ddp",
    "h200x2-fsdp",
];

/// The end of the program with these arguments.
pub(crate) fn rooflens(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rooflens"))
        .args(args)
        .output()
        .expect("rooflens runs")
}

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The place of a fixture.
pub(crate) fn path(fixture: &str) -> PathBuf {
    root().join("fixtures").join(fixture)
}

/// A whole fixture.
pub(crate) fn fixture(name: &str) -> &'static Loaded {
    part(name, &[""])
}

/// A fixture with the descriptions and the files alone whose paths begin or end so: others would cost time.
pub(crate) fn part(name: &str, kept: &[&str]) -> &'static Loaded {
    let key = (
        name.to_owned(),
        kept.iter().map(|kept| (*kept).to_owned()).collect(),
    );
    let mut cache = CACHE.lock().expect("no test fails while it holds the lock");
    let cell: &'static OnceLock<Loaded> = cache
        .entry(key)
        .or_insert_with(|| Box::leak(Box::default()));
    drop(cache);
    cell.get_or_init(|| Loaded::of(read(name, kept)))
}

/// The tables of the same, to be changed.
pub(crate) fn read(name: &str, kept: &[&str]) -> Session {
    let is_kept = |file: &ArtifactFile| {
        let path = &file.path;
        let mut kept = kept.iter();
        path.ends_with(".toml") || kept.any(|kept| path.starts_with(kept) || path.ends_with(kept))
    };
    let input = Input {
        paths: vec![path(name)],
        only: Some(&is_kept),
        ..Input::default()
    };
    input.open(&mut |_| ()).expect("the fixture opens").session
}

/// The analysis of a capture that may hold nothing to report.
pub(crate) fn analyze(capture: &Capture) -> Analysis<'_> {
    Analysis::new(capture, Hardware::builtin(), Options::default())
}

impl Loaded {
    pub(crate) fn of(session: Session) -> Self {
        let capture: &Capture = Box::leak(Box::new(session.into()));
        let analysis: &Analysis<'_> = Box::leak(Box::new(analyze(capture)));
        Self {
            session: &capture.session,
            facts: analysis.facts(),
            analysis,
        }
    }

    /// The section with that id.
    pub(crate) fn section(&self, id: &str) -> &SectionContent {
        let mut sections = self.sections().iter();
        let section = sections.find(|(section, ..)| *section == id);
        &section.unwrap_or_else(|| panic!("no section {id}")).2
    }

    /// Metrics, data sets and diagnostics of some sections in one; of all if none is named.
    pub(crate) fn joined(&self, ids: &[&str]) -> SectionContent {
        let mut joined = SectionContent::default();
        for (id, _, content) in self.sections() {
            if ids.is_empty() || ids.contains(id) {
                joined.metrics.extend_from_slice(&content.metrics);
                joined.datasets.extend_from_slice(&content.datasets);
                joined.diagnostics.extend_from_slice(&content.diagnostics);
            }
        }
        joined
    }
}

impl Deref for Loaded {
    type Target = Analysis<'static>;

    fn deref(&self) -> &Self::Target {
        self.analysis
    }
}

/// The section with that id, with keys and arguments for sentences.
pub(crate) fn section_keys(loaded: &Loaded, id: &str) -> SectionContent {
    let keys = Catalogue::keys_and_arguments();
    let sections = sections::run(&sections::Context::new(loaded.context(), keys));
    let section = sections.into_iter().find(|(section, ..)| *section == id);
    section.unwrap_or_else(|| panic!("no section {id}")).2
}

/// The data set of that id.
pub(crate) fn dataset<'a>(content: &'a SectionContent, id: &str) -> &'a Dataset {
    let dataset = content.datasets.iter().find(|dataset| dataset.id == id);
    dataset.unwrap_or_else(|| panic!("no data set {id}"))
}
