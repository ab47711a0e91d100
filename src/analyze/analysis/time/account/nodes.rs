//! The times of a lane as nodes of a tree.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_session::{Arrange, GpuId, Ns, PassId, ProcessId, Session};

use super::lane::{Lane, PhaseTime, Work};
use crate::Context;
use crate::engine::classify::KernelClass;
use crate::engine::facts::Facts;
use crate::engine::stage_stats::label;
use crate::time::idle::cause::Cause;

/// A part of the captured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node that it is a part of, an index into [`super::Account::nodes`].
    pub parent: Option<usize>,
    /// What the time is spent on.
    pub kind: NodeKind,
    /// Time, summed over GPUs.
    pub time: Ns,
    /// Iterations of a stage, or windows between stages; nothing for other nodes.
    pub parts: Option<u64>,
}

/// What a part of the time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A pass: the captured time of each of its GPUs.
    Pass(PassId),
    /// A GPU.
    Gpu(GpuId),
    /// All iterations of a stage.
    Stage(usize, ProcessId),
    /// Iterations of one kind, or time outside of stages.
    Phase(Phase),
    /// Time in which an operation runs.
    Busy,
    /// Operations of one class.
    Class(KernelClass),
    /// Operations of one kind.
    Work(Work),
    /// Time in which no operation of the phase runs.
    Idle,
    /// Idle time of one cause.
    Cause(Cause),
    /// Time before the first and after the last operation of the GPU.
    NoOperation,
}

/// When in the run something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before the first iteration of a stage: imports, model load, set-up.
    BeforeStages,
    /// In iterations of an outermost stage, an index into the facts' stages.
    Stage {
        /// The stage.
        stage: usize,
        /// The process that ran it.
        process: ProcessId,
        /// Which of its iterations.
        iterations: Iterations,
    },
    /// From the end of an iteration of one stage to the start of the next.
    Between {
        /// The stage that ended.
        from: usize,
        /// The stage that starts.
        to: usize,
        /// Whether both iterations count: next to a warm-up lies one-time work.
        is_measured: bool,
    },
    /// After the last iteration.
    AfterStages,
}

/// Iterations of a stage by their part in its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Iterations {
    /// Those that the figures of the stage rest on.
    Steady,
    /// Those that count, and take far longer than most.
    Slow,
    /// Those that the workload description declares as warm-up.
    Warmup,
    /// A first one far slower than the others.
    ColdStart,
    /// Loops that stopped early or ran longer.
    OtherLength,
    /// Those before the time jumps to its last level.
    EarlierLevel,
    /// Those that hold no operations because others are open at once.
    NotAnalyzed,
}

impl Phase {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::BeforeStages => "before stages",
            Self::Stage { iterations, .. } => iterations.label(),
            Self::Between {
                is_measured: true, ..
            } => "between stages",
            Self::Between { .. } => "next to excluded iterations",
            Self::AfterStages => "after stages",
        }
    }

    /// The stage, or the stages that it lies between.
    pub fn name(self, session: &Session, facts: &Facts) -> String {
        match self {
            Self::Stage { stage, process, .. } => label(session, facts, stage, process),
            Self::Between { from, to, .. } => {
                format!("{} → {}", facts.stages[from].name, facts.stages[to].name)
            }
            Self::BeforeStages | Self::AfterStages => String::new(),
        }
    }

    /// Whether the figures of stages rest on it.
    pub const fn is_measured(self) -> bool {
        let Self::Stage { iterations, .. } = self else {
            return false;
        };
        matches!(iterations, Iterations::Steady | Iterations::Slow)
    }

    /// Whether it lies between measured iterations.
    pub const fn is_between_measured(self) -> bool {
        matches!(
            self,
            Self::Between {
                is_measured: true,
                ..
            }
        )
    }
}

impl NodeKind {
    /// What kind of part it is, in the words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Gpu(_) => "GPU",
            Self::Stage(..) => "stage",
            Self::Phase(phase) => phase.label(),
            Self::Busy => "busy",
            Self::Class(_) => "kernel class",
            Self::Work(_) => "operation",
            Self::Idle => "idle",
            Self::Cause(_) => "idle cause",
            Self::NoOperation => "no operation",
        }
    }

    /// The stage, kernel, or cause that it is about; empty for others.
    pub fn name(self, session: &Session, facts: &Facts) -> String {
        match self {
            Self::Pass(pass) => session.pass_name(pass).to_owned(),
            Self::Gpu(gpu) => session.gpus.ordinal[gpu.index()].to_string(),
            Self::Stage(stage, process) => label(session, facts, stage, process),
            Self::Phase(phase) => phase.name(session, facts),
            Self::Class(class) => class.label().to_owned(),
            Self::Work(Work::Kernel(kernel)) => session
                .text(session.kernels.short_name[kernel.index()])
                .to_owned(),
            Self::Work(Work::Copy(kind)) => kind.label().to_owned(),
            Self::Work(Work::Graph) => KernelClass::Graph.label().to_owned(),
            Self::Cause(cause) => cause.label().to_owned(),
            Self::Busy | Self::Idle | Self::NoOperation => String::new(),
        }
    }

    /// How its time is computed, in the words of data files.
    pub const fn basis(self) -> &'static str {
        match self {
            Self::Pass(_) => "first to last event of the pass, once for each GPU",
            Self::Gpu(_) => "first to last event of the pass",
            Self::Stage(..) => "sum of its iterations",
            Self::Phase(Phase::Stage { .. }) => {
                "first to last operation of each iteration; where two overlap, the earlier one has the time"
            }
            Self::Phase(_) => "time outside of iterations",
            Self::Busy => "union of the operations",
            Self::Class(_) => "sum of its operations",
            Self::Work(_) => {
                "time it runs; of operations at once, compute before collective before memory transfer"
            }
            Self::Idle => "time without an operation of the phase",
            Self::Cause(_) => "parts of gaps by cause",
            Self::NoOperation => "before the first and after the last operation of the GPU",
        }
    }
}

