//! Statistics of samples: medians, quantiles, outliers, intervals and histograms, one implementation each.
//!
//! Robust measures come first, because a handful of repeats may hold a cold one. Samples keep the type of their caller,
//! with a unit or without: the median of times is a time. The arithmetic is that of plain numbers and compiled once.
//!
//! Sums run in the order of the values and the random generator is fixed, so that equal samples give equal bytes on
//! every machine. There are two quantiles, and they differ in the last bit only: see [`quantile_from_nearer_end`].

#![forbid(unsafe_code)]

mod percentiles;
mod shift;

use std::collections::BTreeMap;

use rooflens_units::Real;

pub use percentiles::percentile_ratio;
pub use shift::{Shift, false_discovery_rates};

/// Modified z-score beyond which a value is an outlier (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993).
pub const OUTLIER_Z: f64 = 3.5;

/// Consistency factors of the same source: the expected absolute deviations of a normal distribution.
pub const MAD_FACTOR: f64 = 0.6745;
const MEAN_DEVIATION_FACTOR: f64 = 1.253_314;

/// Values that the first one is compared with at least. Two are equally far from their median, whatever they are, and
/// if the first one went, two would remain: too few to tell outliers among.
const MIN_REST: usize = 3;

/// Resamples of the bootstrap, and the size beyond which it is not worth its time.
const RESAMPLES: usize = 2000;
const MAX_BOOTSTRAP: usize = 10_000;

/// Statistics of a sample. One value has no spread: what needs two is absent, not 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics<R = f64> {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: R,
    /// Median.
    pub median: R,
    /// Smallest value.
    pub min: R,
    /// Largest value.
    pub max: R,
    /// Sample standard deviation (n − 1).
    pub std: Option<R>,
    /// Median absolute deviation from the median, unscaled.
    pub mad: Option<R>,
    /// 5th percentile, as [`quantile`] defines it.
    pub p5: Option<R>,
    /// 95th percentile, as [`quantile`] defines it.
    pub p95: Option<R>,
    /// 95 % bootstrap interval of the median: percentile method, 2000 resamples, fixed seed.
    pub median_interval: Option<(R, R)>,
}

impl<R: Real> Statistics<R> {
    /// The statistics of `values`; `None` if there is none or one is not finite.
    pub fn of(values: &[R]) -> Option<Self> {
        let unsorted = numbers(values);
        if unsorted.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| a.real().total_cmp(&b.real()));
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let has_spread = values.len() > 1;
        Some(Self {
            n: values.len(),
            mean: mean(values)?,
            median: quantile(&sorted, 0.5)?,
            min: first,
            max: last,
            std: sample_deviation(values),
            mad: median_deviation(values).filter(|_| has_spread),
            p5: quantile(&sorted, 0.05).filter(|_| has_spread),
            p95: quantile(&sorted, 0.95).filter(|_| has_spread),
            median_interval: median_interval(&unsorted)
                .map(|(low, high)| (R::of_real(low), R::of_real(high))),
        })
    }
}

/// The numbers of a sample.
fn numbers<R: Real>(values: &[R]) -> Vec<f64> {
    values.iter().map(|value| value.real()).collect()
}

/// Arithmetic mean, summed in order.
pub fn mean<R: Real>(values: &[R]) -> Option<R> {
    if values.is_empty() {
        return None;
    }
    let sum = values.iter().map(|value| value.real()).sum::<f64>();
    Some(R::of_real(sum / values.len() as f64))
}

/// Standard deviation of a sample (n − 1); absent below two values.
pub fn sample_deviation<R: Real>(values: &[R]) -> Option<R> {
    let degrees = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let variance = squares(&numbers(values))? / degrees as f64;
    Some(R::of_real(variance.sqrt()))
}

/// Standard deviation of a whole population (n).
pub fn population_deviation<R: Real>(values: &[R]) -> Option<R> {
    let variance = squares(&numbers(values))? / values.len() as f64;
    Some(R::of_real(variance.sqrt()))
}

/// Sum of squared deviations from the mean.
fn squares(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(
        values
            .iter()
            .map(|value| (value - mean) * (value - mean))
            .sum(),
    )
}

