//! Utilization of GPUs over a run.

use std::collections::BTreeMap;

use crate::runs::{GpuSample, Run};
use rooflens_session::Arrange;
use rooflens_stats::mean;
use rooflens_units::{Bytes, Ratio, Seconds, Time, Watts};

/// Upper ends of the bands of utilization; the last band has what lies above.
pub const BANDS: [f64; 5] = [0.2, 0.5, 0.8, 0.95, f64::INFINITY];

/// What was sampled of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// Index.
    pub gpu: u32,
    /// Samples with a time, in its order; without times in the order of the files.
    pub samples: Vec<GpuSample>,
    /// Mean utilization, 0 to 1.
    pub utilization: Option<Ratio>,
    /// Mean power.
    pub power: Option<Watts>,
    /// Most memory in use.
    pub memory: Option<Bytes>,
    /// Share of the samples in each of [`BANDS`].
    pub bands: [f64; 5],
}

impl Gpu {
    /// [`Self::bands`], absent without a utilization.
    pub fn bands(&self) -> [Option<Ratio>; 5] {
        let is_known = self.utilization.is_some();
        self.bands.map(|share| is_known.then_some(Ratio(share)))
    }

    /// Whether it has a line over time: samples, in their order, that all have a time.
    pub fn is_timed(&self) -> bool {
        self.samples.len() > 1 && self.samples.iter().all(GpuSample::is_timed)
    }
}

/// The samples during the runs, where both say when; all of them where none is, and whether that is so.
pub fn during(runs: &[Run], samples: &[GpuSample]) -> (Vec<GpuSample>, bool) {
    let mut windows: Vec<(Seconds, Seconds)> = Vec::new();
    for run in runs {
        if let (Some(begin), Some(duration)) = (run.began(), run.duration()) {
            windows.push((begin, begin + duration.seconds()));
        }
    }
    let mut inside = Vec::new();
    for sample in samples {
        let Some(utc) = sample.utc else { continue };
        let moment = Time(utc as f64).seconds();
        if windows
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&moment))
        {
            inside.push(*sample);
        }
    }
    let has_times = samples.iter().any(GpuSample::is_timed);
    if inside.is_empty() {
        (samples.to_vec(), has_times && !windows.is_empty())
    } else {
        (inside, false)
    }
}

/// GPUs by index.
pub fn by_index(samples: &[GpuSample]) -> Vec<Gpu> {
    let mut of_gpus: BTreeMap<u32, Vec<GpuSample>> = BTreeMap::new();
    for sample in samples {
        of_gpus.entry(sample.gpu).or_default().push(*sample);
    }
    let summaries = of_gpus.into_iter();
    summaries
        .map(|(gpu, samples)| summary(gpu, samples))
        .collect()
}

fn summary(gpu: u32, mut samples: Vec<GpuSample>) -> Gpu {
    samples.arrange_by_key(|sample| sample.utc);
    let (mut utilization, mut power) = (Vec::new(), Vec::new());
    let mut memory: Option<Bytes> = None;
    for sample in &samples {
        utilization.extend(sample.utilization);
        power.extend(sample.power);
        if let Some(used) = sample.memory_used {
            memory = Some(memory.map_or(used, |most| most.max(used)));
        }
    }
    let mut bands = [0.0; 5];
    for share in &utilization {
        let band = BANDS.iter().position(|end| share.0 < *end);
        bands[band.unwrap_or(BANDS.len() - 1)] += 1.0 / utilization.len() as f64;
    }
    Gpu {
        gpu,
        utilization: mean(&utilization),
        power: mean(&power),
        memory,
        bands,
        samples,
    }
}
