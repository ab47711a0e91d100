//! Profiled launches and the launches of the timeline that they represent: same kernel, grid, block and stage.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::control;
use crate::counters::ncu::flops::{FlopCount, Part};
use crate::counters::ncu::{Counters, KernelCounters, Level, Levels};
use crate::engine::classify::KernelIdentity;
use crate::engine::facts::{OpSource, Stage};
use crate::engine::kernel_names::{How, of_pass};
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Facts, Known, Missing};
use rooflens_session::{Arrange, Dim3, KernelId, LaunchId, Ns, PassId, ProfileId, Session};
use rooflens_units::{Bytes, Flops, Ratio, Time};

/// A launch within these bounds of a median, as a ratio to it, is like it.
pub const ALIKE: std::ops::RangeInclusive<Ratio> = Ratio(0.8)..=Ratio(1.25);

/// A product that lasts this long, as a ratio to a profiled one of the same kernel and grid, is of its size.
/// Persistent kernels have one grid for all sizes: a projection and one with four times its depth.
pub const SAME_SIZE: std::ops::RangeInclusive<Ratio> = Ratio(2.0 / 3.0)..=Ratio(1.5);

/// Most by which counters are scaled to another number of blocks: what few blocks move stays in the caches.
pub const MAX_SCALE: Ratio = Ratio(4.0);

/// Share of a stage's GPU time that profiled launches have to represent: fewer say nothing of the stage.
pub const ENOUGH: Ratio = Ratio(0.25);

/// Share of a stage's GPU time from which on sums over profiled launches are those of the stage.
pub const WHOLE: Ratio = Ratio(0.80);

rooflens_stages::labels! {
    /// What a profiled launch has in common with the launches that it represents, the most first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Tier {
        /// Kernel, grid, block and stage.
        Stage = "kernel, grid, stage",
        /// Kernel, grid and block.
        Grid = "kernel, grid",
        /// Kernel and block: counters are scaled by blocks.
        Kernel = "kernel, by blocks",
    }
}

/// The kernel of the timeline that a profiled launch is of.
#[derive(Clone, Debug)]
pub struct MatchedKernel {
    /// How it was found.
    pub how: How,
    /// The kernel, if it was found.
    pub kernel: Option<KernelId>,
    /// Stages of the timeline that the launch’s ranges name, as indices into [`Facts::stages`].
    pub stages: Vec<usize>,
}

/// Launches of one kernel with one grid and block in a stage of the timeline.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Kernel.
    pub kernel: KernelId,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Launches in all counted instances.
    pub launches: u64,
    /// Their durations, summed, nanoseconds.
    pub time: Ns,
    /// Durations in ascending order; only of kernels that were profiled.
    pub durations: Vec<Ns>,
    /// What the profiled launches have in common with these; absent if there are none.
    pub tier: Option<Tier>,
    /// Profiled launches that represent these.
    pub from: Vec<ProfileId>,
}

/// A stage as one process ran it, by kernel, grid and block.
#[derive(Clone, Debug)]
pub struct Line {
    /// The stage.
    pub summary: Summary,
    /// GPUs that it used.
    pub gpus: usize,
    /// Durations of all GPU operations of its counted instances, summed, nanoseconds.
    pub time: Ns,
    /// The groups, those with most time first.
    pub groups: Vec<Group>,
}

/// Profiled launches and the timeline.
#[derive(Clone, Debug)]
pub struct Matching {
    /// The pass whose launches are matched.
    pub pass: PassId,
    /// The kernels of all profiled launches, by [`ProfileId`].
    pub kernels: Vec<MatchedKernel>,
    /// Stages in report order.
    pub lines: Vec<Line>,
}

/// Mean of moved bytes over profiled launches, and the smallest and largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: Bytes,
    /// Smallest value.
    pub min: Bytes,
    /// Largest value.
    pub max: Bytes,
}

