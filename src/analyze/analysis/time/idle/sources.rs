//! What the host did in the idle time of some windows: by activity, and by what was open on the issuing thread.
//!
//! A part of a gap belongs to the innermost span that was open on the thread that issued the operation at its end. While
//! this thread waits for another one, the thread of the window counts instead: the backward pass has its own thread.
//!
//! A wait for a result empties the queue, so launches that follow it in the same gap belong to it. So does host code
//! between a wait for data and a copy to the GPU, which works on this data, and any code after a wait for much data. Between waits that follow one another after
//! few launches the queue never fills: all of that time belongs to them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_session::{
    ApiCallId, Arrange, CopyKind, GpuId, KernelId, Ns, PassId, Session, StrId, ThreadId,
};
use rooflens_units::{Bytes, Ratio};
use rustc_hash::{FxHashMap, FxHashSet};

use super::activity::{Activities, Activity, is_wait, subject};
use super::calls::Calls;
use super::cause::{Cause, Times};
use super::gaps::{Gaps, Part};
use super::open::{Ascending, NOTHING, Open, PathId, Source};
use crate::Context;
use crate::engine::classify::KernelIdentity;
use crate::engine::facts::{Facts, OpIndex, OpSource};
use crate::engine::intervals::Interval;
use crate::time::sync::charges::sync_calls;

/// Launches between two waits below which the queue does not fill between them.
const FEW_LAUNCHES: u32 = 100;

/// Time of host code from which on it is no part of a loop of waits.
const LONG: Ns = Ns(1_000_000);

/// Waits in a row from which on they are a loop.
const LOOP: usize = 4;

/// Windows from which on they are a loop.
pub const WINDOWS: usize = 3;

/// When an activity recurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurs {
    /// In iterations: there are several.
    Iterations,
    /// In parts of a capture without iterations: it occurs in most of them.
    Parts,
}

impl Recurs {
    /// Whether an activity that occurs in some of the windows is one of a loop.
    pub const fn holds(self, occurs: usize, windows: usize) -> bool {
        match self {
            Self::Iterations => windows >= WINDOWS,
            Self::Parts => windows >= WINDOWS && 2 * occurs >= windows,
        }
    }
}

/// Part of the names of kernels with which PyTorch counts the elements that meet a condition.
const COUNTS: &str = "NonZeroOp";

/// Share of a gap from which on an activity takes most of it.
const MOST: Ratio = Ratio(0.5);

/// Operations among which the first kernel is looked for: few memsets or copies come before attention.
const BEFORE: usize = 8;

/// Time of an operation up to which its launch limits it.
const SHORT: Ns = Ns(5_000);

/// Bytes that a wait brings to the host from which on the code after it works on them: more than sizes and flags.
const DATA: Bytes = Bytes(4096.0);

/// The same from which on the results need not go back to the GPU: nothing but this code reads so much.
pub const MUCH_DATA: Bytes = Bytes(1_048_576.0);

/// Idle time of some windows by what the host did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// Number of windows.
    pub windows: usize,
    /// By activity, the most time first.
    pub activities: Vec<ActivityIdle>,
    /// Waits of each window for results, before its last operation ends.
    pub waits: Vec<usize>,
    /// Those of them that wait for the number of elements that meet a condition, as the kernel says that counts them.
    pub sizes: usize,
    /// Idle time by cause of each window that an activity with a name explains.
    pub(super) named: Vec<Times>,
}

/// Idle time of one activity.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityIdle {
    /// What the host did.
    pub activity: Activity,
    /// Gaps in which it occurs.
    pub gaps: u64,
    /// Time of the operations that it issued and that go with it, such as copies of a checkpoint.
    pub issued: Ns,
    /// Idle time of each window.
    pub by_window: Vec<Ns>,
    /// By source, the most time first.
    pub sources: Vec<IdleSource>,
}

