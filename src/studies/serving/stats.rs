//! Percentiles, histograms and distribution functions of samples.

use rooflens_stats::{mean, population_deviation, quantile_from_nearer_end};
use rooflens_units::{Count, Time};

/// Percentiles that reports show.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Figures of a distribution of times; none where a file does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Samples.
    pub count: Option<Count>,
    /// Arithmetic mean.
    pub mean: Option<Time>,
    /// Population standard deviation.
    pub std: Option<Time>,
    /// Least.
    pub min: Option<Time>,
    /// Greatest.
    pub max: Option<Time>,
    /// [`PERCENTILES`].
    pub percentiles: [Option<Time>; 4],
}

impl Spread {
    /// Of samples in nanoseconds, in ascending order.
    pub fn of(sorted: &[f64]) -> Self {
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let figures = [
            mean(sorted),
            population_deviation(sorted),
            Some(*min),
            Some(*max),
        ];
        let percentiles =
            PERCENTILES.map(|percent| quantile_from_nearer_end(sorted, percent / 100.0));
        Self {
            count: Some(Count(sorted.len() as f64)),
            ..Self::in_unit(Time(1.0), figures, percentiles)
        }
    }

    /// Numbers of a file in its unit of time: mean, standard deviation, least, greatest, and [`PERCENTILES`].
    pub fn in_unit(unit: Time, figures: [Option<f64>; 4], percentiles: [Option<f64>; 4]) -> Self {
        let time = |number: Option<f64>| Some(number? * unit);
        let [mean, std, min, max] = figures.map(time);
        Self {
            count: None,
            mean,
            std,
            min,
            max,
            percentiles: percentiles.map(time),
        }
    }

    /// The median.
    pub const fn p50(&self) -> Option<Time> {
        self.percentiles[0]
    }

    /// The 99th percentile.
    pub const fn p99(&self) -> Option<Time> {
        self.percentiles[3]
    }

    /// Whether there is no figure in it.
    pub fn is_empty(&self) -> bool {
        self.mean.is_none() && self.percentiles.iter().all(Option::is_none)
    }

    /// The same with all times multiplied.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |time: Option<Time>| Some(time? * factor);
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
    let mut sorted: Vec<f64> = samples.into_iter().collect();
    sorted.retain(|sample| sample.is_finite());
    sorted.sort_by(f64::total_cmp);
    sorted
}
