//! The gaps of each GPU, and the one cause of each.

use super::calls::{CallKind, Calls};
use super::cause::Cause;
use crate::analysis::Context;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::facts::OpIndex;
use crate::analysis::engine::intervals::{Interval, measure_within};
use crate::model::{ApiCallId, GpuId, Ns};

/// Host time between two CUDA calls from which on it is host code of its own rather than a part of issuing
/// launches, nanoseconds. A framework's dispatch of one operator takes a tenth of it.
pub(super) const HOST_STRETCH: Ns = 100_000;

/// A time without any operation on a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    pub(super) start: Ns,
    pub(super) end: Ns,
    /// The operation that ends it.
    pub(super) op: OpIndex,
    pub(super) cause: Cause,
    /// Time that the issuing thread spent in CUDA calls within the gap, nanoseconds; 0 if it had issued before.
    pub(super) calls: Ns,
}

/// The gaps between all operations of each GPU, whatever stage they belong to, by start.
pub(super) struct Gaps {
    by_gpu: Vec<Vec<Gap>>,
}

/// The end of what a GPU ran so far.
#[derive(Clone, Copy)]
struct Last {
    end: Ns,
    /// A collective ends there.
    collective: bool,
}

impl Gaps {
    /// Finds and explains the gaps of all GPUs: one sweep over all operations.
    pub(super) fn new(context: &Context<'_>, calls: &Calls<'_>) -> Self {
        let ops = &context.facts.ops;
        let mut by_gpu = vec![Vec::new(); context.session.gpus.len()];
        let mut lasts: Vec<Option<Last>> = vec![None; by_gpu.len()];
        for op in 0..ops.len() {
            let (start, end, gpu) = (ops.start[op], ops.end[op], ops.gpu[op].index());
            let collective = is_collective(context, op as OpIndex);
            let last = lasts[gpu].get_or_insert(Last { end: start, collective: false });
            if start > last.end {
                let (cause, calls) =
                    explain(context, calls, (last.end, start), op as OpIndex, last.collective);
                let op = op as OpIndex;
                by_gpu[gpu].push(Gap { start: last.end, end: start, op, cause, calls });
            }
            if end > last.end {
                *last = Last { end, collective };
            } else if end == last.end {
                last.collective |= collective;
            }
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

fn is_collective(context: &Context<'_>, op: OpIndex) -> bool {
    let kernel = context.facts.kernel(context.session, op);
    let class = kernel.map(|kernel| context.facts.identities[kernel.index()].class);
    class == Some(KernelClass::Communication)
}

/// Cause of the gap that `op` ends, and the time of CUDA calls in it.
fn explain(
    context: &Context<'_>,
    calls: &Calls<'_>,
    gap: Interval,
    op: OpIndex,
    after_collective: bool,
) -> (Cause, Ns) {
    let Some(call) = context.facts.ops.api_call[op as usize] else { return (Cause::Unknown, 0) };
    let (begun, returned) = calls.span(call);
    if begun > gap.1 {
        // The clocks of host and GPU disagree.
        return (Cause::Unknown, 0);
    }
    if returned > gap.0 && calls.is_first(call, op) {
        return host_cause(calls, gap, call);
    }
    let waits_for_ranks = after_collective || is_collective(context, op);
    (if waits_for_ranks { Cause::Communication } else { Cause::Queue }, 0)
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
    let mut os = measure_within(calls.os(thread), gap);
    // What becomes of the thread after it has issued the operation holds up nothing.
    let waiting = (gap.0, gap.1.min(api.end[call.index()]));
    let mut off_cpu = measure_within(calls.off_cpu_alone(thread), waiting);
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
            os -= measure_within(calls.os(thread), clipped);
        }
        if off_cpu > 0 && time > 0 {
            off_cpu -= measure_within(calls.off_cpu_alone(thread), clipped);
        }
    }
    let cause = if most(measure_within(calls.profiler(thread), gap)) {
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
