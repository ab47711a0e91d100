//! The time of one GPU in one pass, split by phase, and within a phase by kernel and by cause of idle time.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_session::{CopyKind, GpuId, KernelId, Ns, PassId, ProcessId};
use rooflens_stats::{OUTLIER_Z, median, modified_z};
use rustc_hash::FxHashMap;

use super::nodes::{Iterations, Phase};
use crate::Context;
use crate::engine::facts::{Exclusion, Facts, OpIndex, OpSource, Sizes, StageInstance};
use crate::engine::intervals::Interval;
use crate::engine::tiers::{Tier, tier};
use crate::time::idle::cause::{Cause, Times};
use crate::time::idle::gaps::Gaps;

/// Operations that run at once and are searched for one of the iteration itself.
const SEARCHED: usize = 64;

/// Iterations that a stage needs before one of them is called slow: fewer have no spread to compare with.
const COMPARED: usize = 5;

/// How many times the median a slow iteration takes at least: with a tiny spread, any difference is an outlier.
const SLOW: f64 = 1.5;

/// An instance of [`Owners`] that is none.
const NOBODY: u32 = u32::MAX;

/// What a GPU executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Launches of a kernel.
    Kernel(KernelId),
    /// Copies, or memsets.
    Copy(CopyKind),
    /// CUDA graphs traced as a whole.
    Graph,
}

/// The time of one GPU.
pub(super) struct Lane {
    pub(super) gpu: GpuId,
    /// Captured time.
    pub(super) time: Ns,
    pub(super) phases: BTreeMap<Phase, PhaseTime>,
}

/// The time of a phase on one GPU.
#[derive(Default)]
pub(super) struct PhaseTime {
    /// Iterations, or times between them.
    pub(super) parts: u64,
    pub(super) time: Ns,
    /// Time of each kind of work. Of operations that run at once, computing kernels come first, then collectives.
    pub(super) busy: FxHashMap<Work, Ns>,
    /// Idle time between two operations of the GPU.
    pub(super) idle: Times,
    /// Idle time before its first and after its last operation.
    pub(super) no_operation: Ns,
}

/// A part of the captured time in one phase.
pub(super) struct Segment {
    pub(super) time: Interval,
    pub(super) phase: Phase,
    instance: Option<u32>,
}

/// An operation that runs. Its order is the order in which operations own a moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    tier: Tier,
    start: Ns,
    op: OpIndex,
}

/// The outermost instance that issued each operation.
pub(super) struct Owners(Vec<u32>);

/// Finds the outermost instance of each operation; of several, the last.
pub(super) fn owners(facts: &Facts) -> Owners {
    let mut owners = vec![NOBODY; facts.ops.len()];
    for (index, instance) in (0..).zip(&facts.instances) {
        if !instance.is_nested {
            for op in &instance.ops {
                owners[*op as usize] = index;
            }
        }
    }
    Owners(owners)
}

impl Owners {
    /// Whether the instance issued the operation.
    fn is_of(&self, facts: &Facts, op: OpIndex, instance: u32) -> bool {
        let issued = || facts.instances[instance as usize].ops.binary_search(&op);
        match self.0[op as usize] {
            NOBODY => false,
            owner => owner == instance || issued().is_ok(),
        }
    }
}

impl Lane {
    pub(super) fn new(
        context: &Context<'_>,
        gaps: &Gaps,
        owners: &Owners,
        pass: PassId,
        gpu: GpuId,
        window: Interval,
    ) -> Self {
        let segments = segments(context.facts, pass, gpu, window);
        let mut lane = Self {
            gpu,
            time: window.1 - window.0,
            phases: BTreeMap::new(),
        };
        for segment in &segments {
            let phase = lane.phases.entry(segment.phase).or_default();
            let time = segment.time.1 - segment.time.0;
            phase.parts += 1;
            phase.time += time;
            phase.no_operation += time;
            for gap in gaps.within(gpu, segment.time) {
                phase.idle.extend(&gap.times);
                phase.no_operation -= gap.end - gap.start;
            }
        }
        lane.add_busy(context, owners, &segments, pass);
        lane
    }

    /// Sweeps over the operations of the GPU, and gives each busy moment to one of them.
    fn add_busy(
        &mut self,
        context: &Context<'_>,
        owners: &Owners,
        segments: &[Segment],
        pass: PassId,
    ) {
        let (session, facts) = (context.session, context.facts);
        let ops = &facts.ops;
        let rows = facts.ops_of(pass).filter(|row| ops.gpu[*row] == self.gpu);
        let mut starts = rows.peekable();
        let mut running: BTreeSet<Running> = BTreeSet::new();
        let mut ends: BTreeSet<(Ns, Running)> = BTreeSet::new();
        let mut first = 0;
        let mut now = Ns::MIN;
        loop {
            while let Some((end, operation)) = ends.first().copied()
                && end <= now
            {
                ends.pop_first();
                running.remove(&operation);
            }
            if running.is_empty() {
                let Some(row) = starts.peek() else { break };
                now = now.max(ops.start[*row]);
            }
            while let Some(row) = starts.next_if(|row| ops.start[*row] <= now) {
                if ops.end[row] > now {
                    let operation = Running {
                        tier: tier(session, facts, row),
                        start: ops.start[row],
                        op: row as OpIndex,
                    };
                    running.insert(operation);
                    ends.insert((ops.end[row], operation));
                }
            }
            let Some((end, _)) = ends.first() else {
                continue;
            };
            let until = starts.peek().map_or(*end, |row| ops.start[*row].min(*end));
            while segments[first].time.1 <= now {
                first += 1;
            }
            for segment in &segments[first..] {
                if segment.time.0 >= until {
                    break;
                }
                let (start, end) = (segment.time.0.max(now), segment.time.1.min(until));
                if start >= end {
                    continue;
                }
                let phase = self.phases.entry(segment.phase).or_default();
                phase.no_operation -= end - start;
                match owner(facts, owners, segment, &running) {
                    Some(op) => *phase.busy.entry(work(context, op)).or_default() += end - start,
                    None => phase.idle.add(Cause::OtherWork, end - start),
                }
            }
            now = until;
        }
    }
}

