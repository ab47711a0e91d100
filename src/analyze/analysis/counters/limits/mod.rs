//! The least time of each kernel of a stage without the fault that its counters or its grid show.
//!
//! Counters of Nsight Compute give shares of a launch's duration: the use of each unit, and the part of that use which a
//! fault causes. A limit is the time of the timeline × the largest use that remains. Profiled durations were rejected as
//! limits, because ncu locks clocks and serializes kernels. A limit is optimistic, so that no repair beats it: it keeps
//! what the work needs, such as the bytes of DRAM, and drops what a repair may save, such as the use of caches. Kernels
//! without counters have the limit of their grid.

mod reasons;

use std::collections::BTreeMap;

use crate::counters::ncu::KernelCounters;
use crate::counters::represent::matching::{Group, Line, gather};
use crate::engine::classify::{KernelClass, KernelIdentity};
use crate::engine::stage_stats::{Summary, summaries};
use crate::results::no_gpu_work;
use crate::{Context, Known};
use rooflens_session::{Dim3, KernelId, Ns, PassId, ProfileId};
use rooflens_units::{Ratio, Time};

pub use reasons::Reason;
use reasons::{Profile, by_counters, by_grid, leaves_empty, shortest};

/// Share of a stage's GPU time from which on a kernel has a limit.
pub const NOTABLE: Ratio = Ratio(0.02);

/// Limit ÷ time from which on a kernel is near enough to its limit to have no fault.
pub const SOUND: Ratio = Ratio(0.70);

/// Most that a kernel without work lasts.
const SHORTEST: Ns = Ns(2_000);

/// The least rate of fp64 ÷ rate of fp32 of a GPU: CUDA C++ Programming Guide, *Arithmetic Instructions*.
const FP64: Ratio = Ratio(1.0 / 64.0);

/// Mean duration from which on another grid shortens a launch: five times [`SHORTEST`]. Shorter ones have little work.
const LONG: Time = Time(10_000.0);

/// Libraries, or none, of which kernels are compiled with the program: their source can be changed.
const OWN: [&str; 6] = ["", "Triton", "CUTLASS", "CUB / Thrust", "Kokkos", "RAJA"];

/// Whether a kernel is compiled with the program.
pub fn is_own(identity: &KernelIdentity) -> bool {
    OWN.contains(&identity.library)
}

/// Where a limit is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// Counters of this launch.
    Counters(ProfileId),
    /// Blocks and threads of the launches in the timeline.
    Grid,
}

/// A fault of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cause {
    /// The fault.
    pub reason: Reason,
    /// The share that shows it; [`Reason`] says of what.
    pub figure: Ratio,
    /// Least time without it ÷ time.
    pub rest: Ratio,
    /// Whether the compiler spilled registers, where that was counted.
    pub spills: bool,
    /// Sectors that coalesced accesses need ÷ sectors moved, where the rest assumes coalesced accesses in addition.
    pub coalesced: Option<Ratio>,
}

/// A kernel, grid and block of a stage, and the least time of its launches.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLimit {
    /// Kernel of the timeline; absent without one.
    pub kernel: Option<KernelId>,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Launches in all counted instances.
    pub launches: u64,
    /// Their durations, summed.
    pub now: Ns,
    /// Where the limit is from.
    pub source: LimitSource,
    /// SMs of the GPU, where they are known.
    pub sms: Option<u32>,
    /// Faults, the one with the least limit first; none: the kernel is sound, or no fault is known.
    pub causes: Vec<Cause>,
}

/// The kernels of a stage, or of a pass, with [`NOTABLE`] time.
#[derive(Clone, Debug)]
pub struct KernelLimits {
    /// Durations of all GPU operations, summed: of the counted instances of a stage, or of a pass.
    pub time: Ns,
    /// Share of it in kernels with counters.
    pub covered: Ratio,
    /// Kernels, those with the most time first.
    pub kernels: Vec<KernelLimit>,
}

/// Limits of the kernels of a run.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Stages of the pass that shows kernels, in report order.
    pub stages: Vec<(Summary, KernelLimits)>,
    /// Passes of Nsight Compute, if the run has no timeline.
    pub passes: Vec<(PassId, KernelLimits)>,
}

