//! Where a short second recording takes place, and what of a timeline precedes one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use rooflens_session::{Ns, RangeId, RangeKind};
use rooflens_stages::{OpSource, Stage, StageInstance};

use super::Timeline;
use super::count::since_start;

/// Instances of each stage in which nodes of CUDA graphs are recorded.
const GRAPH_INSTANCES: usize = 2;

/// Time around the first of them in which instances of other stages are recorded, too.
const NEAR: Ns = Ns(10_000_000_000);

/// Instances in which Python stacks are recorded: early ones that count, because the time of a pass may be up before the
/// last ones. The least number of a stage that has so many to spare, and the time that they may take without stacks.
const STACK_INSTANCES: usize = 2;
const MANY: usize = 4;
const STACK_TIME: Ns = Ns(2_000_000_000);

/// An instance of a range that Python can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Name of the range.
    pub(crate) range: String,
    /// Which of that name in the process, from 0.
    pub(crate) ordinal: usize,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
}

/// The part of a run before a recording of its own begins.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Ranges of the first process by name.
    ranges: BTreeMap<String, usize>,
    /// Start of the recording and end of the run, on the clock of the whole timeline.
    start: Ns,
    pub(super) end: Option<Duration>,
}

impl Before {
    /// Ranges of this name.
    pub(super) fn ranges(&self, name: &str) -> usize {
        self.ranges.get(name).copied().unwrap_or(0)
    }
}

impl Timeline {
    /// Whether CUDA graphs were launched and recorded as a whole.
    pub(crate) fn hides_kernels(&self) -> bool {
        !self.session.graph_launches.is_empty()
    }

    /// Whether a kernel was recorded.
    pub(crate) fn shows_kernels(&self) -> bool {
        !self.session.launches.is_empty()
    }

    /// The first instances of the stage with the most time in CUDA graphs, and those of other outermost stages near them,
    /// by their starts. None if a stage is marked by other ranges than Python's.
    pub(crate) fn graph_instances(&self, pushed: impl Fn(&str) -> bool) -> Option<Vec<Instance>> {
        let outermost = self
            .tables
            .stages
            .iter()
            .filter(|stage| stage.parent.is_none() && self.is_named(stage));
        let mut stages = Vec::new();
        for stage in outermost {
            let instances = self.pushed_instances(stage, &pushed)?;
            stages.push((self.graph_time(stage), instances));
        }
        let (_, main) = stages
            .iter()
            .filter(|(time, _)| *time > Ns::ZERO)
            .max_by_key(|(time, _)| *time)?;
        let center = main.first()?.start;
        let mut chosen = Vec::new();
        for (_, instances) in &stages {
            let mut near = instances.clone();
            near.retain(|instance| (center - NEAR..center + NEAR).contains(&instance.start));
            near.truncate(GRAPH_INSTANCES);
            chosen.extend(near);
        }
        chosen.sort_by_key(|instance| (instance.start, instance.ordinal));
        Some(chosen)
    }

    /// The first instances that count of the outermost stage that has some to spare and is short enough for stacks.
    pub(crate) fn stack_instances(&self, pushed: impl Fn(&str) -> bool) -> Option<Vec<Instance>> {
        let mut stages: Vec<&Stage> = self
            .tables
            .stages
            .iter()
            .filter(|stage| self.is_named(stage))
            .collect();
        let gpu_time = |stage: &Stage| {
            self.counted(stage)
                .map(|instance| instance.sum)
                .fold(Ns::ZERO, |a, b| a + b)
        };
        stages.sort_by_key(|stage| (stage.parent.is_some(), Reverse(gpu_time(stage))));
        let first = |stage: &Stage| {
            let mut chosen = self.pushed_instances(stage, &pushed)?;
            if chosen.len() < MANY {
                return None;
            }
            chosen.truncate(STACK_INSTANCES);
            let time = chosen.last()?.end - chosen.first()?.start;
            (time <= STACK_TIME).then_some(chosen)
        };
        stages.into_iter().find_map(first)
    }

    /// Takes the times and ranges of the whole run into account: this timeline begins with the instance.
    pub(crate) fn begins_with(&mut self, first: &Instance, whole: &Self) {
        let (session, mut ranges) = (&whole.session, BTreeMap::new());
        for range in session.ranges.ids() {
            let row = range.index();
            if session.ranges.start[row] < first.start && whole.can_be_pushed(range) {
                *ranges
                    .entry(session.text(session.ranges.name[row]).to_owned())
                    .or_insert(0) += 1;
            }
        }
        self.before = Before {
            ranges,
            start: first.start,
            end: Some(whole.end()),
        };
    }

    /// A point of time as a time since the start of the run.
    pub(crate) fn since_start(&self, time: Ns) -> Duration {
        since_start(time + self.before.start)
    }

    /// The instances that count of one process; none if another range marks one.
    fn pushed_instances(
        &self,
        stage: &Stage,
        pushed: &impl Fn(&str) -> bool,
    ) -> Option<Vec<Instance>> {
        let session = &self.session;
        let process = self.counted(stage).map(|instance| instance.process).min();
        let mut instances = Vec::new();
        for instance in self
            .counted(stage)
            .filter(|instance| Some(instance.process) == process)
        {
            let range = instance.range.filter(|range| self.can_be_pushed(*range))?;
            let name = session.text(session.ranges.name[range.index()]);
            if !pushed(name) {
                return None;
            }
            instances.push(Instance {
                range: name.to_owned(),
                ordinal: self.ordinal(range),
                start: session.ranges.start[range.index()],
                end: session.ranges.end[range.index()],
            });
        }
        Some(instances)
    }

    /// Whether a range is one of those that Python pushes and pops: of other domains and kinds no signal tells.
    pub(super) fn can_be_pushed(&self, range: RangeId) -> bool {
        let (ranges, row) = (&self.session.ranges, range.index());
        let has_domain = !self.session.text(ranges.domain[row]).is_empty();
        !has_domain && ranges.kind[row] == RangeKind::PushPop
    }

    fn graph_time(&self, stage: &Stage) -> Ns {
        let ops = &self.tables.ops;
        let of_instance = |instance: &StageInstance| {
            let mut time = Ns::ZERO;
            for op in instance.ops.iter().map(|op| *op as usize) {
                if matches!(ops.source[op], OpSource::Graph(_)) {
                    time += ops.end[op] - ops.start[op];
                }
            }
            time
        };
        self.counted(stage)
            .map(of_instance)
            .fold(Ns::ZERO, |a, b| a + b)
    }
}
