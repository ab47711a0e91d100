//! Kernels profiled by Nsight Compute: bounds, rooflines, details, representativeness.
//!
//! Nsight Compute replays a kernel under its own clock and cache control. Its durations weight counters, and they never
//! time the workload.
//!
//! A launch of the timeline takes counters from profiled launches of the same kernel, grid and block. Scaling by blocks
//! is the last resort. It was rejected for GEMMs, attention and convolutions, because their grid does not contain their
//! depth. A launch without a partner has no counters, and a launch without counted FLOPs is never drawn at 0.

pub mod details;
pub mod ncu;
pub mod ncu_kernels;
pub mod represent;
pub mod roofline;