/// Median; the mean of the two middle values where their number is even.
pub fn median<R: Real>(values: &[R]) -> Option<R> {
    median_of(numbers(values)).map(R::of_real)
}

fn median_of(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    let is_even = values.len().is_multiple_of(2);
    let (_, below, rest) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let below = *below;
    let above = match rest.iter().copied().min_by(f64::total_cmp) {
        Some(above) if is_even => above,
        _ => below,
    };
    // With an odd number too: the addition makes a negative zero positive.
    Some(below + (above - below) * 0.5)
}

/// Quantile of sorted values by linear interpolation between order statistics: position `share · (n − 1)` counted from
/// 0 (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996; what NumPy and R take by default).
pub fn quantile<R: Real>(sorted: &[R], share: f64) -> Option<R> {
    let (below, above, part) = neighbors(sorted, share)?;
    Some(R::of_real(below + (above - below) * part))
}

/// [`quantile`] that interpolates from the nearer of the two values, as `numpy.percentile` does.
///
/// Load generators compute their percentiles with NumPy. Figures from their raw samples equal theirs to the last bit
/// only with NumPy's order of operations, while [`quantile`] has that of DuckDB, which SQL of reports must reproduce.
pub fn quantile_from_nearer_end<R: Real>(sorted: &[R], share: f64) -> Option<R> {
    let (below, above, part) = neighbors(sorted, share)?;
    let quantile = if part < 0.5 {
        below + (above - below) * part
    } else {
        above - (above - below) * (1.0 - part)
    };
    Some(R::of_real(quantile))
}

/// The order statistics around the position of a quantile, and the part of the way from the first to the second.
fn neighbors<R: Real>(sorted: &[R], share: f64) -> Option<(f64, f64, f64)> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = (position as usize).min(last);
    let part = position - below as f64;
    let above = if part > 0.0 {
        (below + 1).min(last)
    } else {
        below
    };
    Some((sorted[below].real(), sorted[above].real(), part))
}

/// Modified z-score of each value, 0.6745 · (x − median) / MAD; where the MAD is 0 the mean absolute deviation takes
/// its place, (x − median) / (1.253314 · mean deviation). `None` where all values are equal or there are fewer than 3.
pub fn modified_z<R: Real>(values: &[R]) -> Option<Vec<f64>> {
    if values.len() < 3 {
        return None;
    }
    let values = numbers(values);
    let scale = z_scale(&values)?;
    Some(values.iter().map(|value| scale(*value)).collect())
}

/// Positions of the values that have the same key, by key.
pub fn alike<K: Ord + Copy>(keys: impl IntoIterator<Item = K>) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (position, key) in keys.into_iter().enumerate() {
        groups.entry(key).or_default().push(position);
    }
    groups.into_values().collect()
}

/// Modified z-score of each value among those of its group; absent where these have none.
pub fn modified_z_of_groups(values: &[f64], groups: &[Vec<usize>]) -> Vec<Option<f64>> {
    let mut scores = vec![None; values.len()];
    for group in groups {
        let of_group: Vec<f64> = group.iter().map(|position| values[*position]).collect();
        let of_group = modified_z(&of_group).unwrap_or_default();
        for (position, score) in group.iter().zip(of_group) {
            scores[*position] = Some(score);
        }
    }
    scores
}

/// Gap between two values ÷ median from which on they can be of two levels, and the least share of the values of each.
const LEVELS_APART: f64 = 0.15;
const LEAST_OF_LEVEL: f64 = 0.2;

/// Values from which on two levels are distinguished from scatter.
const LEAST_FOR_LEVELS: usize = 10;

/// Values that lie together, apart from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Number of values.
    pub count: usize,
    /// Their median.
    pub median: f64,
}

