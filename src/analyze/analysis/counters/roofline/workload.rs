//! The work of the whole workload: counters of profiled launches, spread over the launches of the timeline that
//! they represent; time is the timeline's.

use std::collections::BTreeMap;
use std::ops::{Div, Mul};

use super::device::{self, Device};
use super::group::main_bound;
use super::roofs::Roofs;
use crate::counters::ncu::bound::Bound;
use crate::counters::ncu::flops::Part;
use crate::counters::ncu::{Counters, KernelCounters, Level, Levels};
use crate::counters::represent::matching::{Group, Line, Spread, Tier, WHOLE};
use crate::engine::classify::KernelClass;
use crate::engine::stage_stats::Summary;
use crate::{Classifier, Context, Facts, Known};
use rooflens_hardware::Gpu;
use rooflens_session::{Dim3, KernelId, Ns, PassId};
use rooflens_units::{Bytes, Flops, FlopsPerByte, FlopsPerSecond, Measure, Ratio, Seconds, Time};

/// The work of the stages of the timeline.
pub struct Workload {
    /// The timeline's pass.
    pub pass: PassId,
    /// Its GPU.
    pub device: Option<Device>,
    /// The roofs of that GPU.
    pub roofs: Roofs,
    /// The stages in report order.
    pub stages: Vec<StageWork>,
}

/// A stage of the timeline with the work of its launches.
pub struct StageWork {
    /// The stage.
    pub summary: Summary,
    /// GPUs that it used.
    pub gpus: usize,
    /// Durations of all GPU operations of its counted instances, summed, nanoseconds.
    pub time: Ns,
    /// The works with a profiled launch, those with most time first.
    pub works: Vec<Work>,
    /// Their sums.
    pub totals: Totals,
    /// Kernels without a profiled launch.
    pub unprofiled: Sum,
    /// Share of the stage's GPU time in launches with counters.
    pub covered: Ratio,
    /// Some pass that counted the bytes is known to have flushed the caches before each launch.
    pub flushed: bool,
    /// Executed operations against what the peaks allow in the stage time.
    pub hfu: Result<Hfu, Lack>,
    /// DRAM bytes as a share of what the memory bandwidth allows in the stage time.
    pub dram_share: Result<Ratio, Lack>,
}

/// Launches of one kernel, grid, block and size, with the counters of one launch.
pub struct Work {
    /// The kernel.
    pub kernel: KernelId,
    /// Its class.
    pub class: KernelClass,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Launches in all counted instances.
    pub launches: u64,
    /// Their durations, summed, nanoseconds.
    pub time: Ns,
    /// What the profiled launches have in common with these.
    pub tier: Tier,
    /// Profiled launches that represent these.
    pub profiled: usize,
    /// Operations of one launch by dtype and pipe; absent if they were not counted.
    pub parts: Option<Vec<Part>>,
    /// Bytes of one launch.
    pub bytes: Levels<Bytes>,
    /// DRAM bytes of one launch, over the profiled launches.
    pub dram: Option<Spread>,
    /// The class of most time of its profiled launches by each rule.
    bounds: [Bound; 2],
}

/// Sums over works, each with the time of the works that have a number.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Time of all works.
    pub time: Time,
    /// Operations by dtype.
    pub flops: BTreeMap<&'static str, Flops>,
    /// Time of works whose operations were counted.
    pub flops_time: Time,
    /// Time of works whose DRAM bytes were counted.
    pub dram_time: Time,
    /// Bytes at each level; absent where no work has a number.
    pub bytes: Levels<Bytes>,
    /// DRAM bytes if each launch moved what the least, and the most, of its profiled launches did.
    pub dram_range: (Bytes, Bytes),
    /// Time of works with operations and DRAM bytes, those operations and bytes: what a mark is made of.
    mark: (Time, Flops, Bytes),
}

/// Kernels and grids, launches and time of a bound class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Kernels and grids.
    pub kernels: u64,
    /// Launches.
    pub launches: u64,
    /// Durations, summed, nanoseconds.
    pub time: Ns,
}

