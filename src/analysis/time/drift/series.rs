//! Sequences of times: instances of stages, and ranges that repeat most.

use std::collections::BTreeMap;

use rooflens_schemas::Scope;
use rustc_hash::FxHashMap;

use super::trend::{Trend, trend};
use crate::analysis::Context;
use crate::analysis::engine::facts::Stage;
use crate::analysis::engine::intervals::{Interval, union};
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::analysis::engine::stages::{LIBRARY_DOMAINS, WARMUP_Z};
use crate::analysis::engine::stats::{OUTLIER_Z, median, modified_z, modified_z_of_first};
use crate::model::{Ns, PassId, ProcessId, RangeId, StrId, ThreadId};

/// Instances that a sequence needs to be one, and those that a trend needs.
pub(super) const LEAST: usize = 4;
pub(super) const LEAST_FOR_TREND: usize = 8;

/// Ranges beside the stages that are looked at.
const MAX_RANGES: usize = 2;

/// Annotations of PyTorch around collectives: no part of a loop.
const COLLECTIVE: &str = "nccl:";

/// One instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Instance {
    /// Number in the sequence, from 0; those left out have numbers too.
    pub(super) number: usize,
    /// Projection on the GPU; of ranges that are no stage the time on the host.
    pub(super) time: Ns,
    /// Time on the host.
    pub(super) host: Ns,
}

/// The instances of a stage in one process, or of a range on one thread.
pub(super) struct Series {
    pub(super) pass: PassId,
    pub(super) label: String,
    /// Absent for ranges that are no stage: these have no metric.
    pub(super) scope: Option<Scope>,
    /// Those that count, in order.
    pub(super) instances: Vec<Instance>,
    /// Numbers of those left out.
    pub(super) left_out: Vec<usize>,
}

/// What a sequence amounts to.
pub(super) struct Figures {
    pub(super) median: f64,
    pub(super) trend: Option<Trend>,
    /// Medians of the first and of the last third.
    pub(super) ends: Option<(f64, f64)>,
    /// Change from the first to the last third, as a share of the first; only where there is a trend to speak of.
    pub(super) drift: Option<f64>,
    /// Places in the list of instances.
    pub(super) outliers: Vec<usize>,
}

impl Series {
    pub(super) fn times(&self) -> Vec<f64> {
        self.instances.iter().map(|one| one.time as f64).collect()
    }

    pub(super) fn total(&self) -> Ns {
        self.instances.iter().fold(0, |sum, one| sum.saturating_add(one.time))
    }

    /// The figures; none of an empty sequence.
    pub(super) fn figures(&self) -> Option<Figures> {
        let times = self.times();
        let median_time = median(&times)?;
        let points: Vec<(f64, f64)> =
            self.instances.iter().map(|one| (one.number as f64, one.time as f64)).collect();
        let trend = if points.len() < LEAST_FOR_TREND { None } else { trend(&points) };
        let third = times.len() / 3;
        let ends = median(&times[..third]).zip(median(&times[times.len() - third..]));
        let drift = trend.and(ends).map(|(first, last)| last / first - 1.0);
        let z = modified_z(&times).unwrap_or_default();
        let far = z.iter().enumerate().filter(|(_, z)| z.abs() > OUTLIER_Z);
        Some(Figures {
            median: median_time,
            trend,
            ends,
            drift: drift.filter(|drift| drift.is_finite()),
            outliers: far.map(|(place, _)| place).collect(),
        })
    }
}

/// The sequences of a pass: those of stages in their order, then the other ranges.
pub(super) fn of_pass(context: &Context<'_>, pass: PassId) -> Vec<Series> {
    let lines = summaries(context.facts, pass);
    let mut all: Vec<Series> = lines.iter().map(|line| of_stage(context, line)).collect();
    all.extend(of_ranges(context, pass));
    all.retain(|series| series.instances.len() >= LEAST);
    all
}

fn of_stage(context: &Context<'_>, line: &Summary) -> Series {
    let (session, facts) = (context.session, context.facts);
    let stage = line.stage(facts);
    let own = facts.instances_of(stage).iter().filter(|one| one.process == line.process);
    let mut series = Series {
        pass: stage.pass,
        label: line.label(session, facts),
        scope: Some(line.scope(session, facts)),
        instances: Vec::new(),
        left_out: Vec::new(),
    };
    for (number, instance) in own.enumerate() {
        let host = instance.host_end.saturating_sub(instance.host_start);
        match instance.time().filter(|_| instance.excluded.is_none()) {
            Some(time) => series.instances.push(Instance { number, time, host }),
            None => series.left_out.push(number),
        }
    }
    series
}

