//! Percentiles, histograms and distribution functions of samples.

use rooflens_stats::{mean, population_deviation, quantile_from_nearer_end};

/// Percentiles that reports show.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Figures of a distribution; none where a file does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Samples.
    pub count: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
    /// Least.
    pub min: Option<f64>,
    /// Greatest.
    pub max: Option<f64>,
    /// [`PERCENTILES`].
    pub percentiles: [Option<f64>; 4],
}

impl Spread {
    /// Of samples in ascending order.
    pub fn of(sorted: &[f64]) -> Self {
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        Self {
            count: Some(sorted.len() as f64),
            mean: mean(sorted),
            std: population_deviation(sorted),
            min: Some(*min),
            max: Some(*max),
            percentiles: PERCENTILES
                .map(|percent| quantile_from_nearer_end(sorted, percent / 100.0)),
        }
    }

    /// The median.
    pub const fn p50(&self) -> Option<f64> {
        self.percentiles[0]
    }

    /// The 99th percentile.
    pub const fn p99(&self) -> Option<f64> {
        self.percentiles[3]
    }

    /// Whether there is no figure in it.
    pub fn is_empty(&self) -> bool {
        self.mean.is_none() && self.percentiles.iter().all(Option::is_none)
    }

    /// The same with all times multiplied.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |value: Option<f64>| value.map(|value| value * factor);
        Self {
            count: self.count,
            mean: scale(self.mean),
            std: scale(self.std),
            min: scale(self.min),
            max: scale(self.max),
            percentiles: self.percentiles.map(scale),
        }
    }
}

/// Finite numbers in ascending order.
pub fn sorted(samples: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut samples: Vec<f64> = samples
        .into_iter()
        .filter(|sample| sample.is_finite())
        .collect();
    samples.sort_by(f64::total_cmp);
    samples
}
