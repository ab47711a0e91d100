//! Which range an operation belongs to: the one around the start of the API call that issued it.
//!
//! Operation and API call join on (process, correlation id): correlation ids are unique only within a
//! process. The rest is one sweep per thread over sorted ranges and calls.

mod capture;

use rustc_hash::FxHashMap;

use crate::stage_names::is_of_user;
use crate::tables::{Attribution, Captured, OpIndex, OpSource, Ops};
use rooflens_session::{
    ApiCallId, ApiCalls, CopyId, CopyKind, GraphLaunchId, LaunchId, Ns, ProcessId, RangeId,
    Session, StrId, ThreadId,
};

/// The columns that the three tables of GPU work have in common.
macro_rules! columns {
    ($table:expr, $row:expr) => {{
        let row = $row as usize;
        let table = $table;
        (
            table.pass[row],
            table.gpu[row],
            table.process[row],
            table.stream[row],
            table.correlation[row],
        )
    }};
}

/// Pass, start and end of a row of one of these tables.
macro_rules! times {
    ($table:expr, $row:expr) => {{
        let row = $row as usize;
        ($table.pass[row], $table.start[row], $table.end[row])
    }};
}

/// All GPU operations of a session, sorted by (pass, start, end, source), joined with their API calls.
pub fn operations(session: &Session) -> Ops {
    let (launches, copies, graphs) = (&session.launches, &session.copies, &session.graph_launches);
    let count = launches.len() + copies.len() + graphs.len();
    let mut sources: Vec<OpSource> = Vec::with_capacity(count);
    sources.extend(launches.ids().map(OpSource::Launch));
    sources.extend(copies.ids().map(OpSource::Copy));
    sources.extend(graphs.ids().map(OpSource::Graph));
    let key = |source: &OpSource| {
        let (pass, start, end) = match *source {
            OpSource::Launch(LaunchId(row)) => times!(launches, row),
            OpSource::Copy(CopyId(row)) => times!(copies, row),
            OpSource::Graph(GraphLaunchId(row)) => times!(graphs, row),
        };
        (pass, start, end, *source)
    };
    // Tables are sorted, mostly: stable sorting merges what ascends.
    sources.sort_by_key(key);
    let mut calls = CallIndex::new(session);
    let mut ops = Ops::with_room(count);
    for source in sources {
        let (_, start, end, _) = key(&source);
        let (pass, gpu, process, stream, correlation) = match source {
            OpSource::Launch(LaunchId(row)) => columns!(launches, row),
            OpSource::Copy(CopyId(row)) => columns!(copies, row),
            OpSource::Graph(GraphLaunchId(row)) => columns!(graphs, row),
        };
        ops.start.push(start);
        ops.end.push(end);
        ops.pass.push(pass);
        ops.gpu.push(gpu);
        ops.process.push(process);
        ops.stream.push(stream);
        ops.source.push(source);
        ops.api_call
            .push(correlation.and_then(|id| calls.find(process, id)));
    }
    ops.range = vec![Attribution::NoApiCall; ops.len()];
    ops.captured = vec![Captured::NoGraph; ops.len()];
    ops
}

/// API calls by (process, correlation id). Of several calls with one id the outermost is found.
struct CallIndex<'a> {
    table: &'a ApiCalls,
    /// By (process, correlation id).
    calls: Vec<ApiCallId>,
    /// The position after that of the last search: most operations are in the order of their calls.
    next: usize,
}

/// Calls that a search compares one by one before it halves all.
const NEAR: usize = 8;

impl<'a> CallIndex<'a> {
    fn new(session: &'a Session) -> Self {
        let table = &session.api_calls;
        let key = |id: &ApiCallId| (table.process[id.index()], table.correlation[id.index()]);
        let has_correlation = |id: &ApiCallId| table.correlation[id.index()].is_some();
        let mut calls = Vec::with_capacity(table.len());
        calls.extend(table.ids().filter(has_correlation));
        // Ids ascend, mostly: stable sorting merges what ascends.
        calls.sort_by_key(|id| (key(id), table.nested[id.index()]));
        calls.dedup_by_key(|id| key(id));
        Self {
            table,
            calls,
            next: 0,
        }
    }