/// The two levels of values between which none lies for more than 15 % of the median, if each has a fifth of them.
pub fn levels<R: Real>(values: &[R]) -> Option<[Level; 2]> {
    if values.len() < LEAST_FOR_LEVELS {
        return None;
    }
    let mut sorted = numbers(values);
    sorted.sort_by(f64::total_cmp);
    let middle = median(&sorted)?;
    let least = (LEAST_OF_LEVEL * sorted.len() as f64).ceil() as usize;
    let gap = |at: usize| sorted[at] - sorted[at - 1];
    let cut = (least..=sorted.len() - least).max_by(|a, b| gap(*a).total_cmp(&gap(*b)))?;
    let (low, high) = sorted.split_at(cut);
    let level = |values: &[f64]| {
        Some(Level {
            count: values.len(),
            median: median(values)?,
        })
    };
    (gap(cut) > LEVELS_APART * middle).then_some([level(low)?, level(high)?])
}

/// Values that each side of a change needs.
const LEAST_OF_SIDE: usize = 3;

/// The split of a sequence that leaves the least squared deviations from the means of both sides: the number of values
/// before it, and these deviations. Absent where a side would have fewer than three values.
pub fn change_point<R: Real>(values: &[R]) -> Option<(usize, f64)> {
    let values = numbers(values);
    let (count, center) = (values.len(), mean(&values)?);
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    let (mut sum, mut best) = (0.0, None);
    for at in 1..count {
        sum += values[at - 1] - center;
        let between = sum * sum * count as f64 / (at * (count - at)) as f64;
        let has_sides = at.min(count - at) >= LEAST_OF_SIDE;
        if has_sides && best.is_none_or(|(_, most)| between > most) {
            best = Some((at, between));
        }
    }
    best.map(|(at, between)| (at, (squares - between).max(0.0)))
}

/// The number of values before a sequence settles at a lower level: the gap between both levels, from the lowest tenth
/// before to the highest tenth after, exceeds 15 % of the lower one, and what both scatter together.
pub fn settles<R: Real>(values: &[R]) -> Option<usize> {
    let (at, [(low, high), (least, most)]) = sides(&numbers(values))?;
    let gap = low - most;
    (gap > (high - low) + (most - least) && gap > LEVELS_APART * most).then_some(at)
}

/// The number of values before a sequence rises to a higher level, at which a fifth of at least ten values are: the gap
/// between both levels, as above, exceeds 15 % of the lower one, and their medians are three deviations apart.
pub fn rises<R: Real>(values: &[R]) -> Option<usize> {
    let values = numbers(values);
    let (at, [(_, most), (low, _)]) = sides(&values)?;
    let least = LEAST_OF_LEVEL * values.len() as f64;
    let has_level = values.len() >= LEAST_FOR_LEVELS && (values.len() - at) as f64 >= least;
    let is_apart = low - most > LEVELS_APART * most && is_clear(&values, at)?;
    (has_level && is_apart).then_some(at)
}

/// The change point of a sequence, with the lowest and the highest tenth of each side.
fn sides(values: &[f64]) -> Option<(usize, [(f64, f64); 2])> {
    let (at, _) = change_point(values)?;
    let tenths = |side: &[f64]| {
        let mut side = side.to_vec();
        side.sort_by(f64::total_cmp);
        Some((quantile(&side, 0.1)?, quantile(&side, 0.9)?))
    };
    Some((at, [tenths(&values[..at])?, tenths(&values[at..])?]))
}

/// Standard deviations that a clear change of level is at least, by the median absolute deviation from the medians of both
/// levels. One long value makes no change unclear.
const CLEAR: f64 = 3.0;

/// Whether the medians of both sides of a change lie far apart.
pub fn is_clear(values: &[f64], at: usize) -> Option<bool> {
    let (before, after) = (median(&values[..at])?, median(&values[at..])?);
    let mut deviations = deviations(&values[..at], before);
    deviations.extend(self::deviations(&values[at..], after));
    Some((after - before).abs() * MAD_FACTOR >= median(&deviations)? * CLEAR)
}

/// Modified z-score of the first value against the rest, which need to be 3 at least.
pub fn modified_z_of_first<R: Real>(values: &[R]) -> Option<f64> {
    let values = numbers(values);
    let (first, rest) = values.split_first()?;
    if rest.len() < MIN_REST {
        return None;
    }
    z_scale(rest).map(|scale| scale(*first))
}

