//! Which samples show a GPU that works.

use super::samples::{Device, Sample};
use crate::analysis::Context;
use crate::analysis::engine::stats::mean;

/// The samples of a device, each with the share of its period in which the GPU was busy.
pub(super) struct Busy<'a> {
    device: &'a Device,
    /// By sample.
    weights: Vec<f64>,
}

impl<'a> Busy<'a> {
    /// By utilization where samples state it; else a sample within a stage is busy, and any other one is not.
    pub(super) fn of(context: &Context<'_>, device: &'a Device) -> Self {
        let samples = &device.samples;
        let weights = match samples.iter().any(|sample| sample.utilization.is_some()) {
            true => samples.iter().map(|sample| sample.utilization.unwrap_or(0.0)).collect(),
            false => within_stages(context, device),
        };
        Self { device, weights }
    }

    /// Busy time of the sampled period, nanoseconds; none if no sample is busy.
    pub(super) fn time(&self) -> Option<f64> {
        let share = mean(&self.weights).filter(|share| *share > 0.0)?;
        Some(share * self.device.whole.duration as f64)
    }

    /// Share of the busy time in which a reason was set, of the samples that state reasons.
    pub(super) fn share(&self, bit: u64) -> Option<f64> {
        let (with, without) = (self.weight(bit, true), self.weight(bit, false));
        (with + without > 0.0).then(|| with / (with + without))
    }

    /// Mean SM clock of the busy time in which a reason was set, or was not.
    pub(super) fn clock(&self, bit: u64, set: bool) -> Option<f64> {
        let known =
            self.matching(bit, set).filter_map(|(sample, weight)| Some((sample.sm_hz?, weight)));
        let (sum, weights) = known
            .fold((0.0, 0.0), |(sum, all), (clock, weight)| (sum + clock * weight, all + weight));
        (weights > 0.0).then(|| sum / weights)
    }

    fn weight(&self, bit: u64, set: bool) -> f64 {
        self.matching(bit, set).map(|(_, weight)| weight).sum()
    }

    fn matching(&self, bit: u64, set: bool) -> impl Iterator<Item = (&Sample, f64)> {
        let all = self.device.samples.iter().zip(self.weights.iter().copied());
        all.filter(move |(sample, _)| sample.reasons.is_some_and(|mask| (mask & bit != 0) == set))
    }
}

/// 1 for samples in the projection of a counted instance of a pass with a known UTC time.
fn within_stages(context: &Context<'_>, device: &Device) -> Vec<f64> {
    let (session, facts) = (context.session, context.facts);
    let mut weights = vec![0.0; device.samples.len()];
    for stage in &facts.stages {
        let Some(origin) = session.passes.utc_origin[stage.pass.index()] else { continue };
        let counted = facts.instances_of(stage).iter().filter(|one| one.excluded.is_none());
        for window in
            counted.filter(|one| device.is_of(session, one)).filter_map(|one| one.projection)
        {
            let (first, last) = device.range(origin, window);
            weights[first..last].fill(1.0);
        }
    }
    weights
}