/// Hardware FLOPs utilization of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Hfu {
    /// Σ over dtypes of operations ÷ peak, as a share of the stage time on its GPUs.
    pub share: Ratio,
    /// dtype, operations of an instance, and peak.
    pub parts: Vec<(&'static str, Flops, FlopsPerSecond)>,
    /// dtypes without a peak, whose operations do not count.
    pub left_out: Vec<&'static str>,
}

/// Why a stage has no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lack {
    /// Launches with counted operations represent this share of the GPU time, less than [`WHOLE`].
    FewFlops(Ratio),
    /// Launches with DRAM bytes represent this share of the GPU time, less than [`WHOLE`].
    FewBytes(Ratio),
    /// The GPU is not in the hardware table.
    NoPeak,
    /// No counted operations of a dtype with a peak.
    NoFlops,
    /// No profiled launch with DRAM bytes.
    NoBytes,
    /// Fewer operations were counted than the model of the stage needs: the first number is less than the second.
    BelowModel(Flops, Flops),
    /// More than the peak: the peak is wrong, or launches represent others than they should.
    AbovePeak(Ratio),
}

/// The work of the stages; missing without a timeline and profiled launches.
pub fn compute(context: &Context<'_>) -> Known<Workload> {
    let (counters, matching) = (context.results.counters()?, context.results.matching()?);
    let device = device::of_pass(context.session, matching.pass);
    let lines = matching.lines.iter();
    let works: Vec<Vec<Work>> = lines
        .clone()
        .map(|line| works(context, counters, line))
        .collect();
    let dtypes = works.iter().flatten().filter_map(Work::main_dtype);
    let kernels: Vec<&KernelCounters> = counters.launches.iter().collect();
    let roofs = Roofs::new(context, device.as_ref(), dtypes, &kernels);
    let stages = lines.zip(works);
    let stages = stages.map(|(line, works)| {
        let flushed = |group: &Group| group.flushed(context.session, counters);
        StageWork::new(
            line,
            works,
            line.groups.iter().any(flushed),
            roofs.gpu.as_ref(),
        )
    });
    Ok(Workload {
        pass: matching.pass,
        device,
        stages: stages.collect(),
        roofs,
    })
}

fn works(context: &Context<'_>, counters: &Counters, line: &Line) -> Vec<Work> {
    let work = |group: &Group| {
        let launches: Vec<&KernelCounters> = group
            .from
            .iter()
            .map(|profile| counters.launch(*profile))
            .collect();
        let bound = |rule| main_bound(&launches, rule);
        Some(Work {
            kernel: group.kernel,
            class: context.facts.identities[group.kernel.index()].class,
            grid: group.grid,
            block: group.block,
            launches: group.launches,
            time: group.time,
            tier: group.tier?,
            profiled: group.from.len(),
            parts: group.parts(counters),
            bytes: group.bytes(counters),
            dram: group.spread(counters, |launch| launch.bytes.dram),
            bounds: [bound(Classifier::Rooflens), bound(Classifier::Seed)],
        })
    };
    line.groups.iter().filter_map(work).collect()
}

impl Workload {
    /// The stages; none if nothing of any was profiled.
    pub fn profiled(&self) -> &[StageWork] {
        let nothing = self.stages.iter().all(|stage| stage.works.is_empty());
        if nothing { &[] } else { &self.stages }
    }

    /// Outermost stages of which something was profiled.
    pub fn phases<'a>(&'a self, facts: &Facts) -> Vec<&'a StageWork> {
        let is_phase =
            |stage: &&StageWork| stage.summary.is_outermost(facts) && !stage.works.is_empty();
        self.stages.iter().filter(is_phase).collect()
    }
}

impl Work {
    /// Operations of one launch.
    pub fn flops(&self) -> Option<Flops> {
        let parts = self.parts.as_ref()?;
        Some(Flops::ZERO + parts.iter().map(|part| part.flops).sum::<Flops>())
    }

    /// All launches' operations, or bytes, per second of their time.
    pub fn per_second<A, R: Measure>(&self, of_launch: Option<A>) -> Option<R>
    where
        A: Mul<f64, Output = A> + Div<Seconds, Output = R>,
    {
        let seconds = self.time.time().seconds();
        let rate = of_launch? * self.launches as f64 / seconds;
        rate.number().is_finite().then_some(rate)
    }

