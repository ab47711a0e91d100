//! Results as sections: the first page, one section a subject, and their data sets.

mod bounds;
mod gpus;
mod latency;
mod load;
mod metrics;
mod over_time;
mod pareto;
mod queue;
mod setups;
mod summary;
mod sweep;
mod tiles;

use rooflens_diagnostic::Diagnostics;
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{Block, Catalogue, Quantity, SectionContent, method, words};
use rooflens_schemas::Unit;
use rooflens_units::Ratio;

use crate::analysis::Results;
use crate::runs::Run;

/// Results, and the words for them.
pub(crate) struct Page<'a> {
    /// Words.
    pub(crate) text: &'static Catalogue,
    /// Results.
    pub(crate) results: &'a Results<'a>,
}

/// A section: its id, by which the catalogue has its heading, and what shows it.
type Section = (&'static str, fn(&Page<'_>) -> SectionContent);

/// Sections in reading order.
const SECTIONS: [Section; 9] = [
    ("serving_load", load::show),
    ("serving_latency", latency::show),
    ("serving_sweep", sweep::show),
    ("serving_queue", queue::show),
    ("serving_bounds", bounds::show),
    ("serving_changes", setups::show),
    ("serving_time", over_time::show),
    ("serving_gpus", gpus::show),
    ("serving_requests", load::requests),
];

/// The report of some results. `provenance` has no facts and no title yet.
pub fn report(
    results: &Results<'_>,
    text: &'static Catalogue,
    mut provenance: Provenance<'_>,
    diagnostics: &Diagnostics,
) -> Report {
    let page = Page { text, results };
    provenance.title = Some(summary::title(&page));
    provenance.facts = summary::facts(&page);
    provenance.glossary = "serving_glossary";
    let mut document = Document::new(text, &provenance);
    document.diagnostics(diagnostics);
    let mut first = summary::show(&page);
    first.blocks.insert(0, Block::Tiles(tiles::tiles(&page)));
    document.summary(SectionContent {
        conclusion: tiles::conclusion(&page),
        // Metrics are data: what they say of themselves is English.
        metrics: metrics::metrics(results),
        ..first
    });
    for (id, show) in SECTIONS {
        document.section(id, text.heading(id), show(&page));
    }
    document.method(method!(
        page,
        "serving",
        elasticity = times(crate::analysis::sweep::ELASTICITY),
        sustained = crate::analysis::sweep::SUSTAINED,
        worth = times(crate::analysis::steps::WORTH),
        full = crate::analysis::bottleneck::KV_FULL,
        bound = times(crate::analysis::bottleneck::AT_BOUND),
        stalled = times(crate::analysis::bottleneck::STALLED),
        same = crate::analysis::changes::SAME,
    ));
    document.build_of_artifacts()
}

impl Page<'_> {
    /// A load with its unit.
    pub(crate) fn load(&self, load: Quantity) -> String {
        match load.unit {
            Unit::Count => words!(self, "serving.concurrent", count = load),
            _ => load.to_string(),
        }
    }

    /// The load of a run, if its file says it.
    pub(crate) fn load_of(&self, run: &Run) -> Option<String> {
        let load = &run.load;
        if let Some(rate) = load.rate {
            return Some(self.load(rate.into()));
        }
        if let Some(concurrency) = load.concurrency {
            return Some(self.load(concurrency.into()));
        }
        load.burst.then(|| words!(self, "serving.burst"))
    }

    /// The name of the run of the first page, if there are others.
    pub(crate) fn which(&self) -> Option<&str> {
        let runs = self.results.runs;
        (runs.len() > 1).then(|| runs[self.results.headline].label.as_str())
    }

    /// Runs by index, with their figures.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &Run)> {
        self.results.runs.iter().enumerate()
    }
}

/// A ratio that may exceed 1, as a number instead of percent.
pub(crate) const fn times(ratio: Ratio) -> Quantity {
    Quantity::new(ratio.0, Unit::One)
}

/// Adds a table and its data set, if it has rows.
pub(crate) fn add<R>(
    content: &mut SectionContent,
    table: &rooflens_document::Table<'_, R>,
    rows: &[R],
    caption: String,
    limit: usize,
) {
    if !rows.is_empty() {
        content.main.push(Block::Table(table.view(caption, limit)));
        content.datasets.push(table.rows(rows));
    }
}

/// The first names, and how many more there are; none of no name.
fn names(page: &Page<'_>, names: &[&str]) -> Option<String> {
    const SHOWN: usize = 4;
    let shown = names[..names.len().min(SHOWN)].join(page.text.comma());
    if names.len() <= SHOWN {
        return (!names.is_empty()).then_some(shown);
    }
    let count = Quantity::count((names.len() - SHOWN) as u64);
    Some(words!(
        page,
        "serving.and_more",
        names = shown,
        count = count
    ))
}
