//! The host's side, by thread: CUDA calls in order, calls of the operating system, profiler overhead.

use rustc_hash::FxHashSet;

use super::cause::Cause;
use super::open::Ascending;
use crate::engine::facts::{OpIndex, OpSource, Ops};
use crate::engine::intervals::{Interval, union};
use crate::engine::stage_stats::median_time;
use rooflens_session::{
    ApiCallId, CopyId, KernelId, MemoryKind, Ns, PassId, ProcessId, Session, ThreadId,
};
use rooflens_units::{Ratio, Time};

/// What a CUDA call does, as far as idle time is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Holds the host up for a cause of its own.
    Stalls(Cause),
    /// Copies; blocks if host memory is pageable.
    AsyncCopy,
    /// Launches kernels or graphs.
    Launch,
    /// Anything else.
    Other,
}

/// Beginnings of the names of calls that load, link or unload code, or instantiate graphs, without `cuda`, `cu` or `hip`.
const FIRST_USE: [&str; 6] = [
    "Module",
    "Library",
    "Link",
    "FuncLoad",
    "KernelGetFunction",
    "GraphInstantiate",
];

/// Beginnings of the names of calls that allocate or free memory.
const ALLOCATORS: [&str; 4] = ["Malloc", "Free", "Host", "Mem"];

/// Names that begin so as well, and do not.
const NO_ALLOCATORS: [&str; 8] = [
    "Memcpy",
    "Memset",
    "HostGet",
    "MemGet",
    "MemHostGet",
    "MemPrefetch",
    "MemAdvise",
    "MemRange",
];

/// Duration of a launch call, in time and multiples of its thread's median, above which the first launch of a kernel has
/// loaded it.
pub(super) const LOADS: Ns = Ns(100_000);
const LOADS_MEDIANS: Ratio = Ratio(10.0);

/// What calls do that allocate or free memory.
const ALLOCATES: CallKind = CallKind::Stalls(Cause::Allocator);

/// Calls before a wait among which the launch is that it waits for.
const BACK: usize = 8;

/// No operation.
const NONE: OpIndex = OpIndex::MAX;

/// Disjoint times, by their ends.
pub(super) type Times = Ascending<Interval>;

/// CUDA calls of all threads.
pub(super) struct Calls<'a> {
    pub(super) session: &'a Session,
    ops: &'a Ops,
    /// Rows of calls that lie in no other, by thread, by start.
    threads: Vec<Vec<u32>>,
    /// Of each call its place, or that of the call around it, in the thread's list.
    place: Vec<u32>,
    /// Of each call the number of launch calls of the thread before it.
    launches: Vec<u32>,
    /// The first operation of each call.
    first: Vec<OpIndex>,
    /// By name.
    kinds: Vec<CallKind>,
    /// Rows of launch calls that load their kernel, and of calls of the allocator in which a library does so before.
    loading: FxHashSet<u32>,
    /// By thread: when it is in calls of the operating system.
    pub(super) os: Vec<Times>,
    /// When the profiler holds it up.
    pub(super) profiler: Vec<Times>,
    /// When no CPU runs it.
    pub(super) off_cpu: Vec<Times>,
}

impl<'a> Calls<'a> {
    /// Sorts the calls of a session by thread. O(n) where they are sorted already, as exports have them.
    pub(super) fn new(session: &'a Session, ops: &'a Ops) -> Self {
        let calls = &session.api_calls;
        let mut threads = vec![Vec::new(); session.threads.len()];
        let mut kinds = vec![None; session.strings.len()];
        for (row, (thread, name)) in (0u32..).zip(calls.thread.iter().zip(&calls.name)) {
            threads[thread.index()].push(row);
            kinds[name.index()].get_or_insert_with(|| kind(session.text(*name)));
        }
        let mut positions = vec![0; calls.len()];
        for list in &mut threads {
            sort_outermost(session, list, &mut positions);
        }
        let mut first = vec![NONE; calls.len()];
        for (op, call) in (0..).zip(&ops.api_call) {
            if let Some(slot) = call.map(|call| &mut first[call.index()]) {
                *slot = op.min(*slot);
            }
        }
        let kinds: Vec<CallKind> = kinds
            .into_iter()
            .map(|kind| kind.unwrap_or(CallKind::Other))
            .collect();
        let mut launches = vec![0; calls.len()];
        for list in &threads {
            let mut before = 0;
            for row in list.iter().map(|row| *row as usize) {
                launches[row] = before;
                before += u32::from(kinds[calls.name[row].index()] == CallKind::Launch);
            }
        }
        let (os, profiler) = (&session.os_calls, &session.overheads);
        let os = by_thread(session, &os.thread, &os.start, &os.end);
        let profiler = by_thread(session, &profiler.thread, &profiler.start, &profiler.end);
        let off = &session.off_cpu;
        let off_cpu = by_thread(session, &off.thread, &off.start, &off.end);
        let loading = FxHashSet::default();
        let mut calls_index = Self {
            session,
            ops,
            threads,
            place: positions,
            launches,
            first,
            kinds,
            loading,
            os,
            profiler,
            off_cpu,
        };
        calls_index.loading = calls_index.find_loading();
        calls_index
    }

