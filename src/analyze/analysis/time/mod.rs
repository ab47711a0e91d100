//! Where the time of stages goes.

pub mod critical_path;
pub mod drift;
pub mod graphs;
pub mod idle;
pub mod overlap;
pub mod stage_times;
pub mod sync;
pub mod timeline;
pub mod upper_bounds;
