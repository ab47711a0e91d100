//! Idle time of a stage: one line a stage, process and GPU.

use rooflens_schemas::{Evidence, Scope};

use super::Inputs;
use super::between::is_once;
use super::cause::{Cause, Times, Traced};
use super::gaps::Gap;
use super::histogram::Histogram;
use super::host;
use super::launches::Launches;
use super::longest::LongGap;
use super::samples::Sampled;
use super::sources::{Sources, Window};
use crate::engine::baseline::profiled;
use crate::engine::facts::{Facts, OpIndex, StageInstance};
use crate::engine::intervals::{Interval, add, measure, total};
use crate::engine::stage_stats::{Summary, median_time};
use crate::engine::sweep::{append, slices};
use crate::engine::tiers::tier;
use crate::{Context, Known};
use rooflens_session::{GpuId, Ns, PassId, Session, StrId};
use rooflens_stats::median;
use rooflens_units::{Count, Ratio, Time};

/// Share of an instance from which on a cause of idle time occurs in it.
pub const OCCURS: Ratio = Ratio(0.01);

/// Time up to which a gap between two operations is that which a stream needs from one to the next.
const ORDINARY: Ns = Ns(10_000);

/// Parts of a capture without iterations, if each has as many operations: what recurs is in most of them, what starts the
/// program in few.
const PARTS: usize = 10;

/// Idle time of a stage on one GPU, over the instances that count.
pub struct StageIdle {
    /// The stage as a process ran it.
    pub summary: Summary,
    /// Profiled time of an iteration: the whole of its idle times.
    pub time: Time,
    /// GPU.
    pub gpu: GpuId,
    /// The process uses several GPUs in the stage.
    several_gpus: bool,
    traced: Traced,
    /// What the time of each instance that counts and uses the GPU consists of.
    pub instances: Vec<Parts>,
    /// The sum over these instances.
    pub pool: Parts,
    /// The instance whose shares of causes are nearest to the medians, by its number among those that count,
    /// and among `instances`.
    nearest: (usize, usize),
    /// Gaps of all instances, in the order of [`Cause::ALL`].
    pub gaps: [CauseGaps; Cause::ALL.len()],
    /// The part of `launching` of all instances within CUDA calls.
    pub launching_in_calls: Ns,
    /// What launching costs.
    pub launches: Launches,
    /// Gaps of all instances by length.
    pub histogram: Histogram,
    /// Gaps of all instances before operations that were in the queue, as long as streams need from one to the next.
    ordinary_gaps: u64,
    /// Their time.
    ordinary_time: Ns,
    /// The longest gaps of all instances by length, the longest first; none of a part of another stage.
    pub longest: Vec<LongGap>,
    /// What the issuing threads ran while the GPU waited for them, by CPU samples, the most first.
    pub sampled: Vec<Sampled>,
    /// Idle time of the cause `operating system` by call, the most first.
    pub os_calls: Vec<(StrId, Ns)>,
    /// What the host did in the idle time.
    pub sources: Sources,
}

/// What the time of an instance consists of on one GPU: the parts add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The projection.
    pub time: Ns,
    /// Busy time by [`Tier`]: each moment belongs to the first that runs.
    pub busy: [Ns; 3],
    /// Idle time by cause.
    pub causes: Times,
    /// The part of it that an activity with a name explains.
    pub named: Times,
    /// The part of it from the return of a late call to the start of its work.
    pub latency: Ns,
    /// Time in which no launch was in the queue, whatever the GPU did: no part of the sum.
    queue_empty: Ns,
    /// The host's own work on it, without waits: no part of the sum.
    pub(super) host: Ns,
    /// Whether launch calls load kernels in it: names alone do not tell `first use` then.
    pub loads: bool,
}

/// How a cause of idle time spreads over the instances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Instances in which it occurs: [`OCCURS`].
    pub instances: usize,
    /// All instances.
    pub of: usize,
    /// Its least share of an instance.
    pub least: Ratio,
    /// Its greatest share of an instance.
    pub most: Ratio,
}

