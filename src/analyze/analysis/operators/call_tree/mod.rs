//! Call trees: a stage's ranges, modules, functions and operators by path, with their time on the host and on the GPU.
//!
//! Spans of equal folded path are one node. A GPU operation belongs to the innermost span around the start of
//! the CUDA call that issued it; one that another thread issued goes below the range that its stage assigned it.

mod build;
mod flops;
mod names;
mod spans;
#[cfg(test)]
mod tests;

use crate::engine::intervals::total;
use crate::engine::spans::Sum;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Known, Missing};
use rooflens_session::{CopyKind, KernelId, Ns, PassId, ProcessId, StrId};
use rooflens_units::Flops;

pub use flops::NodeFlops;
pub use names::{Folded, FoldedId, fold, is_function};
pub use spans::{Source, Spans};

/// Levels of a tree; deeper spans count to those around them.
const MAX_DEPTH: u32 = 48;

/// The tree of one stage of one process: sums over the counted instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// Pass.
    pub pass: PassId,
    /// Process.
    pub process: ProcessId,
    /// The stage's name, with the rank where several processes ran.
    pub label: String,
    /// Instances that were counted.
    pub instances: usize,
    /// Nodes, callers before what they call; the first is the stage.
    pub nodes: Vec<Node>,
    /// What the GPU did, by (node, time descending, work).
    pub work: Vec<Leaf<Activity>>,
    /// CUDA calls, by (node, time descending, name).
    pub calls: Vec<Leaf<StrId>>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The stage itself.
    #[default]
    Stage,
    /// A range within it; `part` if it is a stage of its own.
    Range {
        /// Whether the range is a part of the stage that has a name as a stage.
        part: bool,
    },
    /// A module.
    Module,
    /// A function of Python.
    Function,
    /// An operator.
    Operator,
}

/// Spans of one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The node around it.
    pub parent: Option<u32>,
    /// Number of nodes around it.
    pub depth: u32,
    /// Folded name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Calls and host time on the thread that opened the stage, without calls if all spans are on other threads; GPU
    /// work of all threads.
    pub sum: Sum,
    /// Distinct names that were folded, on the thread that opened the stage.
    pub names: u64,
    /// Union of the operations' intervals, summed over GPUs, nanoseconds.
    pub busy: Ns,
    /// FLOPs of the matrix work issued within.
    pub flops: NodeFlops,
    /// FLOPs of the work issued by itself, of attention those under its mask.
    pub flops_self: Flops,
}

/// Work or calls of one kind that a node issues itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf<K> {
    /// Node.
    pub node: u32,
    /// What.
    pub what: K,
    /// Sum of durations, nanoseconds.
    pub time: Ns,
}

/// What the GPU did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// A kernel.
    Kernel(KernelId),
    /// A copy or memset.
    Copy(CopyKind),
    /// A whole CUDA graph.
    Graph,
}

/// How the operators of all passes nest.
///
/// # Errors
/// Without operators.
pub fn operators(context: &Context<'_>) -> Known<Spans> {
    if context.session.operators.is_empty() {
        return Err(Missing("missing.operators"));
    }
    Ok(Spans::of_operators(context.session))
}

/// The trees of a pass: of its outermost stages, and of the whole pass where they hold little of the GPU time.
pub fn all_trees(context: &Context<'_>, spans: &Spans, pass: PassId) -> Vec<Tree> {
    let mut trees = trees(context, spans, pass);
    trees.extend(whole(context, spans, pass, &trees));
    trees
}

/// The trees of a pass's outermost stages, in the order of the stages.
pub fn trees(context: &Context<'_>, spans: &Spans, pass: PassId) -> Vec<Tree> {
    let lines = summaries(context.facts, pass);
    let outermost = |line: &&Summary| line.is_outermost(context.facts);
    let mut builder = build::Builder::new(context, spans);
    lines
        .iter()
        .filter(outermost)
        .map(|line| builder.of_stage(line))
        .collect()
}

/// The tree of a pass in which its stages hold less than half of the GPU time, as where the backward pass has
/// no range of its own; `trees` are those of the stages.
fn whole(context: &Context<'_>, spans: &Spans, pass: PassId, trees: &[Tree]) -> Option<Tree> {
    let ops = &context.facts.ops;
    let time = total(
        context
            .facts
            .ops_of(pass)
            .map(|op| ops.end[op].saturating_sub(ops.start[op])),
    );
    let in_stages = total(trees.iter().map(|tree| tree.nodes[0].sum.within.device));
    let process = trees.first()?.process;
    (in_stages < time / 2).then(|| build::Builder::new(context, spans).of_pass(pass, process))
}

impl Tree {
    fn new(pass: PassId, process: ProcessId, instances: usize) -> Self {
        Self {
            pass,
            process,
            instances,
            ..Self::default()
        }
    }

    /// Whether there is anything below the stage.
    pub fn has_inner(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Whether FLOPs of any work are known.
    pub fn has_flops(&self) -> bool {
        self.nodes
            .first()
            .is_some_and(|stage| stage.flops.is_any_counted())
    }

    /// Whether there are functions of Python below the stage.
    pub fn has_functions(&self) -> bool {
        self.nodes.iter().any(|node| node.kind == Kind::Function)
    }

    /// Whether work of the backward pass belongs to it.
    pub fn has_backward(&self) -> bool {
        self.nodes
            .first()
            .is_some_and(|stage| stage.sum.within.backward > Ns::ZERO)
    }

    /// Whether several nodes are neither operators nor parts of the stage that are stages themselves.
    pub fn has_modules(&self) -> bool {
        let module = |node: &&Node| matches!(node.kind, Kind::Range { part: false } | Kind::Module);
        self.nodes.iter().filter(module).count() > 1
    }

    /// The node's name without that of the node around it: `mlp` for `layers.*.mlp` in `layers.*`.
    pub fn label(&self, node: u32) -> &str {
        let Node { parent, name, .. } = &self.nodes[node as usize];
        let around = parent.map_or("", |parent| &self.nodes[parent as usize].name);
        let rest = name
            .strip_prefix(around)
            .and_then(|rest| rest.strip_prefix(['.', '/']));
        rest.filter(|rest| !around.is_empty() && !rest.is_empty())
            .unwrap_or(name)
    }

    /// Labels from below the stage to the node.
    pub fn path(&self, node: u32) -> String {
        let mut labels = Vec::new();
        let mut ancestor = Some(node).filter(|node| *node > 0);
        while let Some(node) = ancestor {
            labels.push(self.label(node));
            ancestor = self.nodes[node as usize]
                .parent
                .filter(|parent| *parent > 0);
        }
        labels.reverse();
        labels.join(" / ")
    }

    /// Nodes within each node, by weight descending, then name.
    pub fn children(&self, weight: &dyn Fn(&Node) -> Ns) -> Vec<Vec<u32>> {
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                children[parent as usize].push(number as u32);
            }
        }
        for list in &mut children {
            list.sort_by_key(|number| {
                let node = &self.nodes[*number as usize];
                (std::cmp::Reverse(weight(node)), &node.name, *number)
            });
        }
        children
    }

    /// Nodes below the stage, each before those within it, the largest of a node first.
    pub fn depth_first(&self, weight: &dyn Fn(&Node) -> Ns) -> Vec<u32> {
        let children = self.children(weight);
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack: Vec<u32> = children
            .first()
            .into_iter()
            .flatten()
            .rev()
            .copied()
            .collect();
        while let Some(node) = stack.pop() {
            order.push(node);
            stack.extend(children[node as usize].iter().rev());
        }
        order
    }
}
