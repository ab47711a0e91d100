//! Comparison of two captures of one workload: what changed, whether it is real, and where the time went.
//!
//! ```text
//! Side, Side → conditions, times, account, kernels, findings → present → rooflens_document::report::Report
//! ```
//!
//! Three questions are kept apart. Unprofiled repeats decide whether a step is faster: [`times`]. The account of both
//! captures says where the difference is, to the nanosecond: [`account`]. Names of kernels say which code it is:
//! [`kernels`]. Kernels are matched by name and, where names differ, by class and launches in an iteration, because
//! another library or tile has another name.

#![forbid(unsafe_code)]

pub mod account;
pub mod conditions;
pub mod findings;
pub mod kernels;
mod present;
#[cfg(test)]
mod tests;
pub mod times;

use rooflens_analysis::Context;
use rooflens_document::Finding;
use rooflens_units::Ratio;

pub use present::report;

/// A capture with its results.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Tables and results.
    pub context: Context<'a>,
    /// What its rules found, in the language of the report.
    pub findings: &'a [Finding],
}

/// The same figure of both captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair<T> {
    /// Of the first capture.
    pub before: T,
    /// Of the second one.
    pub after: T,
}

impl<T> Pair<T> {
    /// Both figures by one function.
    pub fn of<S>(sides: &Pair<S>, figure: impl Fn(&S) -> T) -> Self {
        Self {
            before: figure(&sides.before),
            after: figure(&sides.after),
        }
    }
}

/// What differs between two captures.
pub struct Comparison<'a> {
    /// The captures.
    pub sides: Pair<Side<'a>>,
    /// The factor from which on a stage counts as faster or slower.
    pub least: Ratio,
    /// What makes them incomparable, or should be known.
    pub conditions: Vec<conditions::Condition>,
    /// Stage times, in the order of the first capture.
    pub times: Vec<times::StageChange>,
    /// The captured time by phase and part.
    pub account: Vec<account::Change>,
    /// Kernels of each stage, the largest change first.
    pub kernels: Vec<kernels::Change>,
    /// Findings of either capture.
    pub findings: Vec<findings::Change>,
    /// Recorded settings that differ.
    pub settings: Vec<conditions::Setting>,
}

/// Compares two captures. A stage counts as faster or slower from the factor `least` on.
pub fn compare(sides: Pair<Side<'_>>, least: Ratio) -> Comparison<'_> {
    let times = times::changes(&sides, least);
    Comparison {
        conditions: conditions::conditions(&sides),
        account: account::changes(&sides),
        kernels: kernels::changes(&sides),
        findings: findings::changes(&sides, &times),
        settings: conditions::settings(&sides),
        times,
        least,
        sides,
    }
}