/// Limits of the stages of the pass that shows kernels; of the profiled launches alone without a timeline.
pub fn compute(context: &Context<'_>) -> Known<Limits> {
    let (session, facts) = (context.session, context.facts);
    let mut limits = Limits::default();
    if let Ok(matching) = context.results.matching() {
        let device = Device::of(context, matching.pass);
        for line in &matching.lines {
            let stage = stage_limits(context, line, device);
            limits.stages.push((line.summary.clone(), stage));
        }
        return Ok(limits);
    }
    let timeline = facts
        .kernel_pass(session)
        .filter(|_| !session.launches.is_empty());
    let Some(pass) = timeline else {
        let counters = context.results.counters();
        let counters = counters.map_err(|_| no_gpu_work(session))?;
        for (pass, launches) in counters.by_pass() {
            limits
                .passes
                .push((pass, pass_limits(context, pass, &launches)));
        }
        return Ok(limits);
    };
    let (device, unprofiled) = (Device::of(context, pass), BTreeMap::new());
    for summary in summaries(facts, pass) {
        let mut line = gather(session, facts, summary.clone(), &unprofiled);
        line.groups.sort_by_key(|group| {
            let time = std::cmp::Reverse(group.time);
            (time, group.kernel, group.grid, group.block)
        });
        let stage = stage_limits(context, &line, device);
        limits.stages.push((line.summary, stage));
    }
    Ok(limits)
}

fn stage_limits(context: &Context<'_>, line: &Line, device: Device) -> KernelLimits {
    let mut kernels = Vec::new();
    let mut covered = Ns::ZERO;
    for group in &line.groups {
        if group.tier.is_some() {
            covered += group.time;
        }
        if group.time.time() >= line.time.time() * NOTABLE && group.time > Ns::ZERO {
            let identity = &context.facts.identities[group.kernel.index()];
            let has_roof = has_roof(context, line, group);
            let limit = limit(context, group, identity, device, has_roof);
            kernels.push(KernelLimit {
                kernel: Some(group.kernel),
                ..limit
            });
        }
    }
    KernelLimits {
        time: line.time,
        covered: match line.time > Ns::ZERO {
            true => Ratio::of(covered, line.time),
            false => Ratio::ZERO,
        },
        kernels,
    }
}

/// Limits of the profiled launches of a pass, by their profiled durations.
fn pass_limits(context: &Context<'_>, pass: PassId, launches: &[&KernelCounters]) -> KernelLimits {
    let device = Device::of(context, pass);
    let mut groups = BTreeMap::<_, (Group, &KernelIdentity, Ns)>::new();
    let mut time = Ns::ZERO;
    for launch in launches {
        let duration = launch.seconds.unwrap_or_default().time().round();
        time += duration;
        let key = (launch.name, launch.grid, launch.block);
        let group = Group {
            grid: launch.grid,
            block: launch.block,
            ..Group::default()
        };
        let start = (group, &launch.identity, Ns::ZERO);
        let (group, _, longest) = groups.entry(key).or_insert(start);
        group.launches += 1;
        group.time += duration;
        if duration > *longest {
            (group.from, *longest) = (vec![launch.profile], duration);
        }
    }
    let mut kernels = Vec::new();
    for (group, identity, _) in groups.values() {
        if group.time > Ns::ZERO && group.time.time() >= time.time() * NOTABLE {
            kernels.push(limit(context, group, identity, device, false));
        }
    }
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.now));
    KernelLimits {
        time,
        covered: Ratio::ONE,
        kernels,
    }
}

