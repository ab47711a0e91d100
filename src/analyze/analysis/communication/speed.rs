//! How fast the GPU of a rank was: the same kernels against those of the fastest rank, and the clocks.

use std::collections::BTreeMap;

use super::calls::{Member, Run};
use super::lines::RankTimes;
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource, StageInstance};
use crate::engine::intervals::total;
use crate::engine::sm_clock::Clocks;
use crate::engine::tiers::{Tier, tier};
use crate::system::power::reasons;
use crate::system::power::sampled;
use crate::system::power::samples::{Device, Sample};
use rooflens_session::{Dim3, KernelId, Ns, Session};
use rooflens_units::{Hertz, Ratio, Time, Watts};

/// Kernel time that must be in kernels of one name and grid on both ranks, and by how much the numbers of their
/// launches may differ, for their work to be taken as equal. Persistent kernels have one grid for all sizes, so
/// less proves nothing.
const IN_COMMON: Ratio = Ratio(0.9);
const COUNT_DIFFERENCE: Ratio = Ratio(0.02);

/// The part of the slowdown of the same kernels that a lower clock must account for to be its reason.
pub const BY_CLOCK: Ratio = Ratio(0.5);

/// What a line says of the speed of its GPU; absent where the artifacts do not say it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speed {
    /// Times of kernels ÷ those of the same kernels on the rank that computes shortest, if both do the same.
    pub slowdown: Option<Ratio>,
    /// Mean SM clock.
    pub clock: Option<Hertz>,
    /// The clock of the rank that computes shortest ÷ this one.
    pub clock_ratio: Option<Ratio>,
    /// The reason that lowered the clock most often, and the share of the samples that state it.
    pub limit: Option<(&'static str, Ratio)>,
    /// The share of the samples of the rank that computes shortest that state the same reason.
    pub other_limit: Option<Ratio>,
    /// Most sampled power of the board, and that of the rank that computes shortest.
    pub power: (Option<Watts>, Option<Watts>),
    /// Number of its GPU.
    pub gpu: Option<u32>,
}

/// Launches and their time, by kernel and grid, and in how many instances.
struct Work {
    by_kernel: BTreeMap<(KernelId, Dim3), (u64, Ns)>,
    instances: usize,
}

/// A clock that explains slower kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerClock {
    /// Time of the kernels ÷ that on the rank that computes shortest.
    pub slowdown: Ratio,
    /// Mean SM clock of this rank and of that one.
    pub clocks: (Hertz, Hertz),
    /// The part of the slowdown that is as much as the clock is lower.
    pub share: Ratio,
    /// What lowered the clock most often, and in what share of the samples.
    pub limit: Option<(&'static str, Ratio)>,
    /// In what share of those of that rank the same did, if it did.
    pub other_limit: Option<Ratio>,
    /// Most sampled power of the board of this rank and of that one.
    pub power: Option<(Watts, Watts)>,
}

impl Speed {
    /// The part of the slowdown that is as much as the clock is lower.
    pub fn by_clock(&self) -> Option<Ratio> {
        let slowdown = self.slowdown.filter(|slowdown| *slowdown > Ratio::ONE)?;
        let by_clock = (self.clock_ratio? - Ratio::ONE) / (slowdown - Ratio::ONE);
        Some(Ratio(by_clock.clamp(0.0, 1.0)))
    }

    /// The lower clock, if it is the reason of slower kernels.
    pub fn lower_clock(&self) -> Option<LowerClock> {
        let share = self.by_clock().filter(|share| *share >= BY_CLOCK)?;
        let (slowdown, clock) = (self.slowdown?, self.clock?);
        let clocks = (clock, clock * self.clock_ratio?);
        let power = self.power.0.zip(self.power.1);
        Some(LowerClock {
            slowdown,
            clocks,
            share,
            limit: self.limit,
            other_limit: self.other_limit,
            power,
        })
    }
}

