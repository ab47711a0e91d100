//! The path and the slack, added up.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::graph::Graph;
use super::walk::{Piece, Segment};
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::stage_stats::median_time;
use crate::engine::tiers::{Tier, tier};
use rooflens_session::{ApiCallId, CopyKind, Ns, ProcessId, StrId};
use rooflens_units::Time;

rooflens_stages::labels! {
    /// What a piece of the path is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Category {
        /// Computing kernels.
        Compute,
        /// Collectives.
        Communication,
        /// Copies and memsets.
        Copy,
        /// The GPU goes from one operation to the next.
        Gap,
        /// Calls that issue operations, and from there to the operation.
        Launch,
        /// Other CUDA calls, and the return of synchronizing ones.
        Synchronize,
        /// Host code between calls.
        Host,
        /// Before the first known call.
        Unknown,
    }
}

/// What a part of the path is the time of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A kernel of that short name.
    Kernel(String),
    /// A copy.
    Copy(CopyKind),
    /// A CUDA graph that was traced as one operation.
    Graph,
    /// From one operation to the next.
    Gap,
    /// From the return of a call to its operation.
    Launch,
    /// A CUDA call of that name.
    Call(StrId),
    /// The return of a synchronizing call of that name.
    Return(StrId),
    /// Host code.
    Host,
    /// Nothing known.
    Unknown,
}

/// A part of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSum {
    /// Category.
    pub category: Category,
    /// Subject.
    pub subject: Subject,
    /// Rank of the process.
    pub rank: Option<u32>,
    /// Pieces of the path.
    pub count: u64,
    /// Sum of their lengths, nanoseconds.
    pub time: Ns,
}

/// Operations of one kind in one process of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Slack {
    /// Kind: computing, communication or copy.
    pub category: Category,
    /// Rank of the process.
    pub rank: u32,
    /// Operations.
    pub count: usize,
    /// Sum of their durations.
    pub time: Ns,
    /// The part of it on the path.
    pub on_path: Ns,
    /// Smallest slack.
    pub smallest: Time,
    /// Median slack.
    pub median: Option<Time>,
}

fn of_op(context: &Context<'_>, op: OpIndex) -> Category {
    match tier(context.session, context.facts, op as usize) {
        Tier::Compute => Category::Compute,
        Tier::Communication => Category::Communication,
        Tier::Copy => Category::Copy,
    }
}

/// Calls of the path that issue operations.
fn issuing(context: &Context<'_>, segments: &[Segment]) -> FxHashSet<ApiCallId> {
    let call = |segment: &Segment| match segment.piece {
        Piece::Call(call) => Some(call),
        _ => None,
    };
    let calls: FxHashSet<ApiCallId> = segments.iter().filter_map(call).collect();
    let issued = context.facts.ops.api_call.iter().flatten();
    issued
        .copied()
        .filter(|call| calls.contains(call))
        .collect()
}

/// The time of each category; they add up to the path.
pub(super) fn by_category(path: &[PathSum]) -> Vec<(Category, Ns)> {
    let time = |category| {
        path.iter()
            .filter(|sum| sum.category == category)
            .map(|sum| sum.time)
            .sum()
    };
    Category::ALL
        .into_iter()
        .map(|category| (category, time(category)))
        .collect()
}

/// The path by category, subject and rank.
pub(super) fn path(context: &Context<'_>, segments: &[Segment]) -> Vec<PathSum> {
    let issuing = issuing(context, segments);
    let mut sums: BTreeMap<(Category, Subject, Option<u32>), (u64, Ns)> = BTreeMap::new();
    let mut ranks: BTreeMap<ProcessId, u32> = BTreeMap::new();
    for segment in segments {
        let (category, subject, process) = about(context, segment.piece, &issuing);
        let rank = process.map(|process| {
            *ranks
                .entry(process)
                .or_insert_with(|| rank(context, process))
        });
        let sum = sums.entry((category, subject, rank)).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(segment.length());
    }
    let sum = |((category, subject, rank), (count, time))| PathSum {
        category,
        subject,
        rank,
        count,
        time,
    };
    sums.into_iter().map(sum).collect()
}