/// The operation that owns a moment: the first that the iteration issued, or any outside of iterations.
fn owner(
    facts: &Facts,
    owners: &Owners,
    segment: &Segment,
    running: &BTreeSet<Running>,
) -> Option<OpIndex> {
    let mut operations = running.iter().take(SEARCHED);
    let owner = match segment.instance {
        Some(instance) => operations.find(|running| owners.is_of(facts, running.op, instance)),
        None => operations.next(),
    };
    owner.map(|running| running.op)
}

fn work(context: &Context<'_>, op: OpIndex) -> Work {
    let session = context.session;
    match context.facts.ops.source[op as usize] {
        OpSource::Launch(launch) => Work::Kernel(session.launches.kernel[launch.index()]),
        OpSource::Copy(copy) => Work::Copy(session.copies.kind[copy.index()]),
        OpSource::Graph(_) => Work::Graph,
    }
}

/// The phases of a GPU in the order of time, without a hole.
pub(super) fn segments(facts: &Facts, pass: PassId, gpu: GpuId, window: Interval) -> Vec<Segment> {
    let mut instances: Vec<(Interval, u32, &StageInstance)> = Vec::new();
    for (index, instance) in (0..).zip(&facts.instances) {
        let stage = &facts.stages[instance.stage];
        if stage.pass == pass
            && !instance.is_nested
            && instance.gpus.contains(&gpu)
            && let Some(projection) = instance.projection
        {
            instances.push((projection, index, instance));
        }
    }
    instances.sort_unstable_by_key(|(projection, index, _)| (*projection, *index));
    let slow = slow_iterations(&instances);
    let mut segments: Vec<Segment> = Vec::new();
    let mut add = |time: Interval, phase: Phase, instance: Option<u32>| {
        // An iteration that others cover completely keeps its node.
        if time.0 < time.1 || instance.is_some() {
            segments.push(Segment {
                time,
                phase,
                instance,
            });
        }
    };
    let mut now = window.0;
    let mut last: Option<&StageInstance> = None;
    for ((start, end), index, instance) in instances {
        let between = last.map_or(Phase::BeforeStages, |last| Phase::Between {
            from: last.stage,
            to: instance.stage,
            is_measured: last.excluded.is_none() && instance.excluded.is_none(),
        });
        add((now, start), between, None);
        let phase = Phase::Stage {
            stage: instance.stage,
            process: instance.process,
            iterations: iterations(instance.excluded, slow.contains(&index)),
        };
        add((now.max(start), now.max(end)), phase, Some(index));
        if end > now {
            (now, last) = (end, Some(instance));
        }
    }
    let rest = last.map_or(Phase::BeforeStages, |_| Phase::AfterStages);
    add((now, window.1), rest, None);
    segments
}

/// Iterations that count, and take far longer than most of their stage with the same sizes.
fn slow_iterations(instances: &[(Interval, u32, &StageInstance)]) -> BTreeSet<u32> {
    let mut by_stage: BTreeMap<(usize, ProcessId, Sizes), Vec<(u32, f64)>> = BTreeMap::new();
    for (_, index, instance) in instances {
        if instance.excluded.is_none()
            && let Some(time) = instance.time()
        {
            let steps = instance.steps.unwrap_or(1).max(1);
            let times = by_stage
                .entry((instance.stage, instance.process, instance.sizes.of_work()))
                .or_default();
            times.push((*index, time.time().0 / steps as f64));
        }
    }
    let mut slow = BTreeSet::new();
    for iterations in by_stage.values() {
        let times: Vec<f64> = iterations.iter().map(|(_, time)| *time).collect();
        let (Some(median), Some(scores)) = (median(&times), modified_z(&times)) else {
            continue;
        };
        for ((index, time), z) in iterations.iter().zip(scores) {
            if times.len() >= COMPARED && z > OUTLIER_Z && *time >= SLOW * median {
                slow.insert(*index);
            }
        }
    }
    slow
}

const fn iterations(excluded: Option<Exclusion>, is_slow: bool) -> Iterations {
    match excluded {
        None if is_slow => Iterations::Slow,
        None => Iterations::Steady,
        Some(Exclusion::DeclaredWarmup) => Iterations::Warmup,
        Some(Exclusion::ColdStart { .. }) => Iterations::ColdStart,
        Some(Exclusion::Steps { .. }) => Iterations::OtherLength,
        Some(Exclusion::EarlierLevel) => Iterations::EarlierLevel,
        Some(Exclusion::Crowded(_) | Exclusion::NoRoom) => Iterations::NotAnalyzed,
    }
}
