//! The collectives of a bundle: which run, which rank, what each moved.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::matching::Channel;
use super::operation::Operation;
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::moments::Moments;
use crate::engine::tiers::{Tier, tier};
use rooflens_session::{
    Arrange, CollectiveId, GpuId, KernelId, Ns, PassId, ProcessId, Session, StrId,
};
use rooflens_units::BytesPerSecond;

/// The ranks of one execution of the workload under one tool: processes of a pass, or passes of one name.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Name of the pass, without the rank.
    pub name: String,
    /// By rank.
    pub members: Vec<Member>,
    /// All ranks are in one artifact, with one clock.
    pub one_clock: bool,
}

/// One rank of a run: a process on a GPU.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Pass.
    pub pass: PassId,
    /// Process.
    pub process: ProcessId,
    /// GPU.
    pub gpu: GpuId,
    /// Rank.
    pub rank: u32,
    /// By (start, end, operation number).
    pub calls: Vec<Call>,
}

/// One collective on one rank.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) op: OpIndex,
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) kernel: KernelId,
    /// What it does.
    pub operation: Operation,
    pub(super) group: Group,
    /// Bytes of the message: the larger of input and output.
    pub bytes: Option<u64>,
    /// Ranks of the process group.
    pub(super) size: Option<u32>,
    pub(super) sequence: Option<u64>,
    /// Number of the rank in the group, where the group numbers its own, and the one rank that it talks to.
    pub(super) rank: Option<u32>,
    pub(super) peer: Option<u32>,
}

impl Run {
    /// The calls of all ranks.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.members.iter().flat_map(|member| &member.calls)
    }
}

impl Member {
    /// What the NVLinks of its GPU carry in one direction, where it has them.
    pub fn nvlink(&self, context: &Context<'_>) -> Option<BytesPerSecond> {
        let name = context
            .session
            .text(context.session.gpus.name[self.gpu.index()]);
        context.gpu_spec(name)?.nvlink_bandwidth
    }

    /// Which calls a call is one of; `None` for messages whose other end is unknown.
    pub(super) fn channel(&self, call: &Call) -> Option<Channel> {
        let rank = call.rank.unwrap_or(self.rank);
        Some(match (call.operation, call.peer) {
            (Operation::Send, peer) => Channel::Message {
                from: rank,
                to: peer?,
            },
            (Operation::Receive, peer) => Channel::Message {
                from: peer?,
                to: rank,
            },
            (Operation::SendReceive, peer) => Channel::Exchange(rank.min(peer?), rank.max(peer?)),
            _ => Channel::Collective,
        })
    }
}

impl Call {
    pub(super) fn duration(&self) -> Ns {
        self.end - self.start
    }
}

/// Who takes part: the process group if it is recorded, or else whoever shares the stream's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Name and ranks of the process group.
    Named(StrId, StrId),
    /// CUDA stream.
    Stream(u64),
}

/// All runs with collectives, in the order of their first passes.
///
/// Passes are ranks of one run if they are of one kind, state different ranks, and have one name or hold
/// collectives at the same time of day.
pub(super) fn runs(context: &Context<'_>) -> Vec<Run> {
    let session = context.session;
    let mut runs: Vec<Run> = Vec::new();
    for member in members(context) {
        let name = run_name(session, member.pass);
        let same = |run: &&mut Run| {
            let first = &run.members[0];
            let kind = |member: &Member| session.passes.kind[member.pass.index()];
            let stated = |member: &Member| session.passes.rank[member.pass.index()].is_some();
            let meet = run.name == name || overlap(session, first, &member);
            let ranks = stated(first) && stated(&member) && kind(first) == kind(&member) && meet;
            // Two captures of one rank are two runs.
            first.pass == member.pass
                || ranks && run.members.iter().all(|peer| peer.rank != member.rank)
        };
        match runs.iter_mut().find(same) {
            Some(run) => {
                run.name = common_name(&run.name, &name);
                run.members.push(member);
            }
            None => runs.push(Run {
                name,
                members: vec![member],
                one_clock: true,
            }),
        }
    }
    for run in &mut runs {
        run.members
            .arrange_by_key(|member| (member.rank, member.process, member.gpu));
        run.one_clock = run
            .members
            .iter()
            .all(|member| member.pass == run.members[0].pass);
    }
    runs
}

/// Whether two ranks have collectives at the same time of day, as far as their passes state it.
fn overlap(session: &Session, one: &Member, other: &Member) -> bool {
    let window = |member: &Member| {
        let origin = session.passes.utc_origin[member.pass.index()]?;
        let start = member.calls.first()?.start;
        let end = member.calls.iter().map(|call| call.end).max()?;
        Some((start.saturating_add(origin), end.saturating_add(origin)))
    };
    window(one)
        .zip(window(other))
        .is_some_and(|(a, b)| a.0 < b.1 && b.0 < a.1)
}

/// What names of passes have in common at their begin; the first where that is nothing.
fn common_name(one: &str, other: &str) -> String {
    let same = one
        .char_indices()
        .zip(other.chars())
        .take_while(|((_, a), b)| a == b)
        .count();
    if same == one.chars().count() {
        return one.to_owned();
    }
    let common: String = one.chars().take(same).collect();
    let common = common.trim_end_matches(|sign: char| !sign.is_alphanumeric());
    if common.is_empty() {
        one.to_owned()
    } else {
        common.to_owned()
    }
}

/// The pass's name without the rank that tells passes of one name apart.
fn run_name(session: &Session, pass: PassId) -> String {
    let name = session.pass_name(pass);
    let suffix = session.passes.rank[pass.index()].map(|rank| format!(" · rank {rank}"));
    suffix
        .and_then(|suffix| name.strip_suffix(&suffix))
        .unwrap_or(name)
        .to_owned()
}

