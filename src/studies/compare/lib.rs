//! Comparison of captures of one workload before and after a change: what changed, whether it is real, and where the time went.
//!
//! ```text
//! Side, Side → conditions, times, account, kernels, findings → present → rooflens_document::report::Report
//! ```
//!
//! Three questions are kept apart. Unprofiled repeats decide whether a step is faster: [`times`]. The account of both
//! captures says where the difference is, to the nanosecond: [`account`]. Names of kernels say which code it is:
//! [`kernels`]. Kernels are matched by their order in a typical iteration, because another library, another tile, or a
//! fused kernel has another name and the same place. Where order says nothing, names do.

#![forbid(unsafe_code)]

pub mod account;
mod alignment;
pub mod conditions;
pub mod experiments;
pub mod explanations;
pub mod figures;
pub mod findings;
pub mod gate;
pub mod kernels;
pub mod ledger;
pub mod load_tests;
pub mod microbenchmarks;
mod present;
pub mod record;
#[cfg(test)]
mod tests;
pub mod times;
pub mod waterfall;

use rooflens_analysis::Context;
use rooflens_document::Finding;
use rooflens_session::Session;
use rooflens_units::Ratio;

pub use present::{
    report, report_of_experiments, report_of_figures, report_of_load_tests,
    report_of_microbenchmarks,
};
pub use record::Record;
pub use waterfall::Waterfall;

/// Captures of one condition: repeats of the same run.
pub struct Side<'a> {
    /// Name on pages.
    pub name: String,
    /// The captures, one at least.
    pub captures: Vec<Analyzed<'a>>,
}

/// A capture with its results.
#[derive(Clone, Copy)]
pub struct Analyzed<'a> {
    /// Tables and results.
    pub context: Context<'a>,
    /// What its rules found, in the language of the report.
    pub findings: &'a [Finding],
}

impl<'a> Side<'a> {
    /// The tables of the captures.
    fn sessions(&self) -> impl Iterator<Item = &'a Session> {
        self.captures.iter().map(|capture| capture.context.session)
    }
}

/// The same figure of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair<T> {
    /// Before the change.
    pub before: T,
    /// After it.
    pub after: T,
}

impl<T> Pair<T> {
    /// Both figures by one function.
    pub fn of<'s, S>(sides: &'s Pair<S>, figure: impl Fn(&'s S) -> T) -> Self {
        Self {
            before: figure(&sides.before),
            after: figure(&sides.after),
        }
    }
}

/// What differs between two sides.
pub struct Comparison<'a> {
    /// The captures of both sides.
    pub sides: Pair<Side<'a>>,
    /// The factor from which on a stage counts as faster or slower.
    pub least: Ratio,
    /// What makes them incomparable, or should be known.
    pub conditions: Vec<conditions::Condition>,
    /// Stage times, in the order of the first capture.
    pub times: Vec<times::StageChange>,
    /// The captured time by phase and part.
    pub account: Vec<account::Change>,
    /// Why iterations changed, stage by stage, the largest part first.
    pub explanations: Vec<explanations::Explanation>,
    /// Kernels of each stage, the largest change first.
    pub kernels: Vec<kernels::Change>,
    /// Findings of either capture.
    pub findings: Vec<findings::Change>,
    /// Recorded settings that differ.
    pub settings: Vec<conditions::Setting>,
}

impl Comparison<'_> {
    /// The time of a mean iteration of a stage by what changed; none if a side has no iteration of it.
    pub fn waterfall(&self, stage: &str) -> Option<Waterfall> {
        waterfall::of_iteration(&self.account, stage)
    }

    /// The captured time by what changed.
    pub fn waterfall_of_capture(&self) -> Waterfall {
        waterfall::of_capture(&self.account)
    }
}

/// Compares captures before and after a change. A stage counts as faster or slower from the factor `least` on.
pub fn compare(sides: Pair<Side<'_>>, least: Ratio) -> Comparison<'_> {
    let stages = Pair::of(&sides, times::stages);
    let times = times::changes(Pair::of(&stages, Vec::as_slice), least);
    let (account, kernels) = (account::changes(&sides), kernels::changes(&sides));
    let settings = conditions::settings(&sides);
    let findings = findings::changes(&sides, &times);
    Comparison {
        conditions: conditions::conditions(&sides),
        explanations: explanations::explanations(
            &sides, &account, &kernels, &settings, &findings, least,
        ),
        findings,
        account,
        kernels,
        settings,
        times,
        least,
        sides,
    }
}
