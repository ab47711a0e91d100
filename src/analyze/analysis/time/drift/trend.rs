//! The trend of a sequence: robust, so that a single slow instance is none.

use rooflens_stats::median;
use rooflens_units::Time;

/// Points that pairs are made of; longer sequences are reduced to medians of equal groups.
const MAX_POINTS: usize = 400;

/// Theil–Sen slope with the statistic of Mann and Kendall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Median of the slopes of all pairs, per instance.
    pub slope: Time,
    /// Rising minus falling pairs in standard deviations of that difference where there is no trend.
    pub z: f64,
}

/// The trend of points of number and nanoseconds that ascend by number; none of fewer than two.
pub(super) fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let points = grouped(points, MAX_POINTS);
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    let mut balance = 0i64;
    for (n, a) in points.iter().enumerate() {
        for b in points[n + 1..].iter().filter(|b| b.0 > a.0) {
            let rise = b.1 - a.1;
            slopes.push(rise / (b.0 - a.0));
            balance += i64::from(rise > 0.0) - i64::from(rise < 0.0);
        }
    }
    let slope = median(&slopes)?;
    let n = points.len() as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let corrected = balance - balance.signum();
    Some(Trend {
        slope: Time(slope),
        z: corrected as f64 / deviation,
    })
}

/// At most `most` points: medians of groups of neighbours, at the mean place of the group.
pub fn grouped(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(most.max(1)).max(1);
    let reduce = |group: &[(f64, f64)]| {
        let values: Vec<f64> = group.iter().map(|(_, y)| *y).collect();
        let position = group.iter().map(|(x, _)| x).sum::<f64>() / group.len() as f64;
        Some((position, median(&values)?))
    };
    points.chunks(size).filter_map(reduce).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_median_of_all_pairs() {
        // (0,1) (1,3) (2,2) (3,20): slopes 2, 0.5, 19/3, -1, 8.5, 18: sorted -1, 0.5, 2, 6.33, 8.5, 18.
        let trend_of_points = trend(&[(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (3.0, 20.0)]).unwrap();
        assert!((trend_of_points.slope.0 - (2.0 + 19.0 / 3.0) / 2.0).abs() < 1e-12);
        // Five rise, one falls: S = 4, less 1 for continuity; variance 4 · 3 · 13 / 18.
        assert!((trend_of_points.z - 3.0 / (4.0 * 3.0 * 13.0 / 18.0_f64).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_slow_instance_is_no_trend() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|x| (f64::from(x), 100.0)).collect();
        points[19].1 = 900.0;
        let trend_of_points = trend(&points).unwrap();
        assert_eq!(trend_of_points.slope, Time::ZERO);
        assert_eq!(trend(&points[..1]), None);
    }

    #[test]
    fn long_sequences_keep_their_slope() {
        let points: Vec<(f64, f64)> = (0..100_000)
            .map(|x| (f64::from(x), 5.0 + 0.25 * f64::from(x)))
            .collect();
        let trend_of_points = trend(&points).unwrap();
        assert!(
            (trend_of_points.slope.0 - 0.25).abs() < 1e-9 && trend_of_points.z > 10.0,
            "{trend_of_points:?}"
        );
        assert_eq!(
            grouped(&points[..6], 3),
            [(0.5, 5.125), (2.5, 5.625), (4.5, 6.125)]
        );
    }
}
