//! Work against peaks: MFU, MBU, FLOPs by source.
//!
//! Utilization divides counted work by a peak and a time, and each of the three may be unknown. A figure without its
//! input is unavailable, with the reason.
//!
//! Guessing the peak of a GPU without an entry was rejected. A figure above 100 % is an error of the input (peak, shape
//! or window), so it is no number. FLOPs of several sources stay side by side.

pub mod flops_by_source;
pub mod mfu;
mod unavailable;

pub use unavailable::Unavailable;
