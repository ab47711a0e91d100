//! Rules about kernels by their counters and grids.

pub(crate) mod attention_cache;
mod limits;
pub(crate) mod profiled_bound;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &limits::SMALL_GRIDS,
    &limits::UNCOALESCED,
    &limits::BANK_CONFLICTS,
    &limits::LOCAL_MEMORY,
    &limits::ATOMICS,
    &limits::DIVERGENCE,
    &limits::CACHE_TRAFFIC,
    &limits::FP64,
    &limits::OCCUPANCY,
    &limits::TAIL,
    &attention_cache::RULE,
    &profiled_bound::RULE,
];