fn members(context: &Context<'_>) -> Vec<Member> {
    let (session, facts) = (context.session, context.facts);
    let mut lists: BTreeMap<(PassId, ProcessId, GpuId), Vec<Call>> = BTreeMap::new();
    let communicates = |op: &usize| tier(session, facts, *op) == Tier::Communication;
    let ops: Vec<usize> = (0..facts.ops.len()).filter(communicates).collect();
    let names = Names::new(context, &ops);
    for op in ops {
        let key = (facts.ops.pass[op], facts.ops.process[op], facts.ops.gpu[op]);
        lists
            .entry(key)
            .or_default()
            .extend(names.call(context, op));
    }
    let mut gpus: BTreeMap<ProcessId, u32> = BTreeMap::new();
    for (_, process, _) in lists.keys() {
        *gpus.entry(*process).or_default() += 1;
    }
    let rank = |pass: PassId, process: ProcessId, gpu: GpuId| {
        let recorded =
            session.processes.rank[process.index()].or(session.passes.rank[pass.index()]);
        // The ranks of one process are its GPUs.
        let alone = gpus.get(&process) == Some(&1);
        recorded
            .filter(|_| alone)
            .unwrap_or(session.gpus.ordinal[gpu.index()])
    };
    let member = |((pass, process, gpu), calls)| {
        let rank = rank(pass, process, gpu);
        Member {
            pass,
            process,
            gpu,
            rank,
            calls,
        }
    };
    lists.into_iter().map(member).collect()
}

/// What tells the operation of a launch, made once.
struct Names {
    by_kernel: Vec<Option<Operation>>,
    by_range: FxHashMap<usize, Operation>,
    arguments: FxHashMap<u32, CollectiveId>,
}

impl Names {
    fn new(context: &Context<'_>, ops: &[usize]) -> Self {
        let (session, table) = (context.session, &context.session.collectives);
        let operation = |kernel| Operation::of(session.kernel_name(kernel));
        let by_kernel: Vec<_> = session.kernels.ids().map(operation).collect();
        Self {
            by_range: by_range(context, ops, &by_kernel),
            by_kernel,
            arguments: table
                .ids()
                .map(|id| (table.launch[id.index()].0, id))
                .collect(),
        }
    }

    fn call(&self, context: &Context<'_>, op: usize) -> Option<Call> {
        let (session, ops) = (context.session, &context.facts.ops);
        let OpSource::Launch(launch) = ops.source[op] else {
            return None;
        };
        let kernel = session.launches.kernel[launch.index()];
        let table = &session.collectives;
        let row = self.arguments.get(&launch.0).map(|id| id.index());
        let stated = row.and_then(|row| Operation::of(session.text(table.operation[row])));
        let operation = stated
            .or_else(|| self.by_range.get(&op).copied())
            .or(self.by_kernel[kernel.index()])
            .unwrap_or(Operation::Other);
        let named = row.filter(|row| !session.text(table.group[*row]).is_empty());
        Some(Call {
            op: op as OpIndex,
            start: ops.start[op],
            end: ops.end[op],
            kernel,
            operation,
            group: match named {
                Some(row) => Group::Named(table.group[row], table.ranks[row]),
                None => Group::Stream(ops.stream[op]),
            },
            bytes: row.and_then(|row| operation.message(table.bytes_in[row], table.bytes_out[row])),
            size: row.and_then(|row| table.group_size[row]),
            sequence: row.and_then(|row| table.sequence[row]),
            rank: row.and_then(|row| table.rank[row]),
            peer: row.and_then(|row| table.peer[row]),
        })
    }
}

/// What PyTorch's range around the launch call names, such as `nccl:all_to_all`: older NCCL runs any operation in its
/// kernel of messages.
fn by_range(
    context: &Context<'_>,
    ops: &[usize],
    by_kernel: &[Option<Operation>],
) -> FxHashMap<usize, Operation> {
    let (session, all) = (context.session, &context.facts.ops);
    let is_message = |op: &&usize| match all.source[**op] {
        OpSource::Launch(launch) => {
            let kernel = session.launches.kernel[launch.index()];
            by_kernel[kernel.index()] == Some(Operation::SendReceive)
        }
        OpSource::Copy(_) | OpSource::Graph(_) => false,
    };
    let messages: Vec<usize> = ops.iter().filter(is_message).copied().collect();
    let (ranges, calls) = (&session.ranges, &session.api_calls);
    let launched = |op: &usize| {
        let call = all.api_call[*op]?.index();
        Some((calls.thread[call], calls.start[call]))
    };
    let open = Moments::new(messages.iter().map(launched)).open(
        &ranges.thread,
        &ranges.start,
        &ranges.end,
        &ranges.name,
    );
    let named = |names: &[StrId]| {
        let mut names = names.iter().rev().map(|name| session.text(*name));
        Operation::of(names.find_map(|name| name.strip_prefix("nccl:"))?)
    };
    let operations = messages.into_iter().zip(&open);
    operations
        .filter_map(|(op, names)| Some((op, named(names)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::common_name;

    #[test]
    fn ranks_of_one_run_are_called_by_what_their_names_share() {
        assert_eq!(common_name("torch", "torch"), "torch");
        assert_eq!(
            common_name("tp2__result__0__9c_1375", "tp2__result__1__9c_1376"),
            "tp2__result"
        );
        assert_eq!(common_name("a", "b"), "a");
    }
}
