//! Collectives out of NCCL's NVTX ranges, joined with the kernels that they launch.
//!
//! A call launches its kernel while its range is open, on the same thread. Between `ncclGroupStart` and
//! `ncclGroupEnd` calls launch nothing; the end of the outermost group launches for all of them. Joined is what
//! is certain: one kernel with the one call, or with all calls of a group that are of one kind and communicator.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Import;
use super::payloads::Payload;
use rooflens_diagnostic::Severity;
use rooflens_session::{Collective, LaunchId, Ns, ProcessId, RangeId, StrId, ThreadId};

/// NVTX domain of NCCL's own ranges.
const DOMAIN: &str = "NCCL";

/// Part of the names of NCCL's kernels, in lower case.
const KERNEL: &str = "nccl";

const GROUP_START: &str = "ncclGroupStart";
const GROUP_END: &str = "ncclGroupEnd";

/// Calls that communicate.
const CALLS: [(&str, Kind); 11] = [
    ("ncclAllReduce", Kind::AllReduce),
    ("ncclAllGather", Kind::AllGather),
    ("ncclReduceScatter", Kind::ReduceScatter),
    ("ncclAlltoAll", Kind::AllToAll),
    ("ncclBroadcast", Kind::Broadcast),
    ("ncclBcast", Kind::Broadcast),
    ("ncclReduce", Kind::Reduce),
    ("ncclGather", Kind::Gather),
    ("ncclScatter", Kind::Scatter),
    ("ncclSend", Kind::Send),
    ("ncclRecv", Kind::Receive),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Send,
    Receive,
}

/// A call of NCCL that communicates.
#[derive(Clone, Copy, Debug)]
struct Call {
    name: StrId,
    kind: Kind,
    payload: Payload,
    /// Size of the communicator and the own rank in it, from when it was made.
    member: Option<(u32, u32)>,
}

/// What the ranges of all threads are joined with.
struct Joins {
    payloads: FxHashMap<RangeId, Payload>,
    /// Size and own rank, by process and communicator.
    communicators: FxHashMap<(ProcessId, u64), (u32, u32)>,
    /// Begins of the API calls that launch NCCL's kernels, ascending, by thread.
    launches: FxHashMap<ThreadId, Vec<(Ns, LaunchId)>>,
}

/// Calls, and the kernels that were launched for them by the begins of their API calls.
type Launched<'a> = (Vec<Call>, &'a [(Ns, LaunchId)]);

/// The calls of one thread on the way through its ranges.
#[derive(Default)]
struct Group {
    depth: u32,
    calls: Vec<Call>,
    /// End of the last call: what begins before is part of it.
    busy_until: Ns,
}

