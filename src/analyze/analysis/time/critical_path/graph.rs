//! What waited for what in one step: GPU operations and CUDA calls with their predecessors.
//!
//! The edges are not stored in the artifacts; they follow from order. An operation comes after the call that
//! issued it and after the operation before it on its stream; one that begins later than both allow waited for
//! another stream. What was issued before the step could begin with it. A call comes after the one before it; a
//! synchronizing call returns after the operation that ended last before. A collective ends when its last rank
//! has come.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::Context;
use crate::engine::facts::OpIndex;
use crate::engine::tiers::{Tier, tier};
use crate::time::sync::charges::sync_calls;
use rooflens_session::{ApiCallId, GpuId, Ns, PassId, ProcessId, ThreadId};

/// An operation that begins so much later than its launch and its stream allow waited for another stream.
pub const DEPENDENCY_NS: Ns = Ns(5_000);

/// The tail of a kernel, in which its last blocks end, is one part of so many of its time.
const TAIL: i64 = 4;

/// Operations that are looked at in search of one on another stream.
const LOOK_BACK: usize = 64;

/// A GPU operation of the step.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) index: OpIndex,
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) gpu: GpuId,
    pub(super) stream: u64,
    /// It is a computing kernel.
    pub(super) computes: bool,
    /// The call that issued it, if that is of the step.
    pub(super) call: Option<usize>,
    /// When it could have begun by its launch: the shortest launch after its call began, or the begin of the
    /// step if the call had returned by then; absent if the artifact does not hold the call.
    pub(super) launched: Option<Ns>,
    /// The operation before it on its stream.
    pub(super) before: Option<usize>,
    /// The operation of another stream that it waited for, to its end or for room.
    pub(super) other: Option<usize>,
    /// The same collective on the rank that came last, if this one waited for it.
    pub(super) last_rank: Option<usize>,
}

/// A CUDA call of the step, by a thread that issues work in it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: ApiCallId,
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) process: ProcessId,
    /// The call of the process that ended last before it began: one thread hands over to the next.
    pub(super) before: Option<usize>,
    /// The operation that it waited for.
    pub(super) awaited: Option<usize>,
}

/// The operations by (start, index) and calls by (process, end, id) of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) ops: Vec<Op>,
    pub(super) calls: Vec<Call>,
}

/// A step: the processes that took part and the window of their GPU operations.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) pass: PassId,
    pub(super) processes: Vec<ProcessId>,
    pub(super) start: Ns,
    pub(super) end: Ns,
}

impl Graph {
    /// The graph of a step. `last_rank` names the last rank's operation of each collective that waited.
    pub(super) fn new(
        context: &Context<'_>,
        step: &Step,
        last_rank: &FxHashMap<OpIndex, OpIndex>,
    ) -> Self {
        let mut graph = Self::default();
        graph.add_ops(context, step);
        graph.add_calls(context, step);
        graph.join_launches(context, step);
        graph.order_streams();
        graph.order_calls();
        graph.await_ops(context, step);
        graph.find_dependencies();
        let by_index: FxHashMap<OpIndex, usize> = graph
            .ops
            .iter()
            .enumerate()
            .map(|(at, op)| (op.index, at))
            .collect();
        for op in &mut graph.ops {
            op.last_rank = last_rank
                .get(&op.index)
                .and_then(|occupant| by_index.get(occupant))
                .copied();
        }
        graph
    }

    fn add_ops(&mut self, context: &Context<'_>, step: &Step) {
        let ops = &context.facts.ops;
        for op in context.facts.ops_of(step.pass) {
            let inside = ops.end[op] > step.start && ops.start[op] < step.end;
            if inside && step.processes.contains(&ops.process[op]) {
                self.ops.push(Op {
                    index: op as OpIndex,
                    start: ops.start[op],
                    end: ops.end[op],
                    gpu: ops.gpu[op],
                    stream: ops.stream[op],
                    computes: tier(context.session, context.facts, op) == Tier::Compute,
                    call: None,
                    launched: None,
                    before: None,
                    other: None,
                    last_rank: None,
                });
            }
        }
    }

    /// Adds the calls of threads that issue operations of the step.
    fn add_calls(&mut self, context: &Context<'_>, step: &Step) {
        let (table, ops) = (&context.session.api_calls, &context.facts.ops);
        let issuing: BTreeSet<ThreadId> = self
            .ops
            .iter()
            .filter_map(|op| ops.api_call[op.index as usize])
            .map(|call| table.thread[call.index()])
            .collect();
        for id in table.ids() {
            let row = id.index();
            let inside = table.end[row] > step.start && table.start[row] < step.end;
            if inside && !table.nested[row] && issuing.contains(&table.thread[row]) {
                let (start, end, process) = (table.start[row], table.end[row], table.process[row]);
                self.calls.push(Call {
                    id,
                    start,
                    end,
                    process,
                    before: None,
                    awaited: None,
                });
            }
        }
        self.calls
            .sort_unstable_by_key(|call| (call.process, call.end, call.id));
    }

    /// Joins operations with their calls, which may have returned before the step began.
    fn join_launches(&mut self, context: &Context<'_>, step: &Step) {
        let (table, ops) = (&context.session.api_calls, &context.facts.ops);
        let by_id: FxHashMap<ApiCallId, usize> = self
            .calls
            .iter()
            .enumerate()
            .map(|(at, call)| (call.id, at))
            .collect();
        let shortest = shortest_launch(context, step.pass);
        for op in &mut self.ops {
            let Some(id) = ops.api_call[op.index as usize] else {
                continue;
            };
            op.call = by_id.get(&id).copied();
            let earliest = match op.call {
                Some(call) => Some(self.calls[call].start + shortest),
                None => (table.end[id.index()] <= step.start).then_some(step.start),
            };
            op.launched = earliest.map(|earliest| earliest.min(op.start));
        }
    }

