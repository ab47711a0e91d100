//! The derived tables: GPU operations, stages and their instances.

use std::cmp::Reverse;
use std::fmt;

use rooflens_schemas::{StageKind, manifest};
use rooflens_session::{
    ApiCallId, Arrange, CopyId, GpuId, GraphLaunchId, KernelId, LaunchId, Ns, PassId, ProcessId,
    RangeId, Session, ThreadId,
};
use rooflens_units::Ratio;

use crate::attribution::operations;
use crate::classify::{KernelClass, KernelIdentity, identities};
use crate::sizes::Sizes;
use crate::stages::find;

/// GPU operations with the stages that they belong to.
#[derive(Clone, Debug, Default)]
pub struct StageTables {
    /// All GPU operations, sorted by (pass, start, end, source).
    pub ops: Ops,
    /// Class, library and dtype of each kernel, by [`KernelId`].
    pub identities: Vec<KernelIdentity>,
    /// Stages in report order.
    pub stages: Vec<Stage>,
    /// Stage instances, sorted by (stage, process, host start).
    pub instances: Vec<StageInstance>,
    /// The timeline that shows the nodes of CUDA graphs, if another one traces graphs as a whole.
    pub graph_nodes: Option<PassId>,
}

/// A GPU operation by number: an index into the columns of [`Ops`].
pub type OpIndex = u32;

/// GPU operations: kernels, copies, memsets and whole graphs as one table.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    /// Start, nanoseconds.
    pub start: Vec<Ns>,
    /// End, nanoseconds.
    pub end: Vec<Ns>,
    /// Pass.
    pub pass: Vec<PassId>,
    /// GPU.
    pub gpu: Vec<GpuId>,
    /// Process.
    pub process: Vec<ProcessId>,
    /// CUDA stream.
    pub stream: Vec<u64>,
    /// The row that the operation is.
    pub source: Vec<OpSource>,
    /// The outermost API call that issued it.
    pub api_call: Vec<Option<ApiCallId>>,
    /// Innermost range around it, and how that was found.
    pub range: Vec<Attribution>,
    /// For work that a CUDA graph replays: the range that was open when its node was captured.
    pub captured: Vec<Captured>,
}

/// The row that an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpSource {
    /// A kernel execution.
    Launch(LaunchId),
    /// A copy or memset.
    Copy(CopyId),
    /// A whole CUDA graph.
    Graph(GraphLaunchId),
}

/// The range that an operation belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attribution {
    /// The innermost range of the issuing thread around the start of the API call.
    Own(RangeId),
    /// The issuing thread has no range open; this is the innermost range of the one other thread that has.
    Inferred(RangeId),
    /// No range is open at the API call's start.
    Outside,
    /// Several other threads have ranges open: not decided.
    Ambiguous,
    /// The API call is not in the artifact.
    #[default]
    NoApiCall,
}

impl Attribution {
    /// Whether the range is that of another thread.
    pub const fn is_inferred(self) -> bool {
        matches!(self, Self::Inferred(_))
    }

    /// The range, if there is one.
    pub const fn range(self) -> Option<RangeId> {
        match self {
            Self::Own(range) | Self::Inferred(range) => Some(range),
            Self::Outside | Self::Ambiguous | Self::NoApiCall => None,
        }
    }
}

/// Where work that a CUDA graph replays was captured: *what* it is, where [`Attribution`] says *when* it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Captured {
    /// No part of a graph.
    #[default]
    NoGraph,
    /// The innermost range that was open on the capturing thread.
    Range(RangeId),
    /// No range was open on the capturing thread.
    Outside,
    /// The graph was traced as a whole, and its creation is not in the artifact.
    Whole,
    /// The artifact does not say which node it is.
    NoNode,
    /// The artifact has no event of any node of the process.
    NoEvents,
    /// The artifact has events of nodes, but none of this one.
    UnknownNode,
    /// The node is a clone, and the one that it was cloned from has no event.
    UnknownOriginal,
    /// Several events of the node contradict one another.
    Ambiguous,
    /// Nodes are clones of one another in a circle.
    Cycle,
}

impl Captured {
    /// The range, if there is one.
    pub const fn range(self) -> Option<RangeId> {
        if let Self::Range(range) = self {
            Some(range)
        } else {
            None
        }
    }