impl Import<'_> {
    /// Makes rows of collectives out of the ranges of NCCL and their payloads, if there are any.
    pub(super) fn collectives(&mut self, payloads: &[(RangeId, Payload)]) {
        let ranges = self.nccl_ranges();
        if ranges.is_empty() {
            return;
        }
        let payloads: FxHashMap<RangeId, Payload> = payloads.iter().copied().collect();
        let joins = Joins {
            communicators: self.communicators(&payloads),
            launches: self.nccl_launches(),
            payloads,
        };
        let mut unjoined = 0;
        for (thread, ranges) in &ranges {
            let mut group = Group {
                busy_until: Ns::MIN,
                ..Group::default()
            };
            for range in ranges {
                let done = self.step(*thread, *range, &joins, &mut group);
                let Some((calls, launches)) = done else {
                    continue;
                };
                let launch = if let [(_, launch)] = launches {
                    Some(*launch)
                } else {
                    None
                };
                match launch.and_then(|launch| self.collective(&calls, launch)) {
                    Some(row) => drop(self.session.collectives.push(row)),
                    None => unjoined += calls.len() as u64,
                }
            }
        }
        if unjoined > 0 {
            let message = "calls of NCCL of which it cannot be told which kernel they launched, such as groups of different \
                           calls, or calls captured into a CUDA graph; the sizes of those kernels are unknown";
            self.say(
                Severity::Notice,
                "nsys/unjoined-collectives",
                message,
                None,
                unjoined,
            );
        }
    }

    /// NCCL's ranges of this pass by thread, by start.
    fn nccl_ranges(&self) -> BTreeMap<ThreadId, Vec<RangeId>> {
        let table = &self.session.ranges;
        let mut ranges: BTreeMap<ThreadId, Vec<RangeId>> = BTreeMap::new();
        for id in table.ids().filter(|id| table.pass[id.index()] == self.pass) {
            if self.session.text(table.domain[id.index()]) == DOMAIN {
                ranges.entry(table.thread[id.index()]).or_default().push(id);
            }
        }
        for list in ranges.values_mut() {
            list.sort_unstable_by_key(|id| (table.start[id.index()], *id));
        }
        ranges
    }

    fn communicators(
        &self,
        payloads: &FxHashMap<RangeId, Payload>,
    ) -> FxHashMap<(ProcessId, u64), (u32, u32)> {
        let made = payloads.iter().filter_map(|(range, payload)| {
            let process = self.process_of(*range);
            Some((
                (process, payload.communicator?),
                (payload.ranks?, payload.rank?),
            ))
        });
        made.collect()
    }

    fn process_of(&self, range: RangeId) -> ProcessId {
        let thread = self.session.ranges.thread[range.index()];
        self.session.threads.process[thread.index()]
    }

    fn nccl_launches(&self) -> FxHashMap<ThreadId, Vec<(Ns, LaunchId)>> {
        let (session, table) = (&*self.session, &self.session.launches);
        let is_nccl = |kernel| session.kernel_name(kernel).to_lowercase().contains(KERNEL);
        let kernels: Vec<bool> = session.kernels.ids().map(is_nccl).collect();
        let is_of_nccl = |id: &LaunchId| {
            table.pass[id.index()] == self.pass && kernels[table.kernel[id.index()].index()]
        };
        let launches: Vec<LaunchId> = table.ids().filter(is_of_nccl).collect();
        let key = |id: &LaunchId| Some((table.process[id.index()], table.correlation[id.index()]?));
        let wanted: FxHashSet<(ProcessId, i64)> = launches.iter().filter_map(key).collect();
        let mut issued: FxHashMap<(ProcessId, i64), (Ns, ThreadId)> = FxHashMap::default();
        let calls = &session.api_calls;
        for row in (0..calls.len()).filter(|row| calls.pass[*row] == self.pass) {
            let key = calls.correlation[row].map(|correlation| (calls.process[row], correlation));
            let Some(key) = key.filter(|key| wanted.contains(key)) else {
                continue;
            };
            let (start, thread) = (calls.start[row], calls.thread[row]);
            let first = issued.entry(key).or_insert((start, thread));
            *first = (*first).min((start, thread));
        }
        let mut by_thread: FxHashMap<ThreadId, Vec<(Ns, LaunchId)>> = FxHashMap::default();
        for id in launches {
            if let Some((start, thread)) = key(&id).and_then(|key| issued.get(&key)) {
                by_thread.entry(*thread).or_default().push((*start, id));
            }
        }
        by_thread.values_mut().for_each(|list| list.sort_unstable());
        by_thread
    }

    /// Goes on by one range; gives calls together with the kernels that were launched for them.
    fn step<'a>(
        &self,
        thread: ThreadId,
        range: RangeId,
        joins: &'a Joins,
        group: &mut Group,
    ) -> Option<Launched<'a>> {
        let table = &self.session.ranges;
        let (start, end) = (table.start[range.index()], table.end[range.index()]);
        let name = self.session.text(table.name[range.index()]);
        if name == GROUP_START {
            group.depth += 1;
            return None;
        }
        if name == GROUP_END {
            group.depth = group.depth.saturating_sub(1);
        } else {
            let (_, kind) = CALLS.iter().find(|(call, _)| *call == name)?;
            if start < group.busy_until {
                return None;
            }
            group.busy_until = end;
            let payload = joins.payloads.get(&range).copied().unwrap_or_default();
            let communicator = payload.communicator.map(|id| (self.process_of(range), id));
            let member = communicator
                .and_then(|key| joins.communicators.get(&key))
                .copied();
            let name = table.name[range.index()];
            group.calls.push(Call {
                name,
                kind: *kind,
                payload,
                member,
            });
        }
        if group.depth > 0 || group.calls.is_empty() {
            return None;
        }
        let launches = joins.launches.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = launches.partition_point(|launch| launch.0 < start);
        let last = launches.partition_point(|launch| launch.0 < end);
        Some((std::mem::take(&mut group.calls), launches.get(first..last)?))
    }

    /// The row of calls that one kernel executes; `None` if they differ in more than sending and receiving.
    fn collective(&mut self, calls: &[Call], launch: LaunchId) -> Option<Collective> {
        let first = calls.first()?;
        let kinds: BTreeSet<Kind> = calls.iter().map(|call| call.kind).collect();
        let messages = kinds
            .iter()
            .all(|kind| [Kind::Send, Kind::Receive].contains(kind));
        let same = |call: &Call| call.payload.communicator == first.payload.communicator;
        if !calls.iter().all(same) || kinds.len() > 1 && !messages {
            return None;
        }
        let operation = match kinds.len() {
            _ if is_all_to_all(calls) => self.session.intern("alltoall"),
            1 => first.name,
            _ => self.session.intern("sendrecv"),
        };
        let group = first
            .payload
            .communicator
            .map(|id| format!("{id:#018x}"))
            .unwrap_or_default();
        let peer = first.payload.peer.filter(|_| messages);
        Some(Collective {
            launch,
            operation,
            dtype: StrId::default(),
            bytes_in: sum(calls.iter().map(|call| call.bytes().0)),
            bytes_out: sum(calls.iter().map(|call| call.bytes().1)),
            group_size: first.member.map(|(size, _)| size),
            group: self.session.intern(&group),
            ranks: StrId::default(),
            sequence: None,
            rank: first.member.map(|(_, rank)| rank),
            peer: peer.filter(|peer| calls.iter().all(|call| call.payload.peer == Some(*peer))),
        })
    }
}

