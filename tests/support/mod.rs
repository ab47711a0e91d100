//! What tests of the fixtures share: each is read and computed once.

pub(crate) mod sample_report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, OnceLock};

use rooflens::analysis::{Context, Facts, Options, Results};
use rooflens::diagnostic::Diagnostics;
use rooflens::document::{Catalogue, Dataset, SectionContent};
use rooflens::hardware::Hardware;
use rooflens::session::Session;
use rooflens::{bundle, ingest, rules, sections};

/// Sections of a report: id, heading and content.
pub(crate) type Sections = Vec<(&'static str, &'static str, SectionContent)>;

/// A fixture that was read, with what follows from it.
pub(crate) struct Loaded {
    pub(crate) session: Session,
    pub(crate) facts: Facts,
    results: OnceLock<Results>,
    sections: OnceLock<Sections>,
}

static HARDWARE: LazyLock<Hardware> = LazyLock::new(Hardware::builtin);
static OPTIONS: LazyLock<Options> = LazyLock::new(Options::default);

/// Fixtures by name and the files that are kept.
type Cache = BTreeMap<(String, Vec<String>), &'static OnceLock<Loaded>>;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// The place of a fixture.
pub(crate) fn path(fixture: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(fixture)
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
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path(name)], &mut diagnostics).expect("the fixture opens");
    let is_kept = |path: &str| {
        kept.iter()
            .any(|kept| path.starts_with(kept) || path.ends_with(kept))
    };
    bundle
        .files
        .retain(|file| is_kept(&file.path) || file.path.ends_with(".toml"));
    ingest::identify(&mut bundle, &mut diagnostics);
    ingest::import(&bundle, &mut diagnostics, &mut |_| {})
}

impl Loaded {
    pub(crate) fn of(session: Session) -> Self {
        let facts = Facts::new(&session);
        Self {
            session,
            facts,
            results: OnceLock::new(),
            sections: OnceLock::new(),
        }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        let context = Context::new(&self.session, &self.facts, &HARDWARE, &OPTIONS);
        context.with(self.results.get_or_init(|| Results::compute(&context)))
    }

    pub(crate) fn sections(&self) -> &Sections {
        self.sections.get_or_init(|| {
            sections::run(&sections::Context::new(
                self.context(),
                Catalogue::english(),
            ))
        })
    }

    /// The section with that id.
    pub(crate) fn section(&self, id: &str) -> &SectionContent {
        let found = self.sections().iter().find(|(own, ..)| *own == id);
        &found.unwrap_or_else(|| panic!("no section {id}")).2
    }

    /// Metrics, data sets and diagnostics of some sections in one; of all if none is named.
    pub(crate) fn joined(&self, ids: &[&str]) -> SectionContent {
        let mut all = SectionContent::default();
        for (id, _, one) in self.sections() {
            if ids.is_empty() || ids.contains(id) {
                all.metrics.extend_from_slice(&one.metrics);
                all.datasets.extend_from_slice(&one.datasets);
                all.diagnostics.extend_from_slice(&one.diagnostics);
            }
        }
        all
    }

    /// What the rules find.
    pub(crate) fn rules(&self) -> SectionContent {
        rules::run(&self.context(), Catalogue::english()).1
    }
}

/// The data set of that id.
pub(crate) fn dataset<'a>(findings: &'a SectionContent, id: &str) -> &'a Dataset {
    let found = findings.datasets.iter().find(|dataset| dataset.id == id);
    found.unwrap_or_else(|| panic!("no data set {id}"))
}
