//! Kernels of the timeline: sums, GEMMs, attention, FLOPs by operator.

pub mod attention;
pub mod gemm;
pub mod kernel_sums;
pub mod matmul;
pub mod operator_flops;
pub mod stage_work;
