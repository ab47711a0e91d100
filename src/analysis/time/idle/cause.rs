//! Why a GPU is idle.

use crate::findings::chart::Color;

/// The one cause that each gap is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
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
    pub(crate) const ALL: [Self; 12] = [
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
    pub(crate) const HOST: [Self; 7] = [
        Self::Launching,
        Self::HostCode,
        Self::Sync,
        Self::Allocator,
        Self::Copy,
        Self::Os,
        Self::OffCpu,
    ];

    /// Its metric.
    pub(super) const fn metric(self) -> &'static str {
        match self {
            Self::Launching => "idle_launching",
            Self::HostCode => "idle_host_code",
            Self::Sync => "idle_sync",
            Self::Allocator => "idle_allocator",
            Self::Copy => "idle_copy",
            Self::Os => "idle_os",
            Self::OffCpu => "idle_off_cpu",
            Self::Profiler => "idle_profiler",
            Self::Communication => "idle_communication",
            Self::Queue => "idle_queue",
            Self::OtherWork => "idle_other_work",
            Self::Unknown => "idle_unknown",
        }
    }

    /// The words of tables and legends.
    pub(super) const fn label(self) -> &'static str {
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

    /// What a reader makes of it.
    pub(super) const fn meaning(self) -> &'static str {
        match self {
            Self::Launching => "the host issues launches one after the other, at its rate",
            Self::HostCode => "the host computes without a CUDA call",
            Self::Sync => "the host waits in a synchronizing call",
            Self::Allocator => "the host allocates memory, loads code or instantiates a graph",
            Self::Copy => "the host waits in a copy that blocks it",
            Self::Os => "the host is in a call of the operating system",
            Self::OffCpu => {
                "no CPU runs the host's thread: preempted, or blocked outside of traced calls"
            }
            Self::Profiler => "the profiler holds up the host",
            Self::Communication => "work that was issued waits at a collective",
            Self::Queue => "work that was issued waits: launch latency, stream order, events",
            Self::OtherWork => "the GPU runs operations that are not of this stage",
            Self::Unknown => "the call that issued the next operation is not in the artifact",
        }
    }

    /// Its colour; causes of one colour are told apart by tint.
    pub(super) const fn color(self) -> Color {
        match self {
            Self::Launching => Color::Launching,
            Self::HostCode => Color::Host,
            Self::Sync | Self::Allocator | Self::Copy | Self::Os | Self::OffCpu => Color::Blocked,
            Self::Communication => Color::Communication,
            Self::Queue => Color::Busy,
            Self::Profiler | Self::OtherWork => Color::Other,
            Self::Unknown => Color::Idle,
        }
    }
}
