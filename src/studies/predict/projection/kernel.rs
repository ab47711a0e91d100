//! One kernel after a change.

use rooflens_analysis::engine::classify::KernelClass;

use rooflens_units::{Bytes, Ratio, Seconds, Time};

use super::{Change, Device, Interval, Kernel, Work};

/// Another size or type makes a library choose another kernel, which takes so much less or more of the predicted time.
pub(crate) const OTHER_KERNEL: Interval<Ratio> =
    Interval::new(Ratio(0.95), Ratio::ONE, Ratio(1.15));

/// Time of a kernel of fewer blocks than the GPU runs at a time, once it has more of them and still fits.
const FULLER_WAVE: Ratio = Ratio(1.25);

impl Work {
    /// The least time on a device; FLOPs of a dtype without a rate do not count.
    pub(crate) fn roofline(&self, device: &Device) -> Time {
        let compute = device
            .rate(self.dtype)
            .map_or(Seconds::ZERO, |rate| self.flops / rate);
        let memory = (self.weights + self.inputs + self.outputs) / device.bandwidth;
        compute.max(memory).time()
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
            new.weights = new.weights * ratio;
            new.inputs = new.inputs * ratio;
            (new.dtype, new.element) = (dtype, element);
        }
        new
    }

    /// The new type and its size, if the change converts this product.
    pub(crate) fn converted(&self, change: &Change) -> Option<(&'static str, Bytes)> {
        let dtype = change
            .dtype
            .as_deref()
            .filter(|_| self.linear && self.element.is_positive())?;
        let dtype = rooflens_hardware::DTYPES
            .iter()
            .find(|known| **known == dtype)?;
        let element = rooflens_hardware::element_bytes(dtype)?;
        (*dtype != self.dtype).then_some((dtype, element))
    }
}

/// Time of a launch after a change; no kernel is shorter than `floor`.
pub(crate) fn time(kernel: &Kernel, change: &Change, floor: Time) -> Interval {
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
        None => change.batch == Ratio::ONE,
    };
    let slack = if is_same_kernel {
        Interval::exact(Ratio::ONE)
    } else {
        OTHER_KERNEL
    };
    predicted.times(slack).max(Interval::exact(floor))
}

/// Efficiency kept, or overhead kept.
fn with_sizes(time: Time, work: &Work, change: &Change, floor: Time) -> Interval {
    let now = work.roofline(&change.from);
    let new = work.after(change).roofline(&change.to);
    if now <= Time::ZERO {
        return Interval::exact(time);
    }
    let efficiency_kept = floor + (time - floor) * new.0 / now.0;
    // Faster than its roofline: the data was in the cache.
    let overhead_kept = if time > now {
        time - now + new
    } else {
        time * new.0 / now.0
    };
    Interval::between(efficiency_kept, overhead_kept)
}

/// By the waves of blocks and the bandwidth of the memory: what else bounds such a kernel is not known.
fn without_sizes(kernel: &Kernel, change: &Change, floor: Time) -> Interval {
    let beyond = kernel.time - floor;
    let scaled = |factor: Ratio| floor + beyond * factor;
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
    let at_bandwidth = |time: Time| floor + (time - floor).max(Time::ZERO) * memory;
    Interval {
        low: grown.low.min(at_bandwidth(grown.low)),
        mid: (grown.mid + at_bandwidth(grown.mid)) / 2.0,
        high: grown.high.max(at_bandwidth(grown.high)) * sms,
    }
}

/// A kernel of which the blocks grow with the batch: full waves take their time each, a part of one takes no less.
fn of_waves(waves: Ratio, growth: Ratio, scaled: &impl Fn(Ratio) -> Time) -> Interval {
    let whole = |waves: Ratio| Ratio(libm::ceil(waves.0)).max(Ratio::ONE);
    let (now, new) = (whole(waves), whole(waves * growth));
    let by_waves = Ratio::of(new, now);
    if now == new {
        let fuller = if growth > Ratio::ONE {
            FULLER_WAVE
        } else {
            Ratio::ONE
        };
        return Interval::between(
            scaled(Ratio::ONE),
            scaled(fuller.min(growth.max(Ratio::ONE))),
        );
    }
    // Many waves run into one another: their time follows the blocks.
    Interval::between(scaled(by_waves), scaled(growth.max(by_waves)))
}