    /// Operations per byte at a level.
    pub fn intensity(&self, level: Level) -> Option<FlopsPerByte> {
        let bytes = self.bytes.get(level).filter(Bytes::is_positive)?;
        Some(self.flops()? / bytes)
    }

    /// The class of most time of the profiled launches that represent it.
    pub const fn bound(&self, rule: Classifier) -> Bound {
        match rule {
            Classifier::Rooflens => self.bounds[0],
            Classifier::Seed => self.bounds[1],
        }
    }

    fn main_dtype(&self) -> Option<&'static str> {
        let parts = self.parts.iter().flatten();
        let most = parts.reduce(|best, next| if next.flops > best.flops { next } else { best });
        most.map(|part| part.dtype)
    }
}

impl Totals {
    /// The sums of some works.
    pub fn of<'a>(works: impl Iterator<Item = &'a Work>) -> Self {
        let mut totals = Self::default();
        for work in works {
            let (time, launches) = (work.time.time(), work.launches as f64);
            totals.time += time;
            for part in work.parts.iter().flatten() {
                *totals.flops.entry(part.dtype).or_default() += part.flops * launches;
            }
            let add = |sum: &mut Option<Bytes>, bytes: Option<Bytes>| {
                if let Some(bytes) = bytes {
                    *sum = Some(sum.unwrap_or_default() + bytes * launches);
                }
            };
            add(&mut totals.bytes.dram, work.bytes.dram);
            add(&mut totals.bytes.l2, work.bytes.l2);
            add(&mut totals.bytes.l1, work.bytes.l1);
            if work.parts.is_some() {
                totals.flops_time += time;
            }
            if let Some(spread) = work.dram {
                totals.dram_time += time;
                totals.dram_range.0 += spread.min * launches;
                totals.dram_range.1 += spread.max * launches;
            }
            if let (Some(flops), Some(bytes)) = (work.flops(), work.bytes.dram) {
                let (t, f, b) = totals.mark;
                totals.mark = (t + time, f + flops * launches, b + bytes * launches);
            }
        }
        totals
    }

    /// Operations of all dtypes; absent if no work's were counted.
    pub fn all_flops(&self) -> Option<Flops> {
        self.flops_time
            .is_positive()
            .then(|| Flops::ZERO + self.flops.values().sum::<Flops>())
    }

    /// Operations per DRAM byte, of works with both.
    pub fn intensity(&self) -> Option<FlopsPerByte> {
        let (_, flops, bytes) = self.mark;
        bytes.is_positive().then(|| flops / bytes)
    }

    /// The mark in the DRAM roofline: operations per byte and per second of kernel time.
    pub fn mark(&self) -> Option<(FlopsPerByte, FlopsPerSecond)> {
        let (time, flops, bytes) = self.mark;
        let (x, y) = (flops / bytes, flops / time.seconds());
        (x.is_finite() && y.is_finite() && x.is_positive()).then_some((x, y))
    }
}

impl StageWork {
    fn new(line: &Line, works: Vec<Work>, flushed: bool, gpu: Option<&Gpu>) -> Self {
        let mut unprofiled = Sum::default();
        line.groups
            .iter()
            .filter(|group| group.tier.is_none())
            .for_each(|group| unprofiled.add(group.launches, group.time));
        let mut stage = Self {
            summary: line.summary.clone(),
            gpus: line.gpus,
            time: line.time,
            totals: Totals::of(works.iter()),
            works,
            unprofiled,
            covered: line.covered(),
            flushed,
            hfu: Err(Lack::NoPeak),
            dram_share: Err(Lack::NoPeak),
        };
        stage.hfu = stage.hfu_on(gpu);
        stage.dram_share = stage.dram_share_on(gpu);
        stage
    }

    /// A sum over the counted instances, per instance.
    pub fn per_instance<A: Div<f64, Output = A>>(&self, sum: A) -> A {
        sum / self.summary.counted.max(1) as f64
    }

    /// A sum over the counted instances, per second of stage time and GPU.
    pub fn per_second<A, R>(&self, sum: A) -> R
    where
        A: Div<f64, Output = A> + Div<Seconds, Output = R>,
    {
        self.per_instance(sum) / self.seconds()
    }

