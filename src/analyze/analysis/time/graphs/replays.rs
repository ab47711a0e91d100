//! Replays of CUDA graphs: which operations one launch replays, of which graph they are, and in which stage.

use rustc_hash::FxHashMap;

use crate::Context;
use crate::engine::facts::{Captured, OpIndex, OpSource, Ops};
use crate::engine::intervals::{Interval, measure_within, total, union, union_length};
use rooflens_session::{ApiCallId, GpuId, KernelId, Ns, PassId, ProcessId, Session};

/// All operations of one graph launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// An index into [`Replays::graphs`].
    pub graph: usize,
    /// The outermost stage instance that it ran in, an index into `Facts::instances`.
    pub instance: Option<usize>,
    /// GPU of its first operation.
    pub gpu: GpuId,
    /// The launch.
    pub call: Option<ApiCallId>,
    /// Start of its first operation.
    pub start: Ns,
    /// End of its last operation.
    pub end: Ns,
    /// Union of its operations' intervals, summed over GPUs, nanoseconds.
    pub busy: Ns,
    /// GPUs that it uses.
    pub gpus: usize,
    /// Its operations by start, an interval of [`Replays::members`].
    pub members: std::ops::Range<usize>,
    /// Time since the replay before it, if one ran before it in the same stage instance on the same GPU.
    pub gap: Option<Gap>,
}

/// Time between two replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// From the last end of the replays before to the start of this one; 0 where they overlap.
    pub length: Ns,
    /// How much of it no operation runs on the GPU.
    pub idle: Ns,
}

/// A graph of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Pass.
    pub pass: PassId,
    /// Process.
    pub process: ProcessId,
    /// Number in the pass, from 1, by first replay.
    pub number: u32,
    /// Number that the artifact gives it.
    pub id: Option<u64>,
    /// Traced as one operation: what is in it is unknown.
    pub whole: bool,
}

/// All replays of a session.
#[derive(Clone, Debug, Default)]
pub struct Replays {
    /// By (pass, start of the first operation).
    pub all: Vec<Replay>,
    /// Graphs by first replay.
    pub graphs: Vec<Graph>,
    /// Operations by (replay, start).
    pub members: Vec<OpIndex>,
}

impl Replays {
    /// The operations of a replay by start.
    pub fn ops(&self, replay: &Replay) -> &[OpIndex] {
        &self.members[replay.members.clone()]
    }
}

/// Finds all replays. Operations that no call can be reported of are in none.
pub(super) fn find(context: &Context<'_>) -> Replays {
    let (session, ops) = (context.session, &context.facts.ops);
    let rows = by_launch(session, ops);
    let mut replays = Replays::default();
    let mut graphs = Identities::default();
    for group in rows.chunk_by(|a, b| a.0 == b.0) {
        let first = replays.members.len();
        replays.members.extend(group.iter().map(|(_, op)| *op));
        let members = &replays.members[first..];
        let first_op = members[0] as usize;
        let whole = matches!(ops.source[first_op], OpSource::Graph(_));
        let graph = graphs.of(session, ops, members, &mut replays.graphs, whole);
        let (busy, gpus) = busy(ops, members);
        replays.all.push(Replay {
            graph,
            instance: None,
            gpu: ops.gpu[first_op],
            call: ops.api_call[first_op],
            start: ops.start[first_op],
            end: members
                .iter()
                .map(|op| ops.end[*op as usize])
                .max()
                .unwrap_or(ops.end[first_op]),
            busy,
            gpus,
            members: first..replays.members.len(),
            gap: None,
        });
    }
    place(context, &mut replays);
    measure_gaps(ops, &mut replays);
    replays
}

