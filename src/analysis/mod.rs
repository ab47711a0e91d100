//! Findings from tables: pure functions without I/O, clock or environment.

pub mod communication;
pub mod counters;
pub mod engine;
pub mod kernels;
pub mod memory;
pub mod operators;
pub mod system;
pub mod time;
pub mod utilization;

#[cfg(test)]
pub mod test_session;

pub mod verdict;

use crate::findings::Findings;
use crate::hardware::{Gpu, Hardware};
use crate::model::Session;

pub use engine::facts::Facts;

/// One analysis: a section of the report.
pub struct Analysis {
    /// Stable name; the section's anchor.
    pub id: &'static str,
    /// The section's heading.
    pub title: &'static str,
    /// Why it cannot run on this session, if it cannot: what is missing and what to capture.
    pub missing: fn(&Session) -> Option<&'static str>,
    /// Computes the findings.
    pub run: fn(&Context<'_>) -> Findings,
}

/// What analyses read.
pub struct Context<'a> {
    /// The tables.
    pub session: &'a Session,
    /// Derived tables that several analyses need.
    pub facts: &'a Facts,
    /// Specified peaks.
    pub hardware: &'a Hardware,
    /// What the user chose.
    pub options: &'a Options,
}

/// What the user may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// GPU name to use instead of the recorded one.
    pub gpu: Option<String>,
    /// Rule for bound classes.
    pub classifier: Classifier,
}

/// Rule for bound classes of profiled kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classifier {
    /// Latency, compute, dram, l2, l1, balanced by speed-of-light figures.
    #[default]
    Rooflens,
    /// SM % minus DRAM % against ±5 points.
    Seed,
}

impl Context<'_> {
    /// The specification of the GPU that a pass ran on, or that the user named.
    pub fn gpu_spec(&self, recorded: &str) -> Option<&Gpu> {
        self.hardware.find(self.options.gpu.as_deref().unwrap_or(recorded))
    }
}

/// All analyses in reading order.
pub static ANALYSES: &[&Analysis] = &[
    &system::environment::ANALYSIS,
    &time::stage_times::ANALYSIS,
    &time::idle::ANALYSIS,
    &time::timeline::ANALYSIS,
    &time::overlap::ANALYSIS,
    &time::drift::ANALYSIS,
    &time::sync::ANALYSIS,
    &memory::transfers::ANALYSIS,
    &communication::ANALYSIS,
    &time::critical_path::ANALYSIS,
    &time::graphs::ANALYSIS,
    &utilization::mfu::ANALYSIS,
    &utilization::flops_by_source::ANALYSIS,
    &engine::baseline::ANALYSIS,
    &kernels::kernel_sums::ANALYSIS,
    &kernels::gemm::ANALYSIS,
    &kernels::attention::ANALYSIS,
    &counters::roofline::ANALYSIS,
    &counters::ncu_kernels::ANALYSIS,
    &counters::represent::ANALYSIS,
    &counters::details::ANALYSIS,
    &operators::calls::ANALYSIS,
    &operators::python::ANALYSIS,
    &operators::modules::ANALYSIS,
    &memory::allocator::ANALYSIS,
    &system::power::ANALYSIS,
    &engine::kernel_matching::ANALYSIS,
];

/// Runs all analyses; one whose data is missing says so in its place.
pub fn run(context: &Context<'_>) -> Vec<(&'static Analysis, Findings)> {
    let one = |analysis: &&'static Analysis| {
        let findings = match (analysis.missing)(context.session) {
            Some(reason) => Findings {
                blocks: vec![crate::findings::Block::Missing(reason.to_owned())],
                ..Findings::default()
            },
            None => (analysis.run)(context),
        };
        (*analysis, findings)
    };
    ANALYSES.iter().map(one).collect()
}
