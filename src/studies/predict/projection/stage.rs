//! A stage after a change: the GPU's timeline, the host's, and idle time that stays.

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::KernelClass;

use rooflens_units::{Bytes, Count, Ratio, Seconds, Time};

use super::kernel;
use super::{Change, Interval, Kernel, Stage};

/// From the end of a kernel to the start of the next that waits in a stream or graph. NVIDIA's "Getting
/// Started with CUDA Graphs" (2019) has 0.5 µs in a graph and 0.9 µs in a stream: 3.4 and 3.8 µs per kernel of 2.9 µs.
pub(crate) const GAP: Interval = Interval::new(Time(250.0), Time(500.0), Time(1500.0));

/// GPU time of another run of the same work: clocks and placement.
pub(crate) const OTHER_RUN: Interval<Ratio> = Interval::new(Ratio(0.97), Ratio::ONE, Ratio(1.03));

/// Host time of another run of the same program on the same host: a factor either way.
pub(crate) const OTHER_HOST_RUN: Ratio = Ratio(1.25);

/// Host time of the same program on the host of another GPU: a factor either way.
pub(crate) const OTHER_HOST: Ratio = Ratio(4.0 / 3.0);

/// Host time per launch of another stage: a factor either way, for it makes other calls.
const OTHER_STAGE: Ratio = Ratio(1.25);

/// Host time without a profiler, of that with one that traces CUDA calls.
const WITHOUT_PROFILER: Interval<Ratio> = Interval::new(Ratio(0.5), Ratio(0.75), Ratio::ONE);

/// Launches' worth of host time that a converted product costs in eager mode: the cast, and operators around it.
pub(crate) const CAST_LAUNCHES: Interval<Count> = Interval::new(Count(1.0), Count(2.0), Count(3.0));

/// A cast moves its bytes at so much more than the time at the full bandwidth.
pub(crate) const CAST_SLOWER: Ratio = Ratio(1.5);

/// What a stage waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Kernels.
    Gpu,
    /// Launches.
    Host,
}

/// A part of a stage time: now, and after the change.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Kernels of a class.
    Class(KernelClass),
    /// Casts that the new dtype needs.
    Casts,
    /// Gaps between kernels that follow one another.
    Gaps,
    /// The GPU waits for launches.
    Launches,
    /// Idle time of a cause that stays.
    Idle(&'static str),
}

/// A stage after a change.
#[derive(Clone, Debug)]
pub struct StageProjection {
    /// Time per unit.
    pub time: Interval,
    /// The GPU's timeline.
    pub gpu: Interval,
    /// The host's timeline.
    pub host: Interval,
    /// What bounds the stage now.
    pub bound_now: Bound,
    /// What bounds it after the change, by the estimates.
    pub bound: Bound,
    /// Parts of the time: now, and after the change.
    pub parts: Vec<(Part, Time, Interval)>,
    /// Time of a launch after the change, by the stage's groups of launches.
    pub kernels: Vec<Interval>,
    /// Share of the kernel time that sizes of GEMMs and attention explain.
    pub sized: Ratio,
    /// Launches that a CUDA graph would take over.
    pub graphed: bool,
}

/// What is known of a stage before any change.
struct Now {
    /// Scales kernel times where the unprofiled stage is shorter than its profiled kernels.
    clock: Ratio,
    /// Kernel time that others do not hide, per Σ of kernel times.
    overlap: Ratio,
    kept: Time,
    gap: Interval,
    host: Interval,
    bound: Bound,
}

impl Now {
    fn of(stage: &Stage) -> Self {
        let (time, busy) = (stage.time.mid, stage.busy.mid);
        let clock = if busy > time && busy.is_positive() {
            Ratio::of(time, busy)
        } else {
            Ratio::ONE
        };
        let idle = (time - busy * clock).max(Time::ZERO);
        let kept = stage
            .kept
            .iter()
            .map(|(_, time)| time)
            .sum::<Time>()
            .min(idle);
        let launches = stage.launches.max(Count(1.0));
        let between = (idle - kept) / launches;
        let is_gpu = stage.graph || between <= GAP.high;
        let gap = match is_gpu {
            true if stage.graph => {
                Interval::new(between * Ratio(0.8), between, between * Ratio(1.2))
            }
            true => Interval::new(between.min(GAP.low), between, between),
            false => GAP,
        };
        let least = |time: Time| (time - kept).max(Time::ZERO);
        let hidden = match stage.host_launch {
            Some(each) => Interval::exact(each * launches).with_error(OTHER_STAGE),
            None => Interval::exact(stage.host_range).times(WITHOUT_PROFILER),
        };
        let host = match (is_gpu, stage.graph) {
            (true, true) => Interval::default(),
            (true, false) => Interval {
                low: hidden.low.min(least(time)),
                mid: hidden.mid.min(least(time)),
                high: hidden.high.min(least(stage.time.high)),
            },
            (false, _) => Interval {
                low: least(stage.time.low),
                mid: least(time),
                high: least(stage.time.high),
            },
        };
        let overlap = if stage.sum.is_positive() {
            Ratio::of(busy, stage.sum).min(Ratio::ONE)
        } else {
            Ratio::ONE
        };
        let bound = if is_gpu { Bound::Gpu } else { Bound::Host };
        Self {
            clock,
            overlap,
            kept,
            gap,
            host,
            bound,
        }
    }
}

