//! Rules about operators: groups of kernels that another form of the same computation replaces.

mod attention_math;
mod dtype_casts;
mod expert_loop;
mod fp64_operators;
mod gemm_loop;
mod layout_conversions;
mod norm_unfused;
mod optimizer_loop;
mod pointwise_unfused;
mod repeated_tensors;
mod row_additions;
mod transposed_copies;

use crate::rule::Rule;

/// In the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &optimizer_loop::RULE,
    &attention_math::RULE,
    &expert_loop::RULE,
    &gemm_loop::RULE,
    &row_additions::RULE,
    &repeated_tensors::RULE,
    &fp64_operators::RULE,
    &layout_conversions::RULE,
    &transposed_copies::RULE,
    &norm_unfused::RULE,
    &pointwise_unfused::RULE,
    &dtype_casts::RULE,
];
