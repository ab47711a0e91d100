//! What several analyses share: operations with their stages, classes, statistics, interval arithmetic.

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