    /// Why there is no range; empty if there is one, or no graph.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoGraph | Self::Range(_) => "",
            Self::Outside => "no range was open at capture",
            Self::Whole => "traced as a whole, created outside of the trace",
            Self::NoNode => "the artifact names no graph node",
            Self::NoEvents => "the artifact has no events of graph nodes",
            Self::UnknownNode => "captured outside of the trace: no event of the node",
            Self::UnknownOriginal => "captured outside of the trace: no event of the original node",
            Self::Ambiguous => "events of the node contradict one another",
            Self::Cycle => "nodes are clones of one another",
        }
    }
}

/// A stage of one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Pass.
    pub pass: PassId,
    /// Name.
    pub name: String,
    /// What it computes.
    pub kind: StageKind,
    /// Whether it lies inside instances of another stage (`decode_step` in `decode`): not added to sums.
    pub parent: Option<usize>,
    /// Its instances: a range of [`StageTables::instances`].
    pub instances: std::ops::Range<usize>,
}

/// One execution of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageInstance {
    /// Stage, an index into [`StageTables::stages`].
    pub stage: usize,
    /// Range that it is; absent for the whole capture as one stage.
    pub range: Option<RangeId>,
    /// Process.
    pub process: ProcessId,
    /// Thread that opened the range.
    pub thread: Option<ThreadId>,
    /// Number among the instances of the stage and process, from 0.
    pub ordinal: u32,
    /// Whether it lies in an instance of another stage.
    pub is_nested: bool,
    /// Start of the range on the host.
    pub host_start: Ns,
    /// End of the range on the host.
    pub host_end: Ns,
    /// Operations attributed to it, as indices into [`StageTables::ops`], sorted by start.
    pub ops: Vec<OpIndex>,
    /// How many of them are attributed by inference.
    pub inferred: u32,
    /// First start and last end of its operations; absent if it has none.
    pub projection: Option<(Ns, Ns)>,
    /// Union of its operations' intervals, summed over GPUs, nanoseconds.
    pub busy: Ns,
    /// Sum of its operations' durations, nanoseconds: larger than `busy` where they overlap.
    pub sum: Ns,
    /// GPUs that it used.
    pub gpus: Vec<GpuId>,
    /// Decode steps in it, counted from the nested stage; absent if it has none.
    pub steps: Option<u64>,
    /// Its sizes, by the calls of the model in it.
    pub sizes: Sizes,
    /// Why it is excluded from the stage's aggregates, if it is; it is still shown.
    pub excluded: Option<Exclusion>,
}

/// Why an instance is excluded from the aggregates of its stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exclusion {
    /// The workload description declares that many instances as warm-up.
    DeclaredWarmup,
    /// It is the first that counts, and an outlier against the later ones.
    ColdStart {
        /// Modified z-score of its time.
        z: f64,
    },
    /// A loop that stopped early, or ran longer than the others.
    Steps {
        /// Steps of this instance.
        steps: u64,
        /// Steps of most instances.
        usual: u64,
    },
    /// Later iterations of the longest stage are at a higher level, at which the program runs now.
    EarlierLevel,
    /// So many others are open at once on its thread: it holds no operations.
    Crowded(usize),
    /// Stages before it hold all operations that are analyzed: it holds none.
    NoRoom,
}

impl Exclusion {
    /// Whether the instance would have cost too much, and holds no operations.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Crowded(_) | Self::NoRoom)
    }

    /// Whether the instance did work that later ones do not repeat.
    pub const fn is_warmup(self) -> bool {
        matches!(self, Self::DeclaredWarmup | Self::ColdStart { .. })
    }
}

/// The words of data files.
impl fmt::Display for Exclusion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeclaredWarmup => formatter.write_str("declared warm-up"),
            Self::ColdStart { z } => write!(
                formatter,
                "cold start: modified z-score {z:.1} against the later ones"
            ),
            Self::Steps { steps, usual } => write!(formatter, "{steps} steps instead of {usual}"),
            Self::EarlierLevel => formatter.write_str("before the time jumps to its last level"),
            Self::Crowded(others) => write!(formatter, "{others} others are open at once"),
            Self::NoRoom => {
                formatter.write_str("stages before it hold all operations that are analyzed")
            }
        }
    }
}

impl StageInstance {
    /// Projection duration: the stage time, nanoseconds.
    pub fn time(&self) -> Option<Ns> {
        self.projection.map(|(start, end)| end - start)
    }

    /// Busy time as a share of projection × GPUs.
    pub fn busy_share(&self) -> Option<Ratio> {
        let time = self.time().filter(|time| *time > Ns::ZERO)?;
        let gpus = self.gpus.len().max(1) as f64;
        Some(Ratio::of(self.busy.time(), time.time() * gpus))
    }
}

