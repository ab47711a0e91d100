//! Lower bounds of a language model's prefill and decode times, from its architecture and the peaks of a GPU.
//!
//! A pass is cut into the parts of its layers that follow one another. Each part takes at least
//! max(FLOPs ÷ rate, bytes ÷ bandwidth), in seconds; a pass takes the sum (roofline: Williams, Waterman and Patterson,
//! CACM 52(4), 2009). Weights move once a pass and part, caches as far as they are attended to, activations not at all.
//! `docs/prediction.md` has the formulas, their sources and the assumptions.
//!
//! [`projection`] starts from measured stages instead and says what they would take after a change: same command, same
//! rates of GPUs, but times of kernels instead of the shapes of a config.

#![forbid(unsafe_code)]

mod advice;
mod calibration;
mod cost;
pub mod document;
mod machine;
mod precision;
pub mod projection;
mod setup;
mod sheet;
mod sweep;

pub use advice::{Advice, Limits, advise, ridge_batch};
pub use calibration::{Calibration, Figure, Rate};
pub use cost::{Cost, Pass, Plan, Round};
pub use document::{layer_table, modules};
pub use machine::Machine;
pub use precision::{PRECISIONS, Precision};
pub use setup::{Load, Memory, Prediction, Setup, Speculation, predict, weight_bytes};
pub use sheet::{AtContext, Sheet, Size, Stored, sheet};
pub use sweep::{Point, Sweep, sweep};

#[cfg(test)]
mod schedules;
#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests;
