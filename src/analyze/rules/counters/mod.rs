//! Rules about profiled launches: what their counters say of a stage.

pub(crate) mod attention_cache;
mod estimates;
pub(crate) mod low_occupancy;
pub(crate) mod memory_access;
pub(crate) mod profiled_bound;
pub(crate) mod profiled_rule_estimate;
pub(crate) mod small_grids;
pub(crate) mod wave_tail;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &profiled_bound::RULE,
    &small_grids::RULE,
    &wave_tail::RULE,
    &low_occupancy::RULE,
    &attention_cache::RULE,
    &memory_access::RULE,
    &profiled_rule_estimate::RULE,
];