    fn key(&self, id: ApiCallId) -> (ProcessId, Option<i64>) {
        let row = id.index();
        (self.table.process[row], self.table.correlation[row])
    }

    fn find(&mut self, process: ProcessId, correlation: i64) -> Option<ApiCallId> {
        let key = (process, Some(correlation));
        let mut near = self.calls[self.next..].iter().take(NEAR);
        let position = match near.position(|call| self.key(*call) == key) {
            Some(near) => self.next + near,
            None => self
                .calls
                .binary_search_by_key(&key, |call| self.key(*call))
                .ok()?,
        };
        self.next = position + 1;
        Some(self.calls[position])
    }
}

/// Operations by the thread whose ranges they belong to, sorted by the start of their API call.
#[derive(Clone, Debug, Default)]
pub struct ThreadOps {
    /// By [`ThreadId`].
    pub threads: Vec<Vec<IssuedOp>>,
}

/// An operation at the moment of its issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IssuedOp {
    /// Start of the API call.
    pub start: Ns,
    /// End of the API call.
    pub end: Ns,
    /// The operation.
    pub op: OpIndex,
    /// Issued by another thread, to which this one's range was assigned.
    pub inferred: bool,
}

impl ThreadOps {
    /// Operations of `thread` whose API call starts in [start, end); an inferred one must also end in it.
    pub fn within(&self, thread: ThreadId, start: Ns, end: Ns) -> impl Iterator<Item = &IssuedOp> {
        let issued_ops = self.started(thread, start, end).iter();
        issued_ops.filter(move |issued| !issued.inferred || issued.end <= end)
    }

    /// What the threads of a process issued themselves, by the start of the API call.
    pub fn of_process(&self, session: &Session, process: ProcessId) -> Vec<IssuedOp> {
        let threads = session
            .threads
            .ids()
            .filter(|id| session.threads.process[id.index()] == process);
        let lists = threads.filter_map(|id| self.threads.get(id.index()));
        let mut issued_ops: Vec<IssuedOp> = lists
            .flatten()
            .filter(|issued| !issued.inferred)
            .copied()
            .collect();
        issued_ops.sort_unstable();
        issued_ops
    }

    /// How many operations of `thread` have an API call that starts in [start, end).
    pub fn count(&self, thread: ThreadId, start: Ns, end: Ns) -> u64 {
        self.started(thread, start, end).len() as u64
    }

    /// How many operations there are.
    pub fn total(&self) -> u64 {
        self.threads.iter().map(|list| list.len() as u64).sum()
    }

    fn started(&self, thread: ThreadId, start: Ns, end: Ns) -> &[IssuedOp] {
        started(
            self.threads
                .get(thread.index())
                .map_or(&[][..], Vec::as_slice),
            start,
            end,
        )
    }
}

/// Those of an ascending list whose API call starts in [start, end).
pub fn started(list: &[IssuedOp], start: Ns, end: Ns) -> &[IssuedOp] {
    let first = list.partition_point(|issued| issued.start < start);
    let last = first + list[first..].partition_point(|issued| issued.start < end);
    &list[first..last]
}

