//! The queue of a GPU: launches whose call has returned and whose first operation has not begun.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::calls::Calls;
use super::line::Line;
use crate::analysis::Context;
use crate::analysis::engine::facts::{OpIndex, StageInstance};
use crate::analysis::engine::intervals::{Interval, difference, union};
use crate::analysis::engine::stage_stats::counted;
use crate::analysis::time::timeline::bins::{Window, cover, spread};
use crate::findings::chart::{self, Areas, Color, Lines, Part, Plot, Track, Tracks};
use crate::findings::{Cell, Chart, Column, Dataset, Quantity};
use crate::model::{GpuId, Ns, ProcessId};

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
            let Some(call) = calls.launch(op as OpIndex) else { continue };
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
        let mut at = window.0;
        while at < window.1 {
            let issued = self.issued.partition_point(|time| *time <= at);
            let begun = self.begun.partition_point(|time| *time <= at);
            let next = [self.issued.get(issued), self.begun.get(begun)].into_iter().flatten().min();
            let end = next.map_or(window.1, |next| window.1.min(*next));
            each((at, end), issued.saturating_sub(begun) as u64);
            at = end;
        }
    }

    /// When it is empty in a window.
    pub(super) fn empty(&self, window: Interval) -> Vec<Interval> {
        let mut empty = Vec::new();
        self.steps(window, |piece, depth| empty.extend((depth == 0).then_some(piece)));
        empty
    }

    /// Mean and greatest depth in each stretch of a window.
    fn binned(&self, window: &Window) -> Vec<(f64, u64)> {
        let mut bins = vec![(0i128, 0u64); window.count()];
        self.steps((window.start, window.end), |piece, depth| {
            spread(window, piece, |bin, time| {
                let (sum, most) = bins[bin];
                bins[bin] = (sum + i128::from(time) * i128::from(depth), most.max(depth));
            });
        });
        let bins = bins.into_iter().zip(window.lengths());
        bins.map(|((sum, most), length)| (sum as f64 / length as f64, most)).collect()
    }
}

/// The queue over the instance of median time of a stage.
pub(super) struct OverTime<'a> {
    line: &'a Line,
    instance: &'a StageInstance,
    window: Window,
    bins: Vec<(f64, u64)>,
    empty: Vec<Interval>,
}

impl<'a> OverTime<'a> {
    /// None where the artifact holds no call of the stage's launches.
    pub(super) fn of(context: &Context<'a>, queues: &Queues, line: &'a Line) -> Option<Self> {
        let number = *line.middle_instances.first()?;
        let instance = counted(context.facts, &line.summary).nth(number)?;
        let (start, end) = instance.projection?;
        let window = Window { start, end };
        let queue =
            queues.of(line.summary.process, line.gpu).filter(|_| line.launches.calls > 0)?;
        let (bins, empty) = (queue.binned(&window), queue.empty((start, end)));
        Some(Self { line, instance, window, bins, empty })
    }

    /// The depth above, what the GPU does below.
    pub(super) fn chart(&self, context: &Context<'_>) -> Chart {
        let label = self.line.label(context);
        let time = Quantity::ns(self.window.duration());
        let empty = Quantity::ratio(self.line.queue_empty_share());
        Chart {
            id: format!("queue-depth-{}", self.line.summary.stage),
            title: format!("How far the host is ahead in the median instance of {label} ({time})"),
            description: format!(
                "Instance {} of {label}: launches issued and not begun, mean and most in each of {} stretches of \
                 {time}; below, the shares of each stretch in which the GPU is busy with and without work that waits, \
                 and idle with an empty queue. The queue is empty for {empty} of the time. The data set \
                 queue_over_time holds the stretches.",
                self.instance.ordinal,
                self.bins.len(),
            ),
            plot: Plot::Tracks(Tracks {
                x_label: "Time".to_owned(),
                x_unit: Unit::Nanoseconds,
                extent: self.window.duration(),
                bands: Vec::new(),
                tracks: vec![self.depth(), self.states(context)],
            }),
        }
    }

