//! Percentiles of two samples: by which factor one is larger, and how sure that is.
//!
//! The k-th smallest of a resample of n values is the value at ⌊n × B⌋, where B is beta-distributed with k and n − k + 1:
//! the k-th smallest of n uniform numbers. So a resample costs one number and not n, and samples may be large.

use rooflens_units::Ratio;

use crate::{Pcg, RESAMPLES, quantile};

/// Values on either side of a percentile from which on resamples say how it varies.
const BEYOND: f64 = 5.0;

/// The factor of a percentile of the second sample over that of the first, and its bootstrap interval (percentile method,
/// 2000 resamples, fixed seed). The interval is absent with fewer than five values on one side of the percentile. None if
/// a sample is empty or the percentile of the first one is not positive. Samples ascend.
pub fn percentile_ratio(
    first: &[f64],
    second: &[f64],
    share: f64,
    confidence: Ratio,
) -> Option<(Ratio, Option<(Ratio, Ratio)>)> {
    let (before, after) = (quantile(first, share)?, quantile(second, share)?);
    if before <= 0.0 {
        return None;
    }
    let ratio = Ratio(after / before);
    let beyond = share.min(1.0 - share) * first.len().min(second.len()) as f64;
    if beyond < BEYOND {
        return Some((ratio, None));
    }
    let mut random = Pcg::new(0x5EED);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let before = resampled(&mut random, first, share);
        let after = resampled(&mut random, second, share);
        ratios.push(after / before);
    }
    ratios.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence.0) / 2.0;
    let low = quantile(&ratios, tail)?;
    let high = quantile(&ratios, 1.0 - tail)?;
    Some((ratio, Some((Ratio(low), Ratio(high)))))
}

/// The percentile of a resample.
fn resampled(random: &mut Pcg, sorted: &[f64], share: f64) -> f64 {
    let n = sorted.len() as f64;
    let rank = libm::round((n - 1.0) * share) + 1.0;
    let (below, above) = (gamma(random, rank), gamma(random, n - rank + 1.0));
    let place = (n * below / (below + above)) as usize;
    sorted[place.min(sorted.len() - 1)]
}

/// A gamma-distributed number of a shape of 1 at least (Marsaglia and Tsang, "A Simple Method for Generating Gamma
/// Variables", 2000).
fn gamma(random: &mut Pcg, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let normal = normal(random);
        let root = 1.0 + c * normal;
        let cube = root * root * root;
        let bound = 0.5 * normal * normal + d - d * cube;
        if root > 0.0 && libm::log(uniform(random)) < bound + d * libm::log(cube) {
            return d * cube;
        }
    }
}

/// A number of the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut Pcg) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(uniform(random)));
    radius * libm::cos(std::f64::consts::TAU * uniform(random))
}

/// A number between 0 and 1, neither of both.
fn uniform(random: &mut Pcg) -> f64 {
    (f64::from(random.next()) + 0.5) / 4_294_967_296.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Skewed times.
    fn sample(random: &mut Pcg, count: usize) -> Vec<f64> {
        let mut values: Vec<f64> = (0..count)
            .map(|_| libm::exp(0.5 * normal(random)))
            .collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The interval by resamples of all values.
    fn resampled_whole(first: &[f64], second: &[f64], share: f64) -> (f64, f64) {
        let mut random = Pcg::new(7);
        let mut draw = |sorted: &[f64]| {
            let mut values: Vec<f64> = sorted
                .iter()
                .map(|_| sorted[random.below(sorted.len() as u32) as usize])
                .collect();
            values.sort_by(f64::total_cmp);
            quantile(&values, share).unwrap()
        };
        let mut ratios: Vec<f64> = (0..4000).map(|_| draw(second) / draw(first)).collect();
        ratios.sort_by(f64::total_cmp);
        (
            quantile(&ratios, 0.005).unwrap(),
            quantile(&ratios, 0.995).unwrap(),
        )
    }

    #[test]
    fn intervals_are_those_of_whole_resamples() {
        let mut random = Pcg::new(1);
        let (first, second) = (sample(&mut random, 300), sample(&mut random, 400));
        for share in [0.5, 0.9, 0.95] {
            let (_, interval) = percentile_ratio(&first, &second, share, Ratio(0.99)).unwrap();
            let (low, high) = interval.unwrap();
            let expected = resampled_whole(&first, &second, share);
            let apart = |a: f64, b: f64| (a - b).abs() / b;
            assert!(
                apart(low.0, expected.0) < 0.05,
                "{share}: {low:?} {expected:?}"
            );
            assert!(
                apart(high.0, expected.1) < 0.05,
                "{share}: {high:?} {expected:?}"
            );
        }
    }

    #[test]
    fn equal_distributions_rarely_differ() {
        let mut random = Pcg::new(2);
        let mut wrong = 0;
        for _ in 0..200 {
            let (first, second) = (sample(&mut random, 200), sample(&mut random, 200));
            let (_, interval) = percentile_ratio(&first, &second, 0.9, Ratio(0.99)).unwrap();
            let (low, high) = interval.unwrap();
            wrong += usize::from(low.0 > 1.0 || high.0 < 1.0);
        }
        assert!(wrong <= 6, "{wrong} of 200");
    }

    #[test]
    fn the_far_tail_of_a_small_sample_has_no_interval() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let twice: Vec<f64> = values.iter().map(|value| 2.0 * value).collect();
        let ratio = |share| percentile_ratio(&values, &twice, share, Ratio(0.99)).unwrap();
        assert_eq!(ratio(0.99), (Ratio(2.0), None));
        assert!(ratio(0.95).1.is_some());
        assert_eq!(percentile_ratio(&[], &values, 0.5, Ratio(0.99)), None);
    }
}
