//! The path from the last operation of a step back to its begin, along what each waited for last.

use super::graph::{Graph, Step};
use crate::engine::facts::OpIndex;
use rooflens_session::{ApiCallId, Ns};

/// What a piece of the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    /// A GPU operation runs.
    Op(OpIndex),
    /// The GPU goes from one operation to the next.
    Gap(OpIndex),
    /// From the return of a call to the begin of its operation.
    Launch(OpIndex),
    /// A CUDA call runs.
    Call(ApiCallId),
    /// A synchronizing call returns after the operation that it waited for has ended.
    Return(ApiCallId),
    /// The host does something else before this call.
    Host(ApiCallId),
    /// What the artifact does not show: before the first operation or call that is known.
    Unknown,
}

/// A piece of the path, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) piece: Piece,
}

/// Where the walk is.
#[derive(Clone, Copy)]
enum At {
    Op(usize),
    Call(usize),
    Nowhere,
}

/// The segments of the path, latest first. They touch one another and fill the window exactly.
pub(super) fn path(graph: &Graph, step: &Step) -> Vec<Segment> {
    let last = (0..graph.ops.len()).max_by_key(|op| (graph.ops[*op].end, *op));
    let mut walk = Walk {
        graph,
        from: step.start,
        time: step.end,
        segments: Vec::new(),
    };
    let mut cursor = last.map_or(At::Nowhere, At::Op);
    // Each turn goes back in time or to another rank; the bound guards against odd clocks.
    let mut turns = 4 * (graph.ops.len() + graph.calls.len()) + 4;
    while walk.time > walk.from && turns > 0 {
        turns -= 1;
        cursor = match cursor {
            At::Op(op) => walk.op(op),
            At::Call(call) => walk.call(call),
            At::Nowhere => break,
        };
    }
    walk.until(walk.from, Piece::Unknown);
    walk.segments
}

struct Walk<'a> {
    graph: &'a Graph,
    from: Ns,
    time: Ns,
    segments: Vec<Segment>,
}

impl Walk<'_> {
    /// Adds the piece that reaches back to `start`.
    fn until(&mut self, start: Ns, piece: Piece) {
        let start = start.max(self.from);
        if start < self.time {
            self.segments.push(Segment {
                start,
                end: self.time,
                piece,
            });
            self.time = start;
        }
    }

    fn op(&mut self, at: usize) -> At {
        let op = &self.graph.ops[at];
        if let Some(other) = op.last_rank
            && self.graph.ops[other].start < self.time
        {
            return At::Op(other);
        }
        self.until(op.start, Piece::Op(op.index));
        if let Some(other) = op.other {
            self.until(self.graph.ops[other].end, Piece::Gap(op.index));
            return At::Op(other);
        }
        match (self.graph.ready(op), op.before, op.call) {
            ((stream, launch), Some(before), _) if stream >= launch => {
                self.until(self.graph.ops[before].end, Piece::Gap(op.index));
                At::Op(before)
            }
            (_, _, Some(call)) => {
                self.until(self.graph.calls[call].end, Piece::Launch(op.index));
                At::Call(call)
            }
            _ => At::Nowhere,
        }
    }

    fn call(&mut self, at: usize) -> At {
        let call = &self.graph.calls[at];
        if let Some(awaited) = call
            .awaited
            .filter(|op| self.graph.ops[*op].end < self.time)
        {
            self.until(self.graph.ops[awaited].end, Piece::Return(call.id));
            return At::Op(awaited);
        }
        self.until(call.start, Piece::Call(call.id));
        match call.before {
            Some(before) => {
                self.until(self.graph.calls[before].end, Piece::Host(call.id));
                At::Call(before)
            }
            None => {
                self.until(self.from, Piece::Host(call.id));
                At::Nowhere
            }
        }
    }
}

/// Moments of the step in which something is known of what comes before: later ones first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Begin of a call.
    CallStart(usize),
    /// Begin of an operation.
    OpStart(usize),
    /// End of a synchronizing call.
    CallEnd(usize),
}

