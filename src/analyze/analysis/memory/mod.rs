//! Memory transfers and the allocator.
//!
//! Transfers matter as far as no kernel hides them, and the allocator matters at its peak. Sums of bytes alone show
//! neither.
//!
//! Values that an artifact does not state are missing, never 0.

pub mod allocator;
pub mod transfers;
