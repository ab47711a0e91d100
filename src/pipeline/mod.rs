//! The pipeline as calls: [`open`] files, [`Capture::analyze`] them, [`Analysis::report`] on them.
//!
//! The command line, the tests, the benchmarks and the fuzzers all go through these calls, so that they agree on what
//! one input is: which files are of one run, which exports are converted, which ranges are stages, what is worth a
//! report. The first version of Rooflens had these decisions in the command line, and each test repeated a part of
//! them. Nothing here prints, exits or looks up programs: steps go to a callback, remarks are [`Diagnostics`] in the
//! capture, and an external program is run only through an [`Exporter`] that the caller supplies.
//!
//! [`Diagnostics`]: crate::diagnostic::Diagnostics

mod analyze;
mod calibration;
mod comparison;
mod exports;
mod kernels;
mod load_tests;
mod memory;
mod microbenchmarks;
mod notes;
mod open;
mod runs;
mod stages;
mod study;
mod suggestion;

pub use analyze::{Analysis, AnalyzeError, Section};
pub use calibration::Calibrated;
pub use comparison::{
    ComparisonError, Repeats, Settings, compare, compare_figures, compare_load_tests,
    compare_microbenchmarks, comparison, experiments, name, record, record_of_load_tests,
};
pub use exports::Exporter;
pub use kernels::{ProfileList, UnknownStage};
pub use load_tests::{LoadTestError, LoadTests};
pub use microbenchmarks::Microbenchmarks;
pub use notes::{NotesError, NotesFile};
pub use open::{Capture, Input, OpenError, Step, open};
pub use runs::{Difference, SeveralRuns};
pub use stages::{StageOverview, StageRuleError, stage_rule};
pub use study::{NothingToReport, Study, is_recognized};
