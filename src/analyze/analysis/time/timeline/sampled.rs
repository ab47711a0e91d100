//! GPU metrics: hardware counters that nsys samples while the workload runs.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::Context;
use crate::engine::facts::Stage;
use rooflens_session::{GpuId, Ns, PassId, StrId};
use rooflens_units::{Hertz, Time};

/// What a sampled counter tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Share of the period in which SMs had a warp, mean over SMs.
    SmActive,
    /// Share of the period in which tensor pipes issued, mean over SMs.
    TensorActive,
    /// Share of the period in which device memory was read.
    DramRead,
    /// Share of the period in which device memory was written.
    DramWrite,
    /// Clock of the SMs, hertz.
    Clock,
}

/// Names of the counters in the metric sets of nsys, without the unit; they differ by GPU generation and version.
const NAMES: [(&str, Counter); 11] = [
    ("SMs Active", Counter::SmActive),
    ("SM Active", Counter::SmActive),
    ("Tensor Active", Counter::TensorActive),
    ("Tensor Active / FP16 Active", Counter::TensorActive),
    ("DRAM Read Bandwidth", Counter::DramRead),
    ("DRAM Read Throughput", Counter::DramRead),
    ("VRAM Read Bandwidth", Counter::DramRead),
    ("DRAM Write Bandwidth", Counter::DramWrite),
    ("DRAM Write Throughput", Counter::DramWrite),
    ("VRAM Write Bandwidth", Counter::DramWrite),
    ("GPC Clock Frequency", Counter::Clock),
];

/// Suffixes of names: shares in percent, and clocks, which are in hertz whatever the suffix says.
const UNITS: [&str; 2] = [" [Throughput %]", " [MHz]"];

/// Clocks below this are in megahertz after all.
const LEAST_CLOCK: Hertz = Hertz(1e6);

/// Samples of one counter on one GPU: time and value, ascending by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Name as the artifact gives it.
    pub name: StrId,
    /// Shares are 0 to 1, clocks hertz.
    pub samples: Vec<(Ns, f64)>,
}

/// The sampled counters of a GPU of a pass.
pub struct GpuCounters {
    /// Pass.
    pub pass: PassId,
    /// GPU.
    pub gpu: GpuId,
    /// Samples by counter.
    pub sampled: BTreeMap<Counter, Sampled>,
    /// Sums by stage that ran on the GPU.
    pub stages: Vec<StageSums>,
}

impl GpuCounters {
    /// Mean time between samples.
    pub fn period(&self) -> Option<Time> {
        let samples = &self.sampled.values().next()?.samples;
        let (first, last) = (samples.first()?.0, samples.last()?.0);
        (samples.len() > 1).then(|| (last - first).time() / (samples.len() - 1) as f64)
    }
}

/// The known counters of all GPUs, by pass and GPU.
pub(super) fn counters(context: &Context<'_>) -> Vec<GpuCounters> {
    let table = &context.session.counter_samples;
    let mut counters: FxHashMap<StrId, Option<Counter>> = FxHashMap::default();
    let mut samples: BTreeMap<(PassId, GpuId), BTreeMap<Counter, Sampled>> = BTreeMap::new();
    for row in 0..table.len() {
        let metric = table.metric[row];
        let counter = *counters
            .entry(metric)
            .or_insert_with(|| counter(context.session.text(metric)));
        let (Some(counter), Some(gpu)) = (counter, table.gpu[row]) else {
            continue;
        };
        let of_gpu = samples.entry((table.pass[row], gpu)).or_default();
        let sampled = of_gpu.entry(counter).or_default();
        sampled.name = metric;
        sampled
            .samples
            .push((table.time[row], in_base_units(counter, table.value[row])));
    }
    for sampled in samples.values_mut().flat_map(BTreeMap::values_mut) {
        sampled
            .samples
            .sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    }
    let of_gpu = |((pass, gpu), sampled)| {
        let stages = context.facts.stages.iter().enumerate();
        let of_pass = stages.filter(|(_, stage)| stage.pass == pass);
        let sums =
            of_pass.filter_map(|(index, stage)| of_stage(context, index, stage, gpu, &sampled));
        GpuCounters {
            pass,
            gpu,
            stages: sums.collect(),
            sampled,
        }
    };
    samples.into_iter().map(of_gpu).collect()
}

fn counter(name: &str) -> Option<Counter> {
    let bare = UNITS
        .iter()
        .find_map(|unit| name.strip_suffix(unit))
        .unwrap_or(name);
    NAMES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(bare))
        .map(|(_, counter)| *counter)
}

fn in_base_units(counter: Counter, value: f64) -> f64 {
    match counter {
        Counter::Clock if Hertz(value) < LEAST_CLOCK => value * 1e6,
        Counter::Clock => value,
        _ => value / 100.0,
    }
}

/// Sum and number of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Sum of the values.
    pub sum: f64,
    /// Samples.
    pub count: u64,
}

impl Sum {
    /// Mean; none without samples.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Samples of a GPU within the projections of a stage's counted instances.
pub struct StageSums {
    /// The stage, an index into the table of stages.
    pub stage: usize,
    /// Counted instances on the GPU.
    pub instances: u64,
    /// Their time, nanoseconds.
    pub time: Ns,
    /// Sums by counter.
    pub sums: BTreeMap<Counter, Sum>,
}

impl StageSums {
    /// Mean of a counter's samples; none without samples.
    pub fn mean(&self, counter: Counter) -> Option<f64> {
        self.sums.get(&counter)?.mean()
    }

    /// Means of reading and writing device memory, added: a share of the peak bandwidth.
    pub fn traffic(&self) -> Option<f64> {
        Some(self.mean(Counter::DramRead)? + self.mean(Counter::DramWrite)?)
    }

    /// Samples of the counter with the most.
    pub fn samples(&self) -> u64 {
        self.sums.values().map(|sum| sum.count).max().unwrap_or(0)
    }
}

fn of_stage(
    context: &Context<'_>,
    index: usize,
    stage: &Stage,
    gpu: GpuId,
    sampled: &BTreeMap<Counter, Sampled>,
) -> Option<StageSums> {
    let instances = context.facts.instances_of(stage).iter();
    let windows: Vec<(Ns, Ns)> = instances
        .filter(|instance| instance.excluded.is_none() && instance.gpus.contains(&gpu))
        .filter_map(|instance| instance.projection)
        .collect();
    let sum = |sampled: &Sampled| {
        let mut sum = Sum::default();
        for (_, value) in windows
            .iter()
            .flat_map(|window| within(&sampled.samples, *window))
        {
            sum = Sum {
                sum: sum.sum + value,
                count: sum.count + 1,
            };
        }
        sum
    };
    (!windows.is_empty()).then(|| StageSums {
        stage: index,
        instances: windows.len() as u64,
        time: windows.iter().fold(Ns::ZERO, |time: Ns, &(start, end)| {
            time.saturating_add(end - start)
        }),
        sums: sampled
            .iter()
            .map(|(counter, sampled)| (*counter, sum(sampled)))
            .collect(),
    })
}

/// The samples of [start, end].
fn within(samples: &[(Ns, f64)], (start, end): (Ns, Ns)) -> &[(Ns, f64)] {
    let first = samples.partition_point(|(time, _)| *time < start);
    let last = first + samples[first..].partition_point(|(time, _)| *time <= end);
    &samples[first..last]
}
