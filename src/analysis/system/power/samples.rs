//! Samples by device and by stage, and their figures.

use std::collections::BTreeMap;

use rooflens_schemas::Evidence;

use super::reasons;
use crate::analysis::Context;
use crate::analysis::engine::facts::StageInstance;
use crate::analysis::engine::stats::{mean, quantile};
use crate::model::{DeviceSampleId, Ns, PassId, Session, StrId};

/// One sample, reduced to what is computed with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) utc: Ns,
    pub(crate) watts: Option<f64>,
    pub(crate) sm_hz: Option<f64>,
    pub(super) celsius: Option<f64>,
    /// Share of NVML's period in which a kernel ran.
    pub(super) utilization: Option<f64>,
    pub(crate) reasons: Option<u64>,
}

/// The samples of a device, by time.
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(super) artifact: StrId,
    pub(crate) samples: Vec<Sample>,
    pub(super) whole: Figures,
    /// Samples that state their reasons at all.
    pub(super) with_reasons: u64,
    /// Bits that are set in some sample, and in how many.
    pub(super) reason_counts: Vec<(u64, u64)>,
    /// No other device was sampled.
    pub(crate) alone: bool,
}

/// Figures of some samples; what no sample states is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(super) samples: u64,
    pub(super) duration: Ns,
    pub(super) power_mean: Option<f64>,
    pub(super) power_p95: Option<f64>,
    pub(super) power_max: Option<f64>,
    pub(super) energy: Option<f64>,
    pub(super) energy_basis: &'static str,
    pub(super) sm_clock_mean: Option<f64>,
    pub(super) sm_clock_min: Option<f64>,
    pub(super) temperature_max: Option<f64>,
    pub(super) throttled: Option<f64>,
}

/// Figures of a stage on a device.
pub(super) struct StageFigures {
    pub(super) pass: String,
    pub(super) stage: String,
    pub(super) device: u32,
    pub(super) artifact: StrId,
    pub(super) figures: Figures,
}

impl Device {
    /// The folder of the samples, which is named after the pass that they were taken in; none for a loose file.
    pub(super) fn folder<'a>(&self, session: &'a Session) -> Option<&'a str> {
        session.text(self.artifact).rsplit_once('/').map(|(folder, _)| folder)
    }

    /// `, nsys` for samples in the folder of that pass, and nothing for a loose file.
    pub(super) fn place(&self, session: &Session) -> String {
        self.folder(session).map_or(String::new(), |folder| format!(", {folder}"))
    }

    pub(super) fn evidence(&self, session: &Session) -> Evidence {
        Evidence {
            artifact: session.text(self.artifact).to_owned(),
            table: Some("device_samples".to_owned()),
            rows: Some(self.samples.len() as u64),
        }
    }

    pub(super) fn start(&self) -> Ns {
        self.samples.first().map_or(0, |sample| sample.utc)
    }

    pub(super) fn end(&self) -> Ns {
        self.samples.last().map_or(0, |sample| sample.utc)
    }

    /// Mean SM clock of the samples with a reason and of those without it.
    pub(super) fn clock_with_and_without(&self, bit: u64) -> (Option<f64>, Option<f64>) {
        let of = |set: bool| {
            let matching = self
                .samples
                .iter()
                .filter(|s| s.reasons.is_some_and(|mask| (mask & bit != 0) == set));
            mean(&matching.filter_map(|sample| sample.sm_hz).collect::<Vec<f64>>())
        };
        (of(true), of(false))
    }
}

/// The samples of all devices; a device that two artifacts sampled counts once for each.
pub(crate) fn devices(session: &Session) -> Vec<Device> {
    let table = &session.device_samples;
    let mut by_device: BTreeMap<(StrId, u32), Vec<DeviceSampleId>> = BTreeMap::new();
    for row in table.ids() {
        let key = (table.artifact[row.index()], table.device[row.index()]);
        by_device.entry(key).or_default().push(row);
    }
    let mut per_artifact: BTreeMap<StrId, usize> = BTreeMap::new();
    for (artifact, _) in by_device.keys() {
        *per_artifact.entry(*artifact).or_default() += 1;
    }
    by_device
        .into_iter()
        .map(|((artifact, index), mut rows)| {
            rows.sort_by_key(|row| (table.utc[row.index()], *row));
            let alone = per_artifact.get(&artifact) == Some(&1);
            device(session, artifact, index, &rows, alone)
        })
        .collect()
}

fn device(
    session: &Session,
    artifact: StrId,
    index: u32,
    rows: &[DeviceSampleId],
    alone: bool,
) -> Device {
    let table = &session.device_samples;
    let sample = |row: &DeviceSampleId| {
        let row = row.index();
        Sample {
            utc: table.utc[row],
            watts: table.power_mw[row].map(|mw| mw as f64 / 1e3),
            sm_hz: table.sm_mhz[row].map(|mhz| f64::from(mhz) * 1e6),
            celsius: table.temperature[row].map(f64::from),
            utilization: table.gpu_util[row].map(|percent| f64::from(percent.min(100)) / 100.0),
            reasons: table.throttle_reasons[row],
        }
    };
    let samples: Vec<Sample> = rows.iter().map(sample).collect();
    let mut whole = Figures::of(&samples);
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        whole.duration = last.utc.saturating_sub(first.utc);
    }
    whole.energy = energy(&samples);
    whole.energy_basis = "trapezoid sum of power over the samples";
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for mask in samples.iter().filter_map(|sample| sample.reasons) {
        for bit in reasons::bits(mask) {
            *counts.entry(bit).or_default() += 1;
        }
    }
    let with_reasons = samples.iter().filter(|sample| sample.reasons.is_some()).count() as u64;
    let reason_counts = counts.into_iter().collect();
    Device { index, artifact, samples, whole, with_reasons, reason_counts, alone }
}

