//! Utilization of GPUs over a run.

use crate::model::{GpuSample, Run};
use rooflens_session::Arrange;

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
    pub utilization: Option<f64>,
    /// Mean power, watts.
    pub power: Option<f64>,
    /// Most memory in use, bytes.
    pub memory: Option<f64>,
    /// Share of the samples in each of [`BANDS`].
    pub bands: [f64; 5],
}

/// The samples during the runs, where both say when; all of them where none is, and whether that is so.
pub fn during(runs: &[Run], samples: &[GpuSample]) -> (Vec<GpuSample>, bool) {
    let window = |run: &Run| Some((run.began()?, run.began()? + run.duration()? / 1e9));
    let windows: Vec<(f64, f64)> = runs.iter().filter_map(window).collect();
    let is_in = |one: &&GpuSample| {
        let at = one.utc.map(|utc| utc as f64 / 1e9);
        at.is_some_and(|at| windows.iter().any(|(from, to)| (*from..=*to).contains(&at)))
    };
    let inside: Vec<GpuSample> = samples.iter().filter(is_in).copied().collect();
    let has_times = samples.iter().any(|one| one.utc.is_some());
    match inside.is_empty() {
        true => (samples.to_vec(), has_times && !windows.is_empty()),
        false => (inside, false),
    }
}

/// GPUs by index.
pub fn of(samples: &[GpuSample]) -> Vec<Gpu> {
    let mut indices: Vec<u32> = samples.iter().map(|one| one.gpu).collect();
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter().map(|gpu| one(gpu, samples)).collect()
}

fn one(gpu: u32, samples: &[GpuSample]) -> Gpu {
    let mut samples: Vec<GpuSample> = samples
        .iter()
        .filter(|one| one.gpu == gpu)
        .copied()
        .collect();
    samples.arrange_by_key(|one| one.utc);
    let all =
        |of: fn(&GpuSample) -> Option<f64>| samples.iter().filter_map(of).collect::<Vec<f64>>();
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let utilization = all(|one| one.utilization);
    let mut bands = [0.0; 5];
    for value in &utilization {
        let band = BANDS
            .iter()
            .position(|end| value < end)
            .unwrap_or(BANDS.len() - 1);
        bands[band] += 1.0 / utilization.len() as f64;
    }
    Gpu {
        gpu,
        utilization: mean(&utilization),
        power: mean(&all(|one| one.power)),
        memory: all(|one| one.memory_used)
            .into_iter()
            .max_by(f64::total_cmp),
        bands,
        samples,
    }
}