    /// The launch calls of their thread that last much longer than its others and launch a kernel that the process
    /// has not launched before: it is loaded then. Before such a launch libraries load themselves within calls that
    /// allocate or free memory: the first of cuDNN can take seconds.
    fn find_loading(&self) -> FxHashSet<u32> {
        let (calls, mut seen) = (&self.session.api_calls, FxHashSet::default());
        let time = |row: &u32| calls.end[*row as usize] - calls.start[*row as usize];
        let is_of = |row: &u32, kind| self.kind(ApiCallId::at(*row as usize)) == kind;
        let limits_of = |kind: CallKind| -> Vec<Time> {
            let limit = |list: &Vec<u32>| {
                let times = list.iter().filter(|row| is_of(row, kind)).map(time);
                median_time(times).map_or(Time(f64::MAX), |median| {
                    (median * LOADS_MEDIANS).max(LOADS.time())
                })
            };
            self.threads.iter().map(limit).collect()
        };
        let limits = limits_of(CallKind::Launch);
        let allocator_limits = limits_of(ALLOCATES);
        let mut launches: Vec<(Ns, u32, (ProcessId, KernelId))> = Vec::new();
        for (op, source) in self.ops.source.iter().enumerate() {
            let OpSource::Launch(launch) = source else {
                continue;
            };
            let Some(call) = self.launch(op as OpIndex) else {
                continue;
            };
            let thread = &self.threads[calls.thread[call.index()].index()];
            let row = thread[self.place[call.index()] as usize];
            let kernel = self.session.launches.kernel[launch.index()];
            launches.push((
                calls.start[row as usize],
                row,
                (self.ops.process[op], kernel),
            ));
        }
        launches.sort();
        launches.retain(|(.., kernel)| seen.insert(*kernel));
        let mut loading = FxHashSet::default();
        for (_, row, _) in launches {
            let thread = calls.thread[row as usize].index();
            if time(&row).time() > limits[thread] {
                loading.insert(row);
            }
            let before = self.threads[thread][..self.place[row as usize] as usize].iter();
            let since_launch = before.rev().take_while(|row| !is_of(row, CallKind::Launch));
            let allocates = since_launch.filter(|row| is_of(row, ALLOCATES));
            loading.extend(allocates.filter(|row| time(row).time() > allocator_limits[thread]));
        }
        loading
    }

    /// Whether launch calls of a pass load kernels in a window.
    pub(super) fn load(&self, pass: PassId, window: Interval) -> bool {
        let calls = &self.session.api_calls;
        self.loading.iter().map(|row| *row as usize).any(|row| {
            calls.pass[row] == pass && calls.start[row] < window.1 && calls.end[row] > window.0
        })
    }

    /// Start and end of a call.
    pub(super) fn span(&self, call: ApiCallId) -> Interval {
        let calls = &self.session.api_calls;
        (calls.start[call.index()], calls.end[call.index()])
    }

    /// Whether an operation is the first that its call issued: a graph launch issues many.
    pub(super) fn is_first(&self, call: ApiCallId, op: OpIndex) -> bool {
        self.first[call.index()] == op
    }

    /// The call of a launch whose first operation this is: of kernels or a graph. A graph may begin with a copy.
    pub(super) fn launch(&self, op: OpIndex) -> Option<ApiCallId> {
        let call = self.ops.api_call[op as usize].filter(|call| self.is_first(*call, op))?;
        let copy = matches!(self.ops.source[op as usize], OpSource::Copy(_));
        (!copy || self.kind(call) == CallKind::Launch).then_some(call)
    }

    /// What a call does; a copy with pageable host memory blocks, whatever its name says.
    pub(super) fn kind(&self, call: ApiCallId) -> CallKind {
        let kind = self.kinds[self.session.api_calls.name[call.index()].index()];
        match kind {
            CallKind::AsyncCopy if self.is_pageable(call) => CallKind::Stalls(Cause::Copy),
            CallKind::Launch | ALLOCATES if self.loading.contains(&(call.index() as u32)) => {
                CallKind::Stalls(Cause::FirstUse)
            }
            _ => kind,
        }
    }

