//! Work against peaks: MFU, MBU, FLOPs by source.

pub mod flops_by_source;
pub mod mfu;
mod unavailable;

pub use unavailable::Unavailable;