/// Finds the speeds of all lines of a run.
pub(super) fn compare(context: &Context<'_>, run: &Run, lines: &mut [RankTimes]) {
    if run.members.len() < 2 {
        return;
    }
    let sampled = sampled(context);
    let clocks: Vec<Option<Clocks>> = run
        .members
        .iter()
        .map(|member| Clocks::of(context, member.pass, Some(member.gpu)))
        .collect();
    for line in &mut *lines {
        let times = times(context, &run.members[line.member], line);
        let clocks = clocks[line.member].as_ref();
        line.speed.clock = clocks.and_then(|clocks| clocks.mean(times.iter().copied()));
        let member = &run.members[line.member];
        let samples = samples(context.session, member, sampled, &times);
        line.speed.limit = limit(&samples);
        let watts = samples.iter().filter_map(|sample| sample.watts);
        line.speed.power.0 = watts.reduce(Watts::max);
        line.speed.gpu = Some(context.session.gpus.ordinal[member.gpu.index()]);
    }
    let fastest: Vec<Option<usize>> = lines
        .iter()
        .map(|line| fastest(context, lines, line))
        .collect();
    for (at, fastest) in fastest.into_iter().enumerate() {
        let Some(fastest) = fastest.filter(|fastest| *fastest != at) else {
            continue;
        };
        let work = |line: &RankTimes| Work::of(context, &run.members[line.member], line);
        let slowdown = work(&lines[at]).slowdown(&work(&lines[fastest]));
        let clock = lines[fastest].speed.clock.zip(lines[at].speed.clock);
        let power = lines[fastest].speed.power.0;
        let name = lines[at].speed.limit.map(|(name, _)| name);
        let other_limit = lines[fastest].speed.limit;
        let other_limit = other_limit.filter(|(other, _)| Some(*other) == name);
        let speed = &mut lines[at].speed;
        speed.slowdown = slowdown;
        speed.power.1 = power;
        speed.other_limit = other_limit.map(|(_, share)| share);
        speed.clock_ratio = clock
            .map(|(fast, clock)| Ratio(fast / clock))
            .filter(|ratio| ratio.is_finite());
    }
}

/// The line of the same stage whose rank computes shortest.
fn fastest(context: &Context<'_>, lines: &[RankTimes], line: &RankTimes) -> Option<usize> {
    let same = |index: &&usize| lines[**index].stage_name(context) == line.stage_name(context);
    let computing: Vec<usize> = (0..lines.len())
        .filter(|index| lines[*index].compute > Time::ZERO)
        .collect();
    computing.iter().filter(same).copied().min_by(|a, b| {
        lines[*a]
            .compute
            .total_cmp(&lines[*b].compute)
            .then(lines[*a].rank.cmp(&lines[*b].rank))
    })
}

/// The counted instances of a line, none for that of the whole pass.
fn instances<'a>(
    context: &'a Context<'_>,
    member: &'a Member,
    line: &RankTimes,
) -> impl Iterator<Item = &'a StageInstance> + use<'a> {
    let stage = line
        .stage
        .map(|stage| context.facts.instances_of(&context.facts.stages[stage]));
    let counts = |instance: &&StageInstance| {
        instance.process == member.process && instance.excluded.is_none()
    };
    stage.into_iter().flatten().filter(counts)
}

/// The times of a line: projections of instances, or the whole pass.
fn times(context: &Context<'_>, member: &Member, line: &RankTimes) -> Vec<(Ns, Ns)> {
    let (facts, ops) = (context.facts, &context.facts.ops);
    if line.stage.is_some() {
        return instances(context, member, line)
            .filter_map(|instance| instance.projection)
            .collect();
    }
    let counted_ops = || {
        facts
            .ops_of(member.pass)
            .filter(|op| is_own(context, member, *op))
    };
    let start = counted_ops().map(|op| ops.start[op]).min();
    start
        .zip(counted_ops().map(|op| ops.end[op]).max())
        .into_iter()
        .collect()
}

