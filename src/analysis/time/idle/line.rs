//! Idle time of a stage: one line a stage, process and GPU.

use rooflens_schemas::Scope;

use super::Sweeps;
use super::cause::Cause;
use super::launches::Launches;
use crate::analysis::Context;
use crate::analysis::engine::facts::{OpIndex, StageInstance};
use crate::analysis::engine::intervals::{Interval, difference, measure, union};
use crate::analysis::engine::stage_stats::{Summary, counted, middle};
use crate::analysis::engine::tiers::{Tier, tier};
use crate::model::{GpuId, Ns};

/// Idle time of a stage on one GPU, over the instances that count.
pub(crate) struct Line {
    pub(crate) summary: Summary,
    pub(crate) gpu: GpuId,
    /// The process uses several GPUs in the stage.
    several_gpus: bool,
    /// Instances that count and use the GPU.
    pub(super) instances: u64,
    /// Idle time of all of them by cause, in the order of [`Cause::ALL`].
    pub(super) sums: [CauseSum; Cause::ALL.len()],
    /// What the stage time consists of: sums over the instance of median stage time, or over the two of
    /// which the median is the mean.
    pub(crate) middle: Parts,
    /// These instances.
    pub(crate) middle_instances: Vec<usize>,
    /// Where the time of `launching` gaps of all instances goes.
    pub(super) issuing: Issuing,
    pub(super) launches: Launches,
}

/// What the time of an instance consists of on one GPU, nanoseconds: the parts add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The projection.
    pub(crate) time: Ns,
    pub(crate) busy: BusyParts,
    /// Idle time by cause, in the order of [`Cause::ALL`].
    causes: [Ns; Cause::ALL.len()],
    /// Time in which no launch was in the queue, whatever the GPU did: no part of the sum.
    queue_empty: Ns,
}

/// Disjoint parts of busy time, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BusyParts {
    pub(crate) computing: Ns,
    pub(crate) communication: Ns,
    pub(crate) copies: Ns,
}

/// Gaps of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CauseSum {
    pub(super) gaps: u64,
    pub(super) time: Ns,
    pub(super) longest: Ns,
}

/// Time of `launching` gaps, nanoseconds: in CUDA calls, between them, and from the return of the issuing
/// call to the start of its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Issuing {
    pub(super) calls: Ns,
    pub(super) between: Ns,
    pub(super) latency: Ns,
}

/// The lines of a summary, one a GPU that the process uses in the stage.
pub(super) fn lines(context: &Context<'_>, sweeps: &Sweeps<'_>, summary: &Summary) -> Vec<Line> {
    let counted: Vec<&StageInstance> = counted(context.facts, summary).collect();
    let mut gpus: Vec<GpuId> =
        counted.iter().flat_map(|instance| instance.gpus.iter().copied()).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let several_gpus = gpus.len() > 1;
    let line = |gpu: GpuId| {
        let mut line = Line::new(summary.clone(), gpu, several_gpus);
        let queue = sweeps.queues.of(summary.process, gpu);
        let mut all = Vec::new();
        for (number, instance) in counted.iter().enumerate() {
            if let Some(window) = instance.projection.filter(|_| instance.gpus.contains(&gpu)) {
                let mut parts = line.add(context, sweeps, instance, window);
                parts.queue_empty = queue.map_or(0, |queue| measure(&queue.empty(window)));
                all.push((parts, number));
            }
        }
        line.set_middle(all);
        line.launches.close();
        line
    };
    gpus.into_iter().map(line).collect()
}

impl Line {
    fn new(summary: Summary, gpu: GpuId, several_gpus: bool) -> Self {
        Self {
            summary,
            gpu,
            several_gpus,
            instances: 0,
            sums: [CauseSum::default(); Cause::ALL.len()],
            middle: Parts::default(),
            middle_instances: Vec::new(),
            issuing: Issuing::default(),
            launches: Launches::default(),
        }
    }

    /// Adds an instance to the sums; returns what its time consists of.
    fn add(
        &mut self,
        context: &Context<'_>,
        Sweeps { calls, gaps, .. }: &Sweeps<'_>,
        instance: &StageInstance,
        window: Interval,
    ) -> Parts {
        let ops = &context.facts.ops;
        let own = |op: &&OpIndex| ops.gpu[**op as usize] == self.gpu;
        let own: Vec<OpIndex> = instance.ops.iter().filter(own).copied().collect();
        let (busy, intervals) = busy(context, &own);
        let time = window.1 - window.0;
        let mut parts = Parts { time, busy, ..Parts::default() };
        let mut others = time - measure(&intervals);
        for (gap, time) in gaps.within(self.gpu, window) {
            others -= time;
            parts.causes[gap.cause as usize] += time;
            self.sums[gap.cause as usize].add(time);
            let call = ops.api_call[gap.op as usize].filter(|_| gap.cause == Cause::Launching);
            if let Some(call) = call {
                let latency = (gap.end - calls.span(call).1).max(0);
                self.issuing.add(gap.calls, gap.end - gap.start - latency - gap.calls, latency);
            }
        }
        // What is neither the stage's nor a gap: operations of others.
        if others > 0 {
            parts.causes[Cause::OtherWork as usize] += others;
            self.sums[Cause::OtherWork as usize].add(others);
        }
        self.launches.add(context, calls, &own, &intervals);
        self.instances += 1;
        parts
    }

