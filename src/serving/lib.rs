//! Load tests of serving engines: results of load generators and engines into typed runs, and those into a report.
pub mod import;
pub mod model;
pub mod stats;
#[cfg(test)]
mod tests;
