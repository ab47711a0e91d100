//! Calls in which the host waits for the GPU, and the idle time of the GPU that follows from each.
//!
//! A gap is a time between two operations of a GPU in which none runs. It is charged to a synchronizing call if
//! the operation that ends it was issued after it had begun, and the issuing thread was in that call during the
//! gap; of several such calls to the first. So each nanosecond is charged once at most.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::engine::facts::{Facts, OpIndex, OpSource, Stage};
use crate::engine::intervals::{Interval, add, union};
use crate::engine::sweep::gaps;
use rooflens_session::{
    ApiCallId, Arrange, CopyKind, MemoryKind, Ns, PassId, ProcessId, Session, ThreadId,
};

/// Calls that return when the GPU has come so far, without the marks of variants.
const WAITING: [&str; 11] = [
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaThreadSynchronize",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
    "hipEventSynchronize",
    "hipCtxSynchronize",
];

/// A synchronizing call and the idle time that is charged to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncCall {
    /// The call.
    pub call: ApiCallId,
    /// Its thread.
    pub thread: ThreadId,
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds.
    pub end: Ns,
    /// Idle time of all GPUs charged to it, nanoseconds.
    pub idle: Ns,
    /// The part of it after the call had returned.
    pub after: Ns,
    /// The part of it in gaps within the projection of a stage instance that counts.
    pub in_stage: Ns,
    /// The part of that before the call had returned.
    pub in_stage_calls: Ns,
    /// The outermost stage with an instance that counts around the start of the call on the host; an index into
    /// [`Facts::stages`].
    pub stage: Option<usize>,
}

/// The synchronizing calls of a pass, by (thread, start, call), and the gaps charged to them.
#[derive(Clone, Debug, Default)]
pub struct Charges {
    /// The calls.
    pub calls: Vec<SyncCall>,
    /// By operation that ends a gap: start of the gap, and the call as an index into `calls`.
    pub by_op: FxHashMap<OpIndex, (Ns, usize)>,
}

/// Finds the synchronizing calls of a pass and charges them with idle time.
pub fn charge(session: &Session, facts: &Facts, pass: PassId) -> Charges {
    let mut charges = Charges {
        calls: sync_calls(session, facts, pass),
        ..Charges::default()
    };
    if charges.calls.is_empty() {
        return charges;
    }
    let calls = &session.api_calls;
    for gap in gaps(session, facts, facts.ops_of(pass)) {
        let Some(issuing) = facts.ops.api_call[gap.op as usize].map(ApiCallId::index) else {
            continue;
        };
        let (thread, issued) = (calls.thread[issuing], calls.start[issuing]);
        if issued <= gap.start {
            continue;
        }
        // Calls of one thread that are not nested follow one another, so their ends ascend too.
        let first = charges
            .calls
            .partition_point(|call| (call.thread, call.end) <= (thread, gap.start));
        let Some(call) = charges.calls.get_mut(first) else {
            continue;
        };
        if call.thread == thread && call.start < issued {
            add(&mut call.idle, gap.end - gap.start);
            add(
                &mut call.after,
                gap.end - call.end.clamp(gap.start, gap.end),
            );
            charges.by_op.insert(gap.op, (gap.start, first));
        }
    }
    mark_stages(facts, pass, &mut charges);
    find_stages(session, facts, pass, &mut charges.calls);
    charges
}

