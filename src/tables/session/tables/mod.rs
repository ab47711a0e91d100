//! The tables, one file a subject.

mod collectives;
mod counters;
mod gemm_calls;
mod gpu_work;
mod host;
mod passes;
mod profiles;
mod samples;
mod snapshot;
mod system;

pub use collectives::*;
pub use counters::*;
pub use gemm_calls::*;
pub use gpu_work::*;
pub use host::*;
pub use passes::*;
pub use profiles::*;
pub use samples::*;
pub use snapshot::*;
pub use system::*;
