//! What several analyses share: operations with their stages, classes, statistics, interval arithmetic.
//!
//! Several results need the same derived tables: operations with stages, ranks, medians of instances. This folder
//! computes each of them in one place.
//!
//! A moment with several operations belongs to one of them, so that parts add up to busy time. The sum of durations was
//! rejected as busy time, because it counts overlap twice. Passes are joined by name and never by time, because each
//! profiler disturbs the run differently.

pub mod align;
pub mod baseline;
pub mod facts;
pub mod kernel_matching;
pub mod measured_peaks;
pub mod moments;
pub mod nesting;
pub mod platform;
mod ranks;
pub mod segments;
pub mod sm_clock;
pub mod spans;
pub mod stage_stats;
pub mod sweep;
pub mod tiers;

pub use rooflens_stages::{attribution, classify, intervals, stage_names, stages};