impl Call {
    /// Bytes of this rank's input and output. What NCCL calls the size of the message is what one rank gives to
    /// each of the others (all-gather, all-to-all, gather), gets (reduce-scatter, scatter), or both.
    fn bytes(&self) -> (Option<u64>, Option<u64>) {
        let size = self.payload.bytes;
        let sum = size
            .zip(self.member)
            .and_then(|(size, member)| size.checked_mul(member.0.into()));
        let is_root = self
            .payload
            .root
            .zip(self.member)
            .map(|(root, (_, rank))| root == rank);
        let at_root = |bytes: Option<u64>| if is_root? { bytes } else { Some(0) };
        match self.kind {
            Kind::AllReduce => (size, size),
            Kind::AllGather => (size, sum),
            Kind::ReduceScatter => (sum, size),
            Kind::AllToAll => (sum, sum),
            Kind::Broadcast => (at_root(size), size),
            Kind::Reduce => (size, at_root(size)),
            Kind::Gather => (size, at_root(sum)),
            Kind::Scatter => (at_root(sum), size),
            Kind::Send => (size, Some(0)),
            Kind::Receive => (Some(0), size),
        }
    }
}

/// True if each rank of the communicator, this one too, is sent to once and received from once.
fn is_all_to_all(calls: &[Call]) -> bool {
    let Some((size, _)) = calls.first().and_then(|call| call.member) else {
        return false;
    };
    let peers = |kind| {
        let of_kind = calls.iter().filter(move |call| call.kind == kind);
        let mut peers: Vec<Option<u32>> = of_kind.map(|call| call.payload.peer).collect();
        peers.sort_unstable();
        peers
    };
    let every: Vec<Option<u32>> = (0..size.min(calls.len() as u32)).map(Some).collect();
    size > 1 && peers(Kind::Send) == every && peers(Kind::Receive) == every
}

/// The sum, if all are known.
fn sum(mut bytes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    bytes.try_fold(0, |sum: u64, bytes| sum.checked_add(bytes?))
}
