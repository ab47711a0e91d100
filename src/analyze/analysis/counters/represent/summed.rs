//! Profiled launches against the kernel sums of another tool (`nsys stats`), where the bundle has no timeline:
//! joined by name, weighted by the kernel's time in the run, and compared with its median.

use std::collections::BTreeMap;

use super::matching::ALIKE;
use super::{Likeness, Sums};
use crate::counters::ncu::Counters;
use crate::counters::ncu::bound::{Bound, THRESHOLDS};
use crate::engine::kernel_names::{How, Names};
use crate::kernels::kernel_sums::{KernelSum, PassKernels};
use crate::{Classifier, Context, Known, Missing};
use rooflens_session::{Arrange, KernelId, Ns, PassId, ProfileId};
use rooflens_units::{Ratio, Seconds, Time};

/// Sample standard deviation ÷ mean up to which the launches of a kernel are alike.
pub const SPREAD: Ratio = Ratio(0.25);

/// The profiled launches of a bundle against the kernels of one pass of sums.
pub struct Summed {
    /// The pass of the sums: that with the most kernel time.
    pub pass: PassId,
    /// Kernel time of that pass, nanoseconds.
    pub total: Ns,
    /// All profiled launches, those of the kernels with the most time first.
    pub launches: Vec<SummedLaunch>,
    /// By pass of profiled launches.
    pub passes: BTreeMap<PassId, Sums>,
    /// Kernels without a profiled launch, the most time first.
    pub gaps: Vec<KernelSum>,
}

/// A profiled launch and the sum of its kernel.
pub struct SummedLaunch {
    /// The launch.
    pub profile: ProfileId,
    /// How the kernel was found.
    pub how: How,
    /// Its launches in the run.
    pub sum: Option<KernelSum>,
    /// Duration ÷ median (mean where the tool gave no median) of the kernel in the run.
    pub ratio: Option<Ratio>,
    /// Share of the kernel in the run's kernel time.
    pub share: Option<Ratio>,
    /// What the launch is worth.
    pub likeness: Likeness,
}

/// Joins them; missing where a timeline does so launch by launch, or where there is nothing to join.
pub fn compute(context: &Context<'_>) -> Known<Summed> {
    let (session, counters) = (context.session, context.results.counters()?);
    if !session.launches.is_empty() || session.kernel_sums.is_empty() {
        return Err(Missing("missing.timeline"));
    }
    let passes = context.results.kernels()?;
    let run = passes
        .iter()
        .max_by_key(|sum| (sum.total, std::cmp::Reverse(sum.pass)));
    let run = run
        .filter(|run| run.total > Ns::ZERO)
        .ok_or(Missing("missing.timeline"))?;
    let names = Names::new(
        run.sums
            .iter()
            .map(|sum| (session.kernel_name(sum.kernel), sum.kernel)),
    );
    let sums: BTreeMap<KernelId, &KernelSum> =
        run.sums.iter().map(|sum| (sum.kernel, sum)).collect();
    let profiles = &session.kernel_profiles;
    let summed = |profile: ProfileId| {
        let row = profiles.row(profile);
        let (how, kernel) = names.find(session.text(row.name), session.text(row.artifact));
        let sum = kernel.and_then(|kernel| sums.get(&kernel)).copied();
        SummedLaunch::of(counters, run, profile, (how, sum))
    };
    let mut launches: Vec<SummedLaunch> = profiles.ids().map(summed).collect();
    let share = |launch: &SummedLaunch| launch.share.unwrap_or(Ratio(-1.0));
    launches.arrange_by(|a, b| {
        share(b)
            .total_cmp(&share(a))
            .then(a.profile.cmp(&b.profile))
    });
    let profiled = |sum: &&KernelSum| {
        !launches
            .iter()
            .any(|launch| launch.kernel() == Some(sum.kernel))
    };
    let gaps = run.sums.iter().filter(profiled).cloned().collect();
    let passes = by_pass(counters, &launches);
    Ok(Summed {
        pass: run.pass,
        total: run.total,
        launches,
        passes,
        gaps,
    })
}