/// How many times the median of the others the first value is, where they are too few to tell whether it is an outlier,
/// and it would be one if they were not.
pub fn doubtful_first<R: Real>(values: &[R]) -> Option<f64> {
    let values = numbers(values);
    let (first, rest) = values.split_first()?;
    let too_few = (2..MIN_REST).contains(&rest.len());
    let z = z_scale(rest).filter(|_| too_few)?(*first);
    let median = median(rest).filter(|median| z > OUTLIER_Z && *median > 0.0)?;
    Some(first / median)
}

/// The map from a value to its modified z-score among `values`.
fn z_scale(values: &[f64]) -> Option<impl Fn(f64) -> f64 + use<>> {
    let center = median(values)?;
    let deviations = deviations(values, center);
    let mad = median(&deviations)?;
    let factor = if mad > 0.0 {
        MAD_FACTOR / mad
    } else {
        let mean = mean(&deviations).filter(|mean| *mean > 0.0)?;
        1.0 / (MEAN_DEVIATION_FACTOR * mean)
    };
    Some(move |value| (value - center) * factor)
}

/// Median absolute deviation from the median, unscaled.
pub fn median_deviation<R: Real>(values: &[R]) -> Option<R> {
    let values = numbers(values);
    let center = median(&values)?;
    median_of(deviations(&values, center)).map(R::of_real)
}

fn deviations(values: &[f64], center: f64) -> Vec<f64> {
    values.iter().map(|value| (value - center).abs()).collect()
}

/// Bootstrap interval of the median at 95 %; absent below two values and above 10 000.
fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    if !(2..=MAX_BOOTSTRAP).contains(&values.len()) {
        return None;
    }
    let mut random = Pcg::new(0x5EED);
    let mut resample = vec![0.0; values.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for slot in &mut resample {
            *slot = values[random.below(values.len() as u32) as usize];
        }
        medians.push(median(&resample)?);
    }
    medians.sort_by(f64::total_cmp);
    Some((quantile(&medians, 0.025)?, quantile(&medians, 0.975)?))
}

/// PCG-XSH-RR 64/32 (O'Neill, 2014): the same numbers on every machine.
struct Pcg {
    state: u64,
}

impl Pcg {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
    const INCREMENT: u64 = 1_442_695_040_888_963_407;

    fn new(seed: u64) -> Self {
        let mut random = Self {
            state: seed.wrapping_add(Self::INCREMENT),
        };
        random.next();
        random
    }

    fn next(&mut self) -> u32 {
        let old = self.state;
        self.state = old
            .wrapping_mul(Self::MULTIPLIER)
            .wrapping_add(Self::INCREMENT);
        let shifted = (((old >> 18) ^ old) >> 27) as u32;
        shifted.rotate_right((old >> 59) as u32)
    }

    /// A number below `bound`, by the high half of a product: the bias is under 2⁻³² times the bound.
    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(bound)) >> 32) as u32
    }
}

/// Samples between two edges of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin<R = f64> {
    pub from: R,
    pub to: R,
    pub count: u64,
}

/// Equally wide bins of a round width from 0 or from the least sample to the 99th percentile, and one for what lies
/// beyond it. Empty of less than two samples.
pub fn histogram<R: Real>(sorted: &[R], most: usize) -> Vec<Bin<R>> {
    let (Some(end), true) = (quantile_from_nearer_end(sorted, 0.99), sorted.len() > 1) else {
        return Vec::new();
    };
    let (low, end) = (sorted[0].real(), end.real());
    let bin = |from, to, count: usize| Bin {
        from: R::of_real(from),
        to: R::of_real(to),
        count: count as u64,
    };
    let width = round_up((end - low) / most.saturating_sub(2).max(1) as f64);
    if width <= 0.0 || !width.is_finite() {
        let high = sorted[sorted.len() - 1].real();
        return vec![bin(low, high, sorted.len())];
    }
    let start = libm::floor(low / width) * width;
    let mut bins = Vec::new();
    let (mut counted, mut edge) = (0, start);
    for number in 1..=most {
        edge = start + width * number as f64;
        let below = sorted.partition_point(|sample| sample.real() < edge);
        bins.push(bin(edge - width, edge, below - counted));
        counted = below;
        if edge > end {
            break;
        }
    }
    if counted < sorted.len() {
        bins.push(bin(edge, f64::INFINITY, sorted.len() - counted));
    }
    bins
}

