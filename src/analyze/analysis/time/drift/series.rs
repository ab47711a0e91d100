//! Sequences of times: instances of stages, and ranges that repeat most.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::trend::{Trend, trend};
use super::{Instance, Jump, LEAST, LEAST_FOR_TREND, Series, Subject};
use crate::Context;
use crate::engine::facts::{Exclusion, Sizes, Stage};
use crate::engine::intervals::{Interval, union};
use crate::engine::stage_names::is_of_user;
use crate::engine::stage_stats::{Summary, summaries};
use crate::engine::stages::WARMUP_Z;
use rooflens_session::{Ns, PassId, ProcessId, RangeId, StrId, ThreadId};
use rooflens_stats::{
    OUTLIER_Z, alike, change_point, is_clear, mean, median, modified_z_of_first,
    modified_z_of_groups,
};
use rooflens_units::{Ratio, Time};

/// Ranges next to the stages that are looked at.
const MAX_RANGES: usize = 2;

impl Series {
    /// A sequence with its figures; `None` of one that is too short.
    fn of(
        pass: PassId,
        subject: Subject,
        instances: Vec<Instance>,
        left_out: Vec<usize>,
    ) -> Option<Self> {
        let times = times(&instances);
        let median_time = median(&times).filter(|_| times.len() >= LEAST)?;
        let groups = alike(instances.iter().map(|one| one.sizes.of_work()));
        // Of equally frequent sizes the first.
        let most = groups.iter().rev().max_by_key(|group| group.len());
        let alike = most.cloned().unwrap_or_default();
        let points = alike
            .iter()
            .map(|at| (instances[*at].number as f64, times[*at]));
        let points: Vec<(f64, f64)> = points.collect();
        let trend: Option<Trend> = (points.len() >= LEAST_FOR_TREND)
            .then(|| trend(&points))
            .flatten();
        let third = points.len() / 3;
        let of = |points: &[(f64, f64)]| {
            let times: Vec<f64> = points.iter().map(|(_, time)| *time).collect();
            median(&times).map(Time)
        };
        let thirds = of(&points[..third]).zip(of(&points[points.len() - third..]));
        let drift = trend.and(thirds);
        let drift = drift.map(|(first, last)| Ratio(last / first - 1.0));
        let z = modified_z_of_groups(&times, &groups);
        let is_far = |z: &Option<f64>| z.is_some_and(|z| z.abs() > OUTLIER_Z);
        let far = z.iter().enumerate().filter(|(_, z)| is_far(z));
        Some(Self {
            pass,
            subject,
            median: Time(median_time),
            alike,
            trend,
            thirds,
            drift: drift.filter(|drift| drift.is_finite()),
            middle: of(&points[third..points.len() - third]),
            outliers: far.map(|(place, _)| place).collect(),
            jump: trend.and_then(|_| jump(&points)),
            instances,
            left_out,
        })
    }
}

/// The change of level between these points, if it leaves less of their squared deviations than the line of least squares.
fn jump(points: &[(f64, f64)]) -> Option<Jump> {
    let (numbers, times): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (at, left) = change_point(&times)?;
    let (middle, typical) = (mean(&numbers)?, mean(&times)?);
    let [mut of_numbers, mut of_times, mut of_both] = [0.0; 3];
    for (number, time) in points {
        let (number, time) = (number - middle, time - typical);
        of_numbers += number * number;
        of_times += time * time;
        of_both += number * time;
    }
    let of_line = of_times - of_both * of_both / of_numbers;
    let (before, after) = (median(&times[..at])?, median(&times[at..])?);
    let jump = Jump {
        number: numbers[at] as usize,
        before: Time(before),
        after: Time(after),
        is_clear: is_clear(&times, at)?,
    };
    (left < of_line).then_some(jump)
}

fn times(instances: &[Instance]) -> Vec<f64> {
    instances
        .iter()
        .map(|instance| instance.time.time().0)
        .collect()
}

/// The sequences of a pass: those of stages in their order, then the other ranges.
pub(super) fn of_pass(context: &Context<'_>, pass: PassId) -> Vec<Series> {
    let stages = summaries(context.facts, pass).iter();
    let stages = stages.filter_map(|summary| of_stage(context, summary.clone()));
    stages.chain(of_ranges(context, pass)).collect()
}

fn of_stage(context: &Context<'_>, summary: Summary) -> Option<Series> {
    let stage = summary.stage(context.facts);
    let of_stage = context.facts.instances_of(stage).iter();
    let (mut instances, mut left_out) = (Vec::new(), Vec::new());
    for (number, instance) in of_stage
        .filter(|instance| instance.process == summary.process)
        .enumerate()
    {
        let host = instance.host_end.saturating_sub(instance.host_start);
        let is_measured = matches!(instance.excluded, None | Some(Exclusion::EarlierLevel));
        match instance.time().filter(|_| is_measured) {
            Some(time) => instances.push(Instance {
                number,
                time,
                host,
                sizes: instance.sizes,
            }),
            None => left_out.push(number),
        }
    }
    Series::of(stage.pass, Subject::Stage(summary), instances, left_out)
}

