//! What a reader sees of the results: one section a subject, with its metrics, tables, charts and words.
//!
//! A section reads typed results and gives [`SectionContent`]; it computes nothing that another section or a rule needs.

#![forbid(unsafe_code)]

// Every file says words: `say!`, `words!`, `method!`.
#[macro_use]
extern crate rooflens_document;

#[cfg(test)]
pub mod testing;

mod account;
mod allocator;
mod attention;
mod baseline;
mod breakdown;
mod communication;
mod critical_path;
mod details;
mod drift;
mod environment;
mod flame;
mod flops_by_source;
mod gemm;
mod graphs;
pub mod headline;
mod host;
mod idle;
mod kernel_matching;
pub mod kernels;
mod measurement_quality;
mod model;
mod modules;
mod ncu_kernels;
mod operators;
mod overlap;
mod paths;
mod power;
mod products;
mod python;
mod represent;
mod roofline;
mod snapshot;
mod stage_times;
mod sync;
mod timeline;
mod transfers;
mod upper_bounds;
mod utilization;

pub use breakdown::class_name;
pub use ncu_kernels::{has_ncu_metrics, ncu_metrics};
pub use products::shapes_advice;
pub use timeline::of_stage as timeline_of_stage;
pub use utilization::bounds::{Bound, bounds};
pub use utilization::words::reason as why_unknown;

use std::ops::Deref;

use rooflens_schemas::{Metric, Scope};

use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::time::idle::StageIdle;
use rooflens_analysis::{Known, Missing};
use rooflens_document::chart::Color;
use rooflens_document::{Block, Catalogue, Inline, MetricDef, SectionContent};
use rooflens_session::{Dim3, PassId, Session};
use rooflens_units::{Measure, Ratio};

/// What sections read: the results, and the words to show them with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    inner: rooflens_analysis::Context<'a>,
    /// The words.
    pub text: &'static Catalogue,
}

impl<'a> Context<'a> {
    /// Results in the words of a catalogue.
    pub const fn new(inner: rooflens_analysis::Context<'a>, text: &'static Catalogue) -> Self {
        Self { inner, text }
    }

    /// The same results in English, which is the language of data: bases of metrics, and why there is no value.
    fn in_english(&self) -> Self {
        Self {
            text: Catalogue::english(),
            ..*self
        }
    }

    /// A value of a metric, or in English why there is none.
    fn reason_if_missing<T>(&self, value: Known<T>) -> Result<T, String> {
        value.map_err(|missing| self.in_english().missing(missing))
    }

    /// Why a result is not there.
    fn missing(&self, Missing(key): Missing) -> String {
        self.text.line(key, &[])
    }
}

