//! What waited for what in one step: GPU operations and CUDA calls with their predecessors.
//!
//! The edges are not stored in the artifacts; they follow from order. An operation comes after the call that
//! issued it and after the operation before it on its stream; one that begins later than both allow waited for
//! another stream. A call comes after the one before it; a synchronizing call returns after the operation that
//! ended last before. A collective ends when its last rank has come.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::analysis::Context;
use crate::analysis::facts::OpIndex;
use crate::analysis::synchronization::charges::charge;
use crate::model::{ApiCallId, GpuId, Ns, PassId, ProcessId, ThreadId};

/// An operation that begins so much later than its launch and its stream allow waited for another stream.
pub(super) const DEPENDENCY_NS: Ns = 5_000;

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
    /// The call that issued it, if that is of the step.
    pub(super) call: Option<usize>,
    /// The operation before it on its stream.
    pub(super) before: Option<usize>,
    /// The operation of another stream that it waited for.
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
    /// It issues an operation of the step.
    pub(super) issues: bool,
}

/// The operations by (start, index) and calls by (process, end, id) of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) ops: Vec<Op>,
    pub(super) calls: Vec<Call>,
    /// Shortest time from the start of a call to that of its operation.
    pub(super) launch_ns: Ns,
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
        graph.order_streams();
        graph.order_calls();
        graph.await_ops(context, step);
        graph.find_dependencies();
        let by_index: FxHashMap<OpIndex, usize> =
            graph.ops.iter().enumerate().map(|(at, op)| (op.index, at)).collect();
        for op in &mut graph.ops {
            op.last_rank = last_rank.get(&op.index).and_then(|other| by_index.get(other)).copied();
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
                    call: None,
                    before: None,
                    other: None,
                    last_rank: None,
                });
            }
        }
    }

    /// Adds the calls of issuing threads, and joins operations with them.
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
                    issues: false,
                });
            }
        }
        self.calls.sort_unstable_by_key(|call| (call.process, call.end, call.id));
        let by_id: FxHashMap<ApiCallId, usize> =
            self.calls.iter().enumerate().map(|(at, call)| (call.id, at)).collect();
        self.launch_ns = Ns::MAX;
        for op in &mut self.ops {
            op.call = ops.api_call[op.index as usize].and_then(|id| by_id.get(&id)).copied();
            if let Some(call) = op.call {
                self.calls[call].issues = true;
                self.launch_ns = self.launch_ns.min((op.start - self.calls[call].start).max(0));
            }
        }
        if self.launch_ns == Ns::MAX {
            self.launch_ns = 0;
        }
    }

    fn order_streams(&mut self) {
        let mut last: BTreeMap<(GpuId, u64), usize> = BTreeMap::new();
        for (at, op) in self.ops.iter_mut().enumerate() {
            op.before = last.insert((op.gpu, op.stream), at);
        }
    }

    fn order_calls(&mut self) {
        for at in 0..self.calls.len() {
            let (process, start) = (self.calls[at].process, self.calls[at].start);
            let after =
                self.calls.partition_point(|call| (call.process, call.end) <= (process, start));
            // An empty call would follow itself.
            let before = after.checked_sub(1).filter(|before| *before != at);
            self.calls[at].before = before.filter(|before| self.calls[*before].process == process);
        }
    }

    /// Synchronizing calls wait for the operation of their process that ended last while they ran.
    fn await_ops(&mut self, context: &Context<'_>, step: &Step) {
        let charges = charge(context.session, context.facts, step.pass);
        let waits: BTreeSet<ApiCallId> = charges.calls.iter().map(|call| call.call).collect();
        let mut by_end: Vec<(ProcessId, Ns, usize)> = self
            .ops
            .iter()
            .enumerate()
            .map(|(at, op)| (context.facts.ops.process[op.index as usize], op.end, at))
            .collect();
        by_end.sort_unstable();
        for call in self.calls.iter_mut().filter(|call| waits.contains(&call.id)) {
            let after = by_end.partition_point(|one| (one.0, one.1) <= (call.process, call.end));
            let last = after.checked_sub(1).map(|last| by_end[last]);
            let during = |one: &(ProcessId, Ns, usize)| one.0 == call.process && one.1 > call.start;
            call.awaited = last.filter(during).map(|one| one.2);
        }
    }

    /// When an operation could have begun by its stream and by its launch.
    pub(super) fn ready(&self, op: &Op) -> (Option<Ns>, Option<Ns>) {
        let stream = op.before.map(|before| self.ops[before].end.min(op.start));
        let launch = op.call.map(|call| (self.calls[call].start + self.launch_ns).min(op.start));
        (stream, launch)
    }

    fn find_dependencies(&mut self) {
        let mut by_end: Vec<(GpuId, Ns, usize)> =
            self.ops.iter().enumerate().map(|(at, op)| (op.gpu, op.end, at)).collect();
        by_end.sort_unstable();
        for at in 0..self.ops.len() {
            let op = &self.ops[at];
            let (stream, launch) = self.ready(op);
            let Some(ready) = stream.max(launch) else { continue };
            if op.start - ready <= DEPENDENCY_NS {
                continue;
            }
            let after = by_end.partition_point(|one| (one.0, one.1) <= (op.gpu, op.start));
            let candidates = by_end[..after].iter().rev().take(LOOK_BACK);
            let found = candidates
                .take_while(|one| one.0 == op.gpu && one.1 > ready)
                .find(|one| self.ops[one.2].stream != op.stream && one.2 != at);
            self.ops[at].other = found.map(|one| one.2);
        }
    }
}
