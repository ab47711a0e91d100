//! Runs that differ in their load alone, and where throughput stops to follow it.
//!
//! In an open loop the knee is the last load that is sustained: the engine answers as fast as requests come. What was
//! offered and not answered is no throughput. In a closed loop it is the last concurrency that pays.

use std::collections::BTreeMap;

use super::changes::have_equal_lengths;
use super::figures::{Figures, Measure};
use crate::runs::Run;
use rooflens_document::Quantity;
use rooflens_session::Arrange;
use rooflens_units::{Count, Ratio, RequestsPerSecond, Time};

/// Answers per second over offered ones from which on a load is sustained.
pub const SUSTAINED: Ratio = Ratio(0.95);

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
    /// Answers per second over offered ones, in an open loop.
    pub sustained: Option<Ratio>,
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
    /// The last load that is sustained in an open loop; the last point before all further steps are below [`ELASTICITY`]
    /// in a closed one. None if throughput still follows the load at the end, or if it does at no load.
    pub knee: Option<usize>,
    /// The largest load is beyond what the engine sustains.
    pub is_saturated: bool,
    /// The least load above all points whose run ended early, and the index of this run.
    pub ended_early: Option<(Quantity, usize)>,
}

/// The sweeps among runs. Runs belong together if tool, model, GPUs, settings and lengths of requests are the same. Where
/// a load occurs twice, the names of files tell deployments apart.
pub fn find(runs: &[Run], figures: &[Figures]) -> Vec<Sweep> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let is_like = |a: &Run, b: &Run| {
        (a.tool, &a.model, &a.gpu, a.gpus, &a.settings)
            == (b.tool, &b.model, &b.gpu, b.gpus, &b.settings)
    };
    let runs_of_sweeps = runs.iter().enumerate().filter(|(_, run)| run.cut.is_none());
    for (index, run) in runs_of_sweeps {
        let belongs = |group: &&mut Vec<usize>| {
            is_like(&runs[group[0]], run) && have_equal_lengths(&figures[group[0]], &figures[index])
        };
        match groups.iter_mut().find(belongs) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    let mut sweeps = Vec::new();
    for group in groups {
        for deployment in deployments(group, runs) {
            sweeps.extend(sweep(&deployment, runs, figures));
        }
    }
    for sweep in &mut sweeps {
        let last = sweep.points[sweep.points.len() - 1];
        let above = |(index, run): (usize, &Run)| {
            let load = sweep.axis.of(run)?;
            let is_above = load.value > last.load.value;
            (run.cut.is_some() && is_above && is_like(&runs[last.run], run))
                .then_some((load, index))
        };
        let ended = runs.iter().enumerate().filter_map(above);
        sweep.ended_early = ended.min_by(|a, b| a.0.value.total_cmp(&b.0.value));
    }
    sweeps
}

/// Runs of one deployment each: if loads repeat, those of one folder, or whose names differ in the load only, where that makes
/// loads unique. Repeats that no name tells apart stay together.
fn deployments(group: Vec<usize>, runs: &[Run]) -> Vec<Vec<usize>> {
    let is_unique = |group: &[usize]| {
        let mut loads = group.iter().enumerate();
        loads.all(|(place, run)| {
            let before = &group[..place];
            before
                .iter()
                .all(|other| runs[*other].load != runs[*run].load)
        })
    };
    if is_unique(&group) {
        return vec![group];
    }
    let folder = |run: &Run| {
        run.artifact
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
            .to_owned()
    };
    for name in [&folder as &dyn Fn(&Run) -> String, &name_without_load] {
        let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for run in &group {
            named.entry(name(&runs[*run])).or_default().push(*run);
        }
        if named.values().all(|part| is_unique(part)) {
            let mut parts: Vec<Vec<usize>> = named.into_values().collect();
            parts.sort_unstable();
            return parts;
        }
    }
    vec![group]
}