/// Gaps with time of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseGaps {
    /// Number.
    pub gaps: u64,
    /// The longest time of the cause in a gap.
    pub longest: Ns,
}

/// The lines of a summary, one a GPU that the process uses in the stage.
pub(super) fn lines(
    context: &Context<'_>,
    inputs: &Inputs<'_>,
    summary: &Summary,
) -> Vec<StageIdle> {
    let counted: Vec<&StageInstance> = summary.counted_instances(context.facts).collect();
    let gpus = gpus_of(&counted);
    let several_gpus = gpus.len() > 1;
    let traced = inputs.traced(summary.stage(context.facts).pass);
    let line = |gpu: GpuId| {
        let time = profiled(context, summary).time;
        let mut line = StageIdle::new(summary.clone(), time, gpu, several_gpus, traced);
        let queue = inputs.queues.of(summary.process, gpu);
        let mut numbers = Vec::new();
        for (number, instance) in counted.iter().enumerate() {
            if let Some(window) = line.window(instance) {
                let mut parts = line.add(context, inputs, instance, window);
                parts.queue_empty = queue.map_or(Ns::ZERO, |queue| measure(&queue.empty(window)));
                line.pool.add(&parts);
                line.instances.push(parts);
                numbers.push(number);
            }
        }
        line.nearest = line
            .find_nearest()
            .map_or((0, 0), |index| (numbers[index], index));
        line.launches.close(context, summary, line.instances.len());
        line
    };
    gpus.into_iter().map(line).collect()
}

/// A time cut into parts with equally many operations of an instance.
fn parts(starts: &[Ns], instance: &StageInstance, time: Interval) -> Vec<Window> {
    let mut cuts = vec![time.0];
    for part in 1..PARTS {
        let op = instance.ops[part * instance.ops.len() / PARTS];
        let last = cuts.last().copied().unwrap_or(time.0);
        cuts.push(starts[op as usize].clamp(last, time.1));
    }
    cuts.push(time.1);
    let thread = None;
    let window = |cut: &[Ns]| Window {
        time: (cut[0], cut[1]),
        thread,
    };
    cuts.windows(2).map(window).collect()
}

/// The GPUs that instances use.
pub(super) fn gpus_of(instances: &[&StageInstance]) -> Vec<GpuId> {
    let mut gpus: Vec<GpuId> = instances
        .iter()
        .flat_map(|instance| instance.gpus.iter().copied())
        .collect();
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}

impl StageIdle {
    fn new(summary: Summary, time: Time, gpu: GpuId, several_gpus: bool, traced: Traced) -> Self {
        Self {
            summary,
            time,
            gpu,
            several_gpus,
            traced,
            instances: Vec::new(),
            pool: Parts::default(),
            nearest: (0, 0),
            gaps: [CauseGaps::default(); Cause::ALL.len()],
            launching_in_calls: Ns::ZERO,
            launches: Launches::default(),
            histogram: Histogram::default(),
            ordinary_gaps: 0,
            ordinary_time: Ns::ZERO,
            longest: Vec::new(),
            sampled: Vec::new(),
            os_calls: Vec::new(),
            sources: Sources::default(),
        }
    }

    /// The projection of an instance that uses the GPU.
    pub(super) fn window(&self, instance: &StageInstance) -> Option<Interval> {
        instance
            .projection
            .filter(|_| instance.gpus.contains(&self.gpu))
    }

    /// The instances that count and use the GPU, each with its thread; of a capture without iterations its parts.
    pub(super) fn windows(&self, context: &Context<'_>) -> Vec<Window> {
        let mut windows = Vec::new();
        for instance in self.summary.counted_instances(context.facts) {
            let Some(time) = self.window(instance) else {
                continue;
            };
            let thread = instance.thread;
            match self.is_whole(context) && instance.ops.len() >= PARTS * PARTS {
                true => windows.extend(parts(&context.facts.ops.start, instance, time)),
                false => windows.push(Window { time, thread }),
            }
        }
        windows
    }

