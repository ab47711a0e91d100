//! MFU, MBU and FLOPs.

pub mod flops_by_source;
pub mod mfu;
pub mod model_flops;
