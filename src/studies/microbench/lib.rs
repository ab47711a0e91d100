//! Microbenchmarks of a GPU (`bench.json` and `peaks.json` of `rooflens-capture`) into a report.
//!
//! ```text
//! files → import → Device (rates, cases) → analysis (ceilings, efficiency, fits) → present → rooflens_document::report::Report
//! ```
//!
//! The roofline time of a case is
//! max(FLOPs ÷ rate, bytes ÷ bandwidth) (Williams, Waterman and Patterson, CACM 52(4), 2009).

#![forbid(unsafe_code)]

pub mod analysis;
pub mod fit;
pub mod import;
mod present;
#[cfg(test)]
mod tests;

pub use present::report;
