//! The gaps of each GPU, and the one cause of each.

use super::calls::{CallKind, Calls};
use super::cause::Cause;
use crate::Context;
use crate::engine::facts::OpIndex;
use crate::engine::intervals::{Interval, measure_within};
use crate::engine::sweep;
use crate::engine::tiers::{Tier, tier};
use rooflens_model::{ApiCallId, GpuId, Ns};

/// Host time between two CUDA calls from which on it is host code of its own rather than a part of issuing
/// launches, nanoseconds. A framework's dispatch of one operator takes a tenth of it.
pub const HOST_STRETCH: Ns = 100_000;

/// A time without any operation on a GPU, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds.
    pub end: Ns,
    /// The operation that ends it.
    pub op: OpIndex,
    /// Why it is.
    pub cause: Cause,
    /// Time that the issuing thread spent in CUDA calls within the gap, nanoseconds; 0 if it had issued before.
    pub calls: Ns,
}

/// The gaps between all operations of each GPU, whatever stage they belong to, by start.
pub(super) struct Gaps {
    by_gpu: Vec<Vec<Gap>>,
}

impl Gaps {
    /// Finds and explains the gaps of all GPUs.
    pub(super) fn new(context: &Context<'_>, calls: &Calls<'_>) -> Self {
        let (session, facts) = (context.session, context.facts);
        let mut by_gpu = vec![Vec::new(); session.gpus.len()];
        for gap in sweep::gaps(session, facts, 0..facts.ops.len()) {
            let (cause, calls) = explain(context, calls, &gap);
            let sweep::Gap { start, end, op, .. } = gap;
            by_gpu[gap.gpu.index()].push(Gap { start, end, op, cause, calls });
        }
        Self { by_gpu }
    }

    /// The gaps of a GPU that reach into a window, each with the part of it inside.
    pub(super) fn within(&self, gpu: GpuId, window: Interval) -> impl Iterator<Item = (&Gap, Ns)> {
        let gaps = &self.by_gpu[gpu.index()];
        let first = gaps.partition_point(|gap| gap.end <= window.0);
        let inside = gaps[first..].iter().take_while(move |gap| gap.start < window.1);
        inside.map(move |gap| (gap, gap.end.min(window.1) - gap.start.max(window.0)))
    }
}

/// Cause of a gap, and the time of CUDA calls in it.
fn explain(context: &Context<'_>, calls: &Calls<'_>, gap: &sweep::Gap) -> (Cause, Ns) {
    let (op, time) = (gap.op, (gap.start, gap.end));
    let Some(call) = context.facts.ops.api_call[op as usize] else { return (Cause::Unknown, 0) };
    let (begun, returned) = calls.span(call);
    if begun > gap.end {
        // The clocks of host and GPU disagree.
        return (Cause::Unknown, 0);
    }
    if returned > gap.start && calls.is_first(call, op) {
        return host_cause(calls, time, call);
    }
    let collective = tier(context.session, context.facts, op as usize) == Tier::Communication;
    let cause =
        if gap.after_collective || collective { Cause::Communication } else { Cause::Queue };
    (cause, 0)
}

/// What the issuing thread did in a gap that began before `call` had returned.
fn host_cause(calls: &Calls<'_>, gap: Interval, call: ApiCallId) -> (Cause, Ns) {
    let api = &calls.session.api_calls;
    let thread = api.thread[call.index()];
    let most = |time: Ns| time.saturating_mul(2) >= gap.1 - gap.0;
    let (inside, before) = calls.since(gap.0, call);
    let (mut all, mut sync, mut allocator, mut copy, mut stretch) = (0, 0, 0, 0, 0);
    // A thread's first call comes after a stretch without an end.
    let mut free_since = before.unwrap_or(Ns::MIN);
    let mut os = measure_within(&calls.os[thread.index()], gap);
    // What becomes of the thread after it has issued the operation holds up nothing.
    let waiting = (gap.0, gap.1.min(api.end[call.index()]));
    let mut off_cpu = measure_within(&calls.off_cpu_alone[thread.index()], waiting);
    for row in inside.iter().map(|row| *row as usize) {
        let clipped = (api.start[row].max(gap.0), api.end[row].min(gap.1));
        let time = (clipped.1 - clipped.0).max(0);
        all += time;
        match calls.kind(ApiCallId::at(row)) {
            CallKind::Sync => sync += time,
            CallKind::Allocator => allocator += time,
            CallKind::Copy => copy += time,
            CallKind::AsyncCopy | CallKind::Launch | CallKind::Other => {}
        }
        if api.start[row] > gap.0 {
            stretch = stretch.max(api.start[row].saturating_sub(free_since));
        }
        free_since = api.end[row];
        if os > 0 && time > 0 {
            os -= measure_within(&calls.os[thread.index()], clipped);
        }
        if off_cpu > 0 && time > 0 {
            off_cpu -= measure_within(&calls.off_cpu_alone[thread.index()], clipped);
        }
    }
    let cause = if most(measure_within(&calls.profiler[thread.index()], gap)) {
        Cause::Profiler
    } else if most(sync) {
        Cause::Sync
    } else if most(allocator) {
        Cause::Allocator
    } else if most(copy) {
        Cause::Copy
    } else if most(os) {
        Cause::Os
    } else if most(off_cpu) {
        Cause::OffCpu
    } else if stretch < HOST_STRETCH {
        Cause::Launching
    } else {
        Cause::HostCode
    };
    (cause, all)
}
