//! The queue of a GPU: launches whose call has returned and whose first operation has not begun.

use std::collections::BTreeMap;

use super::calls::Calls;
use super::line::StageIdle;
use crate::Context;
use crate::engine::facts::OpIndex;
use crate::engine::intervals::{Interval, union};
use crate::time::timeline::bins::{Window, spread};
use rooflens_session::{Arrange, GpuId, Ns, PassId, ProcessId};
use rooflens_units::Count;

/// Stages whose queue over time is kept.
const KEPT: usize = 2;

/// The queues of all processes on all GPUs.
pub(super) struct Queues {
    queues: BTreeMap<(ProcessId, GpuId), Queue>,
}

/// The queue of a process on one GPU: when launches joined and left it, both ascending.
#[derive(Default)]
pub(super) struct Queue {
    issued: Vec<Ns>,
    begun: Vec<Ns>,
}

impl Queues {
    /// One sweep over all operations, whatever stage they belong to.
    pub(super) fn new(context: &Context<'_>, calls: &Calls<'_>) -> Self {
        let ops = &context.facts.ops;
        let mut queues: BTreeMap<(ProcessId, GpuId), Queue> = BTreeMap::new();
        for op in 0..ops.len() {
            let Some(call) = calls.launch(op as OpIndex) else {
                continue;
            };
            let queue = queues.entry((ops.process[op], ops.gpu[op])).or_default();
            let issued = calls.span(call).1;
            // One that begins within its call is never in the queue.
            if issued < ops.start[op] {
                queue.issued.push(issued);
                queue.begun.push(ops.start[op]);
            }
        }
        for queue in queues.values_mut() {
            queue.issued.sort_unstable();
            queue.begun.sort_unstable();
        }
        Self { queues }
    }

    /// The queue of a process that launches work on the GPU.
    pub(super) fn of(&self, process: ProcessId, gpu: GpuId) -> Option<&Queue> {
        self.queues.get(&(process, gpu))
    }
}

impl Queue {
    /// Calls `each` with the stretches of a window in which the depth is one number, and that number.
    fn steps(&self, window: Interval, mut each: impl FnMut(Interval, u64)) {
        let passed = |times: &[Ns], moment| times.partition_point(|time| *time <= moment);
        let (mut issued, mut begun) = (
            passed(&self.issued, window.0),
            passed(&self.begun, window.0),
        );
        let mut moment = window.0;
        while moment < window.1 {
            let next = [self.issued.get(issued), self.begun.get(begun)]
                .into_iter()
                .flatten()
                .min();
            let end = next.map_or(window.1, |next| window.1.min(*next));
            each((moment, end), issued.saturating_sub(begun) as u64);
            moment = end;
            issued += self.issued[issued..]
                .iter()
                .take_while(|time| **time <= moment)
                .count();
            begun += self.begun[begun..]
                .iter()
                .take_while(|time| **time <= moment)
                .count();
        }
    }

    /// When it is empty in a window.
    pub(super) fn empty(&self, window: Interval) -> Vec<Interval> {
        let mut empty = Vec::new();
        self.steps(window, |piece, depth| {
            empty.extend((depth == 0).then_some(piece))
        });
        empty
    }

    /// Mean and greatest depth in each stretch of a window.
    fn binned(&self, window: &Window) -> Vec<(Count, u64)> {
        let mut bins = vec![(0i128, 0u64); window.count()];
        self.steps((window.start, window.end), |piece, depth| {
            spread(window, piece, |bin, time| {
                let (sum, most) = bins[bin];
                bins[bin] = (
                    sum + i128::from(time.0) * i128::from(depth),
                    most.max(depth),
                );
            });
        });
        let bins = bins.into_iter().zip(window.lengths());
        bins.map(|((sum, most), length)| (Count(sum as f64 / length.time().0), most))
            .collect()
    }
}

/// The queue over one instance of a stage: the one nearest to the pool of all.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueOverTime {
    /// The stage on its first GPU: an index into the lines.
    pub line: usize,
    /// Number of the instance among those of the stage and process.
    pub ordinal: u32,
    /// Its projection.
    pub window: Interval,
    /// Mean and greatest depth in each stretch of the window.
    pub bins: Vec<(Count, u64)>,
    /// When the queue is empty.
    pub empty: Vec<Interval>,
    /// When the GPU runs something, of whatever stage.
    pub busy: Vec<Interval>,
}

/// The queue over the outermost stages of a pass that take most time, as far as the artifact holds their calls.
pub(super) fn over_time(
    context: &Context<'_>,
    queues: &Queues,
    lines: &[StageIdle],
    pass: PassId,
) -> Vec<QueueOverTime> {
    let outermost =
        |line: &StageIdle| line.pass(context) == pass && line.summary.is_outermost(context.facts);
    let mut stages: Vec<(usize, &StageIdle)> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| outermost(line))
        .collect();
    stages.dedup_by_key(|(_, line)| line.summary.stage);
    let total = |line: &StageIdle| line.time * line.summary.counted as f64;
    stages.arrange_by(|a, b| total(b.1).total_cmp(&total(a.1)));
    let of = |(index, line)| QueueOverTime::of(context, queues, index, line);
    stages.into_iter().filter_map(of).take(KEPT).collect()
}

impl QueueOverTime {
    fn of(context: &Context<'_>, queues: &Queues, at: usize, line: &StageIdle) -> Option<Self> {
        let instance = line.nearest(context.facts)?;
        let (start, end) = instance.projection?;
        let window = Window { start, end };
        let queue = queues
            .of(line.summary.process, line.gpu)
            .filter(|_| line.launches.calls > 0)?;
        let ops = &context.facts.ops;
        let rows = context.facts.ops_of(line.pass(context));
        let of_gpu = rows.filter(|row| ops.gpu[*row] == line.gpu);
        let mut busy: Vec<Interval> = of_gpu
            .filter_map(|row| window.clip(ops.start[row], ops.end[row]))
            .collect();
        Some(Self {
            line: at,
            ordinal: instance.ordinal,
            window: (start, end),
            bins: queue.binned(&window),
            empty: queue.empty((start, end)),
            busy: union(&mut busy),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One waits from 0 to 5, another from 3 to 700. Stretches of 2.
    #[test]
    fn the_depth_of_a_stretch_is_its_mean_and_its_most() {
        let queue = Queue {
            issued: vec![Ns::ZERO, Ns(3)],
            begun: vec![Ns(5), Ns(700)],
        };
        let bins = queue.binned(&Window {
            start: Ns::ZERO,
            end: Ns(600),
        });
        let expected = [(1.0, 1), (1.5, 2), (1.5, 2), (1.0, 1)];
        assert_eq!(bins[..4], expected.map(|(mean, most)| (Count(mean), most)));
        assert_eq!(bins.len(), 300);
        // From 700 on nothing waits.
        assert_eq!(queue.empty((Ns(600), Ns(1_000))), [(Ns(700), Ns(1_000))]);
        assert_eq!(queue.empty((Ns::ZERO, Ns(600))), []);
        assert_eq!(queue.empty((Ns(-10), Ns(4))), [(Ns(-10), Ns::ZERO)]);
    }

    #[test]
    fn a_queue_without_launches_is_empty() {
        assert_eq!(Queue::default().empty((Ns(5), Ns(9))), [(Ns(5), Ns(9))]);
        assert_eq!(
            Queue::default().binned(&Window {
                start: Ns(5),
                end: Ns(5)
            }),
            []
        );
    }
}
