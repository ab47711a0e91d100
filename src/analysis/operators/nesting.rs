//! Operators within operators, and the CUDA calls and GPU work within them.

use rustc_hash::FxHashMap;

use crate::analysis::Context;
use crate::analysis::facts::OpSource;
use crate::model::{Ns, Session, StrId, ThreadId};

/// What each operator call does itself, by `OperatorId`.
#[derive(Clone, Debug, Default)]
pub(super) struct Nesting {
    /// Operators by (thread, start): each before those within it.
    pub(super) order: Vec<u32>,
    /// The innermost operator around each.
    pub(super) parent: Vec<Option<u32>>,
    /// Whether an operator of the same name is around it: totals by name count only the outer one.
    pub(super) recursive: Vec<bool>,
    /// Host time outside of operators and CUDA calls within it, nanoseconds.
    pub(super) host_self: Vec<Ns>,
    /// Host time of the CUDA calls that it makes itself, nanoseconds.
    pub(super) calls: Vec<Ns>,
    /// Time of the GPU operations that it issues itself, nanoseconds.
    pub(super) device: Vec<Ns>,
    /// Kernels that it launches itself.
    pub(super) launches: Vec<u64>,
}

impl Nesting {
    /// Nests the operators of a session by thread, and gives the GPU work to the innermost operator around
    /// the start of the CUDA call that issued it.
    pub(super) fn new(context: &Context<'_>) -> Self {
        let session = context.session;
        let mut sweep = Sweep::new(session);
        let call_order = call_order(session);
        let mut calls = call_order.iter().copied().peekable();
        for operator in sweep.nesting.order.clone() {
            let row = operator as usize;
            let at = (session.operators.thread[row], session.operators.start[row]);
            let earlier = |call: &u32| sweep_key(session, *call) < at;
            while let Some(call) = calls.next_if(earlier) {
                sweep.call(call);
            }
            sweep.open(operator);
        }
        calls.for_each(|call| sweep.call(call));
        let mut nesting = sweep.nesting;
        nesting.add_device_work(context, &sweep.operator_of_call);
        nesting
    }

    fn add_device_work(&mut self, context: &Context<'_>, operator_of_call: &[Option<u32>]) {
        let ops = &context.facts.ops;
        for op in 0..ops.len() {
            let call = ops.api_call[op];
            let Some(operator) = call.and_then(|call| operator_of_call[call.index()]) else {
                continue;
            };
            let duration = ops.end[op].saturating_sub(ops.start[op]);
            let row = operator as usize;
            self.device[row] = self.device[row].saturating_add(duration);
            self.launches[row] += u64::from(matches!(ops.source[op], OpSource::Launch(_)));
        }
    }
}

fn sweep_key(session: &Session, call: u32) -> (ThreadId, Ns) {
    (session.api_calls.thread[call as usize], session.api_calls.start[call as usize])
}

fn call_order(session: &Session) -> Vec<u32> {
    let mut calls: Vec<u32> = (0..session.api_calls.len() as u32).collect();
    if !calls.is_sorted_by_key(|call| sweep_key(session, *call)) {
        calls.sort_by_key(|call| sweep_key(session, *call));
    }
    calls
}

/// One pass over the events of all threads, sorted by (thread, start).
struct Sweep<'a> {
    session: &'a Session,
    nesting: Nesting,
    operator_of_call: Vec<Option<u32>>,
    /// Open operators of the thread, outermost first.
    stack: Vec<u32>,
    /// How many of each name are open.
    open: FxHashMap<StrId, u32>,
}

impl<'a> Sweep<'a> {
    fn new(session: &'a Session) -> Self {
        let operators = &session.operators;
        let mut order: Vec<u32> = (0..operators.len() as u32).collect();
        order.sort_unstable_by_key(|id| {
            let row = *id as usize;
            let end = std::cmp::Reverse(operators.end[row]);
            (operators.thread[row], operators.start[row], end, *id)
        });
        let durations = operators.start.iter().zip(&operators.end);
        let count = operators.len();
        let nesting = Nesting {
            order,
            parent: vec![None; count],
            recursive: vec![false; count],
            host_self: durations.map(|(start, end)| end.saturating_sub(*start).max(0)).collect(),
            calls: vec![0; count],
            device: vec![0; count],
            launches: vec![0; count],
        };
        let operator_of_call = vec![None; session.api_calls.len()];
        Self { session, nesting, operator_of_call, stack: Vec::new(), open: FxHashMap::default() }
    }

    /// The innermost operator that is open on `thread` at `time`; those that have ended are closed.
    fn innermost(&mut self, thread: ThreadId, time: Ns) -> Option<u32> {
        let operators = &self.session.operators;
        while let Some(top) = self.stack.last().copied() {
            let row = top as usize;
            if operators.thread[row] == thread && operators.end[row] > time {
                return Some(top);
            }
            self.stack.pop();
            if let Some(count) = self.open.get_mut(&operators.name[row]) {
                *count -= 1;
            }
        }
        None
    }

    fn open(&mut self, operator: u32) {
        let operators = &self.session.operators;
        let row = operator as usize;
        let (start, end) = (operators.start[row], operators.end[row]);
        let parent = self.innermost(operators.thread[row], start);
        if let Some(parent) = parent {
            self.take_from(parent, start, end);
        }
        self.nesting.parent[row] = parent;
        let open = self.open.entry(operators.name[row]).or_default();
        self.nesting.recursive[row] = *open > 0;
        *open += 1;
        self.stack.push(operator);
    }

    fn call(&mut self, call: u32) {
        let calls = &self.session.api_calls;
        let row = call as usize;
        let (start, end) = (calls.start[row], calls.end[row]);
        let innermost = self.innermost(calls.thread[row], start);
        self.operator_of_call[row] = innermost;
        // A call within a call is part of the outer one.
        if let Some(operator) = innermost.filter(|_| !calls.nested[row]) {
            let taken = self.take_from(operator, start, end);
            let time = &mut self.nesting.calls[operator as usize];
            *time = time.saturating_add(taken);
        }
    }

    /// Takes the part of [start, end) that lies in an operator from its own time.
    fn take_from(&mut self, operator: u32, start: Ns, end: Ns) -> Ns {
        let row = operator as usize;
        let end = end.min(self.session.operators.end[row]);
        let taken = end.saturating_sub(start).max(0);
        let own = &mut self.nesting.host_self[row];
        // Children that overlap one another would take their common part twice.
        *own = own.saturating_sub(taken).max(0);
        taken
    }
}
