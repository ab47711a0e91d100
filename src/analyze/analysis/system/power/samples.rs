//! Samples by device and by stage, and their figures.

use std::collections::BTreeMap;
use std::ops::Range;

use rooflens_schemas::Evidence;

use super::{busy, reasons};
use crate::Context;
use crate::engine::facts::StageInstance;
use rooflens_session::{DeviceSampleId, GpuId, Ns, Session, StrId};
use rooflens_stats::{mean, quantile};
use rooflens_units::{Celsius, Hertz, Joules, Ratio, Time, Watts};

/// One sample, reduced to what is computed with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// UTC time, nanoseconds since 1970.
    pub utc: Ns,
    /// Board power.
    pub watts: Option<Watts>,
    /// SM clock.
    pub sm_hz: Option<Hertz>,
    /// Temperature.
    pub celsius: Option<Celsius>,
    /// Share of NVML's period in which a kernel ran.
    pub utilization: Option<Ratio>,
    /// Bits of `nvmlClocksEventReasons`.
    pub reasons: Option<u64>,
}

/// The samples of a device, by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Number that NVML gives it.
    pub index: u32,
    /// File of the samples.
    pub artifact: StrId,
    /// Its samples.
    pub samples: Vec<Sample>,
    /// Figures of the whole sampled period.
    pub whole: Figures,
    /// Time of that in which the GPU was busy; none if no sample shows it at work.
    pub busy: Option<Time>,
    /// Reasons for a limit of clocks that were set in some sample, by bit. That it was idle is none.
    pub limits: Vec<ClockLimit>,
    /// No other device was sampled.
    pub alone: bool,
}

/// Figures of some samples; what no sample states is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of samples.
    pub samples: u64,
    /// Sampled period, or time of the instances that hold samples, nanoseconds.
    pub duration: Ns,
    /// Mean power.
    pub power_mean: Option<Watts>,
    /// 95th percentile of power.
    pub power_p95: Option<Watts>,
    /// Most power.
    pub power_max: Option<Watts>,
    /// Energy: of a period the trapezoid sum over the samples, of a stage mean power × duration.
    pub energy: Option<Joules>,
    /// Mean SM clock.
    pub sm_clock_mean: Option<Hertz>,
    /// Lowest SM clock.
    pub sm_clock_min: Option<Hertz>,
    /// Highest temperature.
    pub temperature_max: Option<Celsius>,
    /// Samples with a reason that lowers the clock ÷ samples that state reasons.
    pub throttled: Option<Ratio>,
}

/// A reason for a limit of clocks on a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockLimit {
    /// Its bit.
    pub reason: u64,
    /// Samples in which it was set.
    pub samples: u64,
    /// The same as a share of the samples that state reasons.
    pub share: Ratio,
    /// Mean SM clock of the samples with it, and of those without.
    pub clock: (Option<Hertz>, Option<Hertz>),
    /// Share of the busy time in which it was set.
    pub busy_share: Option<Ratio>,
    /// Mean SM clock of the busy time with it, and without.
    pub busy_clock: (Option<Hertz>, Option<Hertz>),
}

/// Figures of a stage on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFigures {
    /// The stage, an index into `Facts::stages`.
    pub stage: usize,
    /// Number that NVML gives the device.
    pub device: u32,
    /// File of the samples.
    pub artifact: StrId,
    /// Figures of the samples within its projections.
    pub figures: Figures,
}

/// The folder of samples, which is named after the pass that they were taken in; none for a loose file.
pub fn folder(session: &Session, artifact: StrId) -> Option<&str> {
    session
        .text(artifact)
        .rsplit_once('/')
        .map(|(folder, _)| folder)
}

/// Keys of the power limit in force.
const POWER_LIMIT: [&str; 2] = ["power limit", "power_limit_w"];

/// Keys of the highest limit that the board accepts.
const MAXIMUM: [&str; 2] = ["maximum power limit", "power_limit_max_w"];

/// The power limit that the environment states for a device.
pub fn power_limit(session: &Session, device: u32) -> Option<Watts> {
    stated_power(session, device, POWER_LIMIT)
}

/// The highest power limit that the environment states for a device.
pub fn maximum_power_limit(session: &Session, device: u32) -> Option<Watts> {
    stated_power(session, device, MAXIMUM)
}

