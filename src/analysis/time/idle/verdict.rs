//! What bounds a stage: the largest of a few shares of its time.

use super::cause::Cause;
use super::line::Line;
use crate::analysis::engine::intervals::total;

/// What bounds a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The GPU computes, or works through its queue.
    Gpu,
    /// Collectives, exposed or waited for.
    Communication,
    /// Copies, exposed or waited for.
    Copy,
    /// The rate of launches.
    Launch,
    /// Host code, allocation, the operating system.
    Host,
    /// Synchronizing calls.
    Sync,
    /// The profiler.
    Profiler,
    /// Operations of other stages.
    OtherWork,
    /// Not known.
    Unknown,
}

impl Verdict {
    /// The word of tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gpu => "GPU-bound",
            Self::Communication => "communication-bound",
            Self::Copy => "copy-bound",
            Self::Launch => "launch-bound",
            Self::Host => "host-bound",
            Self::Sync => "sync-bound",
            Self::Profiler => "bound by the profiler",
            Self::OtherWork => "bound by other work",
            Self::Unknown => "unknown",
        }
    }

    /// The verdict on a line, and its share of the stage's time. Of equal shares the first of the list wins.
    pub fn of(line: &Line) -> (Self, f64) {
        let sum = |causes: &[Cause]| total(causes.iter().map(|cause| line.of(*cause)));
        let busy = line.middle.busy;
        let shares = [
            (Self::Gpu, busy.computing.saturating_add(sum(&[Cause::Queue]))),
            (Self::Communication, busy.communication.saturating_add(sum(&[Cause::Communication]))),
            (Self::Copy, busy.copies.saturating_add(sum(&[Cause::Copy]))),
            (Self::Launch, sum(&[Cause::Launching])),
            (Self::Host, sum(&[Cause::HostCode, Cause::Allocator, Cause::Os, Cause::OffCpu])),
            (Self::Sync, sum(&[Cause::Sync])),
            (Self::Profiler, sum(&[Cause::Profiler])),
            (Self::OtherWork, sum(&[Cause::OtherWork])),
            (Self::Unknown, sum(&[Cause::Unknown])),
        ];
        let first = shares[0];
        let largest = shares.into_iter().fold(first, |a, b| if b.1 > a.1 { b } else { a });
        (largest.0, line.share(largest.1))
    }
}
