//! What a reader sees of the results: one section a subject, with its metrics, tables, charts and words.
//!
//! A section reads typed results and gives [`Findings`]; it computes nothing that another section or a rule needs.

#[cfg(test)]
pub mod testing;

mod allocator;
mod attention;
mod baseline;
mod communication;
mod critical_path;
mod details;
mod drift;
mod environment;
mod flops_by_source;
mod gemm;
mod graphs;
pub mod headline;
mod idle;
mod kernel_matching;
pub(crate) mod kernels;
mod ncu_kernels;
mod overlap;
mod power;
mod products;
mod represent;
mod roofline;
mod stage_times;
mod sync;
mod timeline;
mod transfers;
pub(crate) mod utilization;
mod what_if;

use rooflens_schemas::Scope;

use crate::analysis::engine::classify::ClassGroup;
use crate::analysis::{self, Analysis, Context, Known, Missing};
use crate::findings::chart::Color;
use crate::findings::{Block, Findings};
use crate::model::{Dim3, PassId, Session};

/// A section of the report.
pub struct Section {
    /// Stable name; the section's anchor.
    pub id: &'static str,
    /// The section's heading.
    pub title: &'static str,
    /// Shows the results.
    pub show: fn(&Context<'_>) -> Known<Findings>,
}

/// A section, or an analysis that still makes its own.
enum Entry {
    Section(&'static Section),
    Analysis(&'static Analysis),
}

use Entry::{Analysis as Old, Section as New};

/// All sections in reading order.
static SECTIONS: &[Entry] = &[
    New(&environment::SECTION),
    New(&stage_times::SECTION),
    New(&idle::SECTION),
    New(&timeline::SECTION),
    New(&overlap::SECTION),
    New(&drift::SECTION),
    New(&sync::SECTION),
    New(&transfers::SECTION),
    New(&communication::SECTION),
    New(&critical_path::SECTION),
    New(&graphs::SECTION),
    New(&utilization::SECTION),
    New(&flops_by_source::SECTION),
    New(&baseline::SECTION),
    New(&kernels::SECTION),
    New(&gemm::SECTION),
    New(&attention::SECTION),
    New(&roofline::SECTION),
    New(&ncu_kernels::SECTION),
    New(&represent::SECTION),
    New(&details::SECTION),
    Old(&analysis::operators::calls::ANALYSIS),
    Old(&analysis::operators::python::ANALYSIS),
    Old(&analysis::operators::modules::ANALYSIS),
    New(&allocator::SECTION),
    New(&power::SECTION),
    New(&kernel_matching::SECTION),
];

/// All sections: id, heading and content. One whose data is missing says so in its place.
pub fn run(context: &Context<'_>) -> Vec<(&'static str, &'static str, Findings)> {
    let missing = |Missing(reason): Missing| Findings {
        blocks: vec![Block::Missing(reason.to_owned())],
        ..Findings::default()
    };
    let one = |entry: &Entry| match entry {
        New(section) => {
            let shown = (section.show)(context);
            (section.id, section.title, shown.unwrap_or_else(missing))
        }
        Old(analysis) => (analysis.id, analysis.title, analysis::run(context, analysis)),
    };
    SECTIONS.iter().map(one).collect()
}

/// Grid or block of a profiled launch. An extent of 0 stands for one that the page does not give.
fn extent(extent: Dim3) -> Option<String> {
    (extent.volume() > 0).then(|| extent.to_string())
}

/// The scope of a pass as a whole.
fn pass_scope(session: &Session, pass: PassId) -> Scope {
    Scope { pass: Some(session.pass_name(pass).to_owned()), ..Scope::default() }
}

/// The colour of a group of kernel classes.
const fn group_color(group: ClassGroup) -> Color {
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
