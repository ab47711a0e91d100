//! Representativeness: what profiled launches represent in the timeline, and what was not profiled.

pub mod control;
pub mod matching;
pub mod summed;

use std::collections::BTreeMap;

use self::matching::{ALIKE, Group, Line, MatchedKernel, Matching};
use crate::counters::ncu::Counters;
use crate::{Context, Known};
use rooflens_session::{Arrange, KernelId, Ns, PassId, ProfileId};
use rooflens_units::{Ratio, Seconds, Time};

/// Launches of one kernel and grid of which less time than this is like their median are of several sizes.
const MOSTLY: Ratio = Ratio(0.5);

/// The profiled launches against the timeline.
pub struct Representativeness {
    /// All profiled launches, those that represent the largest share of a stage first.
    pub launches: Vec<Comparison>,
    /// Each pass with profiled launches.
    pub passes: BTreeMap<PassId, Sums>,
    /// Kernels without a profiled launch in outermost stages, those with the largest share of their stage first.
    pub gaps: Vec<Gap>,
}

/// A profiled launch against the launches of the timeline that it is said to represent.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The profiled launch.
    pub profile: ProfileId,
    /// The stage that it is compared with, an index into [`Matching::lines`].
    pub line: Option<usize>,
    /// The launches of the same kernel, grid and block there, an index into [`Line::groups`].
    pub group: Option<usize>,
    /// Duration under the profiler ÷ median in the timeline.
    pub ratio: Option<Ratio>,
    /// Share of the stage's GPU time that it represents.
    pub share: Option<Ratio>,
    /// What comes out.
    pub likeness: Likeness,
}

/// How like the launches of the timeline a profiled one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The timeline has no such kernel.
    NotInTimeline,
    /// The stage has the kernel, but not on this grid.
    NoGrid,
    /// The stage does not have the kernel.
    NoKernel,
    /// No duration was profiled.
    NoDuration,
    /// It lasted longer than the median.
    Longer,
    /// It lasted shorter than the median.
    Shorter,
    /// It lasted about as long as the median, but most of the launches did not.
    Mixed,
    /// It lasted about as long as the launches that it represents.
    Representative,
}

/// Profiled launches of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Launches.
    pub launches: u64,
    /// Profiled time.
    pub seconds: Seconds,
    /// Those of them that lasted about as long as the median of those that they represent.
    pub alike: u64,
    /// Their profiled time.
    pub alike_seconds: Seconds,
}

/// A kernel of a stage without counters.
#[derive(Clone, Debug)]
pub struct Gap {
    /// The stage, an index into [`Matching::lines`].
    pub line: usize,
    /// The kernel.
    pub kernel: KernelId,
    /// GPU time of its launches without counters, nanoseconds.
    pub time: Ns,
    /// Launches without counters.
    pub launches: u64,
    /// Share of the stage's GPU time.
    pub share: Ratio,
}

/// Holds every profiled launch against the timeline.
pub fn compute(context: &Context<'_>) -> Known<Representativeness> {
    let (counters, matching) = (context.results.counters()?, context.results.matching()?);
    let ids = context.session.kernel_profiles.ids();
    let mut launches: Vec<_> = ids.map(|id| compare(counters, matching, id)).collect();
    // Equal shares keep the order of the rows.
    let share = |launch: &Comparison| launch.share.unwrap_or(Ratio(-1.0));
    launches.arrange_by(|a, b| {
        share(b)
            .total_cmp(&share(a))
            .then(a.profile.cmp(&b.profile))
    });
    let mut passes = BTreeMap::<PassId, Sums>::new();
    for comparison in &launches {
        let launch = counters.launch(comparison.profile);
        let sums = passes.entry(launch.pass).or_default();
        sums.add(launch.seconds.unwrap_or_default(), comparison.is_alike());
    }
    let outermost = matching.outermost(context.facts);
    let mut gaps: Vec<Gap> = outermost
        .flat_map(|(at, line)| unprofiled(at, line))
        .collect();
    // Equal shares keep the order of stages and kernels.
    gaps.arrange_by(|a, b| b.share.total_cmp(&a.share));
    Ok(Representativeness {
        launches,
        passes,
        gaps,
    })
}