/// The path of a run's file, without the words that are its load: `b8_20rps.json` at 20 requests/s is `b8`.
fn name_without_load(run: &Run) -> String {
    let loads = [
        run.load.rate.map(|rate| rate.0),
        run.load.concurrency.map(|most| most.0),
    ];
    let is_load = |word: &&str| {
        let number: String = word
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let number = number.trim_matches('.').parse().ok();
        number.is_some() && loads.contains(&number)
    };
    let words = run.artifact.split(['-', '_', '/', ' ']);
    let name: Vec<&str> = words.filter(|word| !is_load(word)).collect();
    name.join("-")
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
                sustained: None,
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
    if points.len() < 2 {
        return None;
    }
    let mut points = points;
    if axis == Axis::Rate {
        let service = service(&points, figures);
        for point in &mut points {
            point.sustained = sustained(&runs[point.run], &figures[point.run], service);
        }
    }
    let knee = match points.iter().all(|point| point.sustained.is_some()) {
        true => last_sustained(&points),
        false => knee(&points),
    };
    let is_saturated = knee != Some(points.len() - 1);
    Some(Sweep {
        axis,
        knee: knee.filter(|_| is_saturated),
        is_saturated,
        ended_early: None,
        points,
        in_tokens,
    })
}

/// Time to first token at the least load: what requests need without a queue.
fn service(points: &[Point], figures: &[Figures]) -> Option<Time> {
    figures[points.first()?.run].typical(Measure::Ttft)
}

/// Answers per second over offered ones: the time in which requests came over the time until the last answer, without
/// the time that the last request itself needs. Failed requests are no answers.
///
/// Without the times of requests, the number of arrivals is random: two standard deviations of a Poisson process are
/// given to the load.
pub fn sustained(run: &Run, figures: &Figures, service: Option<Time>) -> Option<Ratio> {
    let rate = run.load.rate.filter(RequestsPerSecond::is_positive)?;
    let answered = figures.completed.filter(Count::is_positive)?;
    let all = answered + figures.failed.unwrap_or_default();
    let (arrivals, tolerance) = match arrivals(run) {
        Some(time) => (time, Ratio::ZERO),
        None => {
            let seconds = all.0 / rate.0;
            (Time(seconds * 1e9), Ratio(2.0 / libm::sqrt(all.0)))
        }
    };
    let outputs = (figures.output_tokens.unwrap_or_default().0 - 1.0).max(0.0);
    let decode = figures.typical(Measure::Tpot).unwrap_or_default() * outputs;
    let alone = service
        .or(figures.typical(Measure::Ttft))
        .unwrap_or_default()
        + decode;
    let answering = (figures.duration? - alone).max(arrivals);
    Some(Ratio(
        (answered / all) * (arrivals / answering) + tolerance.0,
    ))
}

/// From the first request to one interval after the last.
fn arrivals(run: &Run) -> Option<Time> {
    let mut due: Vec<Time> = Vec::with_capacity(run.requests.len());
    for request in &run.requests {
        due.push(request.due()?);
    }
    due.sort_by(Time::total_cmp);
    let (first, last) = (*due.first()?, *due.last()?);
    let gaps = due.len() as f64 - 1.0;
    (last > first).then(|| (last - first) * ((gaps + 1.0) / gaps))
}

/// The last sustained load, if no greater one is sustained; none if not even the least is.
fn last_sustained(points: &[Point]) -> Option<usize> {
    points
        .iter()
        .rposition(|point| point.sustained >= Some(SUSTAINED))
}

/// Growth of throughput per growth of load between two points.
pub fn elasticity(from: &Point, to: &Point) -> Ratio {
    let throughput = libm::log(to.throughput.value / from.throughput.value);
    Ratio(throughput / libm::log(to.load.value / from.load.value))
}

/// The last point before steps that add load and little else; the last of all if throughput follows to the end.
fn knee(points: &[Point]) -> Option<usize> {
    let is_flat = |step: &[Point]| elasticity(&step[0], &step[1]) < ELASTICITY;
    let flat = points
        .windows(2)
        .rev()
        .take_while(|step| is_flat(step))
        .count();
    Some(points.len() - 1 - flat)
}