    fn order_streams(&mut self) {
        let mut last: BTreeMap<(GpuId, u64), usize> = BTreeMap::new();
        for (index, op) in self.ops.iter_mut().enumerate() {
            op.before = last.insert((op.gpu, op.stream), index);
        }
    }

    fn order_calls(&mut self) {
        for index in 0..self.calls.len() {
            let (process, start) = (self.calls[index].process, self.calls[index].start);
            let after = self
                .calls
                .partition_point(|call| (call.process, call.end) <= (process, start));
            // An empty call would follow itself.
            let before = after.checked_sub(1).filter(|before| *before != index);
            self.calls[index].before =
                before.filter(|before| self.calls[*before].process == process);
        }
    }

    /// Synchronizing calls wait for the operation of their process that ended last while they ran.
    fn await_ops(&mut self, context: &Context<'_>, step: &Step) {
        let waits = sync_calls(context.session, context.facts, step.pass);
        let waits: BTreeSet<ApiCallId> = waits.iter().map(|call| call.call).collect();
        let mut by_end: Vec<(ProcessId, Ns, usize)> = self
            .ops
            .iter()
            .enumerate()
            .map(|(index, op)| (context.facts.ops.process[op.index as usize], op.end, index))
            .collect();
        by_end.sort_unstable();
        for call in self
            .calls
            .iter_mut()
            .filter(|call| waits.contains(&call.id))
        {
            let after = by_end.partition_point(|operation| {
                (operation.0, operation.1) <= (call.process, call.end)
            });
            let last = after.checked_sub(1).map(|last| by_end[last]);
            let during = |operation: &(ProcessId, Ns, usize)| {
                operation.0 == call.process && operation.1 > call.start
            };
            call.awaited = last.filter(during).map(|operation| operation.2);
        }
    }

    /// When an operation could have begun by its stream and by its launch.
    pub(super) fn ready(&self, op: &Op) -> (Option<Ns>, Option<Ns>) {
        let stream = op.before.map(|before| self.ops[before].end.min(op.start));
        (stream, op.launched)
    }

    fn find_dependencies(&mut self) {
        let mut by_end: Vec<(GpuId, Ns, usize)> = self
            .ops
            .iter()
            .enumerate()
            .map(|(index, op)| (op.gpu, op.end, index))
            .collect();
        by_end.sort_unstable();
        for index in 0..self.ops.len() {
            let op = &self.ops[index];
            let (stream, launch) = self.ready(op);
            let Some(ready) = stream.max(launch) else {
                continue;
            };
            if op.start - ready <= DEPENDENCY_NS {
                continue;
            }
            let after = by_end
                .partition_point(|candidate| (candidate.0, candidate.1) <= (op.gpu, op.start));
            let candidates = by_end[..after].iter().rev().take(LOOK_BACK);
            let latest = candidates
                .take_while(|candidate| candidate.0 == op.gpu && candidate.1 > ready)
                .find(|candidate| self.ops[candidate.2].stream != op.stream && candidate.2 != index)
                .map(|candidate| candidate.2);
            // What ended just before is what it waited for; else a kernel that leaves it no room, if there is one.
            let recent =
                latest.is_some_and(|latest| op.start - self.ops[latest].end <= DEPENDENCY_NS);
            self.ops[index].other = if recent {
                latest
            } else {
                self.occupant(index).or(latest)
            };
        }
    }

    /// The computing kernel of another stream in whose tail an operation begins; of several the one that began
    /// last. Kernels that fill the GPU let others begin only as their last blocks end.
    fn occupant(&self, index: usize) -> Option<usize> {
        let op = &self.ops[index];
        let runs = |occupant: &usize| {
            let occupant = &self.ops[*occupant];
            let shares_gpu = occupant.gpu == op.gpu && occupant.stream != op.stream;
            let is_tail =
                (occupant.end - op.start).saturating_mul(TAIL) < occupant.end - occupant.start;
            shares_gpu
                && occupant.computes
                && occupant.start < op.start
                && occupant.end > op.start
                && is_tail
        };
        (0..index).rev().take(LOOK_BACK).find(runs)
    }
}

/// Shortest time from the begin of a call to that of its operation, over the operations of the pass whose stream
/// had nothing left to do when the call began: what is queued says nothing of launching. 0 if all are queued.
fn shortest_launch(context: &Context<'_>, pass: PassId) -> Ns {
    let (table, ops) = (&context.session.api_calls, &context.facts.ops);
    let mut busy_until: FxHashMap<(GpuId, u64), Ns> = FxHashMap::default();
    let mut shortest: Option<Ns> = None;
    for op in context.facts.ops_of(pass) {
        let until = busy_until
            .entry((ops.gpu[op], ops.stream[op]))
            .or_insert(Ns::MIN);
        if let Some(call) = ops.api_call[op].map(|call| table.start[call.index()])
            && (*until..=ops.start[op]).contains(&call)
        {
            let launch = ops.start[op] - call;
            shortest = Some(shortest.map_or(launch, |shortest| shortest.min(launch)));
        }
        *until = (*until).max(ops.end[op]);
    }
    shortest.unwrap_or(Ns::ZERO)
}