/// (replay, operation) for all work in graphs, ascending; replays are numbered by their first operation.
fn by_launch(session: &Session, ops: &Ops) -> Vec<(u32, OpIndex)> {
    let mut numbers: FxHashMap<(ProcessId, i64), u32> = FxHashMap::default();
    let mut rows: Vec<(u32, OpIndex)> = Vec::new();
    let mut next = 0;
    let mut fresh = || {
        next += 1;
        next - 1
    };
    let in_graphs = ops
        .captured
        .iter()
        .enumerate()
        .filter(|(_, it)| **it != Captured::NoGraph);
    for (op, _) in in_graphs {
        let number = match correlation(session, ops.source[op]) {
            Some(id) => *numbers
                .entry((ops.process[op], id))
                .or_insert_with(&mut fresh),
            None if matches!(ops.source[op], OpSource::Graph(_)) => fresh(),
            None => continue,
        };
        rows.push((number, op as OpIndex));
    }
    rows.sort_unstable();
    rows
}

fn correlation(session: &Session, source: OpSource) -> Option<i64> {
    match source {
        OpSource::Launch(launch) => session.launches.correlation[launch.index()],
        OpSource::Copy(copy) => session.copies.correlation[copy.index()],
        OpSource::Graph(graph) => session.graph_launches.correlation[graph.index()],
    }
}

/// The artifact's numbers of graph and node of an operation.
fn numbers(session: &Session, source: OpSource) -> (Option<u64>, Option<u64>) {
    match source {
        OpSource::Launch(launch) => (
            session.launches.graph[launch.index()],
            session.launches.graph_node[launch.index()],
        ),
        OpSource::Copy(copy) => (
            session.copies.graph[copy.index()],
            session.copies.graph_node[copy.index()],
        ),
        OpSource::Graph(graph) => (session.graph_launches.graph[graph.index()], None),
    }
}

/// How often each kernel is in a replay, in the order of kernels; copies are one kind.
type Content = Vec<(Option<KernelId>, u32)>;

/// Which graph a replay is of: by the graph's number; without it by its nodes, which belong to one graph;
/// without these by the kernels that it replays.
#[derive(Default)]
struct Identities {
    ids: FxHashMap<(ProcessId, u64), usize>,
    nodes: FxHashMap<(ProcessId, u64), usize>,
    contents: FxHashMap<(ProcessId, Content), usize>,
    /// Graphs of each pass.
    counts: FxHashMap<PassId, u32>,
}

impl Identities {
    fn of(
        &mut self,
        session: &Session,
        ops: &Ops,
        members: &[OpIndex],
        graphs: &mut Vec<Graph>,
        whole: bool,
    ) -> usize {
        let first = members[0] as usize;
        let (pass, process) = (ops.pass[first], ops.process[first]);
        let rows = || {
            members
                .iter()
                .map(|op| numbers(session, ops.source[*op as usize]))
        };
        let id = rows().find_map(|(graph, _)| graph);
        let nodes = || rows().filter_map(|(_, node)| node);
        let graph = match id {
            Some(id) => self.ids.get(&(process, id)).copied(),
            None => nodes().find_map(|node| self.nodes.get(&(process, node)).copied()),
        };
        if let Some(graph) = graph {
            return graph;
        }
        let content = (id.is_none() && nodes().next().is_none())
            .then(|| (process, content(session, ops, members)));
        if let Some(graph) = content
            .as_ref()
            .and_then(|content| self.contents.get(content))
        {
            return *graph;
        }
        let fresh = graphs.len();
        let number = self.counts.entry(pass).or_default();
        *number += 1;
        graphs.push(Graph {
            pass,
            process,
            number: *number,
            id,
            whole,
        });
        match (id, content) {
            (Some(id), _) => drop(self.ids.insert((process, id), fresh)),
            (None, Some(content)) => drop(self.contents.insert(content, fresh)),
            (None, None) => self
                .nodes
                .extend(nodes().map(|node| ((process, node), fresh))),
        }
        fresh
    }
}

