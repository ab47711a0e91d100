//! Memory transfers and the allocator.

pub mod allocator;
pub mod transfers;