/// Predicts a stage.
pub fn project(stage: &Stage, change: &Change) -> StageProjection {
    let now = Now::of(stage);
    let graphed = change.graphs && stage.static_shapes && !stage.graph;
    let floor = floor(&stage.kernels);
    let kernels: Vec<Interval> = stage
        .kernels
        .iter()
        .map(|kernel| kernel::time(kernel, change, floor))
        .collect();
    let (casts, converted) = casts(stage, change, floor);
    let scale = now.overlap * now.clock;
    let spread = |part: Time| {
        if stage.busy.mid.is_positive() {
            Ratio::of(part, stage.busy.mid)
        } else {
            Ratio::ONE
        }
    };
    let run = Interval::new(spread(stage.busy.low), Ratio::ONE, spread(stage.busy.high));
    let run = run.times(OTHER_RUN);
    let mut classes: BTreeMap<KernelClass, (Time, Interval)> = BTreeMap::new();
    for (kernel, time) in stage.kernels.iter().zip(&kernels) {
        let sum = classes.entry(kernel.class).or_default();
        sum.0 += kernel.time * kernel.launches * scale;
        sum.1 = sum.1.plus(time.scale(kernel.launches * scale));
    }
    let gap = if graphed { GAP } else { now.gap };
    let mut gaps = gap.scale(stage.launches);
    // A cast is a launch of its own, or part of the kernel before it.
    gaps.high += gap.high * converted;
    gaps.mid += gap.mid * converted / 2.0;
    let independent = classes.values().map(|(_, new)| *new).chain([casts, gaps]);
    let gpu = Interval::sum_of_independent(independent).times(run);
    let host = host(stage, change, &now, graphed, converted);
    let kept = Interval::exact(now.kept);
    let time = gpu.max(host).plus(kept);
    let waits = Interval {
        low: (host.low - gpu.high).max(Time::ZERO),
        mid: (host.mid - gpu.mid).max(Time::ZERO),
        high: (host.high - gpu.low).max(Time::ZERO),
    };
    let mut parts: Vec<(Part, Time, Interval)> = classes
        .iter()
        .map(|(class, (old, new))| (Part::Class(*class), *old, *new))
        .collect();
    let old_gaps = now.gap.mid * stage.launches;
    let old_busy: Time = classes.values().map(|(old, _)| old).sum();
    parts.push((Part::Casts, Time::ZERO, casts));
    parts.push((Part::Gaps, old_gaps, gaps));
    let waited = (stage.time.mid - now.kept - old_busy - old_gaps).max(Time::ZERO);
    parts.push((Part::Launches, waited, waits));
    let idle: Time = stage.kept.iter().map(|(_, time)| time).sum();
    for (cause, time) in &stage.kept {
        let share = if idle.is_positive() {
            *time * now.kept.0 / idle.0
        } else {
            Time::ZERO
        };
        parts.push((Part::Idle(cause), share, Interval::exact(share)));
    }
    // Parts below half a nanosecond are rounding.
    parts.retain(|(_, old, new)| old.max(new.high) >= Time(0.5));
    let bound = if host.mid > gpu.mid {
        Bound::Host
    } else {
        Bound::Gpu
    };
    let sized = sized(&stage.kernels);
    StageProjection {
        time,
        gpu,
        host,
        bound_now: now.bound,
        bound,
        parts,
        kernels,
        sized,
        graphed,
    }
}

/// The host's timeline after a change.
fn host(stage: &Stage, change: &Change, now: &Now, graphed: bool, converted: Count) -> Interval {
    if graphed || stage.graph {
        return Interval::default();
    }
    let run = if change.is_other_device() {
        OTHER_HOST
    } else {
        OTHER_HOST_RUN
    };
    let converted_share = Ratio::of(converted, stage.launches.max(Count(1.0)));
    let casts = CAST_LAUNCHES.scale(converted_share);
    let growth = Interval {
        low: Ratio(1.0 + casts.low.0),
        mid: Ratio(1.0 + casts.mid.0),
        high: Ratio(1.0 + casts.high.0),
    };
    now.host.times(growth).with_error(run)
}

/// Time of a launch of the group with the shortest launches.
fn floor(kernels: &[Kernel]) -> Time {
    let named = kernels.iter().filter(|kernel| kernel.kernel.is_some());
    let times = named.map(|kernel| kernel.time);
    times.reduce(Time::min).unwrap_or_default()
}

/// Time of the casts that converted products need, and their number: none at least, for they may be fused.
fn casts(stage: &Stage, change: &Change, floor: Time) -> (Interval, Count) {
    let (mut time, mut number) = (Time::ZERO, Count::ZERO);
    for kernel in &stage.kernels {
        let Some(work) = kernel.work.filter(|work| work.converted(change).is_some()) else {
            continue;
        };
        let new = work.after(change);
        // Read in the old type, written in the new kernel.
        let bytes: Bytes = work.inputs * change.batch + new.inputs;
        let transfer: Seconds = bytes / change.to.bandwidth;
        let cast = floor + transfer.time() * CAST_SLOWER;
        time += cast * kernel.launches;
        number += kernel.launches;
    }
    (Interval::between(Time::ZERO, time), number)
}

/// Share of the kernel time of known sizes.
fn sized(kernels: &[Kernel]) -> Ratio {
    let (mut total, mut sized) = (Time::ZERO, Time::ZERO);
    for kernel in kernels {
        let time = kernel.time * kernel.launches;
        total += time;
        if kernel.work.is_some() {
            sized += time;
        }
    }
    if total.is_positive() {
        Ratio::of(sized, total)
    } else {
        Ratio::ZERO
    }
}
