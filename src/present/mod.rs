//! What a reader sees of the results: one section a subject, with its metrics, tables, charts and words.
//!
//! A section reads typed results and gives [`Findings`]; it computes nothing that another section or a rule needs.

#[cfg(test)]
pub mod testing;

mod flame;
mod modules;
mod operators;
mod paths;
mod python;
mod transfers;

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
    Old(&analysis::time::idle::ANALYSIS),
    Old(&analysis::time::timeline::ANALYSIS),
    Old(&analysis::time::overlap::ANALYSIS),
    Old(&analysis::time::drift::ANALYSIS),
    Old(&analysis::time::sync::ANALYSIS),
    New(&transfers::SECTION),
    Old(&analysis::communication::ANALYSIS),
    Old(&analysis::time::critical_path::ANALYSIS),
    Old(&analysis::time::graphs::ANALYSIS),
    Old(&analysis::utilization::mfu::ANALYSIS),
    Old(&analysis::utilization::flops_by_source::ANALYSIS),
    Old(&analysis::engine::baseline::ANALYSIS),
    Old(&analysis::kernels::kernel_sums::ANALYSIS),
    Old(&analysis::kernels::gemm::ANALYSIS),
    Old(&analysis::kernels::attention::ANALYSIS),
    Old(&analysis::counters::roofline::ANALYSIS),
    Old(&analysis::counters::ncu_kernels::ANALYSIS),
    Old(&analysis::counters::represent::ANALYSIS),
    Old(&analysis::counters::details::ANALYSIS),
    New(&operators::SECTION),
    New(&python::SECTION),
    New(&modules::SECTION),
    Old(&analysis::memory::allocator::ANALYSIS),
    Old(&analysis::system::power::ANALYSIS),
    Old(&analysis::engine::kernel_matching::ANALYSIS),
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