/// By how much each operation could end later without the step ending later, nanoseconds, by operation of the
/// graph: one pass from the last to the first over the same edges. What an operation really waited for has no
/// slack of its own on that edge; host code between calls takes as long as it took.
pub(super) fn slack(graph: &Graph, step: &Step) -> Vec<Ns> {
    let mut slack = Slack::new(graph, step);
    let mut order: Vec<(Ns, Moment)> = Vec::with_capacity(graph.ops.len() + graph.calls.len());
    order.extend(
        graph
            .ops
            .iter()
            .enumerate()
            .map(|(at, op)| (op.start, Moment::OpStart(at))),
    );
    for (at, call) in graph.calls.iter().enumerate() {
        order.push((call.start, Moment::CallStart(at)));
        if call.awaited.is_some() {
            order.push((call.end, Moment::CallEnd(at)));
        }
    }
    // Operations and calls ascend each: stable sorting merges them.
    order.sort();
    for (_, moment) in order.into_iter().rev() {
        match moment {
            Moment::CallStart(at) => slack.before_call(at),
            Moment::OpStart(at) => slack.before_op(at),
            Moment::CallEnd(at) => slack.awaited(at),
        }
    }
    slack.ops
}

struct Slack<'a> {
    graph: &'a Graph,
    ops: Vec<Ns>,
    calls: Vec<Ns>,
    /// The operations of other ranks that wait for each.
    waiting: Vec<Vec<usize>>,
}

impl<'a> Slack<'a> {
    fn new(graph: &'a Graph, step: &Step) -> Self {
        let ops = graph
            .ops
            .iter()
            .map(|op| (step.end - op.end).max(Ns::ZERO))
            .collect();
        let mut waiting = vec![Vec::new(); graph.ops.len()];
        for (at, op) in graph.ops.iter().enumerate() {
            if let Some(other) = op.last_rank {
                waiting[other].push(at);
            }
        }
        Self {
            graph,
            ops,
            calls: vec![Ns::MAX; graph.calls.len()],
            waiting,
        }
    }

    fn before_op(&mut self, at: usize) {
        let op = &self.graph.ops[at];
        // A collective ends for all ranks at once.
        let waiting = self.waiting[at]
            .iter()
            .map(|waiter| self.ops[*waiter])
            .min();
        self.ops[at] = waiting.map_or(self.ops[at], |waiting| waiting.min(self.ops[at]));
        let wait = op.last_rank.map_or(Ns::ZERO, |waiter| {
            (self.graph.ops[waiter].start - op.start).max(Ns::ZERO)
        });
        let latest = self.ops[at].saturating_add(wait);
        let (stream, launch) = self.graph.ready(op);
        let binding = stream.max(launch);
        let apart = |ready: Option<Ns>| match op.other {
            None if ready == binding => Ns::ZERO,
            _ => ready.map_or(Ns::ZERO, |ready| op.start - ready),
        };
        if let Some(before) = op.before {
            lower(&mut self.ops[before], latest.saturating_add(apart(stream)));
        }
        if let Some(call) = op.call {
            lower(&mut self.calls[call], latest.saturating_add(apart(launch)));
        }
        if let Some(occupant) = op.other {
            lower(&mut self.ops[occupant], latest);
        }
    }

    fn before_call(&mut self, at: usize) {
        let call = &self.graph.calls[at];
        if let Some(before) = call.before {
            // While it waits for an operation, the host is not what it waits for.
            let waited = call.awaited.map_or(Ns::ZERO, |op| {
                (self.graph.ops[op].end - call.start).max(Ns::ZERO)
            });
            let latest = self.calls[at].saturating_add(waited);
            lower(&mut self.calls[before], latest);
        }
    }

    fn awaited(&mut self, at: usize) {
        if let Some(op) = self.graph.calls[at].awaited {
            lower(&mut self.ops[op], self.calls[at]);
        }
    }
}

impl Segment {
    pub(super) fn length(&self) -> Ns {
        self.end - self.start
    }
}

fn lower(slack: &mut Ns, to: Ns) {
    *slack = (*slack).min(to);
}
