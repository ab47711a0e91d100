//! Eager alignment: kernels that ran without a graph name those that a graph replays, by their place in the sequence.
//!
//! A graph's kernels and those of one eager stage instance are aligned by their longest common subsequence over
//! (kernel, grid, block). The instance may be of the same pass or of another one of the bundle.

use rustc_hash::FxHashMap;

use super::replays::{Replay, Replays};
use crate::Context;
use crate::engine::align::common;
use crate::engine::facts::{Captured, OpIndex, OpSource};
use crate::engine::nesting::innermost;
use rooflens_session::{Dim3, KernelId, Ns, PassId, StrId, ThreadId};

/// Graphs that are aligned: those with the most time.
const MAX_GRAPHS: usize = 100;

/// Longest sequence of kernels that is aligned.
const MAX_SEQUENCE: usize = 20_000;

/// Insertions and deletions after which two sequences are not the same work.
const MAX_EDITS: usize = 1_500;

/// Orders of kernels of one graph that are aligned.
const MAX_ORDERS: usize = 8;

/// Frames of a trace that are modules of the model.
const MODULE: &str = "nn.Module: ";

/// What launched a kernel that ran without a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EagerKernel {
    /// The stage whose instance it is in, an index into `Facts::stages`.
    pub stage: usize,
    /// Innermost range.
    pub range: Option<StrId>,
    /// Innermost operator.
    pub operator: Option<StrId>,
    /// Innermost module.
    pub module: Option<StrId>,
}

/// What an operation of a graph was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// The kernel at its place in the eager instance.
    Eager(EagerKernel),
    /// The graph was aligned, but this kernel has no partner.
    Unmatched,
}

/// Matches of operations in graphs.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    /// Distinct matches.
    all: Vec<Match>,
    /// By operation the number of its match, from 1; 0 is none. Empty if no graph was aligned.
    by_op: Vec<u32>,
}

impl Matches {
    /// Aligns a sequence with an eager instance: by place the number of what was found.
    fn add(&mut self, sequence: &[u32], eager: &Eager) -> Option<Vec<u32>> {
        let pairs = common(sequence, &eager.keys, MAX_EDITS)?;
        self.all.push(Match::Unmatched);
        let mut positions = vec![self.all.len() as u32; sequence.len()];
        for (own, its) in pairs {
            self.all.push(Match::Eager(eager.kernels[its]));
            positions[own] = self.all.len() as u32;
        }
        Some(positions)
    }

    /// What was found for an operation; nothing if its graph was not aligned.
    pub(super) fn get(&self, op: OpIndex) -> Option<Match> {
        let number = *self.by_op.get(op as usize)?;
        self.all.get((number as usize).checked_sub(1)?).copied()
    }
}

/// A kernel as sequences compare it.
type Key = (KernelId, Dim3, Dim3);

/// Numbers of keys, so that sequences are of integers.
#[derive(Default)]
struct Keys(FxHashMap<Key, u32>);

impl Keys {
    /// Kernels of a list of operations, with their numbers.
    fn sequence(&mut self, context: &Context<'_>, ops: &[OpIndex]) -> (Vec<OpIndex>, Vec<u32>) {
        let launches = &context.session.launches;
        let of = |op: &OpIndex| match context.facts.ops.source[*op as usize] {
            OpSource::Launch(launch) => {
                let row = launch.index();
                Some((
                    *op,
                    (
                        launches.kernel[row],
                        launches.grid[row],
                        launches.block[row],
                    ),
                ))
            }
            OpSource::Copy(_) | OpSource::Graph(_) => None,
        };
        let mut number = |key: Key| {
            let next = self.0.len() as u32;
            *self.0.entry(key).or_insert(next)
        };
        ops.iter()
            .filter_map(of)
            .map(|(op, key)| (op, number(key)))
            .unzip()
    }
}

/// Kernels of a stage instance without graphs.
struct Eager {
    stage: usize,
    pass: PassId,
    ops: Vec<OpIndex>,
    keys: Vec<u32>,
    /// How often each key occurs.
    counts: FxHashMap<u32, u32>,
    /// What launched each kernel; filled when the instance is first chosen.
    kernels: Vec<EagerKernel>,
}