impl StageTables {
    /// Finds the stages of a session and attributes its operations to them.
    pub fn new(session: &Session) -> Self {
        let mut tables = Self {
            ops: operations(session),
            identities: identities(session),
            ..Self::default()
        };
        tables.graph_nodes = tables.node_pass(session);
        find(session, &mut tables);
        tables
    }

    /// Tracing by node slows the launches of graphs, so times come from the timeline with whole graphs where the bundle has a
    /// short one of their nodes, too.
    fn node_pass(&self, session: &Session) -> Option<PassId> {
        let whole = &session.graph_launches.pass;
        let is_nodes = |pass: &PassId| {
            session.pass_name(*pass).ends_with(manifest::NODES)
                && !whole.contains(pass)
                && !self.ops_of(*pass).is_empty()
        };
        let passes = session.passes.ids().filter(|_| !whole.is_empty());
        passes
            .filter(is_nodes)
            .max_by_key(|pass| (self.ops_of(*pass).len(), Reverse(*pass)))
    }

    /// The pass whose kernels the report shows first: the primary one, unless that has whole graphs and another one their
    /// nodes.
    pub fn kernel_pass(&self, session: &Session) -> Option<PassId> {
        let primary = self.primary_pass(session)?;
        let is_whole = session.graph_launches.pass.contains(&primary);
        Some(self.graph_nodes.filter(|_| is_whole).unwrap_or(primary))
    }

    /// The pass whose times the report shows first: the timeline with the most GPU operations, or the
    /// operator trace with the most where there is no timeline.
    pub fn primary_pass(&self, session: &Session) -> Option<PassId> {
        self.passes_by_preference(session).first().copied()
    }

    /// The passes with GPU operations, the primary one first.
    pub fn passes_by_preference(&self, session: &Session) -> Vec<PassId> {
        let count = |pass: &PassId| self.ops_of(*pass).len();
        let mut passes: Vec<PassId> = session
            .passes
            .ids()
            .filter(|pass| count(pass) > 0)
            .collect();
        passes.arrange_by_key(|pass| {
            (
                session.passes.kind[pass.index()],
                self.graph_nodes == Some(*pass),
                Reverse(count(pass)),
                *pass,
            )
        });
        passes
    }

    /// The instances of a stage.
    pub fn instances_of(&self, stage: &Stage) -> &[StageInstance] {
        &self.instances[stage.instances.clone()]
    }

    /// The instances of a stage that a process ran, which are neighbours.
    pub fn instances_by(&self, stage: &Stage, process: ProcessId) -> &[StageInstance] {
        let instances = self.instances_of(stage);
        let first = instances.partition_point(|instance| instance.process < process);
        &instances[first
            ..first + instances[first..].partition_point(|instance| instance.process == process)]
    }

    /// The operations of a pass, which are neighbours in [`StageTables::ops`].
    pub fn ops_of(&self, pass: PassId) -> std::ops::Range<usize> {
        let passes = &self.ops.pass;
        passes.partition_point(|instance_pass| *instance_pass < pass)
            ..passes.partition_point(|instance_pass| *instance_pass <= pass)
    }

    /// The kernel that an operation executes, if it is a kernel.
    pub fn kernel(&self, session: &Session, op: OpIndex) -> Option<KernelId> {
        match self.ops.source[op as usize] {
            OpSource::Launch(launch) => Some(session.launches.kernel[launch.index()]),
            OpSource::Copy(_) | OpSource::Graph(_) => None,
        }
    }

    /// The class of an operation.
    pub fn class(&self, session: &Session, op: usize) -> KernelClass {
        match self.ops.source[op] {
            OpSource::Launch(launch) => {
                let kernel = session.launches.kernel[launch.index()];
                self.identities[kernel.index()].class
            }
            OpSource::Copy(_) => KernelClass::Copy,
            OpSource::Graph(_) => KernelClass::Graph,
        }
    }
}

impl Ops {
    /// None yet, with room for the columns of so many.
    pub(crate) fn with_room(count: usize) -> Self {
        Self {
            start: Vec::with_capacity(count),
            end: Vec::with_capacity(count),
            pass: Vec::with_capacity(count),
            gpu: Vec::with_capacity(count),
            process: Vec::with_capacity(count),
            stream: Vec::with_capacity(count),
            source: Vec::with_capacity(count),
            api_call: Vec::with_capacity(count),
            ..Self::default()
        }
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}
