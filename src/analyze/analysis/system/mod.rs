//! Environment, clocks, power.

pub mod environment;
pub mod host;
pub mod power;
pub mod snapshot;
