//! What a reader sees of causes.

use rooflens_analysis::time::idle::Cause;
use rooflens_document::MetricDef;
use rooflens_document::catalogue::{
    IDLE_ALLOCATOR, IDLE_COMMUNICATION, IDLE_COPY, IDLE_FIRST_USE, IDLE_HOST_CODE, IDLE_LAUNCHING,
    IDLE_OFF_CPU, IDLE_OS, IDLE_OTHER_WORK, IDLE_PROFILER, IDLE_QUEUE, IDLE_SYNC, IDLE_UNKNOWN,
};
use rooflens_document::chart::{Color, Part};

/// The metric of a cause, its colour, and what a reader makes of it. Causes of one colour are told apart by tint.
pub(super) const fn of(cause: Cause) -> (&'static MetricDef, Color, &'static str) {
    match cause {
        Cause::Launching => (
            &IDLE_LAUNCHING,
            Color::Launching,
            "the host issues launches one after the other, at its rate",
        ),
        Cause::HostCode => (
            &IDLE_HOST_CODE,
            Color::Host,
            "the host computes without a CUDA call",
        ),
        Cause::FirstUse => (
            &IDLE_FIRST_USE,
            Color::Host,
            "the host loads or links code, launches a kernel for the first time, or instantiates a graph",
        ),
        Cause::Sync => (
            &IDLE_SYNC,
            Color::Blocked,
            "the host waits in a synchronizing call",
        ),
        Cause::Allocator => (
            &IDLE_ALLOCATOR,
            Color::Blocked,
            "the host allocates or frees memory in a CUDA call",
        ),
        Cause::Copy => (
            &IDLE_COPY,
            Color::Blocked,
            "the host waits in a copy that blocks it",
        ),
        Cause::Os => (
            &IDLE_OS,
            Color::Blocked,
            "the host is in a call of the operating system",
        ),
        Cause::OffCpu => (
            &IDLE_OFF_CPU,
            Color::Blocked,
            "no CPU runs the host's thread: preempted, or blocked outside of traced calls",
        ),
        Cause::Profiler => (
            &IDLE_PROFILER,
            Color::Other,
            "the profiler holds up the host",
        ),
        Cause::Communication => (
            &IDLE_COMMUNICATION,
            Color::Communication,
            "work that was issued waits at a collective",
        ),
        Cause::Queue => (
            &IDLE_QUEUE,
            Color::Busy,
            "work that was issued waits: launch latency, stream order, events",
        ),
        Cause::OtherWork => (
            &IDLE_OTHER_WORK,
            Color::Other,
            "the GPU runs operations that are not of this stage",
        ),
        Cause::Unknown => (
            &IDLE_UNKNOWN,
            Color::Idle,
            "the call that issued the next operation is not in the artifact",
        ),
    }
}

/// The causes that occur, and their part of a legend.
pub(super) fn legend(occurs: impl Fn(Cause) -> bool) -> (Vec<Cause>, Vec<Part>) {
    let causes: Vec<Cause> = Cause::ALL
        .into_iter()
        .filter(|cause| occurs(*cause))
        .collect();
    let part = |cause: &Cause| Part {
        name: cause.label().to_owned(),
        color: of(*cause).1,
    };
    let parts = causes.iter().map(part).collect();
    (causes, parts)
}
