//! Kernels profiled by Nsight Compute: bounds, rooflines, details, representativeness.

pub mod details;
pub mod ncu;
pub mod ncu_kernels;
pub mod represent;
pub mod roofline;