/// Idle time of one activity and source.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleSource {
    /// Cause.
    pub cause: Cause,
    /// The name that decides the activity: of a mark, an operator, a call.
    pub subject: Option<StrId>,
    /// What was open on the thread, the innermost first.
    pub path: Vec<Source>,
    /// Idle time of all windows.
    pub time: Ns,
    /// Gaps in which it occurs.
    pub gaps: u64,
    /// Windows in which it occurs.
    pub windows: u64,
}

/// A call in which the host waits for results of the GPU.
#[derive(Clone, Copy, Debug)]
struct Wait {
    start: Ns,
    end: Ns,
    /// Launch calls of the thread before it.
    launches: u32,
    path: PathId,
    /// What it brings to the host.
    data: Bytes,
    /// Whether it waits for the number of elements that meet a condition.
    has_size: bool,
}

/// Waits that follow one another after few launches.
#[derive(Clone, Copy, Debug)]
struct Loop {
    time: Interval,
    waits: i64,
}

/// A window of a GPU, and the thread that drives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) time: Interval,
    pub(super) thread: Option<ThreadId>,
}

/// What the sources of all windows are found with.
pub(super) struct Finder<'a> {
    session: &'a Session,
    facts: &'a Facts,
    gaps: &'a Gaps,
    open: Open,
    activities: Activities,
    /// By thread, by start.
    waits: Vec<Ascending<Wait>>,
    /// Names of the ranges that are iterations of stages.
    stages: FxHashSet<StrId>,
    /// Operations that go with the activities that issue them, by GPU, by start.
    issued: Vec<Vec<(Interval, Activity)>>,
}

/// Number of activities.
const ACTIVITIES: usize = Activity::NotHost as usize + 1;

/// What the host did in a part of a gap.
type Key = (Activity, Cause, PathId);

/// A sum over parts of gaps.
#[derive(Default)]
struct Sum {
    time: Ns,
    gaps: u64,
    windows: u64,
    last_gap: Option<Ns>,
    last_window: Option<usize>,
}

impl Sum {
    fn add(&mut self, time: Ns, gap: Ns, window: usize) {
        self.time += time;
        self.gaps += u64::from(self.last_gap.replace(gap) != Some(gap));
        self.windows += u64::from(self.last_window.replace(window) != Some(window));
    }
}

/// The sums of some windows.
#[derive(Default)]
struct Sums {
    /// Gaps in which each activity occurs, and the last of them.
    gaps: [(u64, Option<Ns>); ACTIVITIES],
    /// Idle time of each activity by window.
    by_window: Vec<[Ns; ACTIVITIES]>,
    sources: FxHashMap<Key, Sum>,
    /// Idle time of activities with names by window.
    named: BTreeMap<Activity, Vec<Times>>,
    /// The gap that is read: its start, the operation that ends it, and its parts.
    gap: Option<Ns>,
    op: OpIndex,
    parts: Vec<(Key, Ns)>,
}

impl Sums {
    fn add(&mut self, key: Key, time: Ns) {
        match self.parts.last_mut() {
            Some(last) if last.0 == key => last.1 += time,
            _ => self.parts.push((key, time)),
        }
    }

    /// Host code in the range around a sleep or an access of files prepares it, unless the range is a stage.
    fn extend_calls(&mut self, finder: &Finder<'_>) {
        let mut around: Vec<(PathId, Activity)> = Vec::new();
        for ((activity, _, path), _) in &self.parts {
            if matches!(activity, Activity::Sleep | Activity::Files)
                && let Some(call) = finder.open.node(*path)
                && let Some(range) = finder.open.node(call.parent)
                && matches!(range.source, Source::Range(_))
                && !finder.stages.contains(&range.source.name())
            {
                around.push((call.parent, *activity));
            }
        }
        for ((activity, _, path), _) in &mut self.parts {
            if *activity == Activity::HostCode
                && let Some((_, of_call)) = around.iter().find(|(range, _)| range == path)
            {
                *activity = *of_call;
            }
        }
    }

