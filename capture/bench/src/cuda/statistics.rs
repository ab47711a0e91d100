//! Statistics of repeated measurements.

use rooflens_stats::{mean, quantile, sample_deviation};
use serde_json::{Value, json};

/// What is said of a sample of times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) n: usize,
    pub(crate) mean: f64,
    /// Standard deviation of a sample, with n − 1; zero for one value.
    pub(crate) std: f64,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// 95th percentile, interpolated linearly between neighbours.
    pub(crate) p95: f64,
}

impl Statistics {
    /// `None` of an empty sample.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            n: sorted.len(),
            mean: mean(&sorted)?,
            std: sample_deviation(&sorted).unwrap_or(0.0),
            median: quantile(&sorted, 0.5)?,
            min,
            max,
            p95: quantile(&sorted, 0.95)?,
        })
    }

    /// (max − min) / median.
    pub(crate) fn spread(&self) -> f64 {
        (self.max - self.min) / self.median
    }

    /// The members `median_s`, `min_s`, `max_s`, `n`, `mean_s`, `std_s`, `p95_s` and `spread`.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "median_s": self.median, "min_s": self.min, "max_s": self.max, "n": self.n,
            "mean_s": self.mean, "std_s": self.std, "p95_s": self.p95, "spread": self.spread(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_five_times() {
        // Sorted 1 2 3 4 10: mean 20/5, squares 9+4+1+0+36 = 50, std √(50/4); rank of p95 is 3.8: 4 + 0.8·6.
        let s = Statistics::of(&[4.0, 1.0, 10.0, 2.0, 3.0]).expect("not empty");
        assert_eq!(
            (s.n, s.mean, s.median, s.min, s.max),
            (5, 4.0, 3.0, 1.0, 10.0)
        );
        assert!((s.std - 12.5f64.sqrt()).abs() < 1e-12);
        assert!((s.p95 - 8.8).abs() < 1e-12);
        assert_eq!(s.spread(), 3.0);
    }

    #[test]
    fn one_value_has_no_deviation_and_no_value_no_statistics() {
        let s = Statistics::of(&[2.0]).expect("not empty");
        assert_eq!((s.std, s.median, s.p95), (0.0, 2.0, 2.0));
        assert_eq!(Statistics::of(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(
            Statistics::of(&[1.0, 2.0, 4.0, 8.0]).map(|s| s.median),
            Some(3.0)
        );
    }
}