/// Ranges of the user that lie in no stage and took most time on the host, such as the iterations of a loop.
fn of_ranges(context: &Context<'_>, pass: PassId) -> Vec<Series> {
    let (session, ranges) = (context.session, &context.session.ranges);
    let stages = stage_spans(context, pass);
    let mut found: FxHashMap<(StrId, ThreadId), (Ns, u32)> = FxHashMap::default();
    let is_own = |row: usize| {
        ranges.pass[row] == pass
            && !ranges.unclosed[row]
            && !is_within(stages.get(&ranges.thread[row]), ranges.start[row], ranges.end[row])
            && !LIBRARY_DOMAINS.contains(&session.text(ranges.domain[row]))
            && !session.text(ranges.name[row]).starts_with(COLLECTIVE)
    };
    for row in (0..ranges.len()).filter(|row| is_own(*row)) {
        let sum = found.entry((ranges.name[row], ranges.thread[row])).or_default();
        let length = ranges.end[row].saturating_sub(ranges.start[row]);
        *sum = (sum.0.saturating_add(length), sum.1 + 1);
    }
    let mut order: Vec<_> = found.into_iter().collect();
    order.retain(|(_, (_, count))| *count as usize >= LEAST_FOR_TREND);
    order.sort_by_key(|(key, (sum, _))| (std::cmp::Reverse(*sum), *key));
    order.truncate(MAX_RANGES);
    order.into_iter().map(|(key, _)| of_range(context, pass, key)).collect()
}

/// Where the ranges of stages lie, by thread.
fn stage_spans(context: &Context<'_>, pass: PassId) -> BTreeMap<ThreadId, Vec<Interval>> {
    let facts = context.facts;
    let stages = facts.stages.iter().filter(|stage| stage.pass == pass);
    let mut spans: BTreeMap<ThreadId, Vec<Interval>> = BTreeMap::new();
    for instance in stages.flat_map(|stage| facts.instances_of(stage)) {
        if let Some(thread) = instance.thread {
            spans.entry(thread).or_default().push((instance.host_start, instance.host_end));
        }
    }
    spans.into_iter().map(|(thread, mut list)| (thread, union(&mut list))).collect()
}

fn is_within(spans: Option<&Vec<Interval>>, start: Ns, end: Ns) -> bool {
    let Some(spans) = spans else { return false };
    let after = spans.partition_point(|span| span.0 <= start);
    spans[..after].last().is_some_and(|span| end <= span.1)
}

fn of_range(context: &Context<'_>, pass: PassId, (name, thread): (StrId, ThreadId)) -> Series {
    let ranges = &context.session.ranges;
    let own = |id: &RangeId| {
        let row = id.index();
        ranges.pass[row] == pass && ranges.name[row] == name && ranges.thread[row] == thread
    };
    let mut ids: Vec<RangeId> = ranges.ids().filter(|id| own(id)).collect();
    ids.sort_by_key(|id| (ranges.start[id.index()], *id));
    let mut series = Series {
        pass,
        label: format!("{} (host)", context.session.text(name)),
        scope: None,
        instances: Vec::new(),
        left_out: Vec::new(),
    };
    let warm = warm_from(context, pass, context.session.threads.process[thread.index()]);
    for (number, row) in ids.into_iter().map(RangeId::index).enumerate() {
        let host = ranges.end[row].saturating_sub(ranges.start[row]);
        match warm.is_some_and(|warm| ranges.end[row] <= warm) {
            true => series.left_out.push(number),
            false => series.instances.push(Instance { number, time: host, host }),
        }
    }
    if modified_z_of_first(&series.times()).is_some_and(|z| z > WARMUP_Z) {
        series.left_out.push(series.instances.remove(0).number);
    }
    series
}

/// The start of the first counted instance of a stage before which some are left out, of several stages the earliest:
/// the process is warm from there on.
fn warm_from(context: &Context<'_>, pass: PassId, process: ProcessId) -> Option<Ns> {
    let facts = context.facts;
    let outermost = facts.stages.iter().filter(|one| one.pass == pass && one.parent.is_none());
    let first_warm = |stage: &Stage| {
        let own = facts.instances_of(stage).iter().filter(|one| one.process == process);
        let first = own.enumerate().find(|(_, one)| one.excluded.is_none());
        first.filter(|(number, _)| *number > 0).map(|(_, one)| one.host_start)
    };
    outermost.filter_map(first_warm).min()
}
