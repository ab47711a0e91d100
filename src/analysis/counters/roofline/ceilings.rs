//! Roofs: specified ones from the hardware table, measured ones from the bundle.

use rooflens_schemas::Unit;

use super::device::Device;
use super::group::Group;
use crate::analysis::Context;
use crate::analysis::counters::ncu::{KernelCounters, Level};
use crate::analysis::engine::measured_peaks::Measured;
use crate::findings::Quantity;
use crate::findings::chart::Ceiling;
use crate::hardware::Gpu;

/// What a pass's rooflines are drawn under.
pub(super) struct Roofs<'a> {
    measured: Measured<'a>,
    /// The specification, if the GPU is known.
    pub(super) gpu: Option<&'a Gpu>,
    /// dtypes of the pass's operations, those with most time first.
    dtypes: Vec<&'static str>,
}

impl<'a> Roofs<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        device: Option<&Device>,
        all: impl Iterator<Item = &'static str>,
    ) -> Self {
        let name = device.map_or("", |device| device.name.as_str());
        let mut dtypes = Vec::new();
        for dtype in all {
            if !dtypes.contains(&dtype) {
                dtypes.push(dtype);
            }
        }
        Self { measured: Measured::of(context, name), gpu: context.gpu_spec(name), dtypes }
    }

    /// Flat roofs, one a dtype that some kernel computes in.
    pub(super) fn rates(&self) -> Vec<Ceiling> {
        self.rates_of(&self.dtypes)
    }

    /// Flat roofs of some dtypes.
    pub(super) fn rates_of(&self, dtypes: &[&str]) -> Vec<Ceiling> {
        let mut roofs = Vec::new();
        for dtype in dtypes {
            let specified = self.gpu.and_then(|gpu| gpu.peak(dtype)).map(|peak| peak.dense);
            roofs.extend(specified.map(|value| ceiling(dtype, value, Unit::FlopPerSecond, false)));
            let measured = self.measured.rate(self.gpu, dtype);
            roofs.extend(measured.map(|value| ceiling(dtype, value, Unit::FlopPerSecond, true)));
        }
        roofs
    }

    /// Slanted roofs of a level. Only DRAM has a specified one; caches have ncu's bytes per cycle × clock.
    pub(super) fn bandwidths(&self, level: Level, kernels: &[KernelCounters]) -> Vec<Ceiling> {
        let unit = Unit::BytesPerSecond;
        let name = level.label();
        let peaks = kernels.iter().filter_map(|kernel| kernel.peak_bandwidth.get(level));
        let by_clock = peaks
            .reduce(f64::max)
            .map(|value| ceiling(&format!("{name}, ncu"), value, unit, false));
        if level != Level::Dram {
            return by_clock.into_iter().collect();
        }
        let specified = self.gpu.map(|gpu| ceiling(name, gpu.memory_bandwidth, unit, false));
        let measured = self.measured.bandwidth();
        let measured = measured.map(|value| ceiling("copy", value, unit, true));
        specified.or(by_clock).into_iter().chain(measured).collect()
    }

    /// dtypes for which there is no roof at all.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let has = |dtype: &&str| self.gpu.is_some_and(|gpu| gpu.peak(dtype).is_some());
        self.dtypes.iter().filter(|dtype| !has(dtype)).copied().collect()
    }

    /// The operations per second that a group could reach under the specified roofs.
    pub(super) fn attainable(&self, group: &Group) -> Option<f64> {
        let gpu = self.gpu?;
        let peak = gpu.peak(group.dtype?)?.dense;
        Some(peak.min(group.intensity(Level::Dram)? * gpu.memory_bandwidth))
    }
}

fn ceiling(name: &str, value: f64, unit: Unit, measured: bool) -> Ceiling {
    let suffix = if measured { " measured" } else { "" };
    Ceiling { label: format!("{name} {}{suffix}", Quantity::new(value, unit)), value, measured }
}