    /// Whether it is a capture without iterations: its windows are parts with equally many operations.
    pub fn is_whole(&self, context: &Context<'_>) -> bool {
        let stage = self.summary.stage(context.facts);
        match context.facts.instances_of(stage) {
            [instance] => instance.range.is_none() && instance.thread.is_none(),
            _ => false,
        }
    }

    /// Sets what the host did in the idle time.
    pub(super) fn explain(&mut self, sources: Sources) {
        // Windows are instances, or parts of the only one.
        let last = self.instances.len().saturating_sub(1);
        for (window, named) in sources.named.iter().enumerate() {
            if let Some(parts) = self.instances.get_mut(window.min(last)) {
                parts.named.extend(named);
            }
            self.pool.named.extend(named);
        }
        self.sources = sources;
    }

    /// Adds an instance to the sums; returns what its time consists of.
    fn add(
        &mut self,
        context: &Context<'_>,
        inputs: &Inputs<'_>,
        instance: &StageInstance,
        window: Interval,
    ) -> Parts {
        let ops = &context.facts.ops;
        let on_gpu = |op: &&OpIndex| ops.gpu[**op as usize] == self.gpu;
        let gpu_ops: Vec<OpIndex> = instance.ops.iter().filter(on_gpu).copied().collect();
        let (busy, intervals) = busy(context.session, context.facts, &gpu_ops);
        let time = window.1 - window.0;
        let loads = inputs.calls.load(self.pass(context), window);
        let mut parts = Parts {
            time,
            busy,
            loads,
            ..Parts::default()
        };
        let mut other_work = time - measure(&intervals);
        for gap in inputs.gaps.within(self.gpu, window) {
            other_work -= gap.end - gap.start;
            parts.causes.extend(&gap.times);
            gap.times
                .causes()
                .for_each(|(cause, time)| self.gaps[cause as usize].add(time));
            add(&mut self.launching_in_calls, gap.launching_in_calls);
            self.histogram.add(&gap);
            let in_queue = gap.times.of(Cause::Queue);
            if in_queue == gap.end - gap.start && in_queue <= ORDINARY {
                self.ordinary_gaps += 1;
                add(&mut self.ordinary_time, in_queue);
            }
            if gap.times.sum(&Cause::HOST) > Ns::ZERO {
                add(&mut parts.latency, in_queue);
            }
        }
        // What is neither the stage's nor a gap: operations of others.
        if other_work > Ns::ZERO {
            parts.causes.add(Cause::OtherWork, other_work);
            self.gaps[Cause::OtherWork as usize].add(other_work);
        }
        let host = host::work(&inputs.calls, ops, &instance.ops);
        parts.host = host.least;
        self.launches
            .add(context, &inputs.calls, &gpu_ops, &intervals, host.in_order);
        parts
    }

    /// The instance whose shares of causes are nearest to the medians: what few instances have draws it nowhere. Of equally
    /// near ones that of median time, the shorter of two.
    fn find_nearest(&self) -> Option<usize> {
        let times = self.instances.iter().map(|instance| instance.time);
        let time = median_time(times).unwrap_or_default();
        let share = |parts: &Parts, cause| parts.share(parts.causes.of(cause));
        let medians = Cause::ALL.map(|cause| {
            let instances = self.instances.iter();
            let shares: Vec<f64> = instances.map(|parts| share(parts, cause).0).collect();
            Ratio(median(&shares).unwrap_or(0.0))
        });
        let key = |parts: &Parts| {
            let apart = Cause::ALL.into_iter().zip(medians);
            let apart = apart.map(|(cause, median)| (share(parts, cause) - median).abs());
            // Sums of the same shares may differ in the last digit.
            let apart = (apart.sum::<Ratio>().0 * 1e9).round();
            (apart, (parts.time.time() - time).abs(), parts.time)
        };
        let keys = self.instances.iter().map(key).enumerate();
        let nearest = keys.min_by(|(_, a), (_, b)| {
            a.0.total_cmp(&b.0)
                .then(a.1.total_cmp(&b.1))
                .then(a.2.cmp(&b.2))
        });
        nearest.map(|(at, _)| at)
    }

