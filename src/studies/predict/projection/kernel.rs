//! One kernel after a change.

use rooflens_analysis::engine::classify::KernelClass;

use super::{Change, Device, Interval, Kernel, Work};

/// Another size or type makes a library choose another kernel, which takes so much less or more of the predicted time.
pub(crate) const OTHER_KERNEL: Interval = Interval {
    low: 0.95,
    mid: 1.0,
    high: 1.15,
};

/// Time of a kernel of fewer blocks than the GPU runs at a time, once it has more of them and still fits.
const FULLER_WAVE: f64 = 1.25;

impl Work {
    /// The least time on a device, nanoseconds; FLOPs of a dtype without a rate do not count.
    pub(crate) fn roofline(&self, device: &Device) -> f64 {
        let compute = device
            .rate(self.dtype)
            .map_or(0.0, |rate| self.flops / rate);
        let memory = (self.weights + self.inputs + self.outputs) / device.bandwidth;
        compute.max(memory) * 1e9
    }

    /// The work after a change of batch and dtype.
    pub(crate) fn after(&self, change: &Change) -> Self {
        let mut new = Self {
            flops: self.flops * change.batch,
            inputs: self.inputs * change.batch,
            outputs: self.outputs * change.batch,
            ..*self
        };
        if let Some((dtype, element)) = self.converted(change) {
            let ratio = element / self.element;
            new.weights *= ratio;
            new.inputs *= ratio;
            (new.dtype, new.element) = (dtype, element);
        }
        new
    }

    /// The new type and its size, if the change converts this product.
    pub(crate) fn converted(&self, change: &Change) -> Option<(&'static str, f64)> {
        let dtype = change
            .dtype
            .as_deref()
            .filter(|_| self.linear && self.element > 0.0)?;
        let dtype = rooflens_hardware::DTYPES
            .iter()
            .find(|known| **known == dtype)?;
        let element = rooflens_hardware::element_bytes(dtype)?;
        (*dtype != self.dtype).then_some((dtype, element))
    }
}

/// Time of a launch after a change; no kernel is shorter than `floor` nanoseconds.
pub(crate) fn time(kernel: &Kernel, change: &Change, floor: f64) -> Interval {
    let floor = floor.min(kernel.time);
    let unchanged = !change.is_other_work() && !change.is_other_device();
    if unchanged {
        return Interval::exact(kernel.time);
    }
    if matches!(
        kernel.class,
        KernelClass::Communication | KernelClass::Copy | KernelClass::Graph
    ) {
        return Interval::between(kernel.time, kernel.time * change.batch);
    }
    let predicted = match &kernel.work {
        Some(work) => with_sizes(kernel.time, work, change, floor),
        None => without_sizes(kernel, change, floor),
    };
    let is_same_kernel = match &kernel.work {
        Some(work) => *work == work.after(change),
        None => change.batch == 1.0,
    };
    let slack = if is_same_kernel {
        Interval::exact(1.0)
    } else {
        OTHER_KERNEL
    };
    predicted.times(slack).max(Interval::exact(floor))
}

/// Efficiency kept, or overhead kept.
fn with_sizes(time: f64, work: &Work, change: &Change, floor: f64) -> Interval {
    let now = work.roofline(&change.from);
    let new = work.after(change).roofline(&change.to);
    if now <= 0.0 {
        return Interval::exact(time);
    }
    let efficiency_kept = floor + (time - floor) * new / now;
    // Faster than its roofline: the data was in the cache.
    let overhead_kept = if time > now {
        time - now + new
    } else {
        time * new / now
    };
    Interval::between(efficiency_kept, overhead_kept)
}

/// By the waves of blocks and the bandwidth of the memory: what else bounds such a kernel is not known.
fn without_sizes(kernel: &Kernel, change: &Change, floor: f64) -> Interval {
    let beyond = kernel.time - floor;
    let scaled = |factor: f64| floor + beyond * factor;
    let grown = match kernel.waves.filter(|_| kernel.grid_grows) {
        Some(waves) => of_waves(waves, change.batch, &scaled),
        // Blocks may do more each, or be more: anything between no and all of the growth.
        None => Interval::between(kernel.time, scaled(change.batch)),
    };
    if !change.is_other_device() {
        return grown;
    }
    let memory = change.from.bandwidth / change.to.bandwidth;
    let sms = (change.from.sms / change.to.sms).max(1.0);
    let at_bandwidth = |time: f64| floor + (time - floor).max(0.0) * memory;
    Interval {
        low: grown.low.min(at_bandwidth(grown.low)),
        mid: (grown.mid + at_bandwidth(grown.mid)) / 2.0,
        high: grown.high.max(at_bandwidth(grown.high)) * sms,
    }
}

/// A kernel of which the blocks grow with the batch: full waves take their time each, a part of one takes no less.
fn of_waves(waves: f64, ratio: f64, scaled: &impl Fn(f64) -> f64) -> Interval {
    let whole = |waves: f64| libm::ceil(waves).max(1.0);
    let (now, new) = (whole(waves), whole(waves * ratio));
    let by_waves = scaled(new / now);
    if now == new {
        let fuller = if ratio > 1.0 { FULLER_WAVE } else { 1.0 };
        return Interval::between(scaled(1.0), scaled(fuller.min(ratio.max(1.0))));
    }
    // Many waves run into one another: their time follows the blocks.
    Interval::between(by_waves, scaled(ratio.max(new / now)))
}