    /// Preparation of kernels by the kernel that waits for it: where cuDNN prepares attention, it plans it. Of the
    /// kernels that other libraries prepare, the host loads code.
    fn name_plans(&mut self, finder: &Finder<'_>) {
        let prepares = |((activity, ..), _): &(Key, Ns)| activity.prepares();
        if !self.parts.iter().any(prepares) || !finder.is_before_attention(self.op) {
            return;
        }
        for ((activity, ..), _) in &mut self.parts {
            if activity.prepares() || activity.is_of_plan() {
                *activity = Activity::KernelPlans;
            }
        }
    }

    /// The activity with surroundings that takes most of the gap that is read.
    fn main_activity(&self) -> Option<Activity> {
        // Most gaps are launches alone, and there are many.
        let has_surroundings = |((activity, ..), _): &(Key, Ns)| activity.has_surroundings();
        if !self.parts.iter().any(has_surroundings) {
            return None;
        }
        let mut times: BTreeMap<Activity, Ns> = BTreeMap::new();
        for ((activity, ..), time) in &self.parts {
            *times.entry(*activity).or_default() += *time;
        }
        let whole: Ns = times.values().copied().sum();
        let most = |(activity, time): (&Activity, &Ns)| {
            (activity.has_surroundings() && time.time() >= whole.time() * MOST).then_some(*activity)
        };
        times.iter().find_map(most)
    }

    /// Adds the parts of the gap that is read. What no mark covers belongs to the activity that takes most of the gap, if
    /// that has surroundings.
    fn close(&mut self, finder: &Finder<'_>, window: usize) {
        let Some(gap) = self.gap.take() else { return };
        self.name_plans(finder);
        self.extend_calls(finder);
        let main = self.main_activity();
        for ((activity, cause, path), time) in self.parts.drain(..) {
            let is_host = activity != Activity::NotHost && !activity.is_named();
            let activity = main.filter(|_| is_host).unwrap_or(activity);
            let (gaps, last) = &mut self.gaps[activity as usize];
            *gaps += u64::from(last.replace(gap) != Some(gap));
            self.by_window[window][activity as usize] += time;
            let source = self.sources.entry((activity, cause, path)).or_default();
            source.add(time, gap, window);
            if activity.is_named() {
                let windows = self.by_window.len();
                let named = self.named.entry(activity);
                let named = named.or_insert_with(|| vec![Times::default(); windows]);
                named[window].add(cause, time);
            }
        }
    }
}

impl<'a> Finder<'a> {
    pub(super) fn new(context: &Context<'a>, calls: &'a Calls<'a>, gaps: &'a Gaps) -> Self {
        let (session, facts) = (context.session, context.facts);
        let mut is_wanted = vec![false; session.threads.len()];
        for call in facts.ops.api_call.iter().flatten() {
            is_wanted[session.api_calls.thread[call.index()].index()] = true;
        }
        for thread in facts
            .instances
            .iter()
            .filter_map(|instance| instance.thread)
        {
            is_wanted[thread.index()] = true;
        }
        let open = Open::new(session, &is_wanted);
        let activities = Activities::new(session, &open);
        let waits = waits(context, calls, &open);
        Self {
            session,
            facts,
            gaps,
            stages: stage_ranges(context),
            issued: issued(context, &open, &activities, &waits),
            waits,
            activities,
            open,
        }
    }