fn stated_power(session: &Session, device: u32, keys: [&str; 2]) -> Option<Watts> {
    let (facts, subject) = (&session.environment, format!("gpu {device}"));
    let watts = |row: usize| {
        let key = session.text(facts.key[row]);
        let is_own = session.text(facts.subject[row]) == subject && keys.contains(&key);
        let value = session.text(facts.value[row]);
        is_own
            .then(|| value.trim_end_matches('W').trim().parse::<f64>().ok())
            .flatten()
    };
    let watts = (0..facts.len()).find_map(watts).map(Watts);
    watts.filter(|watts| watts.is_finite())
}

/// Samples of a file as evidence.
pub fn evidence(session: &Session, artifact: StrId, rows: u64) -> Evidence {
    Evidence {
        artifact: session.text(artifact).to_owned(),
        table: Some("device_samples".to_owned()),
        rows: Some(rows),
    }
}

impl Device {
    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        evidence(session, self.artifact, self.samples.len() as u64)
    }

    /// Time of the first sample.
    pub fn start(&self) -> Ns {
        self.samples.first().map_or(Ns::ZERO, |sample| sample.utc)
    }

    /// Time of the last sample.
    pub fn end(&self) -> Ns {
        self.samples.last().map_or(Ns::ZERO, |sample| sample.utc)
    }

    /// Whether an instance ran on this device: by ordinal, or because no other device was sampled.
    pub fn is_of(&self, session: &Session, instance: &StageInstance) -> bool {
        let same = |gpu: &GpuId| session.gpus.ordinal[gpu.index()] == self.index;
        self.alone || instance.gpus.iter().any(same)
    }

    /// The samples within a window of a pass's clock.
    pub fn within(&self, origin: Ns, window: (Ns, Ns)) -> &[Sample] {
        &self.samples[self.range(origin, window)]
    }

    /// The places of those samples.
    pub(super) fn range(&self, origin: Ns, window: (Ns, Ns)) -> Range<usize> {
        let (start, end) = (
            origin.saturating_add(window.0),
            origin.saturating_add(window.1),
        );
        let first = self.samples.partition_point(|sample| sample.utc < start);
        let last = self.samples.partition_point(|sample| sample.utc <= end);
        first..last.max(first)
    }

    /// The reasons that some sample states.
    fn limits(&self, shares: &[f64]) -> Vec<ClockLimit> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for bit in self
            .samples
            .iter()
            .filter_map(|sample| sample.reasons)
            .flat_map(reasons::bits)
        {
            *counts.entry(bit).or_default() += 1;
        }
        counts.remove(&reasons::IDLE);
        let stating = self
            .samples
            .iter()
            .filter(|sample| sample.reasons.is_some())
            .count();
        let clock = |bit: u64, set: bool| {
            let has = |mask: u64| (mask & bit != 0) == set;
            let device_samples = self
                .samples
                .iter()
                .filter(|sample| sample.reasons.is_some_and(has));
            let clocks: Vec<f64> = device_samples
                .filter_map(|sample| Some(sample.sm_hz?.0))
                .collect();
            mean(&clocks).map(Hertz)
        };
        let limit = |(reason, samples)| {
            let (busy_share, busy_clock) = busy::of_reason(&self.samples, shares, reason);
            ClockLimit {
                reason,
                samples,
                share: Ratio(samples as f64 / stating.max(1) as f64),
                clock: (clock(reason, true), clock(reason, false)),
                busy_share,
                busy_clock,
            }
        };
        counts.into_iter().map(limit).collect()
    }
}

/// The samples of all devices; a device that two artifacts sampled counts once for each.
pub fn devices(context: &Context<'_>) -> Vec<Device> {
    let table = &context.session.device_samples;
    let mut by_device: BTreeMap<(StrId, u32), Vec<DeviceSampleId>> = BTreeMap::new();
    for row in table.ids() {
        let key = (table.artifact[row.index()], table.device[row.index()]);
        by_device.entry(key).or_default().push(row);
    }
    let mut per_artifact: BTreeMap<StrId, usize> = BTreeMap::new();
    for (artifact, _) in by_device.keys() {
        *per_artifact.entry(*artifact).or_default() += 1;
    }
    let device = |((artifact, index), mut rows): ((StrId, u32), Vec<DeviceSampleId>)| {
        rows.sort_by_key(|row| (table.utc[row.index()], *row));
        let alone = per_artifact.get(&artifact) == Some(&1);
        device(context, artifact, index, &rows, alone)
    };
    by_device.into_iter().map(device).collect()
}