fn content(session: &Session, ops: &Ops, members: &[OpIndex]) -> Content {
    let kernel = |op: &OpIndex| match ops.source[*op as usize] {
        OpSource::Launch(launch) => Some(session.launches.kernel[launch.index()]),
        OpSource::Copy(_) | OpSource::Graph(_) => None,
    };
    let mut kernels: Vec<Option<KernelId>> = members.iter().map(kernel).collect();
    kernels.sort_unstable();
    kernels
        .chunk_by(|a, b| a == b)
        .map(|same| (same[0], same.len() as u32))
        .collect()
}

/// Busy time summed over GPUs, and their number.
fn busy(ops: &Ops, members: &[OpIndex]) -> (Ns, usize) {
    let mut rows: Vec<(GpuId, Interval)> = members
        .iter()
        .map(|op| {
            (
                ops.gpu[*op as usize],
                (ops.start[*op as usize], ops.end[*op as usize]),
            )
        })
        .collect();
    rows.sort_unstable();
    let of_gpu = |rows: &[(GpuId, Interval)]| {
        union_length(
            &mut rows
                .iter()
                .map(|(_, interval)| *interval)
                .collect::<Vec<_>>(),
        )
    };
    let mut gpus = 0;
    let busy = rows
        .chunk_by(|a, b| a.0 == b.0)
        .inspect(|_| gpus += 1)
        .map(of_gpu);
    let busy = total(busy);
    (busy, gpus)
}

/// Finds the outermost stage instance of each replay; of several the first.
fn place(context: &Context<'_>, replays: &mut Replays) {
    let facts = context.facts;
    if replays.all.is_empty() {
        return;
    }
    let mut instance_of = vec![None; facts.ops.len()];
    let outermost = facts.stages.iter().filter(|stage| stage.parent.is_none());
    for instance in outermost.flat_map(|stage| stage.instances.clone()) {
        for op in &facts.instances[instance].ops {
            instance_of[*op as usize].get_or_insert(instance as u32);
        }
    }
    for replay in &mut replays.all {
        let first = replays.members[replay.members.start];
        replay.instance = instance_of[first as usize].map(|instance| instance as usize);
    }
}

/// Measures the time between consecutive replays of a stage instance on a GPU.
fn measure_gaps(ops: &Ops, replays: &mut Replays) {
    let mut work: FxHashMap<GpuId, Vec<Interval>> = FxHashMap::default();
    for replay in &replays.all {
        work.entry(replay.gpu).or_default();
    }
    if work.is_empty() {
        return;
    }
    for op in 0..ops.len() {
        if let Some(list) = work.get_mut(&ops.gpu[op]) {
            list.push((ops.start[op], ops.end[op]));
        }
    }
    let work: FxHashMap<GpuId, Vec<Interval>> = work
        .into_iter()
        .map(|(gpu, mut list)| (gpu, union(&mut list)))
        .collect();
    let mut order: Vec<usize> = (0..replays.all.len()).collect();
    let lane = |replay_index: usize| {
        let replay = &replays.all[replay_index];
        (
            replay.instance,
            replay.gpu,
            replays.graphs[replay.graph].process,
        )
    };
    order.sort_unstable_by_key(|replay_index| {
        (
            lane(*replay_index),
            replays.all[*replay_index].start,
            *replay_index,
        )
    });
    let mut gaps = vec![None; order.len()];
    for of_lane in order.chunk_by(|a, b| lane(*a) == lane(*b)) {
        let mut end = None::<Ns>;
        for replay_index in of_lane {
            let replay = &replays.all[*replay_index];
            gaps[*replay_index] = end.map(|end| {
                let length = replay.start.saturating_sub(end).max(Ns::ZERO);
                Gap {
                    length,
                    idle: length - measure_within(&work[&replay.gpu], (end, end + length)),
                }
            });
            end = end.max(Some(replay.end));
        }
    }
    for (replay, gap) in replays.all.iter_mut().zip(gaps) {
        replay.gap = gap;
    }
}