fn by_pass(counters: &Counters, launches: &[SummedLaunch]) -> BTreeMap<PassId, Sums> {
    let mut passes = BTreeMap::<PassId, Sums>::new();
    for summed in launches {
        let launch = counters.launch(summed.profile);
        let alike = summed.ratio.is_some_and(|ratio| ALIKE.contains(&ratio));
        passes
            .entry(launch.pass)
            .or_default()
            .add(launch.seconds.unwrap_or_default(), alike);
    }
    passes
}

impl SummedLaunch {
    fn of(
        counters: &Counters,
        run: &PassKernels,
        profile: ProfileId,
        (how, sum): (How, Option<&KernelSum>),
    ) -> Self {
        let duration = counters.launch(profile).seconds.map(Seconds::time);
        let middle = sum.and_then(|sum| sum.median.or_else(|| sum.mean()));
        let ratio = duration
            .zip(middle.filter(Time::is_positive))
            .map(|(duration, middle)| Ratio(duration / middle));
        let likeness = match (sum, ratio) {
            (None, _) => Likeness::NotInTimeline,
            (_, None) => Likeness::NoDuration,
            (Some(sum), Some(ratio)) => likeness(sum, ratio),
        };
        let share = sum.and_then(|sum| run.share(sum.total));
        Self {
            profile,
            how,
            sum: sum.cloned(),
            ratio,
            share,
            likeness,
        }
    }

    /// The kernel in the run.
    pub fn kernel(&self) -> Option<KernelId> {
        self.sum.as_ref().map(|sum| sum.kernel)
    }
}

/// What a launch that lasts `ratio` × the median is worth: sums have no grids, so that a kernel whose launches differ
/// much is represented by none of them.
fn likeness(sum: &KernelSum, ratio: Ratio) -> Likeness {
    let spread = sum
        .std
        .zip(sum.mean())
        .map_or(Ratio::ZERO, |(std, mean)| Ratio(std / mean.max(Time(1.0))));
    match ratio {
        ratio if !ALIKE.contains(&ratio) && ratio > Ratio::ONE => Likeness::Longer,
        ratio if !ALIKE.contains(&ratio) => Likeness::Shorter,
        _ if spread > SPREAD => Likeness::Mixed,
        _ => Likeness::Representative,
    }
}

impl Summed {
    /// Share of the run's kernel time in kernels of which a launch was profiled.
    pub fn covered(&self) -> Ratio {
        let gaps: Ns = self.gaps.iter().map(|sum| sum.total).sum();
        Ratio::of(self.total - gaps, self.total)
    }

    /// Shares of the run's kernel time by bound class, the largest first: a kernel counts by its launch that is
    /// nearest to the median.
    pub fn bounds(&self, counters: &Counters, rule: Classifier) -> Vec<(Bound, Ratio)> {
        let mut nearest = BTreeMap::<KernelId, &SummedLaunch>::new();
        let distance =
            |launch: &SummedLaunch| launch.ratio.map_or(f64::MAX, |ratio| (ratio.0 - 1.0).abs());
        for launch in &self.launches {
            let Some(kernel) = launch.kernel() else {
                continue;
            };
            let best = nearest.entry(kernel).or_insert(launch);
            if distance(launch) < distance(best) {
                *best = launch;
            }
        }
        let mut shares = BTreeMap::<Bound, Ratio>::new();
        for launch in nearest.values() {
            let bound = THRESHOLDS
                .classify(rule, counters.launch(launch.profile))
                .bound;
            *shares.entry(bound).or_default() += launch.share.unwrap_or_default();
        }
        let mut shares: Vec<(Bound, Ratio)> = shares.into_iter().collect();
        shares.arrange_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}