/// The next of 1, 2, 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(value)));
    for digit in [1.0, 2.0, 5.0, 10.0] {
        if digit * power >= value {
            return digit * power;
        }
    }
    value
}

/// Points of the empirical distribution function: value, and share of samples up to it; `most` points at most.
pub fn cumulative_shares<R: Real>(sorted: &[R], most: usize) -> Vec<(R, f64)> {
    let Some(first) = sorted.first() else {
        return Vec::new();
    };
    let count = sorted.len();
    let step = count.div_ceil(most.max(1));
    let mut points = vec![(*first, 0.0)];
    for (index, value) in sorted.iter().enumerate() {
        let rank = index + 1;
        if rank % step == 0 || rank == count {
            points.push((*value, rank as f64 / count as f64));
        }
    }
    points
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_units::Seconds;

    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn scores_compare_values_of_one_key() {
        // Prompts of two lengths: 10, 11, 12 and 100, 110, 150.
        let values = [10.0, 100.0, 11.0, 110.0, 12.0, 150.0];
        let groups = alike([1, 2, 1, 2, 1, 2]);
        assert_eq!(groups, [[0, 2, 4], [1, 3, 5]]);
        // Deviations of the second group from 110: 10, 0, 40, of which the median is 10.
        let scores = modified_z_of_groups(&values, &groups);
        assert_eq!(scores[5], Some(40.0 * (0.6745 / 10.0)));
        assert_eq!(scores[4], Some(0.6745));
        assert_eq!(
            modified_z_of_groups(&[1.0, 2.0], &alike([1, 2])),
            [None, None]
        );
    }

    #[test]
    fn two_levels_are_far_apart_and_both_common() {
        let two = [1.6, 2.4, 1.6, 1.7, 2.5, 1.6, 2.4, 1.6, 1.6, 2.4];
        let [low, high] = levels(&two).unwrap();
        assert_eq!(
            (low.count, low.median, high.count, high.median),
            (6, 1.6, 4, 2.4)
        );
        // One of ten is an outlier, and even values have no gap.
        assert_eq!(
            levels(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0]),
            None
        );
        assert_eq!(
            levels(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]),
            None
        );
    }

    #[test]
    fn statistics_of_five_values_by_hand() {
        // Sum 20, mean 4; squares 9 + 4 + 1 + 0 + 36 = 50, / 4 = 12.5; deviations from 3: 2, 1, 0, 1, 7 → MAD 1.
        let found = Statistics::of(&[1.0, 2.0, 3.0, 4.0, 10.0]).unwrap();
        assert_eq!(
            (found.n, found.mean, found.median, found.min, found.max),
            (5, 4.0, 3.0, 1.0, 10.0)
        );
        assert!(near(found.std.unwrap(), 12.5_f64.sqrt()));
        assert_eq!(found.mad, Some(1.0));
        // Positions 0.05 · 4 = 0.2 and 0.95 · 4 = 3.8: 1 + 0.2 · 1 and 4 + 0.8 · 6.
        assert!(near(found.p5.unwrap(), 1.2) && near(found.p95.unwrap(), 8.8));
        let (low, high) = found.median_interval.unwrap();
        assert!((1.0..=3.0).contains(&low) && (3.0..=10.0).contains(&high));
    }

    #[test]
    fn figures_have_the_unit_of_their_sample() {
        let times = [Seconds(1.0), Seconds(2.0), Seconds(6.0)];
        assert_eq!(mean(&times), Some(Seconds(3.0)));
        assert_eq!(median(&times), Some(Seconds(2.0)));
        // Deviations from 3: 2, 1, 3; 14 ÷ 2 = 7.
        assert_eq!(sample_deviation(&times), Some(Seconds(7.0_f64.sqrt())));
        let statistics = Statistics::of(&times).unwrap();
        assert_eq!(
            (statistics.max, statistics.mad),
            (Seconds(6.0), Some(Seconds(1.0)))
        );
    }

    #[test]
    fn quantiles_from_the_nearer_end_are_those_of_numpy() {
        // Digit by digit what numpy.percentile([1, 2, 4, 8], [0, 50, 90, 99, 100]) prints.
        let samples = [1.0, 2.0, 4.0, 8.0];
        let quantiles =
            [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| quantile_from_nearer_end(&samples, share));
        let expected = [1.0, 3.0, 6.800000000000001, 7.879999999999999, 8.0];
        assert_eq!(quantiles, expected.map(Some));
        assert_eq!(quantile_from_nearer_end::<f64>(&[], 0.5), None);
        assert_eq!(quantile_from_nearer_end(&[7.0], 0.99), Some(7.0));
    }

    #[test]
    fn a_quantile_at_a_value_ignores_an_infinite_neighbor() {
        // Position 0.5 · 2 = 1: infinity times a part of 0 would be no number.
        assert_eq!(quantile(&[1.0, 2.0, f64::INFINITY], 0.5), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, f64::INFINITY]), Some(2.0));
    }

    #[test]
    fn bins_have_a_round_width_up_to_the_99th_percentile() {
        // P99 of 0 … 100 is 99; 99 ÷ (12 − 2) is rounded up to 10. The tenth bin ends at 100, which lies beyond.
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        let bins = histogram(&samples, 12);
        assert_eq!(bins.len(), 11);
        assert_eq!(
            bins[3],
            Bin {
                from: 30.0,
                to: 40.0,
                count: 10
            }
        );
        assert_eq!(
            bins[10],
            Bin {
                from: 100.0,
                to: f64::INFINITY,
                count: 1
            }
        );
        assert_eq!(round_up(0.3), 0.5);
        assert!(histogram(&[1.0], 12).is_empty());
    }

    #[test]
    fn shares_accumulate_to_the_whole() {
        // Five samples in steps of two: ranks 2, 4 and the last.
        let points = cumulative_shares(&[1.0, 2.0, 3.0, 4.0, 5.0], 3);
        assert_eq!(points, [(1.0, 0.0), (2.0, 0.4), (4.0, 0.8), (5.0, 1.0)]);
        assert!(cumulative_shares::<f64>(&[], 3).is_empty());
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_no_statistics() {
        let one = Statistics::of(&[7.0]).unwrap();
        assert_eq!((one.n, one.mean, one.median), (1, 7.0, 7.0));
        assert_eq!(
            (one.std, one.mad, one.p5, one.p95),
            (None, None, None, None)
        );
        assert_eq!(one.median_interval, None);
        assert_eq!(Statistics::<f64>::of(&[]), None);
        assert_eq!(Statistics::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_cold_decode_repeat_is_the_one_outlier() {
        // Median 1139.342, MAD 88.923 (of 1915.341, 8.617, 209.870, 0, 88.923).
        let times = [3054.683, 1130.725, 1349.212, 1139.342, 1050.419];
        let z = modified_z(&times).unwrap();
        assert!(near(
            z[0],
            0.6745 * (3054.683 - 1139.342) / (1139.342 - 1050.419)
        ));
        let outliers: Vec<usize> = (0..5).filter(|index| z[*index].abs() > OUTLIER_Z).collect();
        assert_eq!(outliers, [0]);
    }

    #[test]
    fn a_sequence_settles_where_its_end_is_far_below_its_start() {
        // Three values at 51, then three at 8: nothing is left of steps without scatter.
        assert_eq!(
            change_point(&[5.0, 5.0, 5.0, 1.0, 1.0, 1.0]),
            Some((3, 0.0))
        );
        assert_eq!(settles(&[50.0, 52.0, 51.0, 8.0, 7.0, 8.0]), Some(3));
        // Rising, mixed, one cold start, and a gap of 1 between sides that scatter by 3.
        assert_eq!(settles(&[8.0, 7.0, 8.0, 50.0, 52.0, 51.0]), None);
        assert_eq!(settles(&[50.0, 8.0, 51.0, 7.0, 52.0, 8.0]), None);
        assert_eq!(settles(&[90.0, 30.0, 31.0, 30.0, 31.0, 30.0]), None);
        assert_eq!(settles(&[9.0, 6.0, 8.0, 5.0, 2.0, 4.0]), None);
        assert_eq!(settles(&[50.0, 52.0, 8.0, 8.0]), None);
        // Nine of 10 to 13, then nine of 20 to 23 with one of 60: 20.8 is more than 15 % above 12.2, and 10 three times 1.5.
        let mut values = [10.0, 11.0, 12.0, 13.0, 12.0, 11.0, 12.0, 11.0, 12.0].to_vec();
        values.push(60.0);
        values.extend(values[..9].to_vec().iter().map(|value| value + 10.0));
        assert_eq!((rises(&values), settles(&values)), (Some(9), None));
        values.reverse();
        assert_eq!(
            (rises(&values), rises(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0])),
            (None, None)
        );
        let line: Vec<f64> = (5..25).map(f64::from).collect();
        assert_eq!(rises(&line), None);
    }

    #[test]
    fn the_first_value_is_measured_against_the_rest_alone() {
        // Rest 10, 11, 12, 13: median 11.5, MAD 1 (of 1.5, 0.5, 0.5, 1.5).
        let z = modified_z_of_first(&[20.0, 10.0, 11.0, 12.0, 13.0]).unwrap();
        assert!(near(z, 0.6745 * 8.5));
        assert_eq!(modified_z_of_first(&[20.0, 10.0, 11.0]), None);
        assert_eq!(modified_z_of_first(&[20.0, 1.0, 1.0, 1.0]), None);
    }

    #[test]
    fn against_two_others_a_first_value_is_in_doubt_and_no_outlier() {
        // Median of 10 and 12: 11, MAD 1. 0.6745 · (x − 11) > 3.5 from x = 16.19 on.
        assert_eq!(doubtful_first(&[22.0, 10.0, 12.0]), Some(2.0));
        assert_eq!(doubtful_first(&[16.2, 10.0, 12.0]), Some(16.2 / 11.0));
        assert_eq!(doubtful_first(&[16.1, 10.0, 12.0]), None);
        assert_eq!(modified_z_of_first(&[22.0, 10.0, 12.0]), None);
        // With three others it is decided; one has no spread, nor have two equal ones.
        assert_eq!(doubtful_first(&[22.0, 10.0, 12.0, 11.0]), None);
        assert_eq!(doubtful_first(&[22.0, 10.0]), None);
        assert_eq!(doubtful_first(&[22.0, 10.0, 10.0]), None);
    }

    #[test]
    fn where_the_mad_is_0_the_mean_deviation_scales() {
        // Median 1, MAD 0, mean deviation 4 / 5.
        let z = modified_z(&[1.0, 1.0, 1.0, 1.0, 5.0]).unwrap();
        assert!(near(z[4], 4.0 / (1.253_314 * 0.8)));
        assert_eq!(modified_z(&[1.0, 2.0]), None);
    }

    #[test]
    fn the_interval_of_the_median_is_the_same_on_every_run() {
        let values: Vec<f64> = (0..101).map(f64::from).collect();
        let found = median_interval(&values).unwrap();
        assert_eq!(median_interval(&values), Some(found));
        // The distribution-free interval is the order statistics 50 ± 0.98 · √101 ≈ 40 and 60.
        assert!(
            (found.0 - 40.0).abs() < 3.0 && (found.1 - 60.0).abs() < 3.0,
            "{found:?}"
        );
    }

    #[test]
    fn the_generator_follows_its_definition() {
        // Computed in Python with integers of any length from the definition in the paper.
        let mut random = Pcg::new(0x5EED);
        let drawn: Vec<u32> = (0..3).map(|_| random.next()).collect();
        assert_eq!(drawn, [3_360_793_142, 2_276_201_150, 35_739_956]);
    }
}
