//! Environment, clocks, power.
//!
//! Facts of a machine and samples of its GPUs explain times, and they are not times themselves. Samples have UTC times,
//! and a pass has a clock with its own zero.
//!
//! A sample belongs to a stage only if the pass states its UTC origin and the sample falls within the projection.
//! Otherwise the figures cover the sampled period, and the report says so.

pub mod environment;
pub mod host;
pub mod power;
pub mod snapshot;