    fn depth(&self) -> Track {
        let edge = |bin: usize| self.window.edge(bin) - self.window.start;
        let line = |name: &str, filled: bool, value: &dyn Fn(&(f64, u64)) -> f64| {
            let middle = |bin: usize| edge(bin) + (edge(bin + 1) - edge(bin)) / 2;
            let points = self.bins.iter().enumerate().map(|(at, bin)| (middle(at), value(bin)));
            chart::Line { name: name.to_owned(), filled, points: points.collect() }
        };
        Track::Lines(Lines {
            label: "Launches issued and not begun".to_owned(),
            unit: Unit::Count,
            lines: vec![
                line("most", true, &|bin| bin.1 as f64),
                line("mean", false, &|bin| libm::round(bin.0 * 1e4) / 1e4),
            ],
            shades: None,
            outliers: Vec::new(),
        })
    }

    /// When the GPU is busy and when the queue is empty; what is left is idle although work waits.
    fn states(&self, context: &Context<'_>) -> Track {
        let ops = &context.facts.ops;
        let pass = self.line.summary.stage(context.facts).pass;
        let rows = context.facts.ops_of(pass).filter(|row| ops.gpu[*row] == self.line.gpu);
        let mut busy: Vec<Interval> =
            rows.filter_map(|row| self.window.clip(ops.start[row], ops.end[row])).collect();
        let busy = union(&mut busy);
        let ahead = difference(&busy, &self.empty);
        let states = [
            ("busy, work waits", Color::Busy, &ahead),
            ("busy, queue empty", Color::Elementwise, &difference(&busy, &ahead)),
            ("idle, queue empty", Color::Launching, &difference(&self.empty, &busy)),
        ];
        let part =
            |(name, color, _): &(&str, Color, _)| Part { name: (*name).to_owned(), color: *color };
        Track::Areas(Areas {
            label: "GPU and queue".to_owned(),
            parts: states.iter().map(part).collect(),
            shares: states.iter().map(|(.., times)| cover(&self.window, times)).collect(),
        })
    }

    fn rows(&self, context: &Context<'_>) -> Vec<Vec<Cell>> {
        let row = |(at, (mean, most)): (usize, &(f64, u64))| {
            vec![
                Cell::Text(self.line.label(context)),
                Cell::Text(self.line.pass_name(context)),
                Cell::Int(i64::from(self.instance.ordinal)),
                Cell::Int(self.window.edge(at)),
                Cell::Int(self.window.edge(at + 1)),
                Cell::Float(*mean),
                Cell::Int(*most as i64),
            ]
        };
        self.bins.iter().enumerate().map(row).collect()
    }
}

/// The stretches of all charts.
pub(super) fn dataset(context: &Context<'_>, shown: &[OverTime<'_>]) -> Dataset {
    Dataset {
        id: "queue_over_time",
        title: "Queue depth over time".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::new("ordinal", "No.", Unit::Count),
            Column::new("start_ns", "Start", Unit::Nanoseconds),
            Column::new("end_ns", "End", Unit::Nanoseconds),
            Column::new("depth_mean", "Mean depth", Unit::One),
            Column::new("depth_max", "Deepest", Unit::Count),
        ],
        rows: shown.iter().flat_map(|one| one.rows(context)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One waits from 0 to 5, another from 3 to 700. Stretches of 2.
    #[test]
    fn the_depth_of_a_stretch_is_its_mean_and_its_most() {
        let queue = Queue { issued: vec![0, 3], begun: vec![5, 700] };
        let bins = queue.binned(&Window { start: 0, end: 600 });
        assert_eq!(bins[..4], [(1.0, 1), (1.5, 2), (1.5, 2), (1.0, 1)]);
        assert_eq!(bins.len(), 300);
        // From 700 on nothing waits.
        assert_eq!(queue.empty((600, 1_000)), [(700, 1_000)]);
        assert_eq!(queue.empty((0, 600)), []);
        assert_eq!(queue.empty((-10, 4)), [(-10, 0)]);
    }

    #[test]
    fn a_queue_without_launches_is_empty() {
        assert_eq!(Queue::default().empty((5, 9)), [(5, 9)]);
        assert_eq!(Queue::default().binned(&Window { start: 5, end: 5 }), []);
    }
}
