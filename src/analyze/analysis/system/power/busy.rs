//! Which samples show a GPU that works.

use super::samples::{Device, Sample};
use crate::Context;
use rooflens_stats::mean;
use rooflens_units::{Hertz, Ratio, Time};

/// The share of the period of each sample of a device in which the GPU was busy: the utilization where samples state
/// it; else a sample within a stage is busy, and any other one is not.
pub(super) fn shares(context: &Context<'_>, device: &Device) -> Vec<f64> {
    let samples = &device.samples;
    match samples.iter().any(|sample| sample.utilization.is_some()) {
        true => samples
            .iter()
            .map(|sample| sample.utilization.map_or(0.0, |share| share.0))
            .collect(),
        false => within_stages(context, device),
    }
}

/// Busy time of the sampled period; none if no sample is busy.
pub(super) fn time(device: &Device, shares: &[f64]) -> Option<Time> {
    let share = mean(shares).filter(|share| *share > 0.0)?;
    Some(share * device.whole.duration.time())
}

/// Share of the busy time in which a reason was set, of the samples that state reasons; and the mean SM clock of the
/// busy time with it and without it.
pub(super) fn of_reason(
    samples: &[Sample],
    shares: &[f64],
    bit: u64,
) -> (Option<Ratio>, (Option<Hertz>, Option<Hertz>)) {
    let matching = |set: bool| {
        let weighted = samples.iter().zip(shares.iter().copied());
        weighted
            .filter(move |(sample, _)| sample.reasons.is_some_and(|mask| (mask & bit != 0) == set))
    };
    let weight = |set| matching(set).map(|(_, share)| share).sum::<f64>();
    let clock = |set| {
        let clocks = matching(set).filter_map(|(sample, share)| Some((sample.sm_hz?.0, share)));
        let (sum, weight) = clocks.fold((0.0, 0.0), |(sum, weights), (clock, share)| {
            (sum + clock * share, weights + share)
        });
        (weight > 0.0).then(|| Hertz(sum / weight))
    };
    let (with, without) = (weight(true), weight(false));
    (
        (with + without > 0.0).then(|| Ratio(with / (with + without))),
        (clock(true), clock(false)),
    )
}

/// 1 for samples in the projection of a counted instance of a pass with a known UTC time.
fn within_stages(context: &Context<'_>, device: &Device) -> Vec<f64> {
    let (session, facts) = (context.session, context.facts);
    let mut shares = vec![0.0; device.samples.len()];
    for stage in &facts.stages {
        let Some(origin) = session.passes.utc_origin[stage.pass.index()] else {
            continue;
        };
        let counted = facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.excluded.is_none());
        let on_device = counted.filter(|instance| device.is_of(session, instance));
        for window in on_device.filter_map(|instance| instance.projection) {
            shares[device.range(origin, window)].fill(1.0);
        }
    }
    shares
}
