//! Why a GPU is idle.

use crate::results::Missing;
use rooflens_model::{PassId, Session};

/// The one cause that each gap is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The host issues work, at its rate.
    Launching,
    /// The host computes for long without a CUDA call.
    HostCode,
    /// The host waits in a synchronizing call.
    Sync,
    /// The host allocates memory, loads modules or instantiates graphs.
    Allocator,
    /// The host waits in a copy that blocks.
    Copy,
    /// The host is in a call of the operating system's libraries.
    Os,
    /// No CPU runs the host's thread, and no call says why.
    OffCpu,
    /// The host is held up by the profiler.
    Profiler,
    /// Issued work waits at a collective.
    Communication,
    /// Issued work waits: launch latency, stream order, events.
    Queue,
    /// The GPU runs operations that are not the stage's.
    OtherWork,
    /// The artifact does not say what ended the gap.
    Unknown,
}

impl Cause {
    /// All causes in the order of legends.
    pub const ALL: [Self; 12] = [
        Self::Launching,
        Self::HostCode,
        Self::Sync,
        Self::Allocator,
        Self::Copy,
        Self::Os,
        Self::OffCpu,
        Self::Profiler,
        Self::Communication,
        Self::Queue,
        Self::OtherWork,
        Self::Unknown,
    ];

    /// Causes for which the host had not issued the next operation, the profiler's own time aside.
    pub const HOST: [Self; 7] = [
        Self::Launching,
        Self::HostCode,
        Self::Sync,
        Self::Allocator,
        Self::Copy,
        Self::Os,
        Self::OffCpu,
    ];

    /// The words of tables and legends.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::HostCode => "host code",
            Self::Sync => "synchronizing call",
            Self::Allocator => "allocation, loading",
            Self::Copy => "blocking copy",
            Self::Os => "operating system",
            Self::OffCpu => "off CPU",
            Self::Profiler => "profiler",
            Self::Communication => "collective",
            Self::Queue => "queue, latency",
            Self::OtherWork => "other work",
            Self::Unknown => "unknown",
        }
    }
}

/// What the artifact of a pass can tell of idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traced {
    calls: bool,
    os: bool,
    off_cpu: bool,
    profiler: bool,
}

impl Traced {
    /// All that an artifact can tell.
    pub(super) const ALL: Self = Self { calls: true, os: true, off_cpu: true, profiler: true };

    /// What the tables hold of a pass.
    pub(super) fn new(session: &Session, pass: PassId) -> Self {
        Self {
            calls: session.api_calls.pass.contains(&pass),
            os: session.os_calls.pass.contains(&pass),
            off_cpu: session.off_cpu.pass.contains(&pass),
            profiler: session.overheads.pass.contains(&pass),
        }
    }

    /// Whether there are CUDA calls; if not, why nothing is known that needs them.
    pub(super) const fn calls(self) -> Result<(), Missing> {
        if self.calls { Ok(()) } else { Err(Missing("missing.cuda_calls")) }
    }

    /// Whether a cause can be told from others.
    pub(super) fn tells(self, cause: Cause) -> Result<(), Missing> {
        if matches!(cause, Cause::Unknown | Cause::OtherWork) {
            return Ok(());
        }
        self.calls()?;
        match cause {
            Cause::Os if !self.os => Err(Missing("missing.os_calls")),
            Cause::OffCpu if !self.off_cpu => Err(Missing("missing.scheduler")),
            Cause::Profiler if !self.profiler => Err(Missing("missing.overheads")),
            _ => Ok(()),
        }
    }
}
