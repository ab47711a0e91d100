//! What several analyses share: operations with their stages, classes, statistics, interval arithmetic.

mod admission;
pub mod align;
pub mod attribution;
pub mod baseline;
pub mod classify;
pub mod facts;
pub mod intervals;
pub mod kernel_matching;
pub mod measured_peaks;
pub mod moments;
pub mod nesting;
pub mod platform;
mod ranks;
pub mod segments;
pub mod sm_clock;
pub mod spans;
pub mod stage_names;
pub mod stage_stats;
pub mod stages;
pub mod sweep;
pub mod tiers;
mod updates;
