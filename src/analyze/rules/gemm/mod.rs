//! Rules about GEMMs: their rate, types and shapes.

pub(crate) mod decode_bandwidth;
pub(crate) mod gemm_alignment;
pub(crate) mod gemm_bandwidth;
pub(crate) mod gemm_quantization;
pub(crate) mod gemm_roofline;
pub(crate) mod low_mfu;
pub(crate) mod no_kv_cache;
pub(crate) mod no_tensor_cores;
pub(crate) mod padding;
pub(crate) mod repeated_gemms;
pub(crate) mod tf32_gemms;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &low_mfu::RULE,
    &no_kv_cache::RULE,
    &padding::RULE,
    &decode_bandwidth::RULE,
    &no_tensor_cores::RULE,
    &tf32_gemms::RULE,
    &gemm_roofline::RULE,
    &gemm_bandwidth::RULE,
    &gemm_quantization::RULE,
    &gemm_alignment::RULE,
    &repeated_gemms::RULE,
];