/// Finds the stage of each call: of several the outermost, and of these the first.
fn find_stages(session: &Session, facts: &Facts, pass: PassId, calls: &mut [SyncCall]) {
    let mut stages: Vec<(usize, &Stage)> = facts
        .stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.pass == pass)
        .collect();
    // Parts of a stage may also run outside of it, and count there.
    stages.arrange_by_key(|(at, stage)| (stage.parent.is_some(), *at));
    for (at, stage) in stages {
        let mut spans: BTreeMap<ProcessId, Vec<Interval>> = BTreeMap::new();
        for instance in facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.excluded.is_none())
        {
            spans
                .entry(instance.process)
                .or_default()
                .push((instance.host_start, instance.host_end));
        }
        for list in spans.values_mut() {
            *list = union(list);
        }
        for call in calls.iter_mut().filter(|call| call.stage.is_none()) {
            let windows = spans.get(&session.api_calls.process[call.call.index()]);
            let windows = windows.map(Vec::as_slice).unwrap_or_default();
            let after = windows.partition_point(|(start, _)| *start <= call.start);
            let inside = windows[..after]
                .last()
                .is_some_and(|(_, end)| call.start < *end);
            call.stage = inside.then_some(at);
        }
    }
}

/// Tells which of the charged gaps lie in stages. A gap that several stages hold counts once.
fn mark_stages(facts: &Facts, pass: PassId, charges: &mut Charges) {
    let mut marked: BTreeSet<OpIndex> = BTreeSet::new();
    for stage in facts.stages.iter().filter(|stage| stage.pass == pass) {
        for instance in facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.excluded.is_none())
        {
            let Some((begin, _)) = instance.projection else {
                continue;
            };
            for op in &instance.ops {
                if let Some((start, call)) = charges.by_op.get(op).copied()
                    && start >= begin
                    && marked.insert(*op)
                {
                    let (call, end) = (&mut charges.calls[call], facts.ops.start[*op as usize]);
                    add(&mut call.in_stage, end - start);
                    add(
                        &mut call.in_stage_calls,
                        call.end.clamp(start, end) - call.start.clamp(start, end),
                    );
                }
            }
        }
    }
}

/// The calls of a pass in which the host waits for the GPU, by (thread, start, call); no idle time is charged to them yet.
pub(in crate::time) fn sync_calls(session: &Session, facts: &Facts, pass: PassId) -> Vec<SyncCall> {
    let calls = &session.api_calls;
    let to_pageable = pageable_copies(session, facts, pass);
    // By name.
    let mut blocking: Vec<Option<bool>> = vec![None; session.strings.len()];
    let mut syncs = Vec::new();
    for call in calls.ids() {
        let row = call.index();
        if calls.pass[row] != pass || calls.nested[row] {
            continue;
        }
        let name = calls.name[row];
        let by_name = *blocking[name.index()].get_or_insert_with(|| blocks(session.text(name)));
        if by_name || to_pageable.contains(&call) {
            let (start, end) = (calls.start[row], calls.end[row]);
            syncs.push(SyncCall {
                call,
                thread: calls.thread[row],
                start,
                end,
                idle: Ns::ZERO,
                after: Ns::ZERO,
                in_stage: Ns::ZERO,
                in_stage_calls: Ns::ZERO,
                stage: None,
            });
        }
    }
    syncs.sort_unstable_by_key(|call| (call.thread, call.start, call.call));
    syncs
}

/// Whether a call of this name always returns only when the GPU has come so far.
fn blocks(name: &str) -> bool {
    let plain = name.trim_end_matches("_ptsz").trim_end_matches("_ptds");
    let copies = ["cudaMemcpy", "cuMemcpy", "hipMemcpy"]
        .iter()
        .any(|copy| plain.starts_with(copy));
    WAITING.contains(&plain) || copies && !plain.contains("Async")
}

/// Calls whose copies end in pageable memory: even asynchronous ones return only when the data is there.
fn pageable_copies(session: &Session, facts: &Facts, pass: PassId) -> FxHashSet<ApiCallId> {
    let copies = &session.copies;
    let ops = facts.ops_of(pass).filter_map(|op| {
        let OpSource::Copy(id) = facts.ops.source[op] else {
            return None;
        };
        let row = id.index();
        let pageable = copies.kind[row] == CopyKind::DeviceToHost
            && copies.destination[row] == MemoryKind::Pageable;
        facts.ops.api_call[op].filter(|_| pageable)
    });
    ops.collect()
}
