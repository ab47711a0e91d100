//! The tables of a session: what all artifacts of a bundle say, in one shape.
//!
//! Struct of arrays; rows are named by typed ids; times are integer nanoseconds on the clock of the pass
//! that they came from. No I/O, no serde, and nothing computed: that is `analysis`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arrange;
pub mod budget;
pub mod ids;
pub mod names;
mod nesting;
pub mod pattern;
pub mod session;
pub mod strings;
pub mod table;
pub mod tables;
pub mod view;

pub use arrange::Arrange;
pub use ids::*;
pub use nesting::mark_nested;
pub use rooflens_llm::{self as llm, Llm};
pub use rooflens_units::Ns;
pub use session::{Session, TABLES, TableOf};
pub use strings::Strings;
pub use tables::*;

/// Greatest time, either side of zero, that an importer lets in: twice today's in nanoseconds since 1970.
/// Differences of two times fit an [`Ns`].
pub const MAX_TIME: Ns = Ns(1 << 61);

/// Longest duration that an importer lets in: 104 days.
pub const MAX_DURATION: Ns = Ns(1 << 53);