    /// The time of an instance without a part of it: the median, or the mean where the time with it is one.
    pub fn without(&self, part: impl Fn(&Parts) -> Ns) -> Time {
        let instances = self.instances.iter();
        let times = instances.map(|parts| parts.time - part(parts));
        match self.time == self.summary.time {
            true => median_time(times).unwrap_or_default(),
            false => times.sum::<Ns>().time() / self.instances.len().max(1) as f64,
        }
    }

    /// Busy time of all instances.
    pub fn busy(&self) -> Ns {
        total(self.pool.busy.into_iter())
    }

    /// Idle time of a cause in all instances.
    pub const fn of(&self, cause: Cause) -> Ns {
        self.pool.causes.of(cause)
    }

    /// Idle time of a cause by its share of all instances, of the stage time.
    ///
    /// # Errors
    /// If the artifact does not tell it from others.
    pub fn of_stage(&self, cause: Cause) -> Known<Time> {
        self.traced
            .tells(cause)
            .map(|()| self.scaled(self.of(cause)))
    }

    /// The same without what an activity with a name explains, and, of what most iterations have, what one has more.
    ///
    /// # Errors
    /// If the artifact does not tell it from others.
    pub fn rest_of_stage(&self, cause: Cause) -> Known<Time> {
        self.traced
            .tells(cause)
            .map(|()| self.scaled(self.steady_rest(cause)))
    }

    fn steady_rest(&self, cause: Cause) -> Ns {
        let rest = self.pool.rest(&[cause]);
        let instances = self.instances.iter();
        let times: Vec<Ns> = instances.map(|parts| parts.rest(&[cause])).collect();
        if self.rest_spread(&[cause]).is_rare() || !is_once(&times) {
            return rest;
        }
        let longest = times.iter().copied().max().unwrap_or_default();
        let typical = median_time(times.into_iter()).unwrap_or_default().round();
        (rest - (longest - typical)).max(Ns::ZERO)
    }

    /// What streams need between the operations of an iteration, if the host issues all of them in time.
    pub fn least_idle(&self) -> Time {
        let gaps: u64 = self.histogram.used().map(|(.., bin)| bin.gaps).sum();
        let each = self.ordinary_time.time() / self.ordinary_gaps.max(1) as f64;
        each * gaps as f64 / self.instances.len().max(1) as f64
    }

    /// What all instances take beyond the host's own work and the GPU's: the most that goes without waits.
    pub fn waits(&self) -> Ns {
        self.beyond(|parts| total(parts.busy.into_iter()).max(parts.host))
    }

    /// What all instances take beyond the host's own work: the most that goes with shorter work of the GPU.
    pub fn beyond_host(&self) -> Ns {
        self.beyond(|parts| parts.host)
    }

    fn beyond(&self, least: impl Fn(&Parts) -> Ns) -> Ns {
        let beyond = |parts: &Parts| (parts.time - least(parts)).max(Ns::ZERO);
        self.instances.iter().map(beyond).sum()
    }

    /// What streams need between operations that the host has issued in time, as ordinary gaps before such operations.
    pub fn ordinary_queue(&self) -> Time {
        let gaps = self.gaps[Cause::Queue as usize].gaps as f64;
        let longest = ORDINARY.time() * gaps;
        self.scaled(self.of(Cause::Queue).min(longest.round()))
    }

    /// Idle time of a cause in an instance, median over all.
    ///
    /// # Errors
    /// If the artifact does not tell it from others.
    pub fn median_of(&self, cause: Cause) -> Known<Time> {
        self.traced.tells(cause)?;
        let instances = self.instances.iter();
        let times = instances.map(|instance| instance.causes.of(cause));
        Ok(median_time(times).unwrap_or_default())
    }

    /// Idle time of a cause in an instance that no activity with a name explains, median over all.
    ///
    /// # Errors
    /// If the artifact does not tell it from others.
    pub fn median_rest_of(&self, cause: Cause) -> Known<Time> {
        self.traced.tells(cause)?;
        let instances = self.instances.iter();
        let times = instances.map(|instance| instance.rest(&[cause]));
        Ok(median_time(times).unwrap_or_default())
    }

