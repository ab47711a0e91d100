//! Where the time of stages goes.
//!
//! A stage ends on the GPU later than its range closes on the CPU, because launches are asynchronous. The time of a
//! stage is therefore the projection of its GPU operations. The CPU range was rejected as the stage time.
//!
//! Busy time, gaps and other work add up to the projection, to the nanosecond. Each nanosecond of a gap has one cause.
//! Upper bounds of gains overlap, so they are sorted and never added up.

pub mod account;
pub mod critical_path;
pub mod drift;
pub mod graphs;
pub mod idle;
pub mod overlap;
pub mod stage_times;
pub mod sync;
pub mod timeline;
pub mod upper_bounds;