/// Matches the profiled launches with the pass that shows kernels; missing without either.
pub fn compute(context: &Context<'_>) -> Known<Matching> {
    let (session, facts) = (context.session, context.facts);
    let counters = context.results.counters()?;
    let pass = facts
        .kernel_pass(session)
        .filter(|_| !session.launches.is_empty());
    let pass = pass.ok_or(Missing("missing.timeline"))?;
    let kernels = matched_kernels(session, facts, pass);
    let mut by_kernel = BTreeMap::<KernelId, Vec<ProfileId>>::new();
    for (matched, id) in kernels.iter().zip(session.kernel_profiles.ids()) {
        if let Some(kernel) = matched.kernel {
            by_kernel.entry(kernel).or_default().push(id);
        }
    }
    let line = |summary: Summary| {
        let mut line = gather(session, facts, summary, &by_kernel);
        let matched = |mut group: Group| {
            let candidates = by_kernel.get(&group.kernel).map_or(&[][..], Vec::as_slice);
            let product = is_product(&facts.identities[group.kernel.index()]);
            choose(
                &mut group,
                line.summary.stage,
                candidates,
                (&kernels, counters),
                product,
            );
            if product {
                by_size(group, counters)
            } else {
                vec![group]
            }
        };
        line.groups = line.groups.into_iter().flat_map(matched).collect();
        line.groups.arrange_by(|a, b| {
            let key = |group: &Group| {
                (
                    std::cmp::Reverse(group.time),
                    group.kernel,
                    group.grid,
                    group.block,
                )
            };
            key(a).cmp(&key(b)).then_with(|| a.from.cmp(&b.from))
        });
        line
    };
    let lines = summaries(facts, pass).iter().cloned().map(line).collect();
    Ok(Matching {
        pass,
        kernels,
        lines,
    })
}

impl Matching {
    /// Stages that are no parts of others, which would say the same again, as far as they have GPU time.
    pub fn outermost<'a>(&'a self, facts: &'a Facts) -> impl Iterator<Item = (usize, &'a Line)> {
        let lines = self.lines.iter().enumerate();
        lines.filter(|(_, line)| line.summary.is_outermost(facts) && line.time > Ns::ZERO)
    }
}

/// Whether a kernel's work has a depth that its grid does not tell. Reductions after split products have none.
fn is_product(identity: &KernelIdentity) -> bool {
    identity.class.is_matrix_work() && !identity.short.contains("reduc")
}

fn matched_kernels(session: &Session, facts: &Facts, pass: PassId) -> Vec<MatchedKernel> {
    let names = of_pass(session, facts, pass);
    let stages: Vec<(usize, BTreeSet<&str>)> = facts
        .stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.pass == pass)
        .map(|(index, stage)| (index, range_names(session, facts, stage)))
        .collect();
    let profiled = |profile: ProfileId| {
        let row = session.kernel_profiles.row(profile);
        let path = session.text(row.artifact);
        let (how, kernel) = names.find(session.text(row.name), path);
        let nvtx = session.text(row.nvtx);
        // A stage without ranges is the whole capture.
        let fits = |ranges: &BTreeSet<&str>| {
            ranges.is_empty()
                || nvtx
                    .split('/')
                    .chain([nvtx])
                    .any(|part| ranges.contains(part))
        };
        let stages = stages
            .iter()
            .filter(|(_, ranges)| fits(ranges))
            .map(|(index, _)| *index);
        MatchedKernel {
            how,
            kernel,
            stages: stages.collect(),
        }
    };
    session.kernel_profiles.ids().map(profiled).collect()
}

/// Names of the ranges that a stage's instances are; none if it is the whole capture.
fn range_names<'a>(session: &'a Session, facts: &Facts, stage: &Stage) -> BTreeSet<&'a str> {
    let ranges = facts
        .instances_of(stage)
        .iter()
        .filter_map(|instance| instance.range);
    let names: BTreeSet<_> = ranges
        .map(|range| session.ranges.name[range.index()])
        .collect();
    names.into_iter().map(|name| session.text(name)).collect()
}

