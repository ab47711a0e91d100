//! Rules about the time of a stage: what it is spent on, and why the GPU waits.

pub(crate) mod allocator_stalls;
pub(crate) mod between_stages;
pub(crate) mod checkpoint;
pub(crate) mod compilation;
pub(crate) mod data_loader;
pub(crate) mod empty_cache;
pub(crate) mod first_use;
pub(crate) mod garbage_collection;
pub(crate) mod graph_capture;
pub(crate) mod host_bound;
pub(crate) mod host_pauses;
pub(crate) mod launch_bound;
pub(crate) mod new_shapes;
pub(crate) mod os_waits;
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
    &data_loader::RULE,
    &garbage_collection::RULE,
    &compilation::RULE,
    &new_shapes::RULE,
    &graph_capture::RULE,
    &checkpoint::RULE,
    &os_waits::RULE,
    &empty_cache::RULE,
    &allocator_stalls::RULE,
    &first_use::RULE,
    &queue_gaps::RULE,
    &short_kernels::RULE,
];