/// Ranges of the user that lie in no stage and took most time on the host, such as the iterations of a loop.
fn of_ranges(context: &Context<'_>, pass: PassId) -> Vec<Series> {
    let (session, ranges) = (context.session, &context.session.ranges);
    let stages = stage_spans(context, pass);
    let mut sums: FxHashMap<(StrId, ThreadId), (Ns, u32)> = FxHashMap::default();
    let is_own = |row: usize| {
        ranges.pass[row] == pass
            && !ranges.unclosed[row]
            && !is_within(
                stages.get(&ranges.thread[row]),
                ranges.start[row],
                ranges.end[row],
            )
            && is_of_user(session, RangeId(row as u32))
    };
    for row in (0..ranges.len()).filter(|row| is_own(*row)) {
        let sum = sums
            .entry((ranges.name[row], ranges.thread[row]))
            .or_default();
        let length = ranges.end[row].saturating_sub(ranges.start[row]);
        *sum = (sum.0.saturating_add(length), sum.1 + 1);
    }
    let mut order: Vec<_> = sums.into_iter().collect();
    order.retain(|(_, (_, count))| *count as usize >= LEAST_FOR_TREND);
    order.sort_by_key(|(key, (sum, _))| (std::cmp::Reverse(*sum), *key));
    order.truncate(MAX_RANGES);
    order
        .into_iter()
        .filter_map(|(key, _)| of_range(context, pass, key))
        .collect()
}

/// Where the ranges of stages lie, by thread.
fn stage_spans(context: &Context<'_>, pass: PassId) -> BTreeMap<ThreadId, Vec<Interval>> {
    let facts = context.facts;
    let stages = facts.stages.iter().filter(|stage| stage.pass == pass);
    let mut spans: BTreeMap<ThreadId, Vec<Interval>> = BTreeMap::new();
    for instance in stages.flat_map(|stage| facts.instances_of(stage)) {
        if let Some(thread) = instance.thread {
            spans
                .entry(thread)
                .or_default()
                .push((instance.host_start, instance.host_end));
        }
    }
    spans
        .into_iter()
        .map(|(thread, mut list)| (thread, union(&mut list)))
        .collect()
}

fn is_within(spans: Option<&Vec<Interval>>, start: Ns, end: Ns) -> bool {
    let Some(spans) = spans else { return false };
    let after = spans.partition_point(|span| span.0 <= start);
    spans[..after].last().is_some_and(|span| end <= span.1)
}

fn of_range(
    context: &Context<'_>,
    pass: PassId,
    (name, thread): (StrId, ThreadId),
) -> Option<Series> {
    let ranges = &context.session.ranges;
    let belongs = |id: &RangeId| {
        let row = id.index();
        ranges.pass[row] == pass && ranges.name[row] == name && ranges.thread[row] == thread
    };
    let mut ids: Vec<RangeId> = ranges.ids().filter(|id| belongs(id)).collect();
    ids.sort_by_key(|id| (ranges.start[id.index()], *id));
    let (mut instances, mut left_out) = (Vec::new(), Vec::new());
    let warm = warm_from(
        context,
        pass,
        context.session.threads.process[thread.index()],
    );
    for (number, row) in ids.into_iter().map(RangeId::index).enumerate() {
        let host = ranges.end[row].saturating_sub(ranges.start[row]);
        match warm.is_some_and(|warm| ranges.end[row] <= warm) {
            true => left_out.push(number),
            false => instances.push(Instance {
                number,
                time: host,
                host,
                sizes: Sizes::default(),
            }),
        }
    }
    if modified_z_of_first(&times(&instances)).is_some_and(|z| z > WARMUP_Z) {
        left_out.push(instances.remove(0).number);
    }
    Series::of(pass, Subject::Range(name), instances, left_out)
}

/// The start of the first counted instance of a stage before which some are excluded, of several stages the earliest:
/// the process is warm from there on.
fn warm_from(context: &Context<'_>, pass: PassId, process: ProcessId) -> Option<Ns> {
    let facts = context.facts;
    let outermost = facts
        .stages
        .iter()
        .filter(|stage| stage.pass == pass && stage.parent.is_none());
    let first_warm = |stage: &Stage| {
        let instances = facts
            .instances_of(stage)
            .iter()
            .filter(|stage| stage.process == process);
        let first = instances
            .enumerate()
            .find(|(_, stage)| stage.excluded.is_none());
        first
            .filter(|(number, _)| *number > 0)
            .map(|(_, stage)| stage.host_start)
    };
    outermost.filter_map(first_warm).min()
}