/// Finds each operation's innermost range, of those for which `counts` holds, and lists operations by thread;
/// of work in CUDA graphs also the range that was open at capture.
///
/// An operation issued by a thread that has no range of the user open is assigned the range of the one other thread of
/// the process that has one open over the whole API call; if several have, it stays ambiguous.
pub fn attribute(session: &Session, ops: &mut Ops, counts: &dyn Fn(RangeId) -> bool) -> ThreadOps {
    let mut lists = issued_by_thread(session, ops);
    let ranges = ranges_by_thread(session, counts);
    let users = UserRanges::new(session);
    let mut orphans: Vec<(ThreadId, IssuedOp)> = Vec::new();
    for (thread, list) in lists.threads.iter().enumerate() {
        let moments = || list.iter().map(|issued| (issued.start, issued.start));
        sweep(session, &ranges[thread], moments(), |at, found| {
            ops.range[list[at].op as usize] = found.map_or(Attribution::Outside, Attribution::Own);
        });
        sweep(
            session,
            &users.among(session, &ranges[thread]),
            moments(),
            |at, found| {
                if found.is_none() {
                    orphans.push((ThreadId::at(thread), list[at]));
                }
            },
        );
    }
    lend_ranges(session, ops, &ranges, orphans, &mut lists);
    capture::attribute(session, ops, &ranges);
    lists
}

/// Which ranges are the user's, by name and domain: a library annotates its own calls, too.
struct UserRanges(FxHashMap<(StrId, StrId), bool>);

impl UserRanges {
    fn new(session: &Session) -> Self {
        let ranges = &session.ranges;
        let mut by_domain = FxHashMap::default();
        for id in ranges.ids() {
            let key = (ranges.name[id.index()], ranges.domain[id.index()]);
            by_domain
                .entry(key)
                .or_insert_with(|| is_of_user(session, id));
        }
        Self(by_domain)
    }

    fn among(&self, session: &Session, ranges: &[RangeId]) -> Vec<RangeId> {
        let table = &session.ranges;
        let is_own = |id: &&RangeId| self.0[&(table.name[id.index()], table.domain[id.index()])];
        ranges.iter().filter(is_own).copied().collect()
    }
}

fn issued_by_thread(session: &Session, ops: &Ops) -> ThreadOps {
    let calls = &session.api_calls;
    let mut counts = vec![0; session.threads.len()];
    for call in ops.api_call.iter().flatten() {
        counts[calls.thread[call.index()].index()] += 1;
    }
    let mut threads: Vec<Vec<IssuedOp>> = counts.into_iter().map(Vec::with_capacity).collect();
    for (op, call) in ops.api_call.iter().enumerate() {
        let Some(call) = call else { continue };
        let row = call.index();
        let (start, end) = (calls.start[row], calls.end[row]);
        // Fewer than 2^32 operations: each is a row of a table.
        let issued = IssuedOp {
            start,
            end,
            op: op as OpIndex,
            inferred: false,
        };
        threads[calls.thread[row].index()].push(issued);
    }
    add_migrations(session, ops, &mut threads);
    for list in &mut threads {
        if !list.is_sorted() {
            list.sort_unstable();
        }
    }
    ThreadOps { threads }
}

/// Pages of managed memory move without a call: for the kernel that runs, or else for what the host does at that time. They
/// count where one thread of the process issues all work.
fn add_migrations(session: &Session, ops: &Ops, threads: &mut [Vec<IssuedOp>]) {
    let is_migration = |kind| matches!(kind, CopyKind::MigrateToDevice | CopyKind::MigrateToHost);
    let (calls, copies) = (&session.api_calls, &session.copies);
    let mut running: Option<(usize, Ns)> = None;
    for op in 0..ops.len() {
        match (ops.source[op], ops.api_call[op]) {
            (OpSource::Launch(_), Some(call)) => running = Some((op, calls.start[call.index()])),
            (OpSource::Copy(copy), None) if is_migration(copies.kind[copy.index()]) => {
                let kernel = running.filter(|(kernel, _)| {
                    ops.pass[*kernel] == ops.pass[op] && ops.start[op] < ops.end[*kernel]
                });
                let start = kernel.map_or(ops.start[op], |(_, issued)| issued);
                let mut issuing = (0..threads.len()).filter(|thread| {
                    let process = session.threads.process[*thread];
                    process == ops.process[op] && !threads[*thread].is_empty()
                });
                if let (Some(thread), None) = (issuing.next(), issuing.next()) {
                    threads[thread].push(IssuedOp {
                        start,
                        end: start,
                        op: op as OpIndex,
                        inferred: false,
                    });
                }
            }
            _ => {}
        }
    }
}