fn compare(counters: &Counters, matching: &Matching, profile: ProfileId) -> Comparison {
    let (launch, matched) = (counters.launch(profile), &matching.kernels[profile.index()]);
    let in_stage = |line: &Line| matched.stages.contains(&line.summary.stage);
    let same = |group: &Group| {
        Some(group.kernel) == matched.kernel
            && group.grid == launch.grid
            && group.block == launch.block
    };
    // Of the sizes on one grid the one that the launch represents.
    let find = |index: usize| {
        let groups = &matching.lines[index].groups;
        let stands = |group: &Group| same(group) && group.from.contains(&profile);
        let group = groups
            .iter()
            .position(stands)
            .or_else(|| groups.iter().position(same));
        group.map(|group| (index, group))
    };
    let lines = || 0..matching.lines.len();
    // Of nested stages the outer one, which comes first.
    let stage = lines().find(|index| in_stage(&matching.lines[*index]));
    let group_place = match stage {
        Some(_) => lines()
            .filter(|index| in_stage(&matching.lines[*index]))
            .find_map(find),
        None => lines()
            .filter_map(find)
            .max_by_key(|(line, group)| matching.lines[*line].groups[*group].time),
    };
    let line = group_place.map(|(line, _)| line).or(stage);
    let group_place = group_place.map(|(line, group)| (&matching.lines[line], group));
    let of_group = group_place.map(|(line, group)| &line.groups[group]);
    let ratio = of_group.and_then(|group| {
        let median = group.median().filter(Time::is_positive)?;
        Some(Ratio(launch.seconds?.time() / median))
    });
    let share = group_place.filter(|(line, _)| line.time > Ns::ZERO);
    Comparison {
        profile,
        line,
        group: group_place.map(|(_, group)| group),
        ratio,
        share: share.map(|(line, group)| Ratio::of(line.groups[group].time, line.time)),
        likeness: likeness(
            matched,
            line.map(|line| &matching.lines[line]),
            of_group,
            ratio,
        ),
    }
}

fn likeness(
    matched: &MatchedKernel,
    line: Option<&Line>,
    group: Option<&Group>,
    ratio: Option<Ratio>,
) -> Likeness {
    if matched.kernel.is_none() {
        return Likeness::NotInTimeline;
    }
    let Some(group) = group else {
        let of_kernel = |group: &Group| Some(group.kernel) == matched.kernel;
        let runs = line.is_some_and(|line| line.groups.iter().any(of_kernel));
        return if runs {
            Likeness::NoGrid
        } else {
            Likeness::NoKernel
        };
    };
    match ratio {
        None => Likeness::NoDuration,
        Some(ratio) if !ALIKE.contains(&ratio) && ratio > Ratio::ONE => Likeness::Longer,
        Some(ratio) if !ALIKE.contains(&ratio) => Likeness::Shorter,
        Some(_) if group.alike().is_some_and(|alike| alike < MOSTLY) => Likeness::Mixed,
        Some(_) => Likeness::Representative,
    }
}

impl Sums {
    fn add(&mut self, seconds: Seconds, alike: bool) {
        self.launches += 1;
        self.seconds += seconds;
        if alike {
            self.alike += 1;
            self.alike_seconds += seconds;
        }
    }

    /// Share of the profiled time in launches about as long as those that they represent; absent without any.
    pub fn share(&self) -> Option<Ratio> {
        self.seconds
            .is_positive()
            .then(|| Ratio(self.alike_seconds / self.seconds))
    }
}

impl Comparison {
    /// Whether the launch lasted about as long as those that it represents.
    pub fn is_alike(&self) -> bool {
        self.ratio.is_some_and(|ratio| ALIKE.contains(&ratio))
    }
}

/// Kernels of a line without counters, the most time first.
fn unprofiled(at: usize, line: &Line) -> Vec<Gap> {
    let mut kernels = BTreeMap::<KernelId, (Ns, u64)>::new();
    for group in line.groups.iter().filter(|group| group.tier.is_none()) {
        let sum = kernels.entry(group.kernel).or_default();
        *sum = (sum.0 + group.time, sum.1 + group.launches);
    }
    let gap = |(kernel, (time, launches)): (KernelId, (Ns, u64))| Gap {
        line: at,
        kernel,
        time,
        launches,
        share: Ratio::of(time, line.time),
    };
    let mut gaps: Vec<Gap> = kernels.into_iter().map(gap).collect();
    gaps.arrange_by_key(|gap| (std::cmp::Reverse(gap.time), gap.kernel));
    gaps
}

#[cfg(test)]
mod tests;