    /// The sources of the idle time of a GPU in some windows.
    pub(super) fn sources(&self, gpu: GpuId, windows: &[Window], recurs: Recurs) -> Sources {
        let mut sums = Sums {
            by_window: vec![[Ns::ZERO; ACTIVITIES]; windows.len()],
            ..Sums::default()
        };
        let mut issued: BTreeMap<Activity, Ns> = BTreeMap::new();
        for (number, window) in windows.iter().enumerate() {
            self.add_issued(&mut issued, gpu, window.time);
            let mut loops: BTreeMap<ThreadId, Vec<Loop>> = BTreeMap::new();
            let mut issuer = None;
            for part in self.gaps.parts(gpu, window.time) {
                if sums.gap != Some(part.gap) {
                    sums.close(self, number);
                    sums.gap = Some(part.gap);
                    sums.op = part.op;
                    let call = self.facts.ops.api_call[part.op as usize];
                    issuer = call.map(|call| self.session.api_calls.thread[call.index()]);
                }
                let is_host = Cause::HOST.contains(&part.cause) || part.cause == Cause::Profiler;
                let Some(thread) = issuer.filter(|_| is_host) else {
                    let key = (Activity::NotHost, part.cause, NOTHING);
                    sums.add(key, part.time.1 - part.time.0);
                    continue;
                };
                let loops = loops
                    .entry(thread)
                    .or_insert_with(|| self.loops(thread, window.time));
                self.add(&mut sums, &part, (thread, window.thread), loops);
            }
            sums.close(self, number);
            for (thread, loops) in &loops {
                let of_loops = self.repeated(gpu, window.time, *thread, loops);
                *issued.entry(Activity::Synchronization).or_default() += of_loops;
            }
        }
        let waits = windows.iter().map(|window| self.waits_within(window));
        let sizes = waits.clone().flatten().filter(|wait| wait.has_size);
        Sources {
            sizes: sizes.count(),
            waits: waits.map(Iterator::count).collect(),
            ..self.sources_of(sums, &issued, recurs)
        }
    }

    /// Whether an operation is attention of cuDNN, or clears or copies memory before it.
    fn is_before_attention(&self, op: OpIndex) -> bool {
        let ops = &self.facts.ops;
        let on_gpu = |next: &usize| ops.gpu[*next] == ops.gpu[op as usize];
        let mut next = (op as usize..ops.len()).take(BEFORE).filter(on_gpu);
        let first = next.find(|next| !matches!(ops.source[*next], OpSource::Copy(_)));
        let kernel = first.and_then(|first| self.facts.kernel(self.session, first as OpIndex));
        let identity = kernel.map(|kernel| &self.facts.identities[kernel.index()]);
        identity.is_some_and(KernelIdentity::is_cudnn_attention)
    }

    /// The waits of the thread of a window, or of all threads, for results.
    fn waits_within(&self, window: &Window) -> impl Iterator<Item = &Wait> {
        let (start, end) = window.time;
        let threads = match window.thread {
            Some(thread) => &self.waits[thread.index()..=thread.index()],
            None => &self.waits[..],
        };
        threads.iter().flat_map(move |waits| {
            let first = waits.partition_point(|wait| wait.end <= start);
            waits[first..].iter().take_while(move |wait| wait.end < end)
        })
    }

    /// Adds the busy time of operations that activities issue and that go with them.
    fn add_issued(&self, issued: &mut BTreeMap<Activity, Ns>, gpu: GpuId, window: Interval) {
        let of_gpu = &self.issued[gpu.index()];
        let first = of_gpu.partition_point(|(time, _)| time.0 < window.0);
        for (time, activity) in of_gpu[first..]
            .iter()
            .take_while(|(time, _)| time.0 < window.1)
        {
            *issued.entry(*activity).or_default() += time.1.min(window.1) - time.0;
        }
    }

    /// Adds a part of a gap in which the host had not issued the next operation.
    fn add(
        &self,
        sums: &mut Sums,
        part: &Part,
        (thread, driver): (ThreadId, Option<ThreadId>),
        loops: &[Loop],
    ) {
        let driver = driver.filter(|driver| *driver != thread);
        for (time, path) in self.open.within(thread, part.time) {
            let node = self.open.node(path);
            let waits = || node.is_some_and(|node| is_wait(self.session, node.source));
            let Some(driver) = driver.filter(|_| waits()) else {
                let key = self.key(part, (thread, time, path), part.cause, loops);
                sums.add(key, time.1 - time.0);
                continue;
            };
            for (time, path) in self.open.within(driver, time) {
                let cause = match part.cause {
                    Cause::Os | Cause::OffCpu => Cause::HostCode,
                    cause => cause,
                };
                let key = self.key(part, (driver, time, path), cause, loops);
                sums.add(key, time.1 - time.0);
            }
        }
    }

