//! Power and clocks: NVML samples, over the whole sampled period and per stage where they were taken during one.

mod busy;
pub mod reasons;
pub mod samples;

use std::collections::BTreeMap;

use crate::{Context, Known, Missing};
use rooflens_session::{Ns, PassId, StrId};
use rooflens_units::Ratio;

use samples::{Device, StageFigures, devices};

/// Relative difference up to which the sampled period and the repeats' total time may be one and the same run.
const SAME_PERIOD: Ratio = Ratio(0.05);

const MISSING: Missing = Missing("missing.samples");

/// NVML samples of all devices.
#[derive(Default)]
pub struct Power {
    /// Sampled devices; one that several artifacts sampled is in here once for each.
    pub devices: Vec<Device>,
    /// Stages during which samples were taken, by device.
    pub stages: Vec<StageFigures>,
    /// The pass whose GPU work is nearest to the samples, and by how many nanoseconds they precede it (negative:
    /// follow it; 0: overlap).
    pub nearest: Option<(PassId, Ns)>,
    /// The unprofiled pass whose repeats together last as long as the samples do, and that time.
    pub same_period: Option<(StrId, Ns)>,
}

/// Sums the samples up by device and by stage.
pub fn compute(context: &Context<'_>) -> Known<Power> {
    let session = context.session;
    if session.device_samples.is_empty() {
        return Err(MISSING);
    }
    let devices = devices(context);
    let stages = devices
        .iter()
        .flat_map(|device| samples::of_stages(context, device))
        .collect();
    let nearest = nearest_pass(context, &devices);
    let same_period = matching_repeats(context, &devices);
    Ok(Power {
        devices,
        stages,
        nearest,
        same_period,
    })
}

/// The sampled devices, from the results; none without samples.
pub fn sampled<'a>(context: &Context<'a>) -> &'a [Device] {
    context.results.power().map_or(&[], |power| &power.devices)
}

fn nearest_pass(context: &Context<'_>, devices: &[Device]) -> Option<(PassId, Ns)> {
    let start = devices.iter().map(Device::start).min()?;
    let end = devices.iter().map(Device::end).max()?;
    let mut spans: BTreeMap<PassId, (Ns, Ns)> = BTreeMap::new();
    let ops = &context.facts.ops;
    for (row, pass) in ops.pass.iter().enumerate() {
        let span = spans.entry(*pass).or_insert((ops.start[row], ops.end[row]));
        *span = (span.0.min(ops.start[row]), span.1.max(ops.end[row]));
    }
    let gaps = spans.into_iter().filter_map(|(pass, (first, last))| {
        let origin = context.session.passes.utc_origin[pass.index()]?;
        let before = origin.saturating_add(first).saturating_sub(end);
        let after = start.saturating_sub(origin.saturating_add(last));
        Some((
            pass,
            if before > Ns::ZERO {
                before
            } else {
                after.max(Ns::ZERO).saturating_neg()
            },
        ))
    });
    gaps.min_by_key(|(pass, gap)| (gap.abs(), *pass))
}

fn matching_repeats(context: &Context<'_>, devices: &[Device]) -> Option<(StrId, Ns)> {
    let period = devices.first()?.whole.duration;
    let series = &context.results.baseline().ok()?.series;
    let mut passes: Vec<_> = series
        .iter()
        .filter(|s| s.profiled == Some(false))
        .map(|s| s.pass)
        .collect();
    passes.dedup();
    passes.into_iter().find_map(|pass| {
        let of_pass = series.iter().filter(|series| series.pass == pass);
        let times = of_pass.flat_map(|series| series.repeats.iter().map(|repeat| repeat.duration));
        let total = times.fold(Ns::ZERO, Ns::saturating_add);
        let same = (period.time() / total.time() - 1.0).abs() <= SAME_PERIOD.0;
        same.then_some((pass, total))
    })
}
