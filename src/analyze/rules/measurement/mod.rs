//! Rules about the measurement: how far its figures carry.

pub(crate) mod attribution_coverage;
pub(crate) mod flop_coverage;
pub(crate) mod hidden_graphs;
pub(crate) mod profile_coverage;
pub(crate) mod profiler_overhead;
pub(crate) mod repeat_outliers;
pub(crate) mod uneven_pace;
pub(crate) mod unknown_kernels;
pub(crate) mod unrepresentative_profile;
pub(crate) mod utilization_basis;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &uneven_pace::RULE,
    &repeat_outliers::RULE,
    &profiler_overhead::RULE,
    &utilization_basis::RULE,
    &attribution_coverage::RULE,
    &hidden_graphs::RULE,
    &unknown_kernels::RULE,
    &flop_coverage::RULE,
    &profile_coverage::RULE,
    &unrepresentative_profile::RULE,
];