    /// How the time of some causes spreads over the instances.
    pub fn spread(&self, causes: &[Cause]) -> Spread {
        self.spread_of(|instance| instance.causes.sum(causes))
    }

    /// How the time of some causes that no activity with a name explains spreads over the instances.
    pub fn rest_spread(&self, causes: &[Cause]) -> Spread {
        self.spread_of(|instance| instance.rest(causes))
    }

    fn spread_of(&self, time: impl Fn(&Parts) -> Ns) -> Spread {
        let shares = || {
            let instances = self.instances.iter();
            instances.map(|instance| instance.share(time(instance)))
        };
        Spread {
            instances: shares().filter(|share| *share >= OCCURS).count(),
            of: self.instances.len(),
            least: shares().reduce(Ratio::min).unwrap_or_default(),
            most: shares().fold(Ratio::ZERO, Ratio::max),
        }
    }

    /// The causes that the artifact tells, with their idle time of the stage time.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, Time)> {
        Cause::ALL
            .into_iter()
            .filter_map(|cause| Some((cause, self.of_stage(cause).ok()?)))
    }

    /// Whether the artifact holds the CUDA calls that issue work.
    ///
    /// # Errors
    /// If it does not.
    pub const fn has_calls(&self) -> Known<()> {
        self.traced.calls()
    }

    /// Gaps with time of a cause, per instance.
    pub fn gaps_per_instance(&self, cause: Cause) -> Count {
        Count(self.gaps[cause as usize].gaps as f64 / self.instances.len().max(1) as f64)
    }

    /// Idle time of all instances: in work of other stages the GPU is not idle.
    pub fn idle(&self) -> Ns {
        self.pool.causes.total() - self.of(Cause::OtherWork)
    }

    /// A time of all instances as a share of theirs.
    pub fn share(&self, time: Ns) -> Ratio {
        self.pool.share(time)
    }

    /// The share of the time of all instances in which the GPU runs other stages or iterations, from [`OCCURS`] on: where
    /// it is far behind the host.
    pub fn other_work(&self) -> Ratio {
        let share = self.share(self.of(Cause::OtherWork));
        if share >= OCCURS { share } else { Ratio::ZERO }
    }

    /// The share of the time of all instances in which the queue is empty; none without launch calls.
    pub fn queue_empty_share(&self) -> Option<Ratio> {
        (self.launches.calls > 0).then(|| self.share(self.pool.queue_empty))
    }

    /// A time of all instances, by its share of their time, of the stage time.
    pub fn scaled(&self, time: Ns) -> Time {
        self.time * self.share(time)
    }

    /// The instance whose shares of causes are nearest to the medians.
    pub fn nearest<'a>(&self, facts: &'a Facts) -> Option<&'a StageInstance> {
        self.summary.counted_instances(facts).nth(self.nearest.0)
    }

    /// What the time of that instance consists of.
    pub fn nearest_parts(&self) -> Option<&Parts> {
        self.instances.get(self.nearest.1)
    }

    /// The pass.
    pub fn pass(&self, context: &Context<'_>) -> PassId {
        self.summary.stage(context.facts).pass
    }

    /// What its figures rest on.
    pub fn evidence(&self, context: &Context<'_>) -> Evidence {
        let tables = "launches, copies, api_calls, os_calls, off_cpu, overheads";
        let gaps = self.gaps.iter().map(|sum| sum.gaps).sum();
        context.session.evidence(self.pass(context), tables, gaps)
    }

    /// What metrics of this line are about.
    pub fn scope(&self, context: &Context<'_>) -> Scope {
        let gpu = context.session.gpus.ordinal[self.gpu.index()];
        let gpu = self.several_gpus.then_some(gpu);
        Scope {
            gpu,
            ..self.summary.scope(context.session, context.facts)
        }
    }

    /// The stage's name, with rank and GPU where there are several.
    pub fn label(&self, context: &Context<'_>) -> String {
        let label = self.summary.label(context.session, context.facts);
        match self.scope(context).gpu {
            Some(gpu) => format!("{label} · GPU {gpu}"),
            None => label,
        }
    }
}