    /// Activity, cause and path of a part of a gap.
    fn key(
        &self,
        part: &Part,
        (thread, time, path): (ThreadId, Interval, PathId),
        cause: Cause,
        loops: &[Loop],
    ) -> Key {
        let activity = self.activities.of(cause, path);
        if matches!(
            activity,
            Activity::Launching | Activity::HostCode | Activity::System
        ) && let Some(wait) = self.wait_before(part, (thread, time), activity, loops)
        {
            return (self.activities.of(Cause::Sync, wait.path), cause, wait.path);
        }
        (activity, cause, path)
    }

    /// Whether the gap of a part ends with a copy to the GPU: of what the host computed.
    fn goes_to_gpu(&self, part: &Part) -> bool {
        match self.facts.ops.source[part.op as usize] {
            OpSource::Copy(copy) => {
                self.session.copies.kind[copy.index()] == CopyKind::HostToDevice
            }
            OpSource::Launch(_) | OpSource::Graph(_) => false,
        }
    }

    /// The wait that emptied the queue before a part of a gap.
    fn wait_before(
        &self,
        part: &Part,
        (thread, time): (ThreadId, Interval),
        activity: Activity,
        loops: &[Loop],
    ) -> Option<&Wait> {
        let last = self.waits[thread.index()].at(time.0)?;
        let is_short = activity == Activity::Launching || time.1 - time.0 < LONG;
        let works_on_data =
            || last.data >= MUCH_DATA || last.data >= DATA && self.goes_to_gpu(part);
        let in_gap = last.end > part.gap && (activity == Activity::Launching || works_on_data());
        let is_inside = |of: &Loop| of.time.0 <= time.0 && time.1 <= of.time.1;
        let in_loop = || is_short && loops.iter().any(is_inside);
        (in_gap || in_loop()).then_some(last)
    }

    /// Time of short operations that a loop of waits issues again in each turn: without the waits, one operation
    /// for all turns takes as long as one of them. A GEMM for all turns does the work of all.
    fn repeated(&self, gpu: GpuId, window: Interval, thread: ThreadId, loops: &[Loop]) -> Ns {
        let (ops, calls) = (&self.facts.ops, &self.session.api_calls);
        let mut sum = Ns::ZERO;
        if loops.is_empty() {
            return sum;
        }
        let rows = self.facts.ops_of(self.session.gpus.pass[gpu.index()]);
        let before = ops.start[rows.clone()].partition_point(|start| *start < window.0);
        let inside = rows.skip(before).take_while(|op| ops.start[*op] < window.1);
        for op in inside.filter(|op| ops.gpu[*op] == gpu) {
            let time = ops.end[op] - ops.start[op];
            let call = ops.api_call[op].map(ApiCallId::index);
            let is_short = time <= SHORT && !self.facts.class(self.session, op).is_matrix_work();
            let Some(call) = call.filter(|call| is_short && calls.thread[*call] == thread) else {
                continue;
            };
            let issued = calls.start[call];
            let turns = loops
                .iter()
                .find(|of| of.time.0 <= issued && issued < of.time.1);
            if let Some(turns) = turns {
                sum += time - time / turns.waits;
            }
        }
        sum
    }

