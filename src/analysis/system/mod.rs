//! Environment, clocks, power.

pub mod environment;
pub mod power;