/// Aligns each graph of which operations lack a range of capture with the eager instance that is most like it.
pub(super) fn find(context: &Context<'_>, replays: &Replays) -> Matches {
    let mut matches = Matches::default();
    let unnamed = unnamed(context, replays);
    if unnamed.is_empty() {
        return matches;
    }
    matches.by_op = vec![0; context.facts.ops.len()];
    let mut keys = Keys::default();
    let mut eager = eager(context, &mut keys);
    let mut of_graph: Vec<Vec<&Replay>> = vec![Vec::new(); replays.graphs.len()];
    for replay in &replays.all {
        of_graph[replay.graph].push(replay);
    }
    for graph in unnamed {
        align(
            context,
            replays,
            &of_graph[graph],
            &mut keys,
            &mut eager,
            &mut matches,
        );
    }
    matches
}

/// Aligns the replays of one graph with the eager instance that is most like its fullest replay.
fn align(
    context: &Context<'_>,
    replays: &Replays,
    stage_replays: &[&Replay],
    keys: &mut Keys,
    eager: &mut [Eager],
    matches: &mut Matches,
) {
    let fullest = |row: &usize| (stage_replays[*row].members.len(), std::cmp::Reverse(*row));
    let Some(fullest) = (0..stage_replays.len())
        .max_by_key(fullest)
        .map(|row| stage_replays[row])
    else {
        return;
    };
    let pass = replays.graphs[fullest.graph].pass;
    let (ops, pattern) = keys.sequence(context, replays.ops(fullest));
    let Some(best) = most_alike(eager, &pattern, pass) else {
        return;
    };
    if best.kernels.is_empty() {
        best.kernels = kernels(context, best);
    }
    let Some(numbers) = matches.add(&pattern, best) else {
        return;
    };
    let by_node = by_node(context, &ops, &numbers);
    matches.all.push(Match::Unmatched);
    let unmatched = matches.all.len() as u32;
    let mut orders = vec![(pattern, numbers)];
    for replay in stage_replays {
        let (ops, sequence) = keys.sequence(context, replays.ops(replay));
        let nodes = ops
            .iter()
            .map(|op| by_node.get(&node(context, *op)?).copied());
        // Nodes tell also where streams side by side start their kernels in another order.
        let numbers = nodes.collect::<Option<Vec<u32>>>().or_else(|| {
            let order = orders.iter().position(|(order, _)| *order == sequence);
            let order = order.or_else(|| {
                let numbers =
                    (orders.len() < MAX_ORDERS).then(|| matches.add(&sequence, best))??;
                orders.push((sequence, numbers));
                Some(orders.len() - 1)
            });
            order.map(|at| orders[at].1.clone())
        });
        for (at, op) in ops.into_iter().enumerate() {
            matches.by_op[op as usize] = numbers.as_ref().map_or(unmatched, |numbers| numbers[at]);
        }
    }
}

/// Graphs with kernels whose capture is not known, by time descending.
fn unnamed(context: &Context<'_>, replays: &Replays) -> Vec<usize> {
    let mut times: Vec<(Ns, usize, bool)> = (0..replays.graphs.len())
        .map(|graph| (Ns::ZERO, graph, false))
        .collect();
    for replay in &replays.all {
        let row = &mut times[replay.graph];
        row.0 = row.0.saturating_add(replay.end - replay.start);
        let captured = &context.facts.ops.captured;
        let lacks = |op: &OpIndex| captured[*op as usize].range().is_none();
        row.2 |= !replays.graphs[replay.graph].whole && replays.ops(replay).iter().any(lacks);
    }
    times.retain(|(_, _, lacks)| *lacks);
    times.sort_unstable_by_key(|(time, graph, _)| (std::cmp::Reverse(*time), *graph));
    times.truncate(MAX_GRAPHS);
    times.into_iter().map(|(_, graph, _)| graph).collect()
}

