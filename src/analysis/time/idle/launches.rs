//! What launching costs the host, and how far it runs ahead of the GPU.

use rooflens_schemas::StageKind;

use super::calls::Calls;
use crate::analysis::Context;
use crate::analysis::engine::facts::{OpIndex, OpSource};
use crate::analysis::engine::intervals::Interval;
use crate::analysis::engine::stage_stats::Summary;
use crate::model::Ns;

/// Launch figures of the instances of a line.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// API calls that launched kernels or graphs; one for a graph of many kernels.
    pub calls: u64,
    /// Time in these calls, nanoseconds.
    pub call_time: Ns,
    /// Kernel executions, those of graphs included.
    pub kernels: u64,
    /// Sum of their durations, nanoseconds.
    pub kernel_time: Ns,
    /// Launches whose first operation began before the call returned: they have no queue time.
    pub begun_in_call: u64,
    /// From the return of the call to the start of its first operation, nanoseconds, where that is not negative.
    waits: Vec<Ns>,
    /// Median of these, nanoseconds.
    pub queue_time: Option<f64>,
    /// Launch calls of a step: a decode step, or a training step.
    pub per_step: Option<f64>,
    /// Launch calls of a token that the stage processes or produces, over the whole batch.
    pub per_token: Option<f64>,
    /// Greatest number of launches issued and not begun.
    pub depth_max: u64,
    /// Busy time, and the integral over it of the number of launches issued and not begun.
    busy: Ns,
    queued: f64,
}

impl Launches {
    /// Adds the operations of an instance on one GPU, by start, and its busy intervals.
    pub(super) fn add(
        &mut self,
        context: &Context<'_>,
        calls: &Calls<'_>,
        own: &[OpIndex],
        busy: &[Interval],
    ) {
        let ops = &context.facts.ops;
        let (mut issued, mut begun) = (Vec::new(), Vec::new());
        for op in own.iter().copied() {
            let row = op as usize;
            if matches!(ops.source[row], OpSource::Launch(_)) {
                self.kernels += 1;
                self.kernel_time =
                    self.kernel_time.saturating_add(ops.end[row].saturating_sub(ops.start[row]));
            }
            let Some(call) = calls.launch(op) else { continue };
            let (start, end) = calls.span(call);
            self.calls += 1;
            self.call_time = self.call_time.saturating_add(end - start);
            if end <= ops.start[row] {
                self.waits.push(ops.start[row] - end);
            } else {
                self.begun_in_call += 1;
            }
            // One that does not wait is never in the queue.
            if end < ops.start[row] {
                issued.push(end);
                begun.push(ops.start[row]);
            }
        }
        issued.sort_unstable();
        self.depth_max = self.depth_max.max(greatest_depth(&issued, &begun));
        let mut of_issued = Elapsed::new(busy);
        let mut of_begun = Elapsed::new(busy);
        for (issued, begun) in issued.into_iter().zip(begun) {
            self.queued += (of_begun.until(begun) - of_issued.until(issued)) as f64;
        }
        let whole = busy.last().map_or(0, |last| Elapsed::new(busy).until(last.1));
        self.busy = self.busy.saturating_add(whole);
    }

    /// Computes what needs all instances, of which there are so many.
    pub(super) fn close(&mut self, context: &Context<'_>, summary: &Summary, instances: u64) {
        self.queue_time = median(&mut self.waits);
        self.waits = Vec::new();
        let launches = self.calls as f64 / instances.max(1) as f64;
        let per = |things: f64| (launches > 0.0 && things > 0.0).then(|| launches / things);
        self.per_step = steps(context, summary).and_then(per);
        self.per_token = tokens(context, summary).and_then(per);
    }

    /// Mean duration of a launch call, nanoseconds.
    pub fn mean_call(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.call_time as f64 / self.calls as f64)
    }

    /// Mean duration of a kernel, nanoseconds.
    pub fn mean_kernel(&self) -> Option<f64> {
        (self.kernels > 0).then(|| self.kernel_time as f64 / self.kernels as f64)
    }

    /// Mean number of launches issued and not begun, over the busy time.
    pub fn depth_mean(&self) -> Option<f64> {
        (self.calls > 0 && self.busy > 0).then(|| self.queued / self.busy as f64)
    }
}

/// Steps of an instance.
fn steps(context: &Context<'_>, summary: &Summary) -> Option<f64> {
    match summary.kind(context.facts) {
        StageKind::DecodeStep | StageKind::TrainStep => Some(1.0),
        _ => summary.steps,
    }
}

/// Tokens of an instance.
fn tokens(context: &Context<'_>, summary: &Summary) -> Option<f64> {
    let pass = context.session.pass_name(summary.stage(context.facts).pass);
    let workload = context.session.workload.for_pass(pass);
    let tokens = match summary.kind(context.facts) {
        StageKind::Decode => summary.steps.or(workload.output_tokens.map(|n| n as f64))?,
        StageKind::DecodeStep => 1.0,
        StageKind::Optimizer | StageKind::Other => return None,
        StageKind::Prefill | StageKind::Forward | StageKind::Backward | StageKind::TrainStep => {
            workload.prompt_tokens? as f64
        }
    };
    Some(tokens * workload.batch? as f64)
}

/// Both lists ascending; each launch begins after its issue.
fn greatest_depth(issued: &[Ns], begun: &[Ns]) -> u64 {
    let (mut begins, mut waiting, mut greatest) = (begun.iter().peekable(), 0, 0);
    for issue in issued {
        while begins.next_if(|begin| *begin <= issue).is_some() {
            waiting -= 1;
        }
        waiting += 1;
        greatest = greatest.max(waiting);
    }
    greatest
}

/// How much of disjoint intervals lies before ascending times.
struct Elapsed<'a> {
    left: &'a [Interval],
    passed: Ns,
}

impl<'a> Elapsed<'a> {
    fn new(intervals: &'a [Interval]) -> Self {
        Self { left: intervals, passed: 0 }
    }

    fn until(&mut self, time: Ns) -> Ns {
        while let Some(((start, end), rest)) = self.left.split_first()
            && *end <= time
        {
            self.passed = self.passed.saturating_add(end - start);
            self.left = rest;
        }
        self.passed + self.left.first().map_or(0, |(start, _)| (time - start).max(0))
    }
}

/// The median of whole numbers in linear time; it reorders them.
fn median(values: &mut [Ns]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable(middle);
    let lower = if even { below.iter().copied().max()? } else { *upper };
    Some((lower as f64 + *upper as f64) / 2.0)
}