    /// The times of a window in which waits of a thread follow one another after few launches. A window can be a layer:
    /// several waits in each of them are a loop, too.
    fn loops(&self, thread: ThreadId, window: Interval) -> Vec<Loop> {
        let waits = &self.waits[thread.index()];
        let mut first = waits.partition_point(|wait| wait.start < window.0);
        let mut last = waits.partition_point(|wait| wait.start < window.1);
        let is_layer = (2..LOOP).contains(&(last - first));
        if is_layer {
            first = first.saturating_sub(1);
            last = waits.len().min(last + 1);
        }
        let waits = waits.get(first..last).unwrap_or_default();
        let few = |a: &Wait, b: &Wait| b.launches - a.launches < FEW_LAUNCHES;
        let loops = waits.chunk_by(few).filter(|chunk| chunk.len() >= LOOP);
        loops
            .filter_map(|chunk| {
                Some(Loop {
                    time: (chunk.first()?.start, chunk.last()?.end),
                    waits: if is_layer { 1 } else { chunk.len() as i64 },
                })
            })
            .collect()
    }

    /// The sums as results, the most time first.
    fn sources_of(&self, sums: Sums, issued: &BTreeMap<Activity, Ns>, recurs: Recurs) -> Sources {
        let windows = sums.by_window.len();
        let mut named = vec![Times::default(); windows];
        for (activity, by_window) in &sums.named {
            let occurs = by_window
                .iter()
                .filter(|times| times.total() > Ns::ZERO)
                .count();
            if *activity == Activity::Synchronization || recurs.holds(occurs, windows) {
                for (named, times) in named.iter_mut().zip(by_window) {
                    named.extend(times);
                }
            }
        }
        let mut activities = Vec::new();
        let mut by_key: Vec<(Key, Sum)> = sums.sources.into_iter().collect();
        by_key.sort_unstable_by_key(|(key, _)| *key);
        for of_activity in by_key.chunk_by(|(a, _), (b, _)| a.0 == b.0) {
            let activity = of_activity[0].0.0;
            let of_activity = of_activity.iter();
            let mut sources: Vec<IdleSource> = of_activity
                .map(|((_, cause, path), sum)| IdleSource {
                    cause: *cause,
                    subject: subject(self.session, &self.open, *path, activity),
                    path: self.open.sources(*path).collect(),
                    time: sum.time,
                    gaps: sum.gaps,
                    windows: sum.windows,
                })
                .collect();
            sources.arrange_by_key(|source| Reverse(source.time));
            let by_window = sums.by_window.iter();
            activities.push(ActivityIdle {
                activity,
                issued: issued.get(&activity).copied().unwrap_or_default(),
                gaps: sums.gaps[activity as usize].0,
                by_window: by_window.map(|times| times[activity as usize]).collect(),
                sources,
            });
        }
        activities.arrange_by_key(|idle| Reverse(idle.time()));
        Sources {
            windows,
            activities,
            waits: Vec::new(),
            sizes: 0,
            named,
        }
    }
}

impl Sources {
    /// Idle time of an activity; none if there is no such time.
    pub fn of(&self, activity: Activity) -> Option<&ActivityIdle> {
        self.activities
            .iter()
            .find(|idle| idle.activity == activity)
    }

    /// Idle time that an activity with a name explains.
    pub fn named(&self) -> Ns {
        let named = self
            .activities
            .iter()
            .filter(|idle| idle.activity.is_named());
        named.map(ActivityIdle::time).sum()
    }

    /// Whether most windows wait for results amid their operations.
    pub fn waits_for_results(&self) -> bool {
        let waiting = self.waits.iter().filter(|waits| **waits > 0).count();
        waiting > 0 && 2 * waiting >= self.windows
    }

    /// For tests: the time of a cause in each window, with no name that says more.
    pub(super) fn set(&mut self, cause: Cause, by_window: &[Ns]) {
        let activity = Activity::of_cause(cause);
        self.windows = by_window.len();
        self.named.resize(self.windows, Times::default());
        if activity.is_named() {
            for (named, time) in self.named.iter_mut().zip(by_window) {
                named.set(cause, *time);
            }
        }
        self.activities.retain(|idle| idle.activity != activity);
        self.activities.push(ActivityIdle {
            activity,
            issued: Ns::ZERO,
            gaps: by_window.len() as u64,
            by_window: by_window.to_vec(),
            sources: Vec::new(),
        });
    }

