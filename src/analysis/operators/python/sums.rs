//! Functions added up by name.

use rustc_hash::FxHashMap;

use super::idle::Idle;
use crate::analysis::Context;
use crate::analysis::engine::facts::OpSource;
use crate::analysis::operators::call_tree::{Folded, Source, Spans};
use crate::model::{Ns, PassId, Session};

/// Calls of one function in one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FunctionSum {
    /// Pass.
    pub(super) pass: PassId,
    /// File, line and name.
    pub(super) name: String,
    /// Number of calls.
    pub(super) calls: u64,
    /// Host time, nanoseconds; totals count a call within one of the same function once.
    pub(super) host_total: Ns,
    /// Of that, outside of functions and CUDA calls within.
    pub(super) host_self: Ns,
    /// Of that, in CUDA calls that no function within makes.
    pub(super) host_cuda: Ns,
    /// Time of GPU operations issued within, nanoseconds.
    pub(super) device_total: Ns,
    /// Of that, issued by no function within.
    pub(super) device_self: Ns,
    /// Kernels launched within.
    pub(super) launches: u64,
    /// Time in it in which no GPU ran anything, nanoseconds.
    pub(super) idle_total: Ns,
    /// Of that, in no function within.
    pub(super) idle_self: Ns,
    /// Device time of the backward pass that belongs to operators within, nanoseconds.
    pub(super) backward: Ns,
}

/// All sums, by (pass, own device time descending, own host time descending, name).
pub(super) struct Sums {
    pub(super) all: Vec<FunctionSum>,
}

/// What each call does, first itself, then with all within.
struct Work {
    device: Vec<Ns>,
    launches: Vec<u32>,
    backward: Vec<Ns>,
}

impl Sums {
    pub(super) fn new(context: &Context<'_>, spans: &Spans) -> Self {
        let session = context.session;
        let (mut all, groups) = groups(session, spans);
        let mut work = Work::new(context, spans);
        for (span, group) in groups.iter().enumerate() {
            let sum = &mut all[*group as usize];
            sum.calls += 1;
            sum.host_self = sum.host_self.saturating_add(spans.nesting.own[span]);
            sum.host_cuda = sum.host_cuda.saturating_add(spans.nesting.calls[span]);
            sum.device_self = sum.device_self.saturating_add(work.device[span]);
        }
        work.add_inner(spans);
        let recursive = spans.nesting.recursive(&groups);
        for (span, group) in groups.iter().enumerate().filter(|(span, _)| !recursive[*span]) {
            let sum = &mut all[*group as usize];
            let time = spans.span[span].end.saturating_sub(spans.span[span].start).max(0);
            sum.host_total = sum.host_total.saturating_add(time);
            sum.device_total = sum.device_total.saturating_add(work.device[span]);
            sum.launches += u64::from(work.launches[span]);
            sum.backward = sum.backward.saturating_add(work.backward[span]);
        }
        drop(work);
        add_idle(context, spans, &groups, &recursive, &mut all);
        all.sort_by(|a, b| {
            let time = |sum: &FunctionSum| (sum.device_self, sum.host_self);
            a.pass.cmp(&b.pass).then(time(b).cmp(&time(a))).then_with(|| a.name.cmp(&b.name))
        });
        Self { all }
    }
}

/// An empty sum for each function of a pass, and the sum of each call.
fn groups(session: &Session, spans: &Spans) -> (Vec<FunctionSum>, Vec<u32>) {
    let mut folded = Folded::default();
    let mut index: FxHashMap<(PassId, u32), u32> = FxHashMap::default();
    let mut all: Vec<FunctionSum> = Vec::new();
    let calls = spans.source.iter().zip(&spans.name);
    let group = |(source, name): (&Source, &_)| {
        let pass = match source {
            Source::Function(frame) => session.frames.pass[frame.index()],
            Source::Range(_) | Source::Module(_) | Source::Operator(_) => PassId::default(),
        };
        let name = folded.of(session, *name);
        *index.entry((pass, name)).or_insert_with(|| {
            let name = folded.text(name).to_owned();
            all.push(FunctionSum { pass, name, ..FunctionSum::default() });
            (all.len() - 1) as u32
        })
    };
    let groups = calls.map(group).collect();
    (all, groups)
}

impl Work {
    fn new(context: &Context<'_>, spans: &Spans) -> Self {
        let (session, ops) = (context.session, &context.facts.ops);
        let count = spans.span.len();
        let mut work =
            Self { device: vec![0; count], launches: vec![0; count], backward: vec![0; count] };
        let time = |op: usize| ops.end[op].saturating_sub(ops.start[op]).max(0);
        for op in 0..ops.len() {
            let call = ops.api_call[op];
            let Some(span) = call.and_then(|call| spans.nesting.of_call[call.index()]) else {
                continue;
            };
            let own = &mut work.device[span as usize];
            *own = own.saturating_add(time(op));
            work.launches[span as usize] +=
                u32::from(matches!(ops.source[op], OpSource::Launch(_)));
        }
        let backward = context.results.backward().map_or(&[][..], |found| &found.work);
        for (op, forward) in backward {
            if let Some(span) = spans.of_operator(session, *forward) {
                let own = &mut work.backward[span as usize];
                *own = own.saturating_add(time(*op as usize));
            }
        }
        work
    }

    /// Adds calls to those around them, innermost first.
    fn add_inner(&mut self, spans: &Spans) {
        for span in spans.nesting.order.iter().rev().map(|span| *span as usize) {
            let Some(parent) = spans.nesting.parent[span].map(|parent| parent as usize) else {
                continue;
            };
            self.device[parent] = self.device[parent].saturating_add(self.device[span]);
            self.launches[parent] = self.launches[parent].saturating_add(self.launches[span]);
            self.backward[parent] = self.backward[parent].saturating_add(self.backward[span]);
        }
    }
}

/// Adds the idle time in calls of the threads that issue GPU work.
fn add_idle(
    context: &Context<'_>,
    spans: &Spans,
    groups: &[u32],
    recursive: &[bool],
    all: &mut [FunctionSum],
) {
    let (session, facts) = (context.session, context.facts);
    let mut issues = vec![false; session.threads.len()];
    for call in facts.ops.api_call.iter().flatten() {
        issues[session.api_calls.thread[call.index()].index()] = true;
    }
    let mut idle: Option<(PassId, Idle)> = None;
    for span in spans.nesting.order.iter().map(|span| *span as usize) {
        let own = &spans.span[span];
        if !issues[own.thread.index()] {
            continue;
        }
        let pass = all[groups[span] as usize].pass;
        if idle.as_ref().is_none_or(|(of, _)| *of != pass) {
            idle = Some((pass, Idle::new(facts, pass)));
        }
        let time = idle.as_ref().map_or(0, |(_, idle)| idle.within(own.start, own.end));
        let sum = &mut all[groups[span] as usize];
        sum.idle_self = sum.idle_self.saturating_add(time);
        if !recursive[span] {
            sum.idle_total = sum.idle_total.saturating_add(time);
        }
        if let Some(parent) = spans.nesting.parent[span] {
            let around = &mut all[groups[parent as usize] as usize].idle_self;
            *around = around.saturating_sub(time);
        }
    }
    // Calls that overlap without nesting would take their common part twice.
    all.iter_mut().for_each(|sum| sum.idle_self = sum.idle_self.max(0));
}
