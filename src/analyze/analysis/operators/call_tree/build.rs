//! Spans, calls and GPU operations of a stage into its tree.

use std::cmp::Reverse;
use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

use super::names::{Folded, FoldedId};
use super::{Activity, Kind, Leaf, MAX_DEPTH, Node, NodeFlops, Source, Spans, Tree};
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource, StageInstance};
use crate::engine::nesting::Span;
use crate::engine::spans::{Work, roll_up};
use crate::engine::stage_stats::Summary;
use crate::engine::stages::WHOLE_CAPTURE;
use rooflens_session::{Ns, PassId, ProcessId, StrId, ThreadId};

/// No node.
const NONE: u32 = u32::MAX;

/// Makes trees one after the other.
pub(super) struct Builder<'a> {
    context: &'a Context<'a>,
    spans: &'a Spans,
    folded: Folded,
    /// Which ranges are instances of stages, by `RangeId`.
    is_stage: Vec<bool>,
    /// The node of each span in the present tree.
    node_of: Vec<u32>,
    /// Spans that have one.
    placed: Vec<u32>,
    nodes: Vec<Node>,
    children: FxHashMap<(u32, FoldedId), u32>,
    seen: FxHashSet<(u32, StrId)>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(context: &'a Context<'a>, spans: &'a Spans) -> Self {
        let mut is_stage = vec![false; context.session.ranges.len()];
        for range in context
            .facts
            .instances
            .iter()
            .filter_map(|instance| instance.range)
        {
            is_stage[range.index()] = true;
        }
        Self {
            context,
            spans,
            folded: Folded::default(),
            is_stage,
            node_of: vec![NONE; spans.span.len()],
            placed: Vec::new(),
            nodes: Vec::new(),
            children: FxHashMap::default(),
            seen: FxHashSet::default(),
        }
    }

    /// The tree of a stage of a process.
    pub(super) fn of_stage(&mut self, line: &Summary) -> Tree {
        let facts = self.context.facts;
        let stage = line.stage(facts);
        self.nodes = vec![Node {
            name: stage.name.clone(),
            ..Node::default()
        }];
        let mut ops = Vec::new();
        for instance in line.counted_instances(facts) {
            match instance.thread {
                Some(thread) => self.add_instance(instance, thread),
                None => self.add_threads(stage.pass),
            }
            ops.extend_from_slice(&instance.ops);
        }
        let label = line.label(self.context.session, facts);
        self.finish(
            Tree {
                label,
                ..Tree::new(stage.pass, line.process, line.counted)
            },
            ops,
        )
    }

    /// The tree of a whole pass, whatever its stages.
    pub(super) fn of_pass(&mut self, pass: PassId, process: ProcessId) -> Tree {
        self.nodes = vec![Node {
            name: WHOLE_CAPTURE.to_owned(),
            ..Node::default()
        }];
        self.add_threads(pass);
        // Fewer than 2^32 operations: each is a row of a table.
        let ops = self
            .context
            .facts
            .ops_of(pass)
            .map(|op| op as OpIndex)
            .collect();
        let label = WHOLE_CAPTURE.to_owned();
        self.finish(
            Tree {
                label,
                ..Tree::new(pass, process, 1)
            },
            ops,
        )
    }

    fn finish(&mut self, tree: Tree, ops: Vec<OpIndex>) -> Tree {
        let work = self.add_device(ops);
        self.add_backward(tree.pass);
        self.roll_up();
        let calls = self.calls();
        for span in self.placed.drain(..) {
            self.node_of[span as usize] = NONE;
        }
        self.children.clear();
        self.seen.clear();
        Tree {
            nodes: std::mem::take(&mut self.nodes),
            work,
            calls,
            ..tree
        }
    }

    /// Adds the spans of an instance, which are those of its thread.
    fn add_instance(&mut self, instance: &StageInstance, thread: ThreadId) {
        let (start, end) = (instance.host_start, instance.host_end);
        let root = instance
            .range
            .and_then(|range| self.spans.of_range[range.index()]);
        self.nodes[0].sum.calls += 1;
        self.add_host(Span { thread, start, end }.duration(), root.is_none());
        for span in self.within(thread, start, end) {
            self.add_span(self.spans.nesting.order[span], root);
        }
    }

    /// Adds the spans of all threads of a pass; the host time is that from the first to the last of a thread.
    fn add_threads(&mut self, pass: PassId) {
        let session = self.context.session;
        self.nodes[0].sum.calls += 1;
        for thread in session.threads.ids() {
            if session.processes.pass[session.threads.process[thread.index()].index()] != pass {
                continue;
            }
            let places = self.within(thread, Ns::MIN, Ns::MAX);
            let spans = &self.spans.nesting.order[places.clone()];
            let spans = spans.iter().map(|span| &self.spans.span[*span as usize]);
            let ends = spans.fold((Ns::MAX, Ns::MIN), |(start, end), span| {
                (start.min(span.start), end.max(span.end))
            });
            self.add_host(ends.1.saturating_sub(ends.0).max(Ns::ZERO), true);
            for at in places {
                self.add_span(self.spans.nesting.order[at], None);
            }
        }
    }

    /// Host time of the stage; its own, if no span represents it: what lies in spans is taken with them.
    fn add_host(&mut self, time: Ns, own: bool) {
        let stage = &mut self.nodes[0].sum;
        stage.host_total = stage.host_total.saturating_add(time);
        if own {
            stage.host_self = stage.host_self.saturating_add(time);
        }
    }

    /// Places in the order of spans that begin on `thread` in [start, end).
    fn within(&self, thread: ThreadId, start: Ns, end: Ns) -> std::ops::Range<usize> {
        let order = &self.spans.nesting.order;
        let before = |time: Ns| {
            order.partition_point(|span| {
                let span = &self.spans.span[*span as usize];
                (span.thread, span.start) < (thread, time)
            })
        };
        before(start)..before(end.max(start))
    }

    fn add_span(&mut self, span: u32, root: Option<u32>) {
        let row = span as usize;
        let parent =
            self.spans.nesting.parent[row].map_or(NONE, |span| self.node_of[span as usize]);
        let around = if parent == NONE { 0 } else { parent };
        let is_root = Some(span) == root;
        let node = if is_root { 0 } else { self.child(around, span) };
        let Self { spans, nodes, .. } = self;
        let total = spans.span[row].duration();
        if parent == NONE && root.is_none() {
            let host_self = &mut nodes[0].sum.host_self;
            *host_self = host_self.saturating_sub(total).max(Ns::ZERO);
        }
        let Node { sum, names, .. } = &mut nodes[node as usize];
        sum.add_self(&spans.nesting, row);
        // A span beyond the deepest level is a part of the node around it.
        if !is_root && node != around {
            sum.calls += 1;
            sum.host_total = sum.host_total.saturating_add(total);
            *names += u64::from(self.seen.insert((node, spans.name[row])));
        }
        self.node_of[row] = node;
        self.placed.push(span);
    }

    /// The node of a span's name below another node.
    fn child(&mut self, parent: u32, span: u32) -> u32 {
        let depth = self.nodes[parent as usize].depth + 1;
        if depth >= MAX_DEPTH {
            return parent;
        }
        let row = span as usize;
        let name = self.folded.of(self.context.session, self.spans.name[row]);
        let Self {
            nodes,
            folded,
            spans,
            is_stage,
            ..
        } = self;
        *self.children.entry((parent, name)).or_insert_with(|| {
            let kind = match spans.source[row] {
                Source::Range(range) => Kind::Range {
                    part: is_stage[range.index()],
                },
                Source::Module(_) => Kind::Module,
                Source::Function(_) => Kind::Function,
                Source::Operator(_) => Kind::Operator,
            };
            let name = folded.text(name).to_owned();
            nodes.push(Node {
                parent: Some(parent),
                depth,
                name,
                kind,
                ..Node::default()
            });
            (nodes.len() - 1) as u32
        })
    }

    /// Gives the operations to their nodes, and the time in which they run to those around them too.
    fn add_device(&mut self, mut list: Vec<OpIndex>) -> Vec<Leaf<Activity>> {
        let context = self.context;
        let ops = &context.facts.ops;
        list.sort_unstable_by_key(|op| {
            let row = *op as usize;
            (ops.gpu[row], ops.start[row], ops.end[row], *op)
        });
        let mut leaves = FxHashMap::default();
        let mut covered: Vec<Ns> = Vec::new();
        let mut gpu = None;
        for row in list.into_iter().map(|op| op as usize) {
            if gpu.replace(ops.gpu[row]) != Some(ops.gpu[row]) {
                covered.clear();
            }
            let node = self.node_of_op(row);
            covered.resize(self.nodes.len(), Ns::MIN);
            let work = Work::of(ops, row);
            let leaf: &mut Ns = leaves
                .entry((node, activity(context, ops.source[row])))
                .or_default();
            *leaf = leaf.saturating_add(work.device);
            let Node { sum, flops, .. } = &mut self.nodes[node as usize];
            sum.own += work;
            *flops += NodeFlops::of(context, row);
            let (start, end) = (ops.start[row], ops.end[row]);
            let mut ancestor = Some(node);
            while let Some(number) = ancestor {
                let node = &mut self.nodes[number as usize];
                let until = &mut covered[number as usize];
                node.busy = node
                    .busy
                    .saturating_add(end.saturating_sub(start.max(*until)).max(Ns::ZERO));
                *until = end.max(*until);
                ancestor = node.parent;
            }
        }
        sorted(leaves)
    }

    /// Gives work of the backward pass to the nodes of its forward operators, whatever stage it ran in.
    fn add_backward(&mut self, pass: PassId) {
        let Context {
            session,
            facts,
            results,
            ..
        } = *self.context;
        let Ok(backward) = results.backward() else {
            return;
        };
        let of_tree = backward
            .work
            .iter()
            .filter(|(op, _)| facts.ops.pass[*op as usize] == pass);
        for (op, forward) in of_tree {
            let span = self.spans.of_operator(session, *forward);
            let Some(node) = span.map(|span| self.node_of[span as usize]) else {
                continue;
            };
            if node == NONE {
                continue;
            }
            let backward = Work::of(&facts.ops, *op as usize).device;
            self.nodes[node as usize].sum.own += Work {
                backward,
                ..Work::default()
            };
        }
    }

    /// Adds to each node what the nodes within it do.
    fn roll_up(&mut self) {
        let nodes = &mut self.nodes;
        let mut work: Vec<Work> = nodes.iter().map(|node| node.sum.own).collect();
        let mut flops: Vec<NodeFlops> = nodes.iter().map(|node| node.flops).collect();
        // Callers stand before what they call.
        let innermost_first = || {
            (0..nodes.len())
                .rev()
                .map(|node| (node, nodes[node].parent))
        };
        roll_up(innermost_first(), &mut work);
        roll_up(innermost_first(), &mut flops);
        for (node, (work, flops)) in nodes.iter_mut().zip(work.into_iter().zip(flops)) {
            node.sum.within = work;
            node.flops_self = node.flops.masked;
            node.flops = flops;
        }
    }

    /// The innermost node of an operation.
    fn node_of_op(&mut self, row: usize) -> u32 {
        let ops = &self.context.facts.ops;
        let call = ops.api_call[row];
        let Some(span) = call.and_then(|call| self.spans.nesting.of_call[call.index()]) else {
            return self.lent(row);
        };
        match self.node_of[span as usize] {
            NONE => self.foreign(row, span),
            node => node,
        }
    }

    /// The node of the range that was assigned to an operation of another thread; the stage if there is none.
    fn lent(&self, row: usize) -> u32 {
        let range = self.context.facts.ops.range[row].range();
        let span = range.and_then(|range| self.spans.of_range[range.index()]);
        let node = span.map_or(NONE, |span| self.node_of[span as usize]);
        if node == NONE { 0 } else { node }
    }

    /// The node of an operation that another thread than the stage's issued: that thread's spans below the
    /// assigned range. An operation of the stage's own thread is the stage's if no span within the stage is
    /// around it.
    fn foreign(&mut self, row: usize, span: u32) -> u32 {
        let lent = self.lent(row);
        if !self.context.facts.ops.range[row].is_inferred() {
            return lent;
        }
        let mut path = Vec::new();
        let mut ancestor = Some(span);
        while let Some(span) = ancestor.filter(|_| path.len() < MAX_DEPTH as usize) {
            path.push(span);
            ancestor = self.spans.nesting.parent[span as usize];
        }
        path.into_iter()
            .rev()
            .fold(lent, |node, span| self.child(node, span))
    }

    /// CUDA calls that the nodes make themselves.
    fn calls(&self) -> Vec<Leaf<StrId>> {
        let calls = &self.context.session.api_calls;
        let mut leaves = FxHashMap::default();
        for (row, span) in self.spans.nesting.of_call.iter().enumerate() {
            let Some(span) = span.filter(|_| !calls.nested[row]) else {
                continue;
            };
            let node = self.node_of[span as usize];
            if node != NONE {
                let end = calls.end[row].min(self.spans.span[span as usize].end);
                let time = end.saturating_sub(calls.start[row]).max(Ns::ZERO);
                let sum: &mut Ns = leaves.entry((node, calls.name[row])).or_default();
                *sum = sum.saturating_add(time);
            }
        }
        sorted(leaves)
    }
}

fn activity(context: &Context<'_>, source: OpSource) -> Activity {
    let session = context.session;
    match source {
        OpSource::Launch(launch) => Activity::Kernel(session.launches.kernel[launch.index()]),
        OpSource::Copy(copy) => Activity::Copy(session.copies.kind[copy.index()]),
        OpSource::Graph(_) => Activity::Graph,
    }
}

/// By (node, time descending, what).
fn sorted<K: Copy + Ord + Hash>(leaves: FxHashMap<(u32, K), Ns>) -> Vec<Leaf<K>> {
    let leaf = |((node, what), time)| Leaf { node, what, time };
    let mut list: Vec<Leaf<K>> = leaves.into_iter().map(leaf).collect();
    list.sort_unstable_by_key(|leaf| (leaf.node, Reverse(leaf.time), leaf.what));
    list
}