/// The launches of a stage's counted instances by kernel, grid and block.
pub(crate) fn gather(
    session: &Session,
    facts: &Facts,
    summary: Summary,
    profiled: &BTreeMap<KernelId, Vec<ProfileId>>,
) -> Line {
    let mut positions = FxHashMap::<(KernelId, Dim3, Dim3), usize>::default();
    let (mut groups, mut has_profiles): (Vec<Group>, Vec<bool>) = Default::default();
    let (mut time, mut gpus) = (Ns::ZERO, 1);
    for instance in summary.counted_instances(facts) {
        gpus = gpus.max(instance.gpus.len());
        for op in &instance.ops {
            let op = *op as usize;
            let duration = facts.ops.end[op] - facts.ops.start[op];
            time += duration;
            let OpSource::Launch(launch) = facts.ops.source[op] else {
                continue;
            };
            let key = key(session, launch);
            let position = *positions.entry(key).or_insert_with(|| {
                let (kernel, grid, block) = key;
                groups.push(Group {
                    kernel,
                    grid,
                    block,
                    ..Group::default()
                });
                has_profiles.push(profiled.contains_key(&kernel));
                groups.len() - 1
            });
            groups[position].launches += 1;
            groups[position].time += duration;
            if has_profiles[position] {
                groups[position].durations.push(duration);
            }
        }
    }
    for group in &mut groups {
        group.durations.sort_unstable();
    }
    Line {
        summary,
        gpus,
        time,
        groups,
    }
}

fn key(session: &Session, launch: LaunchId) -> (KernelId, Dim3, Dim3) {
    let (launches, row) = (&session.launches, launch.index());
    (
        launches.kernel[row],
        launches.grid[row],
        launches.block[row],
    )
}

/// Parts a group of products where its launches are of several sizes, by the profiled launch that lasts as long;
/// launches of sizes that were not profiled stay without counters.
fn by_size(group: Group, counters: &Counters) -> Vec<Group> {
    let mut sizes: Vec<(Time, Vec<ProfileId>)> = Vec::new();
    let mut timed: Vec<(Time, ProfileId)> = group
        .from
        .iter()
        .filter_map(|profile| Some((counters.launch(*profile).seconds?.time(), *profile)))
        .filter(|(time, _)| time.is_positive())
        .collect();
    timed.arrange_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (time, profile) in timed {
        match sizes
            .last_mut()
            .filter(|(first, _)| SAME_SIZE.contains(&Ratio(time / *first)))
        {
            Some((_, size)) => size.push(profile),
            None => sizes.push((time, vec![profile])),
        }
    }
    if sizes.is_empty() {
        return vec![group];
    }
    let (kernel, grid, block) = (group.kernel, group.grid, group.block);
    let mut parts = vec![
        Group {
            kernel,
            grid,
            block,
            ..Group::default()
        };
        sizes.len() + 1
    ];
    for duration in &group.durations {
        let distance = |size: &(Time, Vec<ProfileId>)| libm::log(duration.time() / size.0).abs();
        let fits = |(_, size): &(usize, &(Time, Vec<ProfileId>))| {
            SAME_SIZE.contains(&Ratio(duration.time() / size.0))
        };
        let nearest = sizes.iter().enumerate().filter(fits);
        let nearest = nearest.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        let part = &mut parts[nearest.map_or(sizes.len(), |(index, _)| index)];
        part.launches += 1;
        part.time += *duration;
        part.durations.push(*duration);
    }
    for (part, (_, from)) in parts.iter_mut().zip(sizes) {
        (part.tier, part.from) = (group.tier, from);
    }
    parts.retain(|part| part.launches > 0);
    parts
}

/// Chooses the profiled launches that represent a group: those with the most in common.
///
/// A product of another grid has another size, of which its grid tells two of three dimensions at best:
/// for matrix work the kernel alone is not enough.
fn choose(
    group: &mut Group,
    stage: usize,
    candidates: &[ProfileId],
    (kernels, counters): (&[MatchedKernel], &Counters),
    product: bool,
) {
    let fits = |tier: Tier, id: ProfileId| {
        let profile = counters.launch(id);
        let same_grid = profile.grid == group.grid && profile.block == group.block;
        match tier {
            Tier::Stage => same_grid && kernels[id.index()].stages.contains(&stage),
            Tier::Grid => same_grid,
            Tier::Kernel => {
                let scale = Ratio(group.grid.volume() as f64 / profile.grid.volume() as f64);
                let near = (Ratio(1.0 / MAX_SCALE.0)..=MAX_SCALE).contains(&scale);
                !product && profile.block == group.block && near
            }
        }
    };
    for tier in Tier::ALL {
        let from: Vec<ProfileId> = candidates
            .iter()
            .copied()
            .filter(|id| fits(tier, *id))
            .collect();
        if !from.is_empty() {
            (group.tier, group.from) = (Some(tier), from);
            return;
        }
    }
}

