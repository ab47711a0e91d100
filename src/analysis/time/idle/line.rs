//! Idle time of a stage: one line a stage, process and GPU.

use rooflens_schemas::{Evidence, Scope};

use super::Inputs;
use super::cause::{Cause, Traced};
use super::histogram::Histogram;
use super::launches::Launches;
use super::longest::LongGap;
use crate::engine::facts::{Facts, OpIndex, StageInstance};
use crate::engine::intervals::{Interval, add, measure, total};
use crate::engine::stage_stats::{Summary, middle};
use crate::engine::sweep::{append, slices};
use crate::engine::tiers::{Tier, tier};
use crate::{Context, Known};
use rooflens_model::{GpuId, Ns, PassId, Session};

/// Idle time of a stage on one GPU, over the instances that count.
pub struct Line {
    /// The stage as a process ran it.
    pub summary: Summary,
    /// GPU.
    pub gpu: GpuId,
    /// The process uses several GPUs in the stage.
    several_gpus: bool,
    traced: Traced,
    /// Instances that count and use the GPU.
    pub instances: u64,
    /// Idle time of all of them by cause, in the order of [`Cause::ALL`].
    pub sums: [CauseSum; Cause::ALL.len()],
    /// What the stage time consists of: sums over the instance of median stage time, or over the two of
    /// which the median is the mean.
    pub middle: Parts,
    /// These instances, by their number among those that count.
    pub middle_instances: Vec<usize>,
    /// Where the time of `launching` gaps of all instances goes.
    pub issuing: Issuing,
    /// What launching costs.
    pub launches: Launches,
    /// Gaps of all instances by length.
    pub histogram: Histogram,
    /// The longest gaps of all instances by length, the longest first; none of a part of another stage.
    pub longest: Vec<LongGap>,
}

/// What the time of an instance consists of on one GPU, nanoseconds: the parts add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The projection.
    pub time: Ns,
    /// Busy time by [`Tier`]: each moment belongs to the first that runs.
    pub busy: [Ns; 3],
    /// Idle time by cause, in the order of [`Cause::ALL`].
    causes: [Ns; Cause::ALL.len()],
    /// Time in which no launch was in the queue, whatever the GPU did: no part of the sum.
    queue_empty: Ns,
}

/// Gaps of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseSum {
    /// Number.
    pub gaps: u64,
    /// Time, nanoseconds.
    pub time: Ns,
    /// The longest, nanoseconds.
    pub longest: Ns,
}

/// Time of `launching` gaps, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issuing {
    /// In CUDA calls.
    pub calls: Ns,
    /// Between them.
    pub between: Ns,
    /// From the return of the issuing call to the start of its operation.
    pub latency: Ns,
}

/// The lines of a summary, one a GPU that the process uses in the stage.
pub(super) fn lines(context: &Context<'_>, inputs: &Inputs<'_>, summary: &Summary) -> Vec<Line> {
    let counted: Vec<&StageInstance> = summary.counted_instances(context.facts).collect();
    let gpus = gpus_of(&counted);
    let several_gpus = gpus.len() > 1;
    let traced = inputs.traced(summary.stage(context.facts).pass);
    let line = |gpu: GpuId| {
        let mut line = Line::new(summary.clone(), gpu, several_gpus, traced);
        let queue = inputs.queues.of(summary.process, gpu);
        let mut all = Vec::new();
        for (number, instance) in counted.iter().enumerate() {
            if let Some(window) = line.window(instance) {
                let mut parts = line.add(context, inputs, instance, window);
                parts.queue_empty = queue.map_or(0, |queue| measure(&queue.empty(window)));
                all.push((parts, number));
            }
        }
        // The instance of median time, or both middle ones of an even number.
        for (parts, number) in middle(all, |(parts, number)| (parts.time, *number)) {
            line.middle.add(&parts);
            line.middle_instances.push(number);
        }
        line.launches.close(context, summary, line.instances);
        line
    };
    gpus.into_iter().map(line).collect()
}

/// The GPUs that instances use.
pub(super) fn gpus_of(instances: &[&StageInstance]) -> Vec<GpuId> {
    let mut gpus: Vec<GpuId> = instances.iter().flat_map(|one| one.gpus.iter().copied()).collect();
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}

impl Line {
    fn new(summary: Summary, gpu: GpuId, several_gpus: bool, traced: Traced) -> Self {
        Self {
            summary,
            gpu,
            several_gpus,
            traced,
            instances: 0,
            sums: [CauseSum::default(); Cause::ALL.len()],
            middle: Parts::default(),
            middle_instances: Vec::new(),
            issuing: Issuing::default(),
            launches: Launches::default(),
            histogram: Histogram::default(),
            longest: Vec::new(),
        }
    }

    /// The projection of an instance that uses the GPU.
    pub(super) fn window(&self, instance: &StageInstance) -> Option<Interval> {
        instance.projection.filter(|_| instance.gpus.contains(&self.gpu))
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
        let own = |op: &&OpIndex| ops.gpu[**op as usize] == self.gpu;
        let own: Vec<OpIndex> = instance.ops.iter().filter(own).copied().collect();
        let (busy, intervals) = busy(context.session, context.facts, &own);
        let time = window.1 - window.0;
        let mut parts = Parts { time, busy, ..Parts::default() };
        let mut others = time - measure(&intervals);
        for (gap, time) in inputs.gaps.within(self.gpu, window) {
            others -= time;
            parts.causes[gap.cause as usize] += time;
            self.sums[gap.cause as usize].add(time);
            self.histogram.add(gap.cause, time);
            let call = ops.api_call[gap.op as usize].filter(|_| gap.cause == Cause::Launching);
            if let Some(call) = call {
                let latency = (gap.end - inputs.calls.span(call).1).max(0);
                add(&mut self.issuing.calls, gap.calls);
                add(&mut self.issuing.between, gap.end - gap.start - latency - gap.calls);
                add(&mut self.issuing.latency, latency);
            }
        }
        // What is neither the stage's nor a gap: operations of others.
        if others > 0 {
            parts.causes[Cause::OtherWork as usize] += others;
            self.sums[Cause::OtherWork as usize].add(others);
        }
        self.launches.add(context, &inputs.calls, &own, &intervals);
        self.instances += 1;
        parts
    }