    /// Whether the first operation of a call is a copy with pageable host memory.
    fn is_pageable(&self, call: ApiCallId) -> bool {
        let source = self.ops.source.get(self.first[call.index()] as usize);
        let Some(OpSource::Copy(copy)) = source else {
            return false;
        };
        let copies = &self.session.copies;
        let ends = [
            copies.source[copy.index()],
            copies.destination[copy.index()],
        ];
        ends.contains(&MemoryKind::Pageable)
    }

    /// The copy that a call issues, or else the one that the call before it on its thread issues.
    pub(super) fn copy_before(&self, call: ApiCallId) -> Option<CopyId> {
        let list = &self.threads[self.session.api_calls.thread[call.index()].index()];
        let place = self.place[call.index()] as usize;
        let before = place.checked_sub(1).map(|before| list[before]);
        let copy = |row: u32| match self.ops.source.get(self.first[row as usize] as usize) {
            Some(OpSource::Copy(copy)) => Some(*copy),
            _ => None,
        };
        copy(call.index() as u32).or(before.and_then(copy))
    }

    /// The kernel that the thread of a call launched last before it, a few calls back at most.
    pub(super) fn kernel_before(&self, call: ApiCallId) -> Option<KernelId> {
        let list = &self.threads[self.session.api_calls.thread[call.index()].index()];
        let before = list[..self.place[call.index()] as usize].iter().rev();
        before.take(BACK).find_map(|row| {
            match self.ops.source.get(self.first[*row as usize] as usize) {
                Some(OpSource::Launch(launch)) => {
                    Some(self.session.launches.kernel[launch.index()])
                }
                _ => None,
            }
        })
    }

    /// Number of launch calls of the thread of a call before it.
    pub(super) fn launches_before(&self, call: ApiCallId) -> u32 {
        self.launches[call.index()]
    }

    /// The calls of the thread of `call` that end after `start`, up to `call` itself, by start; and how long
    /// the thread had made none before the first of them.
    pub(super) fn since(&self, start: Ns, call: ApiCallId) -> (&[u32], Option<Ns>) {
        let calls = &self.session.api_calls;
        let list = &self.threads[calls.thread[call.index()].index()];
        let last = self.place[call.index()] as usize;
        let mut first = last;
        while first > 0 && calls.end[list[first - 1] as usize] > start {
            first -= 1;
        }
        let before = first
            .checked_sub(1)
            .map(|row| calls.end[list[row] as usize]);
        (list.get(first..=last).unwrap_or_default(), before)
    }
}

/// Sorts a thread's calls, notes their places and drops those within others.
fn sort_outermost(session: &Session, list: &mut Vec<u32>, place: &mut [u32]) {
    let calls = &session.api_calls;
    let key = |row: &u32| (calls.start[*row as usize], -calls.end[*row as usize], *row);
    if !list.is_sorted_by_key(key) {
        list.sort_unstable_by_key(key);
    }
    let mut kept: u32 = 0;
    list.retain(|row| {
        let outermost = !calls.nested[*row as usize];
        kept += u32::from(outermost);
        place[*row as usize] = kept.saturating_sub(1);
        outermost
    });
}

fn by_thread(session: &Session, thread: &[ThreadId], start: &[Ns], end: &[Ns]) -> Vec<Times> {
    let mut lists = vec![Vec::new(); session.threads.len()];
    for (thread, interval) in thread
        .iter()
        .zip(start.iter().copied().zip(end.iter().copied()))
    {
        lists[thread.index()].push(interval);
    }
    let times = lists.iter_mut().map(|list| {
        let times = union(list);
        let ends = times.iter().map(|time| time.1).collect();
        Ascending::new((ends, times))
    });
    times.collect()
}

fn kind(name: &str) -> CallKind {
    let plain = ["cuda", "cu", "hip"]
        .iter()
        .find_map(|api| name.strip_prefix(api));
    let plain = plain.unwrap_or(name);
    let begins = |with: &[&str]| with.iter().any(|prefix| plain.starts_with(prefix));
    if plain.contains("Synchronize") {
        CallKind::Stalls(Cause::Sync)
    } else if begins(&FIRST_USE) {
        CallKind::Stalls(Cause::FirstUse)
    } else if begins(&ALLOCATORS) && !begins(&NO_ALLOCATORS) {
        CallKind::Stalls(Cause::Allocator)
    } else if plain.contains("Memcpy") {
        if plain.contains("Async") {
            CallKind::AsyncCopy
        } else {
            CallKind::Stalls(Cause::Copy)
        }
    } else if plain.contains("Launch") {
        CallKind::Launch
    } else {
        CallKind::Other
    }
}