    /// Takes the instance of median time, or both middle ones of an even number.
    fn set_middle(&mut self, all: Vec<(Parts, usize)>) {
        for (parts, number) in middle(all, |(parts, number)| (parts.time, *number)) {
            self.middle.add(&parts);
            self.middle_instances.push(number);
        }
    }

    /// Idle time of a cause in the middle instances, nanoseconds.
    pub(crate) fn of(&self, cause: Cause) -> Ns {
        self.middle.causes[cause as usize]
    }

    /// Idle time of the middle instances, nanoseconds.
    pub(super) fn idle(&self) -> Ns {
        self.middle.causes.iter().fold(0, |total: Ns, time| total.saturating_add(*time))
    }

    /// Idle time of all instances, nanoseconds.
    pub(super) fn idle_total(&self) -> Ns {
        self.sums.iter().fold(0, |total: Ns, sum| total.saturating_add(sum.time))
    }

    /// A time of the middle instances as a share of theirs.
    pub(crate) fn share(&self, time: Ns) -> f64 {
        if self.middle.time > 0 { time as f64 / self.middle.time as f64 } else { 0.0 }
    }

    /// The share of the time of the middle instances in which the queue is empty.
    pub(super) fn queue_empty_share(&self) -> f64 {
        self.share(self.middle.queue_empty)
    }

    /// A time of the middle instances, per instance, nanoseconds.
    pub(super) fn per_instance(&self, time: Ns) -> f64 {
        time as f64 / self.middle_instances.len().max(1) as f64
    }

    /// What metrics of this line are about.
    pub(crate) fn scope(&self, context: &Context<'_>) -> Scope {
        let gpu = context.session.gpus.ordinal[self.gpu.index()];
        let gpu = self.several_gpus.then_some(gpu);
        Scope { gpu, ..self.summary.scope(context.session, context.facts) }
    }

    /// Name of the pass.
    pub(crate) fn pass_name(&self, context: &Context<'_>) -> String {
        let pass = self.summary.stage(context.facts).pass;
        context.session.pass_name(pass).to_owned()
    }

    /// The stage's name, with rank and GPU where there are several.
    pub(crate) fn label(&self, context: &Context<'_>) -> String {
        let label = self.summary.label(context.session, context.facts);
        match self.scope(context).gpu {
            Some(gpu) => format!("{label} · GPU {gpu}"),
            None => label,
        }
    }
}

impl Parts {
    fn add(&mut self, other: &Self) {
        self.time = self.time.saturating_add(other.time);
        self.busy.computing = self.busy.computing.saturating_add(other.busy.computing);
        self.busy.communication = self.busy.communication.saturating_add(other.busy.communication);
        self.busy.copies = self.busy.copies.saturating_add(other.busy.copies);
        for (sum, time) in self.causes.iter_mut().zip(other.causes) {
            *sum = sum.saturating_add(time);
        }
        self.queue_empty = self.queue_empty.saturating_add(other.queue_empty);
    }
}

impl BusyParts {
    /// All busy time, nanoseconds.
    pub(super) fn total(self) -> Ns {
        self.computing.saturating_add(self.communication).saturating_add(self.copies)
    }
}

impl CauseSum {
    fn add(&mut self, time: Ns) {
        self.gaps += 1;
        self.time = self.time.saturating_add(time);
        self.longest = self.longest.max(time);
    }
}

impl Issuing {
    fn add(&mut self, calls: Ns, between: Ns, latency: Ns) {
        self.calls = self.calls.saturating_add(calls);
        self.between = self.between.saturating_add(between);
        self.latency = self.latency.saturating_add(latency);
    }
}

/// Busy time of operations by part, and its intervals.
fn busy(context: &Context<'_>, own: &[OpIndex]) -> (BusyParts, Vec<Interval>) {
    let ops = &context.facts.ops;
    let (mut computing, mut collectives, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for row in own.iter().map(|op| *op as usize) {
        let list = match tier(context.session, context.facts, row) {
            Tier::Compute => &mut computing,
            Tier::Communication => &mut collectives,
            Tier::Copy => &mut copies,
        };
        list.push((ops.start[row], ops.end[row]));
    }
    let mut covered = union(&mut computing);
    let mut parts = [measure(&covered), 0, 0];
    for (part, list) in parts[1..].iter_mut().zip([&mut collectives, &mut copies]) {
        let own = union(list);
        *part = measure(&difference(&own, &covered));
        covered.extend(own);
        covered = union(&mut covered);
    }
    let [computing, communication, copies] = parts;
    (BusyParts { computing, communication, copies }, covered)
}