    /// Busy time of a tier in the middle instances, nanoseconds: none of a tier before it runs.
    pub const fn busy_of(&self, tier: Tier) -> Ns {
        self.middle.busy[tier as usize]
    }

    /// Busy time of the middle instances, nanoseconds.
    pub fn busy(&self) -> Ns {
        total(self.middle.busy.into_iter())
    }

    /// Idle time of a cause in the middle instances, nanoseconds.
    pub fn of(&self, cause: Cause) -> Ns {
        self.middle.causes[cause as usize]
    }

    /// Idle time of a cause in the instance of median stage time, nanoseconds.
    ///
    /// # Errors
    /// If the artifact does not tell it from others.
    pub fn typical(&self, cause: Cause) -> Known<f64> {
        self.traced.tells(cause).map(|()| self.per_instance(self.of(cause)))
    }

    /// The causes that the artifact tells, with their idle time in the instance of median stage time, nanoseconds.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, f64)> {
        Cause::ALL.into_iter().filter_map(|cause| Some((cause, self.typical(cause).ok()?)))
    }

    /// Whether the artifact holds the CUDA calls that issue work.
    ///
    /// # Errors
    /// If it does not.
    pub const fn has_calls(&self) -> Known<()> {
        self.traced.calls()
    }

    /// Idle time of the middle instances, nanoseconds.
    pub fn idle(&self) -> Ns {
        total(self.middle.causes.iter().copied())
    }

    /// Idle time of all instances, nanoseconds.
    pub fn idle_total(&self) -> Ns {
        total(self.sums.iter().map(|sum| sum.time))
    }

    /// A time of the middle instances as a share of theirs.
    pub fn share(&self, time: Ns) -> f64 {
        if self.middle.time > 0 { time as f64 / self.middle.time as f64 } else { 0.0 }
    }

    /// The share of the time of the middle instances in which the queue is empty; none without launch calls.
    pub fn queue_empty_share(&self) -> Option<f64> {
        (self.launches.calls > 0).then(|| self.share(self.middle.queue_empty))
    }

    /// A time of the middle instances, per instance, nanoseconds.
    pub fn per_instance(&self, time: Ns) -> f64 {
        time as f64 / self.middle_instances.len().max(1) as f64
    }

    /// The pass.
    pub fn pass(&self, context: &Context<'_>) -> PassId {
        self.summary.stage(context.facts).pass
    }

    /// What its figures rest on.
    pub fn evidence(&self, context: &Context<'_>) -> Evidence {
        let tables = "launches, copies, api_calls, os_calls, off_cpu, overheads";
        let gaps = self.sums.iter().map(|sum| sum.gaps).sum();
        context.session.evidence(self.pass(context), tables, gaps)
    }

    /// What metrics of this line are about.
    pub fn scope(&self, context: &Context<'_>) -> Scope {
        let gpu = context.session.gpus.ordinal[self.gpu.index()];
        let gpu = self.several_gpus.then_some(gpu);
        Scope { gpu, ..self.summary.scope(context.session, context.facts) }
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

impl Line {
    /// Ten instances of a stage of the first process, each of `time` ns; the artifact tells all causes.
    pub fn made(stage: usize, time: f64) -> Self {
        let summary = Summary { stage, time, ..Summary::default() };
        let mut line = Self::new(summary, GpuId(0), false, Traced::ALL);
        line.middle_instances = (0..10).collect();
        line.middle.time = (10.0 * time) as Ns;
        line
    }

    /// Idle time of a cause in each instance, nanoseconds.
    pub fn set(&mut self, cause: Cause, time: f64) {
        self.middle.causes[cause as usize] = (10.0 * time).round() as Ns;
    }
}

impl Parts {
    fn add(&mut self, other: &Self) {
        add(&mut self.time, other.time);
        add(&mut self.queue_empty, other.queue_empty);
        let sums = self.busy.iter_mut().chain(&mut self.causes);
        sums.zip(other.busy.into_iter().chain(other.causes)).for_each(|(sum, time)| add(sum, time));
    }
}

impl CauseSum {
    fn add(&mut self, time: Ns) {
        self.gaps += 1;
        add(&mut self.time, time);
        self.longest = self.longest.max(time);
    }
}

/// Busy time of operations by tier, and its intervals.
fn busy(session: &Session, facts: &Facts, own: &[OpIndex]) -> ([Ns; 3], Vec<Interval>) {
    let op = |op: &OpIndex| {
        let row = *op as usize;
        ((facts.ops.start[row], facts.ops.end[row]), tier(session, facts, row) as usize)
    };
    let (mut parts, mut busy) = ([0; 3], Vec::new());
    for slice in slices::<3>(own.iter().map(op)) {
        parts[slice.first()] += slice.end - slice.start;
        append(&mut busy, (slice.start, slice.end));
    }
    (parts, busy)
}