impl Iterations {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Steady => "measured iterations",
            Self::Slow => "slow measured iterations",
            Self::Warmup => "declared warm-up",
            Self::ColdStart => "cold start",
            Self::OtherLength => "loops of other lengths",
            Self::EarlierLevel => "iterations before the jump",
            Self::NotAnalyzed => "iterations not analyzed",
        }
    }
}

impl Work {
    /// The class of the operations.
    fn class(self, context: &Context<'_>) -> KernelClass {
        match self {
            Self::Kernel(kernel) => context.facts.identities[kernel.index()].class,
            Self::Copy(_) => KernelClass::Copy,
            Self::Graph => KernelClass::Graph,
        }
    }
}

/// Adds the tree of a pass.
pub(super) fn add_pass(nodes: &mut Vec<Node>, context: &Context<'_>, pass: PassId, lanes: &[Lane]) {
    let time = lanes.iter().map(|lane| lane.time).sum();
    let root = push(nodes, None, NodeKind::Pass(pass), time);
    for lane in lanes {
        let gpu = push(nodes, Some(root), NodeKind::Gpu(lane.gpu), lane.time);
        add_phases(nodes, context, gpu, lane);
    }
}

fn add_phases(nodes: &mut Vec<Node>, context: &Context<'_>, gpu: usize, lane: &Lane) {
    let mut stage_node = None;
    for (phase, time) in &lane.phases {
        let parent = match phase {
            Phase::Stage { stage, process, .. } => {
                let kind = NodeKind::Stage(*stage, *process);
                let node = stage_node.filter(|node: &usize| nodes[*node].kind == kind);
                let node = node.unwrap_or_else(|| push(nodes, Some(gpu), kind, Ns::ZERO));
                nodes[node].time += time.time;
                stage_node = Some(node);
                node
            }
            _ => gpu,
        };
        let node = push(nodes, Some(parent), NodeKind::Phase(*phase), time.time);
        nodes[node].parts = Some(time.parts);
        add_busy(nodes, context, node, time);
        add_idle(nodes, node, time);
    }
}

fn add_busy(nodes: &mut Vec<Node>, context: &Context<'_>, phase: usize, time: &PhaseTime) {
    let mut classes: BTreeMap<KernelClass, Vec<(Work, Ns)>> = BTreeMap::new();
    let mut works: Vec<(Work, Ns)> = time
        .busy
        .iter()
        .map(|(work, time)| (*work, *time))
        .collect();
    works.arrange_by_key(|(work, time)| (Reverse(*time), *work));
    for (work, time) in works {
        let of_class = classes.entry(work.class(context)).or_default();
        of_class.push((work, time));
    }
    let of_class = |works: &[(Work, Ns)]| -> Ns { works.iter().map(|(_, time)| *time).sum() };
    let busy: Ns = classes.values().map(|works| of_class(works)).sum();
    if busy == Ns::ZERO {
        return;
    }
    let busy = push(nodes, Some(phase), NodeKind::Busy, busy);
    let mut classes: Vec<(KernelClass, Vec<(Work, Ns)>)> = classes.into_iter().collect();
    classes.arrange_by_key(|(class, works)| (Reverse(of_class(works)), *class));
    for (class, works) in classes {
        let class = push(nodes, Some(busy), NodeKind::Class(class), of_class(&works));
        for (work, time) in works {
            push(nodes, Some(class), NodeKind::Work(work), time);
        }
    }
}

fn add_idle(nodes: &mut Vec<Node>, phase: usize, time: &PhaseTime) {
    let idle = time.idle.total() + time.no_operation;
    if idle == Ns::ZERO {
        return;
    }
    let idle = push(nodes, Some(phase), NodeKind::Idle, idle);
    let mut causes: Vec<(Cause, Ns)> = time.idle.causes().collect();
    causes.arrange_by_key(|(cause, time)| (Reverse(*time), *cause));
    for (cause, time) in causes {
        push(nodes, Some(idle), NodeKind::Cause(cause), time);
    }
    if time.no_operation > Ns::ZERO {
        push(nodes, Some(idle), NodeKind::NoOperation, time.no_operation);
    }
}

/// Adds a node; returns its number.
fn push(nodes: &mut Vec<Node>, parent: Option<usize>, kind: NodeKind, time: Ns) -> usize {
    nodes.push(Node {
        parent,
        kind,
        time,
        parts: None,
    });
    nodes.len() - 1
}
