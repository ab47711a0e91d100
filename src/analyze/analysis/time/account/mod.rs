//! The account of the time: a tree that splits the captured time of each GPU, exact to the nanosecond.
//!
//! Rules look at stages one by one, each with its own base. What no stage contains, and iterations that are excluded from
//! medians, then appear nowhere, and nobody notices that a page is about a tenth of the run. The account starts from the
//! other end: every nanosecond between the first and the last event of a pass belongs to exactly one leaf, for each GPU.
//!
//! Two alternatives were rejected. Sums of the other analyses do not add up: their windows overlap and have different
//! bases. A tree of host ranges splits host time, and GPU work runs after the range that issued it.
//!
//! What must hold: the times of children sum to their parent; a stage with GPU work in an iteration that lies in no other
//! has a node; busy and idle time of an iteration are those of [`crate::time::idle`], unless iterations overlap on a GPU:
//! then a moment belongs to the iteration that started first.

mod lane;
mod nodes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use rooflens_schemas::marks;
use rooflens_session::{GpuId, Ns, PassId, Session};

use crate::Context;
use crate::engine::intervals::Interval;
use crate::time::idle::gaps::Gaps;

pub use lane::Work;
pub use nodes::{Iterations, Node, NodeKind, Phase};

/// The account of all passes of the run: nodes with each parent before its children.
#[derive(Debug, Default, PartialEq)]
pub struct Account {
    /// The nodes. Roots are passes.
    pub nodes: Vec<Node>,
}

impl Account {
    /// Accounts for the time of the primary pass and the other ranks of its run.
    pub(super) fn new(context: &Context<'_>, gaps: &Gaps) -> Self {
        let mut account = Self::default();
        let owners = lane::owners(context.facts);
        for pass in &context.facts.run {
            let Some(window) = window(context, *pass) else {
                continue;
            };
            let lanes: Vec<lane::Lane> = gpus(context, *pass)
                .into_iter()
                .map(|gpu| lane::Lane::new(context, gaps, &owners, *pass, gpu, window))
                .collect();
            nodes::add_pass(&mut account.nodes, context, *pass, &lanes);
        }
        account
    }

    /// The children of a node. Each parent precedes its descendants, so the search ends with the last of these.
    pub fn children(&self, parent: usize) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.nodes.iter().enumerate().skip(parent + 1);
        let descendants = nodes.take_while(move |(_, node)| node.parent >= Some(parent));
        descendants.filter(move |(_, node)| node.parent == Some(parent))
    }

    /// Captured time of all GPUs.
    pub fn total(&self) -> Ns {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none());
        roots.map(|node| node.time).sum()
    }

    /// Captured time in iterations that the figures of stages rest on, and in phases of each other kind.
    pub fn of_phases(&self) -> impl Iterator<Item = (Phase, Ns)> {
        self.nodes.iter().filter_map(|node| match node.kind {
            NodeKind::Phase(phase) => Some((phase, node.time)),
            _ => None,
        })
    }

    /// Captured time in measured iterations.
    pub fn measured(&self) -> Ns {
        let measured = self.of_phases().filter(|(phase, _)| phase.is_measured());
        measured.map(|(_, time)| time).sum()
    }
}

/// The times of a phase on one GPU.
pub(super) struct PhaseWindows {
    pub(super) gpu: GpuId,
    pub(super) phase: Phase,
    pub(super) times: Vec<Interval>,
}

/// The phases of all GPUs of the run.
pub(super) fn phases(context: &Context<'_>) -> Vec<PhaseWindows> {
    let mut phases = Vec::new();
    for pass in &context.facts.run {
        let Some(window) = window(context, *pass) else {
            continue;
        };
        for gpu in gpus(context, *pass) {
            let mut times: BTreeMap<Phase, Vec<Interval>> = BTreeMap::new();
            for segment in lane::segments(context.facts, *pass, gpu, window) {
                times.entry(segment.phase).or_default().push(segment.time);
            }
            let of_gpu = times.into_iter();
            phases.extend(of_gpu.map(|(phase, times)| PhaseWindows { gpu, phase, times }));
        }
    }
    phases
}

/// The captured time of a pass: from the first event of the workload to the last. A range can end long after the profiler
/// stopped to record anything else, so of ranges only the starts count. Marks of the capture program begin while Python
/// still imports modules.
fn window(context: &Context<'_>, pass: PassId) -> Option<Interval> {
    let (session, ops) = (context.session, &context.facts.ops);
    let mut window: Option<Interval> = None;
    let mut extend = |start: Ns, end: Ns| {
        let (first, last) = window.get_or_insert((start, end));
        (*first, *last) = ((*first).min(start), (*last).max(end));
    };
    for op in context.facts.ops_of(pass) {
        extend(ops.start[op], ops.end[op]);
    }
    let ranges = &session.ranges;
    let is_mark = |row: usize| session.text(ranges.domain[row]) == marks::DOMAIN;
    for row in (0..ranges.len()).filter(|row| ranges.pass[*row] == pass && !is_mark(*row)) {
        extend(ranges.start[row], ranges.start[row]);
    }
    for (passes, starts, ends) in host_events(session) {
        for (row, row_pass) in passes.iter().enumerate() {
            if *row_pass == pass {
                extend(starts[row], ends[row]);
            }
        }
    }
    window
}

/// Pass, start, and end of calls and operators.
fn host_events(session: &Session) -> [(&[PassId], &[Ns], &[Ns]); 2] {
    let (calls, operators) = (&session.api_calls, &session.operators);
    [
        (&calls.pass, &calls.start, &calls.end),
        (&operators.pass, &operators.start, &operators.end),
    ]
}

/// The GPUs that ran operations in a pass.
fn gpus(context: &Context<'_>, pass: PassId) -> Vec<GpuId> {
    let facts = context.facts;
    let mut gpus: Vec<GpuId> = facts.ops.gpu[facts.ops_of(pass)].to_vec();
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}
