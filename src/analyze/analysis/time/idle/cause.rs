//! Why a GPU is idle.

use crate::engine::intervals::{add, total};
use crate::results::Missing;
use rooflens_session::{Ns, PassId, Session};

/// Why a GPU is idle at a time: of a gap each nanosecond has one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The host issues work, at its rate.
    Launching,
    /// The host computes for long without a CUDA call.
    HostCode,
    /// The host prepares what later uses find ready: loads code, links it, instantiates graphs.
    FirstUse,
    /// The host waits in a synchronizing call.
    Sync,
    /// The host allocates or frees memory.
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
    pub const ALL: [Self; 13] = [
        Self::Launching,
        Self::HostCode,
        Self::FirstUse,
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
    pub const HOST: [Self; 8] = [
        Self::Launching,
        Self::HostCode,
        Self::FirstUse,
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
            Self::FirstUse => "first use",
            Self::Sync => "synchronizing call",
            Self::Allocator => "allocation",
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

/// Time by cause, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    times: [Ns; Cause::ALL.len()],
    /// Causes that may have time, a bit each: a gap has few.
    present: u16,
}

impl Times {
    /// Time of one cause.
    pub const fn one(cause: Cause, time: Ns) -> Self {
        let mut times = Self {
            times: [Ns::ZERO; Cause::ALL.len()],
            present: 0,
        };
        times.set(cause, time);
        times
    }

    /// Time of a cause.
    pub const fn of(&self, cause: Cause) -> Ns {
        self.times[cause as usize]
    }

    /// Sets the time of a cause.
    pub const fn set(&mut self, cause: Cause, time: Ns) {
        self.times[cause as usize] = time;
        self.present |= ((time.0 != 0) as u16) << cause as u16;
    }

    /// Adds time of a cause.
    pub const fn add(&mut self, cause: Cause, time: Ns) {
        add(&mut self.times[cause as usize], time);
        self.present |= ((time.0 != 0) as u16) << cause as u16;
    }

    /// Adds the times of all causes.
    pub fn extend(&mut self, other: &Self) {
        other
            .causes()
            .for_each(|(cause, time)| self.add(cause, time));
    }

    /// Time of several causes.
    pub fn sum(&self, causes: &[Cause]) -> Ns {
        total(causes.iter().map(|cause| self.of(*cause)))
    }

    /// Time of all causes.
    pub fn total(&self) -> Ns {
        total(self.times.into_iter())
    }

    /// The causes that have time, in the order of [`Cause::ALL`].
    pub fn causes(&self) -> impl Iterator<Item = (Cause, Ns)> {
        let mut left = self.present;
        let next = std::iter::from_fn(move || {
            let cause = *Cause::ALL.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some((cause, self.of(cause)))
        });
        next.filter(|(_, time)| *time > Ns::ZERO)
    }

    /// The cause with most time; of equal ones the first.
    pub fn main(&self) -> Cause {
        let most = self
            .causes()
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        most.map_or(Cause::Unknown, |(cause, _)| cause)
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
    pub(super) const ALL: Self = Self {
        calls: true,
        os: true,
        off_cpu: true,
        profiler: true,
    };

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
        if self.calls {
            Ok(())
        } else {
            Err(Missing("missing.cuda_calls"))
        }
    }

    /// Whether a cause can be distinguished from others.
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
