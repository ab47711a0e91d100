//! What a reader sees of the results: one section a subject, with its metrics, tables, charts and words.
//!
//! A section reads typed results and gives [`Findings`]; it computes nothing that another section or a rule needs.

#[cfg(test)]
pub mod testing;

mod attention;
mod baseline;
mod communication;
mod critical_path;
mod drift;
mod flops_by_source;
mod gemm;
mod idle;
mod kernel_matching;
pub(crate) mod kernels;
mod overlap;
mod products;
mod sync;
mod transfers;
pub(crate) mod utilization;
mod what_if;

use crate::analysis::{self, Analysis, Context, Known, Missing};
use crate::findings::{Block, Findings};

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
    Old(&analysis::system::environment::ANALYSIS),
    Old(&analysis::time::stage_times::ANALYSIS),
    New(&idle::SECTION),
    Old(&analysis::time::timeline::ANALYSIS),
    New(&overlap::SECTION),
    New(&drift::SECTION),
    New(&sync::SECTION),
    New(&transfers::SECTION),
    New(&communication::SECTION),
    New(&critical_path::SECTION),
    Old(&analysis::time::graphs::ANALYSIS),
    New(&utilization::SECTION),
    New(&flops_by_source::SECTION),
    New(&baseline::SECTION),
    New(&kernels::SECTION),
    New(&gemm::SECTION),
    New(&attention::SECTION),
    Old(&analysis::counters::roofline::ANALYSIS),
    Old(&analysis::counters::ncu_kernels::ANALYSIS),
    Old(&analysis::counters::represent::ANALYSIS),
    Old(&analysis::counters::details::ANALYSIS),
    Old(&analysis::operators::calls::ANALYSIS),
    Old(&analysis::operators::python::ANALYSIS),
    Old(&analysis::operators::modules::ANALYSIS),
    Old(&analysis::memory::allocator::ANALYSIS),
    Old(&analysis::system::power::ANALYSIS),
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
