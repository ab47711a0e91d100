//! Roofs: specified ones from the hardware table, measured ones from the bundle.

use super::device::Device;
use super::group::Group;
use crate::Context;
use crate::counters::ncu::flops::FlopCount;
use crate::counters::ncu::{KernelCounters, Level};
use crate::engine::measured_peaks::Measured;
use rooflens_hardware::Gpu;
use rooflens_units::{BytesPerSecond, FlopsPerSecond};

/// What rooflines are drawn under.
#[derive(Clone, Debug, Default)]
pub struct Roofs {
    /// The specification, if the GPU is known.
    pub gpu: Option<Gpu>,
    /// dtypes of the kernels' operations, those with most time first.
    pub dtypes: Vec<&'static str>,
    rates: Vec<Roof>,
    bandwidths: Vec<(Level, Roof)>,
}

/// A roof of a roofline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    /// The peak.
    pub peak: Peak,
    /// Measured on this GPU rather than specified.
    pub measured: bool,
}

/// A rate or a bandwidth, and what has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Peak {
    /// Operations of a dtype.
    Dtype(&'static str, FlopsPerSecond),
    /// Device memory.
    Memory(BytesPerSecond),
    /// A memory level: ncu's peak bytes per cycle × clock.
    ByClock(Level, BytesPerSecond),
    /// A copy in device memory.
    Copy(BytesPerSecond),
}

impl Roofs {
    /// The roofs of kernels whose main dtypes are these.
    pub(super) fn new(
        context: &Context<'_>,
        device: Option<&Device>,
        main: impl Iterator<Item = &'static str>,
        kernels: &[&KernelCounters],
    ) -> Self {
        let name = device.map_or("", |device| device.name.as_str());
        let (measured, gpu) = (Measured::of(context, name), context.gpu_spec(name));
        let dtypes = distinct(main);
        let parts = kernels.iter().flat_map(|kernel| match &kernel.flops {
            FlopCount::Counted(parts) => parts.as_slice(),
            FlopCount::NotCounted(_) => &[],
        });
        let dtypes_used = distinct(dtypes.iter().copied().chain(parts.map(|part| part.dtype)));
        let rates = dtypes_used.into_iter().flat_map(|dtype| {
            let specified = gpu.and_then(|gpu| gpu.peak(dtype)).map(|peak| peak.dense);
            let pair = [(specified, false), (measured.rate(gpu, dtype), true)];
            let roof = |rate, measured| Roof {
                peak: Peak::Dtype(dtype, rate),
                measured,
            };
            pair.into_iter()
                .filter_map(move |(rate, measured)| Some(roof(rate?, measured)))
        });
        let rates = rates.collect();
        let levels = Level::ALL.into_iter();
        let bandwidths = levels
            .flat_map(|level| {
                let roofs = bandwidths(level, gpu, &measured, kernels);
                roofs.into_iter().map(move |roof| (level, roof))
            })
            .collect();
        Self {
            gpu: gpu.cloned(),
            dtypes,
            rates,
            bandwidths,
        }
    }

    /// Flat roofs of some dtypes.
    pub fn rates(&self, dtypes: &[&str]) -> Vec<Roof> {
        let of_dtype = |dtype: &str| {
            let is_same =
                move |roof: &&Roof| matches!(roof.peak, Peak::Dtype(name, _) if name == dtype);
            self.rates
                .iter()
                .filter(is_same)
                .copied()
                .collect::<Vec<_>>()
        };
        dtypes.iter().flat_map(|dtype| of_dtype(dtype)).collect()
    }

    /// Slanted roofs of a level.
    pub fn bandwidths(&self, level: Level) -> Vec<Roof> {
        let of_level = self
            .bandwidths
            .iter()
            .filter(|(of_level, _)| *of_level == level);
        of_level.map(|(_, roof)| *roof).collect()
    }

    /// dtypes for which there is no roof at all.
    pub fn missing(&self) -> Vec<&'static str> {
        let has = |dtype: &&str| {
            self.gpu
                .as_ref()
                .is_some_and(|gpu| gpu.peak(dtype).is_some())
        };
        self.dtypes
            .iter()
            .filter(|dtype| !has(dtype))
            .copied()
            .collect()
    }

    /// The operations per second that a group could reach under the specified roofs.
    pub fn attainable(&self, group: &Group) -> Option<FlopsPerSecond> {
        let gpu = self.gpu.as_ref()?;
        let peak = gpu.peak(group.dtype?)?.dense;
        Some(peak.min(group.intensity(Level::Dram)? * gpu.memory_bandwidth))
    }
}

fn distinct(all: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut dtypes = Vec::new();
    for dtype in all {
        if !dtypes.contains(&dtype) {
            dtypes.push(dtype);
        }
    }
    dtypes
}

/// Only DRAM has a specified bandwidth; caches have ncu's bytes per cycle × clock.
fn bandwidths(
    level: Level,
    gpu: Option<&Gpu>,
    measured: &Measured<'_>,
    kernels: &[&KernelCounters],
) -> Vec<Roof> {
    let peaks = kernels
        .iter()
        .filter_map(|kernel| kernel.peak_bandwidth.get(level));
    let roof = |measured| move |peak| Roof { peak, measured };
    let by_clock = peaks
        .reduce(BytesPerSecond::max)
        .map(|bandwidth| Peak::ByClock(level, bandwidth))
        .map(roof(false));
    if level != Level::Dram {
        return by_clock.into_iter().collect();
    }
    let specified = gpu
        .map(|gpu| Peak::Memory(gpu.memory_bandwidth))
        .map(roof(false));
    let copy = measured.bandwidth().map(Peak::Copy).map(roof(true));
    specified.or(by_clock).into_iter().chain(copy).collect()
}