fn device(
    context: &Context<'_>,
    artifact: StrId,
    index: u32,
    rows: &[DeviceSampleId],
    alone: bool,
) -> Device {
    let table = &context.session.device_samples;
    let sample = |row: &DeviceSampleId| {
        let row = row.index();
        Sample {
            utc: table.utc[row],
            watts: table.power_mw[row].map(|mw| Watts(mw as f64 / 1e3)),
            sm_hz: table.sm_mhz[row].map(|mhz| Hertz(f64::from(mhz) * 1e6)),
            celsius: table.temperature[row].map(|celsius| Celsius(celsius.into())),
            utilization: table.gpu_util[row]
                .map(|percent| Ratio(f64::from(percent.min(100)) / 100.0)),
            reasons: table.throttle_reasons[row],
        }
    };
    let samples: Vec<Sample> = rows.iter().map(sample).collect();
    let whole = Figures {
        energy: energy(&samples),
        ..Figures::of(&samples)
    };
    let mut device = Device {
        index,
        artifact,
        samples,
        whole,
        busy: None,
        limits: Vec::new(),
        alone,
    };
    device.whole.duration = device.end().saturating_sub(device.start());
    let shares = busy::shares(context, &device);
    device.busy = busy::time(&device, &shares);
    device.limits = device.limits(&shares);
    device
}

impl Figures {
    /// Everything but duration and energy.
    fn of(samples: &[Sample]) -> Self {
        let sorted = |value: fn(&Sample) -> Option<f64>| {
            let mut values: Vec<f64> = samples.iter().filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let power = sorted(|sample| Some(sample.watts?.0));
        let clock = sorted(|sample| Some(sample.sm_hz?.0));
        let throttled: Vec<f64> = samples
            .iter()
            .filter_map(|sample| Some(f64::from(u8::from(reasons::lowers_clock(sample.reasons?)))))
            .collect();
        Self {
            samples: samples.len() as u64,
            power_mean: mean(&power).map(Watts),
            power_p95: quantile(&power, 0.95).map(Watts),
            power_max: power.last().copied().map(Watts),
            sm_clock_mean: mean(&clock).map(Hertz),
            sm_clock_min: clock.first().copied().map(Hertz),
            temperature_max: sorted(|sample| Some(sample.celsius?.0))
                .last()
                .copied()
                .map(Celsius),
            throttled: mean(&throttled).map(Ratio),
            ..Self::default()
        }
    }
}

/// Joules by the trapezoid rule; `None` with fewer than two samples of power.
fn energy(samples: &[Sample]) -> Option<Joules> {
    let powers: Vec<(Ns, f64)> = samples
        .iter()
        .filter_map(|s| Some((s.utc, s.watts?.0)))
        .collect();
    let joules = powers.windows(2).map(|pair| {
        let seconds = pair[1].0.saturating_sub(pair[0].0).time().0 / 1e9;
        seconds * (pair[0].1 + pair[1].1) / 2.0
    });
    (powers.len() > 1).then(|| Joules(joules.sum()))
}

/// Figures of the stages that hold samples of the device.
pub(super) fn of_stages(context: &Context<'_>, device: &Device) -> Vec<StageFigures> {
    let session = context.session;
    let mut stage_figures = Vec::new();
    for (stage, it) in context.facts.stages.iter().enumerate() {
        let Some(origin) = session.passes.utc_origin[it.pass.index()] else {
            continue;
        };
        let mut samples = Vec::new();
        let mut duration: Ns = Ns::ZERO;
        let counted = context
            .facts
            .instances_of(it)
            .iter()
            .filter(|instance| instance.excluded.is_none());
        for instance in counted.filter(|instance| device.is_of(session, instance)) {
            let within = instance
                .projection
                .map_or(&[][..], |window| device.within(origin, window));
            if !within.is_empty() {
                duration = duration.saturating_add(instance.time().unwrap_or(Ns::ZERO));
                samples.extend_from_slice(within);
            }
        }
        if samples.is_empty() {
            continue;
        }
        let mut figures = Figures {
            duration,
            ..Figures::of(&samples)
        };
        figures.energy = figures
            .power_mean
            .map(|watts| Joules(watts.0 * duration.time().0 / 1e9));
        let (device, artifact) = (device.index, device.artifact);
        stage_figures.push(StageFigures {
            stage,
            device,
            artifact,
            figures,
        });
    }
    stage_figures
}