/// What a piece of the path is the time of, and in which process.
fn about(
    context: &Context<'_>,
    piece: Piece,
    issuing: &FxHashSet<ApiCallId>,
) -> (Category, Subject, Option<ProcessId>) {
    let (ops, calls) = (&context.facts.ops, &context.session.api_calls);
    let gpu = |op: OpIndex| Some(ops.process[op as usize]);
    let host = |call: ApiCallId| Some(calls.process[call.index()]);
    let name = |call: ApiCallId| calls.name[call.index()];
    match piece {
        Piece::Op(op) => (of_op(context, op), of_source(context, op), gpu(op)),
        Piece::Gap(op) => (Category::Gap, Subject::Gap, gpu(op)),
        Piece::Launch(op) => (Category::Launch, Subject::Launch, gpu(op)),
        Piece::Call(call) if issuing.contains(&call) => {
            (Category::Launch, Subject::Call(name(call)), host(call))
        }
        Piece::Call(call) => (Category::Synchronize, Subject::Call(name(call)), host(call)),
        Piece::Return(call) => (
            Category::Synchronize,
            Subject::Return(name(call)),
            host(call),
        ),
        Piece::Host(call) => (Category::Host, Subject::Host, host(call)),
        Piece::Unknown => (Category::Unknown, Subject::Unknown, None),
    }
}

fn of_source(context: &Context<'_>, op: OpIndex) -> Subject {
    match context.facts.ops.source[op as usize] {
        OpSource::Launch(launch) => {
            let kernel = context.session.launches.kernel[launch.index()];
            Subject::Kernel(context.facts.identities[kernel.index()].short.clone())
        }
        OpSource::Copy(copy) => Subject::Copy(context.session.copies.kind[copy.index()]),
        OpSource::Graph(_) => Subject::Graph,
    }
}

/// The step's operations by (kind, process).
pub(super) fn slack(
    context: &Context<'_>,
    graph: &Graph,
    segments: &[Segment],
    slack: &[Ns],
) -> Vec<Slack> {
    let mut on_path: BTreeMap<OpIndex, Ns> = BTreeMap::new();
    for segment in segments {
        if let Piece::Op(op) = segment.piece {
            *on_path.entry(op).or_default() += segment.length();
        }
    }
    let mut sums: BTreeMap<(Category, ProcessId), (Ns, Ns, Vec<Ns>)> = BTreeMap::new();
    for (op, slack) in graph.ops.iter().zip(slack) {
        let key = (
            of_op(context, op.index),
            context.facts.ops.process[op.index as usize],
        );
        let sum = sums.entry(key).or_default();
        sum.0 = sum.0.saturating_add(op.end - op.start);
        sum.1 = sum
            .1
            .saturating_add(on_path.get(&op.index).copied().unwrap_or(Ns::ZERO));
        sum.2.push(*slack);
    }
    let line = |((category, process), (time, on_path, slack)): (_, (_, _, Vec<Ns>))| Slack {
        category,
        rank: rank(context, process),
        count: slack.len(),
        time,
        on_path,
        smallest: slack.iter().copied().fold(Ns::MAX, Ns::min).time(),
        median: median_time(slack.into_iter()),
    };
    sums.into_iter().map(line).collect()
}

/// The rank of a process, the recorded one, or the number of its first GPU.
fn rank(context: &Context<'_>, process: ProcessId) -> u32 {
    let (session, ops) = (context.session, &context.facts.ops);
    session.processes.rank[process.index()].unwrap_or_else(|| {
        let first = ops
            .process
            .iter()
            .position(|candidate| *candidate == process);
        first.map_or(0, |op| session.gpus.ordinal[ops.gpu[op].index()])
    })
}