impl<'a> Deref for Context<'a> {
    type Target = rooflens_analysis::Context<'a>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

/// A section of the report.
pub struct Section {
    /// Stable name; the section's anchor.
    pub id: &'static str,
    /// Shows the results.
    pub show: fn(&Context<'_>) -> Known<SectionContent>,
}

/// All sections in reading order.
pub static SECTIONS: &[&Section] = &[
    &snapshot::SECTION,
    &model::SECTION,
    &host::SECTION,
    &breakdown::SECTION,
    &account::SECTION,
    &stage_times::SECTION,
    &idle::SECTION,
    &timeline::SECTION,
    &overlap::SECTION,
    &drift::SECTION,
    &sync::SECTION,
    &transfers::SECTION,
    &communication::SECTION,
    &critical_path::SECTION,
    &graphs::SECTION,
    &utilization::SECTION,
    &flops_by_source::SECTION,
    &baseline::SECTION,
    &kernels::SECTION,
    &gemm::SECTION,
    &attention::SECTION,
    &roofline::SECTION,
    &ncu_kernels::SECTION,
    &represent::SECTION,
    &details::SECTION,
    &operators::SECTION,
    &python::SECTION,
    &modules::SECTION,
    &allocator::SECTION,
    &power::SECTION,
    &kernel_matching::SECTION,
    &measurement_quality::SECTION,
    &environment::SECTION,
];

/// The first page of a session without anything measured: the state of GPUs, a model, or the host's side of a capture.
pub fn first_page(context: &Context<'_>) -> SectionContent {
    let blocks = [
        snapshot::first_page(context),
        host::first_page(context),
        model::first_page(context),
        gemm::first_page(context),
    ];
    // Of a program that used no GPU; other artifacts are no program.
    let is_program = context.results.host().is_ok();
    SectionContent {
        conclusion: is_program.then(|| headline::title(context)).flatten(),
        blocks: blocks.concat(),
        ..SectionContent::default()
    }
}

/// All sections: id, heading and content. One whose data is missing says so in its place, if anything was measured:
/// else it would be nearly all of them.
pub fn run(context: &Context<'_>) -> Vec<(&'static str, &'static str, SectionContent)> {
    let missing = |missing| SectionContent {
        blocks: vec![Block::Missing(context.missing(missing))],
        ..SectionContent::default()
    };
    let measured = context.session.is_measured();
    let content = |section: &&Section| {
        let shown = (section.show)(context);
        let shown = if measured {
            Some(shown.unwrap_or_else(missing))
        } else {
            shown.ok()
        };
        Some((section.id, context.text.heading(section.id), shown?))
    };
    SECTIONS.iter().filter_map(content).collect()
}

/// Share of the run from which on a stage has a bar.
const NOTABLE: Ratio = Ratio(0.01);

/// The outermost stage of the primary pass that loses most: idle time and GEMM time above the roofline, over all
/// measured iterations. The report shows its details.
fn focus(context: &Context<'_>) -> Option<Summary> {
    let idle = context.results.idle().ok()?;
    let gemms = context.results.gemm().map_or(&[][..], |stages| stages);
    let (order, outermost, _) = idle.ordered(context);
    let lost = |line: &StageIdle| {
        let mut products = gemms.iter();
        let products = products.find(|products| is_same(&products.summary, &line.summary));
        let above = products.and_then(StageProducts::recoverable);
        line.idle().time() + above.unwrap_or_default()
    };
    let lines = order[..outermost].iter().rev();
    let slowest = lines.filter(|line| is_slowest(context, &line.summary));
    Some(
        slowest
            .max_by(|a, b| lost(a).total_cmp(&lost(b)))?
            .summary
            .clone(),
    )
}

/// Whether the rank of a stage computes longest, or first, of all that run the stage: the others wait for it.
fn is_slowest(context: &Context<'_>, summary: &Summary) -> bool {
    let works = context.results.stage_work().map_or(&[][..], Vec::as_slice);
    // Waits for other ranks are no work.
    let computing = |work: &StageWork| {
        work.total
            .saturating_sub(work.time(KernelClass::Communication))
    };
    let mut slowest: Option<&StageWork> = None;
    for work in works {
        let is_longer = slowest.is_none_or(|slowest| computing(slowest) < computing(work));
        if work.summary.stage == summary.stage && is_longer {
            slowest = Some(work);
        }
    }
    slowest.is_none_or(|slowest| is_same(&slowest.summary, summary))
}

/// Whether both are of one stage and process.
fn is_same(one: &Summary, other: &Summary) -> bool {
    (one.stage, one.process) == (other.stage, other.process)
}

/// The parts that say something, with a separator between them; none of none.
fn joined(
    parts: impl IntoIterator<Item = Vec<Inline>>,
    separator: &'static str,
) -> Option<Vec<Inline>> {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.reduce(|mut text, part| {
        text.push(separator.into());
        text.extend(part);
        text
    })
}

/// Grid or block of a profiled launch. An extent of 0 represents one that the page does not give.
fn extent(extent: Dim3) -> Option<String> {
    (extent.volume() > 0).then(|| extent.to_string())
}

/// A metric with its value, or the reason why it has none.
fn metric<M: Measure>(
    def: &MetricDef,
    scope: &Scope,
    value: Result<M, String>,
    basis: String,
) -> Metric {
    def.known(scope.clone(), value.map(|value| (value.number(), basis)))
}

/// The scope of a pass as a whole.
fn pass_scope(session: &Session, pass: PassId) -> Scope {
    Scope {
        pass: Some(session.pass_name(pass).to_owned()),
        ..Scope::default()
    }
}

/// The colour of a kernel class: that of its group.
const fn class_color(class: KernelClass) -> Color {
    group_color(class.group())
}

/// The colour of a group of kernel classes.
pub const fn group_color(group: ClassGroup) -> Color {
    match group {
        ClassGroup::Gemm => Color::Gemm,
        ClassGroup::Attention => Color::Attention,
        ClassGroup::Normalization => Color::Normalization,
        ClassGroup::Elementwise => Color::Elementwise,
        ClassGroup::Copy => Color::Copy,
        ClassGroup::Communication => Color::Communication,
        ClassGroup::Other => Color::Other,
    }
}
