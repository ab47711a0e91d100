//! Kernels of the timeline: sums, GEMMs, attention, FLOPs by operator.
//!
//! A timeline has names, grids and times of kernels, but no sizes of GEMMs. Sizes come from operators or logs, through
//! the same stage of the pass that recorded them.
//!
//! Joining passes by time was rejected: profilers disturb runs in different ways. If several positions fit, they must
//! agree; otherwise the kernel has no sizes. A GEMM faster than its roofline has no headroom, and never a negative one.

pub mod attention;
pub mod gemm;
pub mod kernel_sums;
pub mod matmul;
pub mod operator_flops;
pub mod stage_work;
