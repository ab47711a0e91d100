//! The gaps of each GPU, cut into times of one cause each.

use super::calls::{self, CallKind, Calls};
use super::cause::{Cause, Times};
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::intervals::Interval;
use crate::engine::sweep;
use crate::engine::tiers::{Tier, tier};
use rooflens_session::{ApiCallId, CopyKind, GpuId, Ns};

/// Host time between two CUDA calls from which on it is host code of its own rather than a part of issuing
/// launches, nanoseconds. A framework's dispatch of one operator takes a tenth of it.
pub const HOST_STRETCH: Ns = Ns(100_000);

/// A time without any operation on a GPU, or the part of it within a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds.
    pub end: Ns,
    /// The operation that ends it.
    pub op: OpIndex,
    /// Its time by cause: all of it.
    pub times: Times,
    /// The part of `launching` within CUDA calls, nanoseconds.
    pub launching_in_calls: Ns,
}

/// A part of a gap that has one cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// Start of the gap.
    pub(super) gap: Ns,
    pub(super) time: Interval,
    pub(super) cause: Cause,
    /// The operation that ends the gap.
    pub(super) op: OpIndex,
}

/// A part of a gap, from the end of the part before it.
pub(super) struct Piece {
    pub(super) end: Ns,
    pub(super) cause: Cause,
    pub(super) in_call: bool,
}

/// A gap, and its pieces: all up to that number, from the end of those of the gap before.
struct Whole {
    start: Ns,
    end: Ns,
    op: OpIndex,
    pieces: usize,
}

/// The gaps of a GPU, by start.
#[derive(Default)]
struct OfGpu {
    gaps: Vec<Whole>,
    pieces: Vec<Piece>,
}

/// The gaps between all operations of each GPU, whatever stage they belong to.
pub(in crate::time) struct Gaps {
    by_gpu: Vec<OfGpu>,
}

impl Gaps {
    /// Finds and explains the gaps of all GPUs.
    pub(super) fn new(context: &Context<'_>, calls: &Calls<'_>) -> Self {
        let (session, facts) = (context.session, context.facts);
        let mut by_gpu: Vec<OfGpu> = session.gpus.ids().map(|_| OfGpu::default()).collect();
        for gap in sweep::gaps(session, facts, 0..facts.ops.len()) {
            let gpu_gaps = &mut by_gpu[gap.gpu.index()];
            cut(context, calls, &gap, &mut gpu_gaps.pieces);
            let (start, end, op, pieces) = (gap.start, gap.end, gap.op, gpu_gaps.pieces.len());
            gpu_gaps.gaps.push(Whole {
                start,
                end,
                op,
                pieces,
            });
        }
        Self { by_gpu }
    }

    /// The gaps of a GPU that reach into a window, each cut to it.
    pub(in crate::time) fn within(
        &self,
        gpu: GpuId,
        window: Interval,
    ) -> impl Iterator<Item = Gap> {
        self.reaching(gpu, window)
            .map(move |(gap, pieces)| gap.within(pieces, window))
    }

    /// The times of a window in which a GPU is idle for one of these causes, with the operation that ends the gap.
    pub(super) fn of(
        &self,
        causes: &'static [Cause],
        gpu: GpuId,
        window: Interval,
    ) -> impl Iterator<Item = (Interval, OpIndex)> {
        let parts = self.parts(gpu, window);
        let of_causes = parts.filter(|part| causes.contains(&part.cause));
        of_causes.map(|part| (part.time, part.op))
    }

    /// The parts of a window in which a GPU is idle for one cause each.
    pub(super) fn parts(&self, gpu: GpuId, window: Interval) -> impl Iterator<Item = Part> {
        self.reaching(gpu, window).flat_map(move |(gap, pieces)| {
            let starts = std::iter::once(gap.start).chain(pieces.iter().map(|piece| piece.end));
            let parts = starts.zip(pieces).map(move |(start, piece)| Part {
                gap: gap.start,
                time: (start.max(window.0), piece.end.min(window.1)),
                cause: piece.cause,
                op: gap.op,
            });
            parts.filter(|part| part.time.0 < part.time.1)
        })
    }

    /// The gaps of a GPU that reach into a window, each with its pieces.
    fn reaching(&self, gpu: GpuId, window: Interval) -> impl Iterator<Item = (&Whole, &[Piece])> {
        let OfGpu { gaps, pieces } = &self.by_gpu[gpu.index()];
        let first = gaps.partition_point(|gap| gap.end <= window.0);
        let mut from = first.checked_sub(1).map_or(0, |before| gaps[before].pieces);
        let inside = gaps[first..]
            .iter()
            .take_while(move |gap| gap.start < window.1);
        inside.map(move |gap| {
            let gap_pieces = &pieces[from..gap.pieces];
            from = gap.pieces;
            (gap, gap_pieces)
        })
    }
}

impl Whole {
    fn within(&self, pieces: &[Piece], window: Interval) -> Gap {
        let (start, end) = (self.start.max(window.0), self.end.min(window.1));
        let (mut times, mut launching_in_calls, mut at) = (Times::default(), Ns::ZERO, start);
        for piece in pieces {
            let until = piece.end.clamp(at, end);
            times.add(piece.cause, until - at);
            if piece.in_call && piece.cause == Cause::Launching {
                launching_in_calls += until - at;
            }
            at = until;
        }
        Gap {
            start,
            end,
            op: self.op,
            times,
            launching_in_calls,
        }
    }
}

