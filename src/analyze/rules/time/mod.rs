//! Rules about the time of a stage: what it is spent on, and why the GPU waits.

mod activities;
pub(crate) mod allocator_stalls;
pub(crate) mod between_stages;
pub(crate) mod first_use;
pub(crate) mod host_bound;
pub(crate) mod host_pauses;
pub(crate) mod launch_bound;
pub(crate) mod queue_gaps;
pub(crate) mod short_kernels;
pub(crate) mod stage_busy;
pub(crate) mod sync_bound;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &stage_busy::RULE,
    &launch_bound::RULE,
    &host_bound::RULE,
    &host_pauses::RULE,
    &between_stages::RULE,
    &sync_bound::RULE,
    &activities::DATA_LOADER,
    &activities::GARBAGE_COLLECTION,
    &activities::COMPILATION,
    &activities::NEW_SHAPES,
    &activities::GRAPH_CAPTURE,
    &activities::CHECKPOINT,
    &activities::OS_WAITS,
    &activities::EMPTY_CACHE,
    &allocator_stalls::RULE,
    &first_use::RULE,
    &queue_gaps::RULE,
    &short_kernels::RULE,
];