/// Ranges by thread, outer before inner.
fn ranges_by_thread(session: &Session, counts: &dyn Fn(RangeId) -> bool) -> Vec<Vec<RangeId>> {
    let ranges = &session.ranges;
    let mut threads = vec![Vec::new(); session.threads.len()];
    for id in ranges.ids().filter(|id| counts(*id)) {
        threads[ranges.thread[id.index()].index()].push(id);
    }
    for list in &mut threads {
        list.sort_unstable_by_key(|id| {
            (
                ranges.start[id.index()],
                std::cmp::Reverse(ranges.end[id.index()]),
                *id,
            )
        });
    }
    threads
}

/// Calls `found(query, range)` for each query (from, to), ascending in `from`, with the innermost range
/// that is open at `from` and not closed before `to`. O(ranges + queries) for nested ranges.
fn sweep(
    session: &Session,
    sorted: &[RangeId],
    queries: impl Iterator<Item = (Ns, Ns)>,
    mut found: impl FnMut(usize, Option<RangeId>),
) {
    let ranges = &session.ranges;
    let mut open: Vec<RangeId> = Vec::new();
    let mut next = 0;
    for (query, (from, to)) in queries.enumerate() {
        while next < sorted.len() && ranges.start[sorted[next].index()] <= from {
            // Ranges that ended before the new one began can go; start/end ranges may end in any order.
            let start = ranges.start[sorted[next].index()];
            while open
                .last()
                .is_some_and(|last| ranges.end[last.index()] <= start)
            {
                open.pop();
            }
            open.push(sorted[next]);
            next += 1;
        }
        while open
            .last()
            .is_some_and(|last| ranges.end[last.index()] <= from)
        {
            open.pop();
        }
        let end = |id: &&RangeId| ranges.end[id.index()];
        found(
            query,
            open.iter()
                .rev()
                .find(|id| end(id) > from && end(id) >= to)
                .copied(),
        );
    }
}

/// Gives orphans the range of the one other thread of their process that has one open.
fn lend_ranges(
    session: &Session,
    ops: &mut Ops,
    ranges: &[Vec<RangeId>],
    mut orphans: Vec<(ThreadId, IssuedOp)>,
    lists: &mut ThreadOps,
) {
    orphans.sort_unstable_by_key(|(thread, issued)| (*issued, *thread));
    let mut lenders: Vec<(u32, Option<(ThreadId, RangeId)>)> = vec![(0, None); orphans.len()];
    for (thread, sorted) in ranges
        .iter()
        .enumerate()
        .filter(|(_, sorted)| !sorted.is_empty())
    {
        let lender = ThreadId::at(thread);
        let process = session.threads.process[thread];
        let same_process = |orphan: ThreadId| {
            orphan != lender && session.threads.process[orphan.index()] == process
        };
        let queries = orphans.iter().map(|(_, issued)| (issued.start, issued.end));
        sweep(session, sorted, queries, |at, found| {
            if let Some(range) = found.filter(|_| same_process(orphans[at].0)) {
                lenders[at] = (lenders[at].0 + 1, Some((lender, range)));
            }
        });
    }
    for ((_, issued), (count, lender)) in orphans.into_iter().zip(lenders) {
        let slot = &mut ops.range[issued.op as usize];
        match (count, lender) {
            (1, Some((thread, range))) => {
                *slot = Attribution::Inferred(range);
                lists.threads[thread.index()].push(IssuedOp {
                    inferred: true,
                    ..issued
                });
            }
            (0, _) | (_, None) => {}
            _ if matches!(slot, Attribution::Own(_)) => {}
            _ => *slot = Attribution::Ambiguous,
        }
    }
    for list in &mut lists.threads {
        if !list.is_sorted() {
            list.sort_unstable();
        }
    }
}
