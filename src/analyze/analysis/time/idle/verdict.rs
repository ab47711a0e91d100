//! What bounds a stage: the largest of a few shares of its time.

use super::cause::Cause;
use super::line::StageIdle;
use crate::engine::intervals::total;
use crate::engine::tiers::Tier;
use rooflens_session::Ns;
use rooflens_units::Ratio;

/// What bounds a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The GPU computes.
    Gpu,
    /// Issued operations wait: launch latency, stream order, events.
    Latency,
    /// Collectives, exposed or waited for.
    Communication,
    /// Copies, exposed or waited for.
    Copy,
    /// The rate of launches.
    Launch,
    /// Host code, first use, allocation, the operating system.
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
            Self::Latency => "latency-bound",
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
}

impl StageIdle {
    /// What bounds the stage, and its share of the stage's time. Of equal shares the first of the list wins.
    pub fn verdict(&self) -> (Verdict, Ratio) {
        // What has no verdict of its own.
        let host = total(Cause::HOST.into_iter().map(|cause| match cause {
            Cause::Launching | Cause::Sync | Cause::Copy => Ns::ZERO,
            _ => self.of(cause),
        }));
        let with = |tier, cause| self.busy_of(tier).saturating_add(self.of(cause));
        let shares = [
            (Verdict::Gpu, self.busy_of(Tier::Compute)),
            (Verdict::Latency, self.of(Cause::Queue)),
            (
                Verdict::Communication,
                with(Tier::Communication, Cause::Communication),
            ),
            (Verdict::Copy, with(Tier::Copy, Cause::Copy)),
            (Verdict::Launch, self.of(Cause::Launching)),
            (Verdict::Host, host),
            (Verdict::Sync, self.of(Cause::Sync)),
            (Verdict::Profiler, self.of(Cause::Profiler)),
            (Verdict::OtherWork, self.of(Cause::OtherWork)),
            (Verdict::Unknown, self.of(Cause::Unknown)),
        ];
        let first = shares[0];
        let largest = shares
            .into_iter()
            .fold(first, |a, b| if b.1 > a.1 { b } else { a });
        (largest.0, self.share(largest.1))
    }
}