    /// Stage time × GPUs.
    fn seconds(&self) -> Seconds {
        self.summary.time.seconds() * self.gpus as f64
    }

    /// Executed operations of an instance; absent for too small a share of the GPU time.
    pub fn executed_flops(&self) -> Option<Flops> {
        let flops = self
            .totals
            .all_flops()
            .filter(|_| self.few_flops().is_ok())?;
        Some(self.per_instance(flops))
    }

    /// DRAM bytes of all counted instances.
    pub fn dram_bytes(&self) -> Result<Bytes, Lack> {
        self.enough(self.totals.dram_time, Lack::FewBytes)?;
        self.totals.bytes.dram.ok_or(Lack::NoBytes)
    }

    /// GPU time by bound class, of launches with counters.
    pub fn bounds(&self, rule: Classifier) -> BTreeMap<Bound, Sum> {
        let mut sums = BTreeMap::<Bound, Sum>::new();
        for work in &self.works {
            sums.entry(work.bound(rule))
                .or_default()
                .add(work.launches, work.time);
        }
        sums
    }

    fn few_flops(&self) -> Result<(), Lack> {
        self.enough(self.totals.flops_time, Lack::FewFlops)
    }

    /// Refuses sums over too small a share of the stage's GPU time to be the stage's.
    fn enough(&self, time: Time, few: fn(Ratio) -> Lack) -> Result<(), Lack> {
        let covered = Ratio(time / self.time.time());
        if covered >= WHOLE {
            Ok(())
        } else {
            Err(few(covered))
        }
    }

    fn hfu_on(&self, gpu: Option<&Gpu>) -> Result<Hfu, Lack> {
        self.few_flops()?;
        let gpu = gpu.ok_or(Lack::NoPeak)?;
        let mut hfu = Hfu {
            share: Ratio::ZERO,
            parts: Vec::new(),
            left_out: Vec::new(),
        };
        let mut ideal = Seconds::ZERO;
        for (dtype, flops) in &self.totals.flops {
            let Some(peak) = gpu.peak(dtype) else {
                hfu.left_out.push(*dtype);
                continue;
            };
            let flops = self.per_instance(*flops);
            ideal += flops / peak.dense;
            hfu.parts.push((*dtype, flops, peak.dense));
        }
        if hfu.parts.is_empty() {
            return Err(Lack::NoFlops);
        }
        hfu.share = possible(Ratio(ideal / self.seconds()))?;
        Ok(hfu)
    }

    fn dram_share_on(&self, gpu: Option<&Gpu>) -> Result<Ratio, Lack> {
        let bytes = self.dram_bytes()?;
        let peak = gpu.ok_or(Lack::NoPeak)?.memory_bandwidth;
        possible(Ratio(self.per_second(bytes) / peak))
    }
}

impl Sum {
    fn add(&mut self, launches: u64, time: Ns) {
        self.kernels += 1;
        self.launches += launches;
        self.time += time;
    }
}

fn possible(share: Ratio) -> Result<Ratio, Lack> {
    if share <= Ratio::ONE {
        Ok(share)
    } else {
        Err(Lack::AbovePeak(share))
    }
}

impl Workload {
    /// A stage of which one launch was profiled, with this HFU.
    pub fn made(summary: Summary, hfu: Result<Ratio, Lack>) -> Self {
        let work = Work {
            kernel: KernelId(0),
            class: KernelClass::Gemm,
            grid: Dim3::default(),
            block: Dim3::default(),
            launches: 1,
            time: Ns(1),
            tier: Tier::Stage,
            profiled: 1,
            parts: None,
            bytes: Levels::default(),
            dram: None,
            bounds: [Bound::Unknown; 2],
        };
        let stage = StageWork {
            summary,
            gpus: 1,
            time: Ns(1),
            totals: Totals::default(),
            works: vec![work],
            unprofiled: Sum::default(),
            covered: Ratio::ONE,
            flushed: false,
            hfu: hfu.map(|share| Hfu {
                share,
                parts: Vec::new(),
                left_out: Vec::new(),
            }),
            dram_share: Err(Lack::NoPeak),
        };
        let (pass, roofs) = (PassId(0), Roofs::default());
        Self {
            pass,
            device: None,
            roofs,
            stages: vec![stage],
        }
    }
}
