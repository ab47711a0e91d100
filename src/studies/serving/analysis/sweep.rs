//! Runs that differ in their load alone, and where throughput stops to follow it.

use super::figures::Figures;
use crate::runs::Run;
use rooflens_document::Quantity;
use rooflens_session::Arrange;
use rooflens_units::Ratio;

/// Growth of throughput per growth of load, both as logarithms, below which a step adds load and little else. 1 is
/// proportional growth.
pub const ELASTICITY: Ratio = Ratio(0.5);

/// What a sweep changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Requests per second that are offered.
    Rate,
    /// Requests in flight.
    Concurrency,
}

impl Axis {
    /// The load of a run on this axis.
    pub fn of(self, run: &Run) -> Option<Quantity> {
        match self {
            Self::Rate => run.load.rate.map(Quantity::from),
            Self::Concurrency => run.load.concurrency.map(Quantity::from),
        }
    }
}

/// A run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Load on the sweep's axis.
    pub load: Quantity,
    /// Index of the run.
    pub run: usize,
    /// Output tokens per second; answers per second where those are not known for all runs.
    pub throughput: Quantity,
}

/// Runs by rising load.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What changes.
    pub axis: Axis,
    /// At least two runs with rising loads.
    pub points: Vec<Point>,
    /// Throughput is tokens per second rather than answers per second.
    pub in_tokens: bool,
    /// The last point before all further steps are below [`ELASTICITY`]; none if throughput still rises at the end.
    pub knee: Option<usize>,
}

/// The sweeps among runs. Runs belong together if tool, model, GPUs and settings are the same.
pub fn find(runs: &[Run], figures: &[Figures]) -> Vec<Sweep> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let is_like = |a: &Run, b: &Run| {
        (a.tool, &a.model, &a.gpu, a.gpus, &a.settings)
            == (b.tool, &b.model, &b.gpu, b.gpus, &b.settings)
    };
    for (index, run) in runs.iter().enumerate() {
        match groups
            .iter_mut()
            .find(|group| is_like(&runs[group[0]], run))
        {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
        .iter()
        .filter_map(|group| sweep(group, runs, figures))
        .collect()
}

fn sweep(group: &[usize], runs: &[Run], figures: &[Figures]) -> Option<Sweep> {
    let points = |axis: Axis| {
        let in_tokens = group.iter().all(|run| figures[*run].output_rate.is_some());
        let rate = |run: usize| {
            if in_tokens {
                figures[run].output_rate.map(Quantity::from)
            } else {
                figures[run].request_rate.map(Quantity::from)
            }
        };
        let point = |run: &usize| {
            Some(Point {
                load: axis.of(&runs[*run])?,
                run: *run,
                throughput: rate(*run)?,
            })
        };
        let mut points: Vec<Point> = group.iter().filter_map(point).collect();
        points.arrange_by(|a, b| {
            a.load
                .value
                .total_cmp(&b.load.value)
                .then(a.run.cmp(&b.run))
        });
        points.dedup_by(|later, first| later.load == first.load);
        (axis, in_tokens, points)
    };
    let (axis, in_tokens, points) = [Axis::Rate, Axis::Concurrency]
        .map(points)
        .into_iter()
        .max_by_key(|(axis, _, points)| (points.len(), *axis == Axis::Rate))?;
    (points.len() > 1).then(|| Sweep {
        axis,
        knee: knee(&points),
        points,
        in_tokens,
    })
}

/// Growth of throughput per growth of load between two points.
pub fn elasticity(from: &Point, to: &Point) -> Ratio {
    let throughput = libm::log(to.throughput.value / from.throughput.value);
    Ratio(throughput / libm::log(to.load.value / from.load.value))
}

fn knee(points: &[Point]) -> Option<usize> {
    let is_flat = |step: &[Point]| elasticity(&step[0], &step[1]) < ELASTICITY;
    let flat = points
        .windows(2)
        .rev()
        .take_while(|step| is_flat(step))
        .count();
    (flat > 0).then(|| points.len() - 1 - flat)
}