/// Cuts a gap into pieces of one cause each. This is where causes of idle time are decided.
///
/// The operation that ends the gap decides: only what was issued late is waited for. If its call returned before the gap
/// began, the work was in the queue, and the CPU is not the cause. Otherwise the GPU waited for that call, and
/// [`cut_host`] looks at what its thread did until the call returned. The conditions are in `docs/methodology.md`.
fn cut(context: &Context<'_>, calls: &Calls<'_>, gap: &sweep::Gap, pieces: &mut Vec<Piece>) {
    let (op, end) = (gap.op, gap.end);
    let mut whole = |cause| {
        pieces.push(Piece {
            end,
            cause,
            in_call: false,
        })
    };
    let Some(call) = context.facts.ops.api_call[op as usize] else {
        return whole(match context.facts.ops.source[op as usize] {
            // The host touches a page of managed memory that is on the GPU: it is at work outside of CUDA.
            OpSource::Copy(copy)
                if context.session.copies.kind[copy.index()] == CopyKind::MigrateToHost =>
            {
                Cause::HostCode
            }
            _ => Cause::Unknown,
        });
    };
    let (begun, returned) = calls.span(call);
    if begun > end {
        // The clocks of host and GPU disagree.
        return whole(Cause::Unknown);
    }
    if returned <= gap.start || !calls.is_first(call, op) {
        let collective = tier(context.session, context.facts, op as usize) == Tier::Communication;
        let waits = gap.after_collective || collective;
        return whole(if waits {
            Cause::Communication
        } else {
            Cause::Queue
        });
    }
    cut_host(calls, (gap.start, returned.min(end)), call, pieces);
    if returned < end {
        pieces.push(Piece {
            end,
            cause: Cause::Queue,
            in_call: false,
        });
    }
}

/// Cuts a time until `call` returned by what the issuing thread did: first the profiler counts, then CUDA calls, then
/// the operating system, then that no CPU ran the thread.
pub(super) fn cut_host(
    calls: &Calls<'_>,
    time: Interval,
    call: ApiCallId,
    pieces: &mut Vec<Piece>,
) {
    let outside = outside(calls, time, call);
    by_calls(calls, time, call, |time, (cause, in_call)| {
        let layers = match (cause, in_call) {
            (Cause::Unknown, _) => &[],
            (_, true) => &outside[..outside.len().min(1)],
            _ => &outside[..],
        };
        paint(pieces, time, layers, (cause, in_call));
    });
}

/// What else than CUDA calls the issuing thread of `call` was in, the profiler first; none if it was in nothing else.
pub(super) fn outside<'a>(calls: &'a Calls<'_>, time: Interval, call: ApiCallId) -> Vec<Layer<'a>> {
    let thread = calls.session.api_calls.thread[call.index()].index();
    let layers = [
        (&calls.profiler[thread], Cause::Profiler),
        (&calls.os[thread], Cause::Os),
        (&calls.off_cpu[thread], Cause::OffCpu),
    ];
    let occurs = |(times, _): &Layer<'_>| {
        // Most threads are in no call of these kinds.
        let next = || times.get(times.until(time.0));
        !times.is_empty() && next().is_some_and(|next| next.0 < time.1)
    };
    match layers.iter().any(occurs) {
        true => layers.to_vec(),
        false => Vec::new(),
    }
}

/// A time until `call` returned by the CUDA calls of the issuing thread and what lies between them: each part with its
/// cause and whether it is in a call.
pub(super) fn by_calls(
    calls: &Calls<'_>,
    time: Interval,
    call: ApiCallId,
    mut add: impl FnMut(Interval, (Cause, bool)),
) {
    let api = &calls.session.api_calls;
    let (inside, before) = calls.since(time.0, call);
    // A thread's first call comes after a stretch without an end.
    let (mut at, mut free_since) = (time.0, before.unwrap_or(Ns::MIN));
    for row in inside.iter().map(|row| *row as usize) {
        let (start, end) = (
            api.start[row].clamp(at, time.1),
            api.end[row].clamp(at, time.1),
        );
        let stretch = api.start[row].saturating_sub(free_since);
        let free = if stretch < HOST_STRETCH {
            Cause::Launching
        } else {
            Cause::HostCode
        };
        add((at, start), (free, false));
        let cause = match calls.kind(ApiCallId::at(row)) {
            CallKind::Stalls(cause) => cause,
            CallKind::AsyncCopy | CallKind::Launch | CallKind::Other => Cause::Launching,
        };
        add((start, end), (cause, true));
        (at, free_since) = (end, api.end[row]);
    }
    add((at, time.1), (Cause::Unknown, false));
}

/// Times of one cause.
pub(super) type Layer<'a> = (&'a calls::Times, Cause);

/// Adds the pieces of a time: the first layer that covers a moment has it, else the base.
fn paint(pieces: &mut Vec<Piece>, time: Interval, layers: &[Layer<'_>], base: (Cause, bool)) {
    if time.0 >= time.1 {
        return;
    }
    let Some(((times, cause), rest)) = layers.split_first() else {
        let (cause, in_call) = base;
        return pieces.push(Piece {
            end: time.1,
            cause,
            in_call,
        });
    };
    let first = times.until(time.0);
    let mut painted = time.0;
    for window in times[first..].iter().take_while(|window| window.0 < time.1) {
        paint(pieces, (painted, window.0), rest, base);
        painted = window.1.min(time.1);
        pieces.push(Piece {
            end: painted,
            cause: *cause,
            in_call: false,
        });
    }
    paint(pieces, (painted, time.1), rest, base);
}
