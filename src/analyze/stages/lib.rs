//! Stages of a session: named phases of the workload, their instances, and the GPU operations that each of them issued.
//!
//! The analyzer reports by stage, and the capture program profiles the kernels of a stage. Both must mean the same stage, or
//! the report finds no counters for the kernels that it asks about. They were two implementations once, held together by
//! golden lists, and drifted where no list looked. So both read an export into a [`rooflens_session::Session`], each with its
//! own reader, and call this crate.
//!
//! Two alternatives were rejected. A smaller input type than a session would be a second table of launches, calls and ranges
//! to keep in step with the first. The importers of the analyzer would bring SQLite and its C compiler to every GPU machine.
//!
//! What must hold: the outcome depends on the tables alone and on no order of threads, and what a session holds beyond
//! launches, copies, graphs, API calls, ranges and the workload description changes no stage and no choice of kernels.

#![forbid(unsafe_code)]

mod admission;
pub mod attribution;
pub mod classify;
mod exclusions;
pub mod intervals;
mod labels;
pub mod repeats;
pub mod selection;
mod sizes;
pub mod stage_names;
pub mod stages;
mod tables;
#[cfg(test)]
mod tests;
mod updates;

pub use sizes::Sizes;
pub use tables::{
    Attribution, Captured, Exclusion, OpIndex, OpSource, Ops, Stage, StageInstance, StageTables,
};
