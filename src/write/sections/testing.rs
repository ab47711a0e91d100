//! What tests of sections share: a section of a session, and its cells and metrics.

use super::Section;
use rooflens_analysis::{Context, Facts, Options, Results};
use rooflens_document::{Block, Catalogue, Cell, Chart, Dataset, SectionContent};
use rooflens_hardware::Hardware;
use rooflens_schemas::Scope;
use rooflens_session::Session;

/// What a section shows of a session, computed from the start, on specified hardware.
pub fn show_on(section: &Section, session: &Session, hardware: &Hardware) -> SectionContent {
    show_with(section, session, hardware, &Options::default())
}

/// The same on a known GPU.
pub fn show_gpu(section: &Section, session: &Session, gpu: &str) -> SectionContent {
    let options = Options {
        gpu: Some(gpu.to_owned()),
        ..Options::default()
    };
    show_with(section, session, &Hardware::builtin(), &options)
}

/// The same as the user chose.
pub fn show_with(
    section: &Section,
    session: &Session,
    hardware: &Hardware,
    options: &Options,
) -> SectionContent {
    show_in(section, session, hardware, options, Catalogue::english())
}

/// The same on no known hardware, with keys and arguments for sentences.
pub fn show_keys(section: &Section, session: &Session) -> SectionContent {
    show_keys_on(section, session, &Hardware::default())
}

/// The same on specified hardware, with keys and arguments for sentences.
pub fn show_keys_on(section: &Section, session: &Session, hardware: &Hardware) -> SectionContent {
    let keys = Catalogue::keys_and_arguments();
    show_in(section, session, hardware, &Options::default(), keys)
}

/// The same on a known GPU, with keys and arguments for sentences.
pub fn show_gpu_keys(section: &Section, session: &Session, gpu: &str) -> SectionContent {
    let options = Options {
        gpu: Some(gpu.to_owned()),
        ..Options::default()
    };
    let keys = Catalogue::keys_and_arguments();
    show_in(section, session, &Hardware::builtin(), &options, keys)
}

/// The same with the messages of a catalogue.
fn show_in(
    section: &Section,
    session: &Session,
    hardware: &Hardware,
    options: &Options,
    text: &'static Catalogue,
) -> SectionContent {
    let facts = Facts::new(session);
    let context = Context::new(session, &facts, hardware, options);
    let results = Results::compute(&context);
    let found =
        (section.show)(&super::Context::new(context.with(&results), text)).unwrap_or_default();
    // Tests ask for what is said, and not in which document; the beginning of a table may stand in both.
    let is_same = |one: &Block, other: &Block| match (one, other) {
        (Block::Table(one), Block::Table(other)) => {
            (one.dataset, one.skip) == (other.dataset, other.skip)
        }
        _ => false,
    };
    let own = found
        .main
        .iter()
        .filter(|one| !found.blocks.iter().any(|other| is_same(one, other)));
    let blocks = own.chain(&found.blocks).cloned().collect();
    SectionContent { blocks, ..found }
}

/// A context in English.
pub fn english<'a>(context: &Context<'a>) -> super::Context<'a> {
    super::Context::new(*context, Catalogue::english())
}

/// A context with keys and arguments for sentences.
pub fn keys<'a>(context: &Context<'a>) -> super::Context<'a> {
    super::Context::new(*context, Catalogue::keys_and_arguments())
}

/// The same on no known hardware.
pub fn show(section: &Section, session: &Session) -> SectionContent {
    show_on(section, session, &Hardware::default())
}

/// The data set of that id.
pub fn dataset<'a>(content: &'a SectionContent, id: &str) -> &'a Dataset {
    let found = content.datasets.iter().find(|dataset| dataset.id == id);
    found.unwrap_or_else(|| panic!("no data set {id}"))
}

/// A column of a data set.
pub fn column(dataset: &Dataset, id: &str) -> Vec<Cell> {
    let index = dataset.position(id);
    let index = index.unwrap_or_else(|| panic!("no column {id}"));
    dataset.rows.iter().map(|row| row[index].clone()).collect()
}

/// The charts among blocks.
pub fn charts(blocks: &[Block]) -> Vec<&Chart> {
    let mut charts = Vec::new();
    for block in blocks {
        charts.extend(if let Block::Chart(chart) = block {
            Some(chart)
        } else {
            None
        });
    }
    charts
}

/// The headings among blocks.
pub fn headings(blocks: &[Block]) -> Vec<&str> {
    let mut headings = Vec::new();
    for block in blocks {
        headings.extend(if let Block::Heading(text) = block {
            Some(text.as_str())
        } else {
            None
        });
    }
    headings
}

/// The numbers of a column of a data set; fails where there is none.
pub fn numbers(dataset: &Dataset, id: &str) -> Vec<f64> {
    let number = |cell| match cell {
        Cell::Float(value) => value,
        Cell::Int(value) => value as f64,
        other => panic!("{id} holds {other:?}"),
    };
    column(dataset, id).into_iter().map(number).collect()
}

/// The number of a metric whose scope fits.
pub fn metric(content: &SectionContent, id: &str, fits: impl Fn(&Scope) -> bool) -> Option<f64> {
    content
        .metrics
        .iter()
        .find(|one| one.id == id && fits(&one.scope))?
        .value
        .number()
}