/// The first instance of each stage that ran kernels and no graph.
fn eager(context: &Context<'_>, keys: &mut Keys) -> Vec<Eager> {
    let facts = context.facts;
    let mut instances = Vec::new();
    for (stage, it) in facts.stages.iter().enumerate() {
        let is_eager = |ops: &[OpIndex]| {
            ops.len() <= MAX_SEQUENCE
                && ops
                    .iter()
                    .all(|op| facts.ops.captured[*op as usize] == Captured::NoGraph)
        };
        let first = facts.instances_of(it).iter().find_map(|instance| {
            let issued = Some(&instance.ops).filter(|ops| is_eager(ops))?;
            let (ops, keys) = keys.sequence(context, issued);
            (!ops.is_empty()).then_some((ops, keys))
        });
        let Some((ops, keys)) = first else { continue };
        let mut counts = FxHashMap::default();
        keys.iter()
            .for_each(|key| *counts.entry(*key).or_default() += 1);
        instances.push(Eager {
            stage,
            pass: it.pass,
            ops,
            keys,
            counts,
            kernels: Vec::new(),
        });
    }
    instances
}

/// The instance with the most kernels in common, in relation to the lengths (Dice, 1945); at least half of the
/// graph's kernels must be in it. Of equal ones the first of the same pass.
fn most_alike<'a>(all: &'a mut [Eager], pattern: &[u32], pass: PassId) -> Option<&'a mut Eager> {
    if pattern.is_empty() || pattern.len() > MAX_SEQUENCE {
        return None;
    }
    let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
    pattern
        .iter()
        .for_each(|key| *counts.entry(*key).or_default() += 1);
    let likeness = |eager: &Eager| {
        let shared = counts
            .iter()
            .map(|(key, count)| (*count).min(eager.counts.get(key).copied().unwrap_or(0)) as usize);
        let shared: usize = shared.sum();
        let enough = shared * 2 >= pattern.len();
        enough.then(|| shared * 2_000_000 / (pattern.len() + eager.keys.len()))
    };
    let rated = all
        .iter()
        .enumerate()
        .filter_map(|(index, eager)| Some((likeness(eager)?, index, eager)));
    let best = rated.max_by_key(|(likeness, index, eager)| {
        (*likeness, eager.pass == pass, std::cmp::Reverse(*index))
    });
    let index = best?.1;
    all.get_mut(index)
}

/// Matches by graph node: they hold also where nodes of several streams run in another order.
fn by_node(context: &Context<'_>, ops: &[OpIndex], found: &[u32]) -> FxHashMap<u64, u32> {
    let pairs = ops.iter().zip(found);
    pairs
        .filter_map(|(op, found)| Some((node(context, *op)?, *found)))
        .collect()
}

fn node(context: &Context<'_>, op: OpIndex) -> Option<u64> {
    match context.facts.ops.source[op as usize] {
        OpSource::Launch(launch) => context.session.launches.graph_node[launch.index()],
        OpSource::Copy(_) | OpSource::Graph(_) => None,
    }
}

/// What launched each kernel of an eager instance.
fn kernels(context: &Context<'_>, eager: &Eager) -> Vec<EagerKernel> {
    let (session, ops) = (context.session, &context.facts.ops);
    let queries: Vec<(ThreadId, Ns)> = eager
        .ops
        .iter()
        .map(|op| match ops.api_call[*op as usize] {
            Some(call) => (
                session.api_calls.thread[call.index()],
                session.api_calls.start[call.index()],
            ),
            None => (ThreadId(u32::MAX), Ns::ZERO),
        })
        .collect();
    let operators = &session.operators;
    let operator = innermost(
        &queries,
        &operators.thread,
        &operators.start,
        &operators.end,
    );
    let frames = &session.frames;
    let mut is_module: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut modules: (Vec<u32>, Vec<ThreadId>, Vec<Ns>, Vec<Ns>) = Default::default();
    for row in 0..frames.len() {
        let name = frames.name[row];
        if *is_module
            .entry(name)
            .or_insert_with(|| session.text(name).starts_with(MODULE))
        {
            modules.0.push(row as u32);
            modules.1.push(frames.thread[row]);
            modules.2.push(frames.start[row]);
            modules.3.push(frames.end[row]);
        }
    }
    let module = innermost(&queries, &modules.1, &modules.2, &modules.3);
    let kernel = |row: usize| EagerKernel {
        stage: eager.stage,
        range: ops.range[eager.ops[row] as usize]
            .range()
            .map(|range| session.ranges.name[range.index()]),
        operator: operator[row].map(|row| operators.name[row]),
        module: module[row].map(|row| frames.name[modules.0[row] as usize]),
    };
    (0..eager.ops.len()).map(kernel).collect()
}