fn limit(
    context: &Context<'_>,
    group: &Group,
    identity: &KernelIdentity,
    device: Device,
    has_roof: bool,
) -> KernelLimit {
    let profile = nearest(context, group);
    let mut causes = match profile {
        Some(profile) => match Profile::new(context, profile, group, device) {
            Some(profile) => by_counters(&profile, identity),
            None => Vec::new(),
        },
        None => by_grid(group, device).into_iter().collect(),
    };
    // A collective waits for its peers with few blocks on purpose. A GEMM of few blocks reads as many weights with more:
    // its sizes give the limit, or its counters.
    let is_tuned = identity.class.is_matrix_work();
    let is_other = identity.class == KernelClass::Communication
        || (is_tuned && (profile.is_none() || has_roof));
    if is_other {
        causes.retain(|cause| cause.reason != Reason::SmallGrid);
    }
    if group.time.time() < LONG * group.launches as f64 {
        causes.retain(|cause| !matches!(cause.reason, Reason::SmallGrid | Reason::Tail));
    }
    let least = shortest(group, device);
    causes
        .iter_mut()
        .for_each(|cause| cause.rest = cause.rest.max(least));
    causes.retain(|cause| cause.rest < SOUND);
    causes.sort_by(|a, b| {
        let by_rest = a.rest.total_cmp(&b.rest);
        by_rest.then(a.reason.cmp(&b.reason))
    });
    KernelLimit {
        kernel: None,
        grid: group.grid,
        block: group.block,
        launches: group.launches,
        now: group.time,
        source: profile.map_or(LimitSource::Grid, LimitSource::Counters),
        sms: device.sms,
        causes,
    }
}

/// The profiled launch whose duration is nearest to the median of those that it represents.
fn nearest(context: &Context<'_>, group: &Group) -> Option<ProfileId> {
    let counters = context.results.counters().ok()?;
    let median = group.median().unwrap_or(Time::ZERO);
    let distance = |profile: &ProfileId| match counters.launch(*profile).seconds {
        Some(seconds) => (seconds.time() - median).abs(),
        None => Time(f64::MAX),
    };
    let mut nearest: Option<ProfileId> = None;
    for profile in &group.from {
        if nearest.is_none_or(|best| distance(profile) < distance(&best)) {
            nearest = Some(*profile);
        }
    }
    nearest
}

/// Whether the sizes of a product give its least time.
fn has_roof(context: &Context<'_>, line: &Line, group: &Group) -> bool {
    let key = |summary: &Summary| (summary.stage, summary.process);
    for products in context.results.gemm().into_iter().flatten() {
        let mut groups = products.groups.iter();
        if key(&products.summary) == key(&line.summary)
            && groups.any(|known| known.kernel == group.kernel && known.sum.least.is_some())
        {
            return true;
        }
    }
    false
}

/// What bounds a grid on the GPUs of a pass.
#[derive(Clone, Copy)]
struct Device {
    /// SMs of the smallest GPU.
    sms: Option<u32>,
    /// The shortest kernel, at most [`SHORTEST`]: more blocks make no launch shorter.
    shortest: Ns,
    /// Rate of fp64 ÷ rate of fp32.
    fp64: Ratio,
}

impl Device {
    fn of(context: &Context<'_>, pass: PassId) -> Self {
        let (gpus, launches) = (&context.session.gpus, &context.session.launches);
        let (mut sms, mut fp64) = (None, FP64);
        for row in (0..gpus.len()).filter(|row| gpus.pass[*row] == pass) {
            let specified = context.gpu_spec(context.session.text(gpus.name[row]));
            let count = gpus.sm_count[row].or(specified.map(|gpu| gpu.sm_count));
            sms = sms.min(count).or(sms).or(count);
            let rate = |dtype| Some(specified?.peak(dtype)?.dense);
            if let (Some(double), Some(single)) = (rate("fp64"), rate("fp32")) {
                fp64 = Ratio::of(double, single);
            }
        }
        let rows = (0..launches.len()).filter(|row| launches.pass[*row] == pass);
        let durations = rows.map(|row| launches.end[row].saturating_sub(launches.start[row]));
        Self {
            sms,
            fp64,
            shortest: durations.min().unwrap_or(Ns::ZERO).min(SHORTEST),
        }
    }
}

impl KernelLimit {
    /// Whether its blocks leave most SMs empty.
    pub fn is_small(&self) -> bool {
        self.sms.is_some_and(|sms| leaves_empty(self.grid, sms))
    }

    /// The fault with the least limit.
    pub fn cause(&self) -> Option<&Cause> {
        self.causes.first()
    }

    /// The least time without that fault; the time itself if there is none.
    pub fn limit(&self) -> Time {
        let rest = self.cause().map_or(Ratio::ONE, |cause| cause.rest);
        self.now.time() * rest
    }
}

#[cfg(test)]
mod tests;