impl StageIdle {
    /// Ten instances of a stage of the first process, each of this time; the artifact tells all causes.
    pub fn made(stage: usize, time: Time) -> Self {
        let summary = Summary {
            stage,
            time,
            ..Summary::default()
        };
        let mut line = Self::new(summary, time, GpuId(0), false, Traced::ALL);
        line.instances = vec![
            Parts {
                time: Ns(time.0 as i64),
                ..Parts::default()
            };
            10
        ];
        line.pool.time = Ns((10.0 * time).0 as i64);
        line
    }

    /// One more gap of a cause in the histogram.
    pub fn add_gap(&mut self, cause: Cause, length: Ns) {
        let times = Times::one(cause, length);
        let gap = Gap {
            start: Ns::ZERO,
            end: length,
            op: 0,
            times,
            launching_in_calls: Ns::ZERO,
        };
        self.histogram.add(&gap);
    }

    /// Sets the idle time of a cause in each instance.
    pub fn set(&mut self, cause: Cause, time: Time) {
        self.set_each(cause, &vec![time; self.instances.len()]);
    }

    /// Sets the host's own work on each instance.
    pub fn set_host(&mut self, time: Time) {
        for parts in &mut self.instances {
            parts.host = time.round();
        }
    }

    /// Sets the idle time of a cause by instance.
    pub fn set_each(&mut self, cause: Cause, times: &[Time]) {
        let time = self.pool.time / self.instances.len().max(1) as i64;
        self.instances.resize(
            times.len(),
            Parts {
                time,
                ..Parts::default()
            },
        );
        self.pool.time = time * times.len() as i64;
        for (parts, own) in self.instances.iter_mut().zip(times) {
            parts.causes.set(cause, own.round());
        }
        let sum: Time = times.iter().sum();
        self.pool.causes.set(cause, sum.round());
        let times: Vec<Ns> = times.iter().map(|time| time.round()).collect();
        let mut sources = std::mem::take(&mut self.sources);
        sources.set(cause, &times);
        self.pool.named = Times::default();
        for parts in &mut self.instances {
            parts.named = Times::default();
        }
        self.explain(sources);
    }
}

impl Spread {
    /// Whether it occurs in fewer than half of the instances.
    pub const fn is_rare(&self) -> bool {
        2 * self.instances < self.of
    }
}

impl Parts {
    fn add(&mut self, other: &Self) {
        add(&mut self.time, other.time);
        add(&mut self.queue_empty, other.queue_empty);
        add(&mut self.host, other.host);
        add(&mut self.latency, other.latency);
        self.busy
            .iter_mut()
            .zip(other.busy)
            .for_each(|(sum, time)| add(sum, time));
        self.causes.extend(&other.causes);
    }

    /// Idle time of some causes that no activity with a name explains.
    pub fn rest(&self, causes: &[Cause]) -> Ns {
        self.causes.sum(causes) - self.named.sum(causes).min(self.causes.sum(causes))
    }

    pub(super) fn share(&self, time: Ns) -> Ratio {
        if self.time > Ns::ZERO {
            Ratio::of(time, self.time)
        } else {
            Ratio::ZERO
        }
    }
}

impl CauseGaps {
    fn add(&mut self, time: Ns) {
        self.gaps += 1;
        self.longest = self.longest.max(time);
    }
}

/// Busy time of operations by tier, and its intervals.
fn busy(session: &Session, facts: &Facts, own: &[OpIndex]) -> ([Ns; 3], Vec<Interval>) {
    let op = |op: &OpIndex| {
        let row = *op as usize;
        (
            (facts.ops.start[row], facts.ops.end[row]),
            tier(session, facts, row) as usize,
        )
    };
    let (mut parts, mut busy) = ([Ns::ZERO; 3], Vec::new());
    for slice in slices::<3>(own.iter().map(op)) {
        parts[slice.first()] += slice.end - slice.start;
        append(&mut busy, (slice.start, slice.end));
    }
    (parts, busy)
}