impl Group {
    /// Whether caches are known to have been flushed before some profiled launch that represents these.
    pub fn flushed(&self, session: &Session, counters: &Counters) -> bool {
        self.from.iter().any(|profile| {
            let pass = counters.launch(*profile).pass;
            let command = session.text(session.passes.command[pass.index()]);
            control::of_command(command).is_some_and(|control| control.cache == "all")
        })
    }

    /// Median duration; only of kernels that were profiled.
    pub fn median(&self) -> Option<Time> {
        let count = self.durations.len();
        let low = self.durations.get(count.saturating_sub(1) / 2)?;
        let high = self.durations.get(count / 2)?;
        Some((*low + *high).time() / 2.0)
    }

    /// Share of the time in launches that last about as long as the median.
    pub fn alike(&self) -> Option<Ratio> {
        let median = self.median()?;
        let (sum, alike) =
            self.durations
                .iter()
                .fold((Ns::ZERO, Ns::ZERO), |(sum, alike), duration| {
                    let is_alike = ALIKE.contains(&Ratio(duration.time() / median));
                    (
                        sum + *duration,
                        alike + if is_alike { *duration } else { Ns::ZERO },
                    )
                });
        (sum > Ns::ZERO).then(|| Ratio(alike.time() / sum.time()))
    }

    /// By how much the counters of a profiled launch are scaled.
    fn scale(&self, profile: &KernelCounters) -> Ratio {
        match self.tier {
            Some(Tier::Kernel) => Ratio(self.grid.volume() as f64 / profile.grid.volume() as f64),
            _ => Ratio::ONE,
        }
    }

    /// Bytes that one launch moved; absent if no launch was profiled or one lacks them.
    pub fn spread(
        &self,
        counters: &Counters,
        value: impl Fn(&KernelCounters) -> Option<Bytes>,
    ) -> Option<Spread> {
        let scaled = self.from.iter().map(|profile| {
            let launch = counters.launch(*profile);
            Some((value(launch)? * self.scale(launch)).0)
        });
        let values: Vec<f64> = scaled.collect::<Option<_>>()?;
        Some(Spread {
            mean: Bytes(rooflens_stats::mean(&values)?),
            min: Bytes(values.iter().copied().reduce(f64::min)?),
            max: Bytes(values.iter().copied().reduce(f64::max)?),
        })
    }

    /// Operations of one launch by dtype and pipe; absent if no launch was profiled or counted.
    pub fn parts(&self, counters: &Counters) -> Option<Vec<Part>> {
        let mut sums = BTreeMap::<(&'static str, bool), Flops>::new();
        for profile in &self.from {
            let launch = counters.launch(*profile);
            let FlopCount::Counted(parts) = &launch.flops else {
                return None;
            };
            for part in parts {
                *sums.entry((part.dtype, part.tensor)).or_default() +=
                    part.flops * self.scale(launch);
            }
        }
        let count = self.from.len() as f64;
        let mean = |((dtype, tensor), sum): ((&'static str, bool), Flops)| Part {
            dtype,
            tensor,
            flops: sum / count,
        };
        (!self.from.is_empty()).then(|| sums.into_iter().map(mean).collect())
    }

    /// Bytes of one launch at each memory level.
    pub fn bytes(&self, counters: &Counters) -> Levels<Bytes> {
        let mean = |level| {
            Some(
                self.spread(counters, |launch| launch.bytes.get(level))?
                    .mean,
            )
        };
        Levels {
            dram: mean(Level::Dram),
            l2: mean(Level::L2),
            l1: mean(Level::L1),
        }
    }
}

impl Line {
    /// Share of the stage's GPU time in launches with counters.
    pub fn covered(&self) -> Ratio {
        self.share(|group| group.tier.is_some())
    }

    /// Share of the stage's GPU time in groups that `wanted` accepts.
    pub fn share(&self, wanted: impl Fn(&Group) -> bool) -> Ratio {
        let time: Ns = self
            .groups
            .iter()
            .filter(|group| wanted(group))
            .map(|group| group.time)
            .sum();
        if self.time > Ns::ZERO {
            Ratio::of(time, self.time)
        } else {
            Ratio::ZERO
        }
    }
}
