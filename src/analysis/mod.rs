//! Findings from tables: pure functions without I/O, clock or environment.

pub mod attribution;
pub mod call_tree;
pub mod classify;
pub mod counters;
pub mod facts;
pub mod flops;
pub mod intervals;
pub mod measured;
pub mod nesting;
pub mod segments;
pub mod stages;
pub mod stats;
pub mod summary;
pub mod tiers;

mod attention;
mod backward;
mod bounds;
mod clocks;
mod communication;
mod concurrency;
mod copies;
mod critical_path;
mod deep_dive;
mod environment;
mod flop_accounting;
mod gemm;
mod graphs;
mod identity;
mod idle;
pub mod kernels;
mod memory;
mod modules;
mod operator_flops;
mod operators;
mod pace;
mod power;
pub mod products;
mod profiled;
mod python;
mod repeats;
mod representativeness;
mod roofline;
pub mod rules;
pub mod synchronization;
#[cfg(test)]
mod test_session;
mod time;
mod timeline;
mod utilization;

pub mod verdict;

use crate::findings::Findings;
use crate::hardware::{Gpu, Hardware};
use crate::model::Session;

pub use facts::Facts;

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
    &environment::ANALYSIS,
    &time::ANALYSIS,
    &idle::ANALYSIS,
    &timeline::ANALYSIS,
    &concurrency::ANALYSIS,
    &pace::ANALYSIS,
    &synchronization::ANALYSIS,
    &copies::ANALYSIS,
    &communication::ANALYSIS,
    &critical_path::ANALYSIS,
    &graphs::ANALYSIS,
    &utilization::ANALYSIS,
    &flop_accounting::ANALYSIS,
    &repeats::ANALYSIS,
    &kernels::ANALYSIS,
    &gemm::ANALYSIS,
    &attention::ANALYSIS,
    &roofline::ANALYSIS,
    &profiled::ANALYSIS,
    &representativeness::ANALYSIS,
    &deep_dive::ANALYSIS,
    &operators::ANALYSIS,
    &python::ANALYSIS,
    &modules::ANALYSIS,
    &memory::ANALYSIS,
    &power::ANALYSIS,
    &identity::ANALYSIS,
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
