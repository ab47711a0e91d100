//! Comparison of captures of one workload before and after a change: what changed, whether it is real, and where the time went.
//!
//! ```text
//! Analyzed… → Side, Side → conditions, times, account, kernels, findings → present → rooflens_document::report::Report
//! ```
//!
//! A capture is reduced to what a [`Side`] keeps of it, so that the tables of two large captures are never in memory at once.
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
use rooflens_document::{Catalogue, Finding};
use rooflens_units::{Hertz, Ratio};

pub use present::{
    report, report_of_experiments, report_of_figures, report_of_load_tests,
    report_of_microbenchmarks,
};
pub use record::Record;
pub use waterfall::Waterfall;

/// What a comparison needs of captures of one condition: repeats of the same run.
#[derive(Default)]
pub struct Side {
    /// Name on pages.
    pub name: String,
    /// What they state on their work and machine.
    pub stated: conditions::Stated,
    times: Vec<times::StageTimes>,
    places: account::Places,
    kernels: kernels::Kernels,
    findings: Vec<findings::Found>,
    /// SM clocks of sampled stages.
    clocks: Vec<Hertz>,
    timelines: Vec<present::Timeline>,
}

/// A capture with its results.
#[derive(Clone, Copy)]
pub struct Analyzed<'a> {
    /// Tables and results.
    pub context: Context<'a>,
    /// What its rules found, in the language of the report.
    pub findings: &'a [Finding],
}

impl Side {
    /// Adds a capture, with the words of its charts.
    pub fn add(&mut self, capture: &Analyzed<'_>, text: &'static Catalogue) {
        self.stated.add(capture);
        times::add_capture(&mut self.times, capture);
        self.places.add(capture);
        self.kernels.add(capture);
        findings::add(&mut self.findings, capture);
        self.clocks.extend(explanations::clocks(capture));
        present::add_timelines(&mut self.timelines, capture, text);
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
pub struct Comparison {
    /// Names of the sides.
    pub names: Pair<String>,
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
    /// The same by module and operator.
    pub origins: Vec<kernels::OriginChange>,
    /// Findings of either capture.
    pub findings: Vec<findings::Change>,
    /// Recorded settings that differ.
    pub settings: Vec<conditions::Setting>,
    /// A typical iteration of each stage.
    timelines: Pair<Vec<present::Timeline>>,
}

impl Comparison {
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
pub fn compare(sides: Pair<Side>, least: Ratio) -> Comparison {
    let Pair { before, after } = sides;
    let times = times::changes(
        Pair {
            before: &before.times,
            after: &after.times,
        },
        least,
    );
    let account = account::changes(&Pair {
        before: before.places,
        after: after.places,
    });
    let (kernels, origins) = kernels::changes(Pair {
        before: before.kernels,
        after: after.kernels,
    });
    let stated = Pair {
        before: &before.stated,
        after: &after.stated,
    };
    let settings = conditions::settings(stated);
    let findings = findings::changes(
        Pair {
            before: before.findings,
            after: after.findings,
        },
        &times,
    );
    let clocks = explanations::mean_clocks(Pair {
        before: &before.clocks,
        after: &after.clocks,
    });
    Comparison {
        conditions: conditions::conditions(stated),
        explanations: explanations::explanations(
            clocks, &account, &kernels, &settings, &findings, least,
        ),
        findings,
        account,
        kernels,
        origins,
        settings,
        times,
        least,
        timelines: Pair {
            before: before.timelines,
            after: after.timelines,
        },
        names: Pair {
            before: before.name,
            after: after.name,
        },
    }
}
