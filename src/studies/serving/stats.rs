//! Percentiles, histograms and distribution functions of samples.

use rooflens_stats::{mean, population_deviation, quantile_from_nearer_end};
use rooflens_units::{Count, Ratio, Real, Time};

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

/// Takes away a quantity below zero, or one that is not finite; 1 if it was one.
pub(crate) fn withhold<T: Copy>(quantity: &mut Option<T>, number: fn(T) -> f64) -> u64 {
    let is_impossible =
        quantity.is_some_and(|value| !(0.0..f64::INFINITY).contains(&number(value)));
    if is_impossible {
        *quantity = None;
    }
    u64::from(is_impossible)
}

impl Spread {
    /// Of samples in ascending order.
    pub fn of(sorted: &[Time]) -> Self {
        let [mean, std, min, max] = figures(sorted);
        Self {
            count: count(sorted),
            mean,
            std,
            min,
            max,
            percentiles: percentiles(sorted),
        }
    }

    /// Of samples in the unit of time of a file, in ascending order.
    pub fn of_numbers(sorted: &[f64], unit: Time) -> Self {
        Self {
            count: count(sorted),
            ..Self::in_unit(unit, figures(sorted), percentiles(sorted))
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

    /// Takes away figures that no time can have, and returns their number.
    pub(crate) fn withhold_impossible(&mut self) -> u64 {
        let figures = [&mut self.mean, &mut self.std, &mut self.min, &mut self.max];
        let times = figures.into_iter().chain(&mut self.percentiles);
        let lost: u64 = times.map(|time| withhold(time, |time| time.0)).sum();
        lost + withhold(&mut self.count, |count| count.0)
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
    pub fn scaled(self, factor: Ratio) -> Self {
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

/// The number of samples; none of no sample.
fn count<R>(samples: &[R]) -> Option<Count> {
    (!samples.is_empty()).then_some(Count(samples.len() as f64))
}

/// Mean, population standard deviation, least and greatest sample.
fn figures<R: Real>(sorted: &[R]) -> [Option<R>; 4] {
    let (min, max) = (sorted.first(), sorted.last());
    [
        mean(sorted),
        population_deviation(sorted),
        min.copied(),
        max.copied(),
    ]
}

/// [`PERCENTILES`] of samples.
fn percentiles<R: Real>(sorted: &[R]) -> [Option<R>; 4] {
    PERCENTILES.map(|percent| quantile_from_nearer_end(sorted, percent / 100.0))
}

/// Finite samples in ascending order.
pub fn sorted<R: Real>(samples: impl IntoIterator<Item = R>) -> Vec<R> {
    let mut sorted: Vec<R> = samples.into_iter().collect();
    sorted.retain(|sample| sample.real().is_finite());
    sorted.sort_by(|a, b| a.real().total_cmp(&b.real()));
    sorted
}
