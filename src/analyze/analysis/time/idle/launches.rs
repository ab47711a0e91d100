//! What launching costs the host, and how far it runs ahead of the GPU.

use rooflens_schemas::StageKind;
use rooflens_session::Ns;

use super::calls::Calls;
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::intervals::{Interval, add, measure};
use crate::engine::stage_names::is_of_engine;
use crate::engine::stage_stats::Summary;
use crate::engine::sweep::slices;
use rooflens_stats::{mean, median};
use rooflens_units::{Count, Time};

/// Launch figures of the instances of a line.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// API calls that launched kernels or graphs; one for a graph of many kernels.
    pub calls: u64,
    /// Durations of these calls, nanoseconds.
    call_times: Vec<f64>,
    /// From the start of each of them to that of the next in its instance, nanoseconds.
    intervals: Vec<f64>,
    /// Time in which the host issues those of an instance, each at the median interval: pauses between few do not count.
    pub issuing: Option<Time>,
    /// From the first of them to the last in an instance, without waits of the host.
    spans: Vec<f64>,
    /// Median of these.
    pub span: Option<Time>,
    /// Their mean.
    pub mean_call: Option<Time>,
    /// Their median.
    pub median_call: Option<Time>,
    /// Kernel executions, those of graphs included.
    pub kernels: u64,
    /// Sum of their durations.
    pub kernel_time: Ns,
    /// Launches whose first operation began before the call returned: they have no queue time.
    pub begun_in_call: u64,
    /// From the return of the call to the start of its first operation, nanoseconds, where that is not negative.
    waits: Vec<f64>,
    /// Median of these.
    pub queue_time: Option<Time>,
    /// Launch calls of a step: a decode step, or a training step.
    pub per_step: Option<Count>,
    /// Launch calls of a token that the stage processes or produces, over the whole batch.
    pub per_token: Option<Count>,
    /// Greatest number of launches issued and not begun.
    pub depth_max: u64,
    /// Busy time, and the integral over it of the number of launches issued and not begun.
    busy: Ns,
    queued: Time,
}

impl Launches {
    /// Adds the operations of an instance on one GPU, by start, its busy intervals, and for how long the host works on it.
    pub(super) fn add(
        &mut self,
        context: &Context<'_>,
        calls: &Calls<'_>,
        own: &[OpIndex],
        busy: &[Interval],
        work: Ns,
    ) {
        let ops = &context.facts.ops;
        // What waits is of kind 0, what runs of kind 1.
        let mut queue: Vec<(Interval, usize)> = busy.iter().map(|time| (*time, 1)).collect();
        let mut starts = Vec::new();
        for op in own.iter().copied() {
            let row = op as usize;
            if matches!(ops.source[row], OpSource::Launch(_)) {
                self.kernels += 1;
                add(
                    &mut self.kernel_time,
                    ops.end[row].saturating_sub(ops.start[row]),
                );
            }
            let Some(call) = calls.launch(op) else {
                continue;
            };
            let (start, end) = calls.span(call);
            self.calls += 1;
            self.call_times.push((end - start).time().0);
            starts.push(start);
            if end <= ops.start[row] {
                self.waits.push((ops.start[row] - end).time().0);
                queue.push(((end, ops.start[row]), 0));
            } else {
                self.begun_in_call += 1;
            }
        }
        // Stable sorting makes use of what is in order already.
        queue.sort();
        for slice in slices(queue) {
            let [depth, runs] = slice.running;
            self.depth_max = self.depth_max.max(u64::from(depth));
            self.queued += f64::from(depth * runs) * (slice.end - slice.start).time();
        }
        add(&mut self.busy, measure(busy));
        starts.sort_unstable();
        let intervals = starts.windows(2).map(|pair| (pair[1] - pair[0]).time().0);
        self.intervals.extend(intervals);
        if let (Some(first), Some(last)) = (starts.first(), starts.last()) {
            self.spans.push((*last - *first).min(work).time().0);
        }
    }

    /// Computes what needs all instances, of which there are so many.
    pub(super) fn close(&mut self, context: &Context<'_>, summary: &Summary, instances: usize) {
        self.queue_time = median(&self.waits).map(Time);
        self.mean_call = mean(&self.call_times).map(Time);
        self.median_call = median(&self.call_times).map(Time);
        let launches = Count(self.calls as f64 / instances.max(1) as f64);
        self.issuing = median(&self.intervals).map(|interval| Time(interval) * launches.0);
        // Of two, one may be of a cold start.
        self.span = match self.spans[..] {
            [first, second] => Some(Time(first.min(second))),
            _ => median(&self.spans).map(Time),
        };
        (self.waits, self.call_times) = (Vec::new(), Vec::new());
        (self.intervals, self.spans) = (Vec::new(), Vec::new());
        let per = |parts: Count| {
            let has_both = launches.is_positive() && parts.is_positive();
            has_both.then(|| Count(launches / parts))
        };
        self.per_step = steps(context, summary).and_then(per);
        self.per_token = tokens(context, summary).and_then(per);
    }

    /// Mean duration of a kernel.
    pub fn mean_kernel(&self) -> Option<Time> {
        (self.kernels > 0).then(|| self.kernel_time.time() / self.kernels as f64)
    }

    /// Mean number of launches issued and not begun, over the busy time.
    pub fn depth_mean(&self) -> Option<Count> {
        (self.calls > 0 && self.busy > Ns::ZERO).then(|| Count(self.queued / self.busy.time()))
    }
}

/// Steps of an instance.
fn steps(context: &Context<'_>, summary: &Summary) -> Option<Count> {
    match summary.kind(context.facts) {
        StageKind::DecodeStep | StageKind::TrainStep => Some(Count(1.0)),
        _ => summary.steps,
    }
}

/// Tokens of an instance.
fn tokens(context: &Context<'_>, summary: &Summary) -> Option<Count> {
    let stage = summary.stage(context.facts);
    if is_of_engine(context.session, context.facts, stage) {
        return None;
    }
    let pass = context.session.pass_name(stage.pass);
    let workload = context.session.workload.for_pass(pass);
    let tokens = match summary.kind(context.facts) {
        StageKind::Decode => {
            let stated = workload.output_tokens;
            let stated = stated.map(|tokens| Count(tokens as f64));
            summary.steps.or(stated)?
        }
        StageKind::DecodeStep => Count(1.0),
        StageKind::Vision | StageKind::Optimizer | StageKind::Other => return None,
        StageKind::Prefill | StageKind::Forward | StageKind::Backward | StageKind::TrainStep => {
            Count(workload.prompt_tokens? as f64)
        }
    };
    Some(tokens * workload.batch? as f64)
}