    /// Idle time of an activity in all windows.
    pub fn time(&self, activity: Activity) -> Ns {
        self.of(activity).map_or(Ns::ZERO, ActivityIdle::time)
    }
}

impl ActivityIdle {
    /// Idle time of all windows.
    pub fn time(&self) -> Ns {
        self.by_window.iter().copied().sum()
    }

    /// Windows in which it occurs.
    pub fn windows(&self) -> usize {
        self.by_window
            .iter()
            .filter(|time| **time > Ns::ZERO)
            .count()
    }
}

/// The names of ranges that are iterations of stages with GPU work.
fn stage_ranges(context: &Context<'_>) -> FxHashSet<StrId> {
    let instances = context.facts.instances.iter();
    let with_work = instances.filter(|instance| instance.projection.is_some());
    let ranges = with_work.filter_map(|instance| instance.range);
    ranges
        .map(|range| context.session.ranges.name[range.index()])
        .collect()
}

/// The operations that go with the activities that issue them. Of those that an operator of cuDNN issues, these are the ones
/// that it times to choose from: it waits for them before it returns.
fn issued(
    context: &Context<'_>,
    open: &Open,
    activities: &Activities,
    waits: &[Ascending<Wait>],
) -> Vec<Vec<(Interval, Activity)>> {
    let (session, ops) = (context.session, &context.facts.ops);
    let mut issued: Vec<Vec<(Interval, Activity)>> = vec![Vec::new(); session.gpus.len()];
    for op in 0..ops.len() {
        let Some(call) = ops.api_call[op] else {
            continue;
        };
        let calls = &session.api_calls;
        let (thread, start) = (calls.thread[call.index()], calls.start[call.index()]);
        let activity = activities.of(Cause::HostCode, open.at(thread, start));
        let is_timed = || {
            let waits = &waits[thread.index()];
            let next = waits.get(waits.partition_point(|wait| wait.start <= start));
            next.is_some_and(|wait| {
                let mut until = open.within(thread, (start, wait.start));
                until.all(|(_, path)| activities.of(Cause::HostCode, path) == activity)
            })
        };
        if activity.issues_work() && (activity != Activity::KernelPlans || is_timed()) {
            issued[ops.gpu[op].index()].push(((ops.start[op], ops.end[op]), activity));
        }
    }
    issued.iter_mut().for_each(|of_gpu| of_gpu.sort_unstable());
    issued
}

/// The waits of all threads for results of the GPU. After a copy to the GPU the host waits for nothing that it needs.
fn waits(context: &Context<'_>, calls: &Calls<'_>, open: &Open) -> Vec<Ascending<Wait>> {
    let (session, facts) = (context.session, context.facts);
    let mut waits: Vec<Vec<Wait>> = session.threads.ids().map(|_| Vec::new()).collect();
    let mut passes: Vec<PassId> = facts.ops.pass.clone();
    passes.dedup();
    for pass in passes {
        for sync in sync_calls(session, facts, pass) {
            let copy = calls.copy_before(sync.call);
            let copies = &session.copies;
            let kind = copy.map(|copy| copies.kind[copy.index()]);
            if kind == Some(CopyKind::HostToDevice) {
                continue;
            }
            let kernel = calls.kernel_before(sync.call);
            let counts = |kernel: KernelId| {
                let name = session.kernels.name[kernel.index()];
                session.text(name).contains(COUNTS)
            };
            let bytes = copy.map_or(0, |copy| copies.bytes[copy.index()]);
            waits[sync.thread.index()].push(Wait {
                start: sync.start,
                end: sync.end,
                launches: calls.launches_before(sync.call),
                path: open.at(sync.thread, sync.start),
                data: Bytes(bytes as f64),
                has_size: kernel.is_some_and(counts),
            });
        }
    }
    let starts = |waits: &Vec<Wait>| waits.iter().map(|wait| wait.start).collect();
    let by_start = waits.into_iter().map(|waits| (starts(&waits), waits));
    by_start.map(Ascending::new).collect()
}