impl Figures {
    /// Everything but duration and energy.
    fn of(samples: &[Sample]) -> Self {
        let sorted = |value: fn(&Sample) -> Option<f64>| {
            let mut values: Vec<f64> = samples.iter().filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let power = sorted(|sample| sample.watts);
        let clock = sorted(|sample| sample.sm_hz);
        let throttled: Vec<f64> = samples
            .iter()
            .filter_map(|sample| Some(f64::from(u8::from(reasons::lowers_clock(sample.reasons?)))))
            .collect();
        Self {
            samples: samples.len() as u64,
            power_mean: mean(&power),
            power_p95: quantile(&power, 0.95),
            power_max: power.last().copied(),
            sm_clock_mean: mean(&clock),
            sm_clock_min: clock.first().copied(),
            temperature_max: sorted(|sample| sample.celsius).last().copied(),
            throttled: mean(&throttled),
            ..Self::default()
        }
    }
}

/// Joules by the trapezoid rule; `None` with fewer than two samples of power.
fn energy(samples: &[Sample]) -> Option<f64> {
    let powers: Vec<(Ns, f64)> = samples.iter().filter_map(|s| Some((s.utc, s.watts?))).collect();
    let joules = powers.windows(2).map(|pair| {
        let seconds = pair[1].0.saturating_sub(pair[0].0) as f64 / 1e9;
        seconds * (pair[0].1 + pair[1].1) / 2.0
    });
    (powers.len() > 1).then(|| joules.sum())
}

/// Figures of the stages that hold samples of the device.
pub(super) fn of_stages(context: &Context<'_>, device: &Device) -> Vec<StageFigures> {
    let session = context.session;
    let mut found = Vec::new();
    for stage in &context.facts.stages {
        let Some(origin) = session.passes.utc_origin[stage.pass.index()] else { continue };
        let mut samples = Vec::new();
        let mut duration: Ns = 0;
        let instances = context.facts.instances_of(stage).iter();
        for instance in instances.filter(|one| one.excluded.is_none() && device.is_of(session, one))
        {
            let within =
                instance.projection.map_or(&[][..], |window| device.within(origin, window));
            if !within.is_empty() {
                duration = duration.saturating_add(instance.time().unwrap_or(0));
                samples.extend_from_slice(within);
            }
        }
        if samples.is_empty() {
            continue;
        }
        let mut figures = Figures { duration, ..Figures::of(&samples) };
        figures.energy = figures.power_mean.map(|watts| watts * duration as f64 / 1e9);
        figures.energy_basis = "mean power × time of the instances that hold samples,";
        found.push(StageFigures {
            pass: session.pass_name(stage.pass).to_owned(),
            stage: stage.name.clone(),
            device: device.index,
            artifact: device.artifact,
            figures,
        });
    }
    found
}

impl Device {
    /// Whether an instance ran on this device: by ordinal, or because no other device was sampled.
    pub(super) fn is_of(&self, session: &Session, instance: &StageInstance) -> bool {
        let same = |gpu: &crate::model::GpuId| session.gpus.ordinal[gpu.index()] == self.index;
        self.alone || instance.gpus.iter().any(same)
    }

    /// The samples within a window of a pass's clock.
    pub(crate) fn within(&self, origin: Ns, window: (Ns, Ns)) -> &[Sample] {
        let (first, last) = self.range(origin, window);
        &self.samples[first..last]
    }

    /// The places of those samples.
    pub(super) fn range(&self, origin: Ns, window: (Ns, Ns)) -> (usize, usize) {
        let (start, end) = (origin.saturating_add(window.0), origin.saturating_add(window.1));
        let first = self.samples.partition_point(|sample| sample.utc < start);
        let last = self.samples.partition_point(|sample| sample.utc <= end);
        (first, last.max(first))
    }
}

/// The pass whose GPU work is nearest to the samples, and by how much they precede it (negative: follow it; 0: overlap).
pub(super) fn nearest_pass(context: &Context<'_>, devices: &[Device]) -> Option<(String, Ns)> {
    let session = context.session;
    let start = devices.iter().map(Device::start).min()?;
    let end = devices.iter().map(Device::end).max()?;
    let mut spans: BTreeMap<PassId, (Ns, Ns)> = BTreeMap::new();
    let ops = &context.facts.ops;
    for (row, pass) in ops.pass.iter().enumerate() {
        let span = spans.entry(*pass).or_insert((ops.start[row], ops.end[row]));
        *span = (span.0.min(ops.start[row]), span.1.max(ops.end[row]));
    }
    let gaps = spans.into_iter().filter_map(|(pass, (first, last))| {
        let origin = session.passes.utc_origin[pass.index()]?;
        let before = origin.saturating_add(first).saturating_sub(end);
        let after = start.saturating_sub(origin.saturating_add(last));
        let gap = if before > 0 { before } else { after.max(0).saturating_neg() };
        Some((pass, gap))
    });
    let (pass, gap) = gaps.min_by_key(|(pass, gap)| (gap.abs(), *pass))?;
    Some((session.pass_name(pass).to_owned(), gap))
}