fn is_own(context: &Context<'_>, member: &Member, op: usize) -> bool {
    let ops = &context.facts.ops;
    ops.gpu[op] == member.gpu && ops.process[op] == member.process
}

/// The samples of the rank's GPU at these times.
fn samples<'a>(
    session: &Session,
    member: &Member,
    devices: &'a [Device],
    times: &[(Ns, Ns)],
) -> Vec<&'a Sample> {
    let Some(origin) = session.passes.utc_origin[member.pass.index()] else {
        return Vec::new();
    };
    let ordinal = session.gpus.ordinal[member.gpu.index()];
    let of_gpu = devices.iter().filter(|device| device.index == ordinal);
    of_gpu
        .flat_map(|device| times.iter().flat_map(|time| device.within(origin, *time)))
        .collect()
}

/// The reason that lowers the clock in most of these samples.
fn limit(samples: &[&Sample]) -> Option<(&'static str, Ratio)> {
    let masks: Vec<u64> = samples.iter().filter_map(|sample| sample.reasons).collect();
    let share = |bit: u64| {
        let stating = masks.iter().filter(|mask| **mask & bit != 0).count();
        Ratio(stating as f64 / masks.len().max(1) as f64)
    };
    let lowering = reasons::REASONS.iter().filter(|reason| reason.lowers_clock);
    let shares = lowering.map(|reason| (reason.name, share(reason.bit)));
    shares
        .filter(|(_, share)| share.is_positive())
        .reduce(|a, b| if b.1 > a.1 { b } else { a })
}

impl Work {
    fn of(context: &Context<'_>, member: &Member, line: &RankTimes) -> Self {
        let mut work = Self {
            by_kernel: BTreeMap::new(),
            instances: 1,
        };
        if line.stage.is_some() {
            work.instances = 0;
            for instance in instances(context, member, line) {
                work.instances += 1;
                instance
                    .ops
                    .iter()
                    .for_each(|op| work.add(context, member, *op));
            }
        } else {
            let ops = context.facts.ops_of(member.pass);
            ops.for_each(|op| work.add(context, member, op as OpIndex));
        }
        work
    }

    fn add(&mut self, context: &Context<'_>, member: &Member, op: OpIndex) {
        let (session, facts, op) = (context.session, context.facts, op as usize);
        let OpSource::Launch(launch) = facts.ops.source[op] else {
            return;
        };
        if is_own(context, member, op) && tier(session, facts, op) == Tier::Compute {
            let row = launch.index();
            let key = (session.launches.kernel[row], session.launches.grid[row]);
            let sum = self.by_kernel.entry(key).or_default();
            sum.0 += 1;
            sum.1 = sum
                .1
                .saturating_add(facts.ops.end[op] - facts.ops.start[op]);
        }
    }

    /// How many times as long its kernels take as the same ones of another rank; `None` if their work differs.
    fn slowdown(&self, other: &Self) -> Option<Ratio> {
        let whole = total(self.by_kernel.values().map(|(_, time)| *time));
        let (mut here, mut there, mut common) = (Time::ZERO, Time::ZERO, Ns::ZERO);
        let (mut count_here, mut count_there) = (0.0, 0.0);
        for (key, (count, time)) in &self.by_kernel {
            if let Some((its_count, its_time)) = other.by_kernel.get(key) {
                common = common.saturating_add(*time);
                here += time.time();
                there += its_time.time() / *its_count as f64 * *count as f64;
                count_here += *count as f64 / self.instances.max(1) as f64;
                count_there += *its_count as f64 / other.instances.max(1) as f64;
            }
        }
        let same_kernels = common.time() > whole.time() * IN_COMMON;
        let difference = Ratio(count_here / count_there - 1.0).abs();
        let is_same = same_kernels && difference <= COUNT_DIFFERENCE && there.is_positive();
        is_same.then(|| Ratio(here / there))
    }
}
