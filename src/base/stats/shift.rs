//! Two samples: by which factor one is larger than the other, how sure that is, and whether it may be chance.
//!
//! Step times are skewed and have outliers, so a t-test on means would follow single slow iterations. The rank statistics
//! here do not: Hodges and Lehmann, "Estimates of Location Based on Rank Tests", 1963, for the factor and its interval, and
//! Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other", 1947.

use rooflens_units::Ratio;

use crate::quantile;

/// Size of a sample beyond which every n-th value is compared: pairs grow with the product of both sizes.
const MOST: usize = 2000;

/// Size of the smaller sample up to which the distribution of U is exact, as in SciPy's `mannwhitneyu`.
const EXACT: usize = 8;

/// The factor between two samples of positive values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Median of all quotients second ÷ first.
    pub ratio: Ratio,
    /// Interval of the factor; absent where the samples are too small for its confidence.
    pub interval: Option<(Ratio, Ratio)>,
    /// Probability of ranks that differ at least as much if both samples are of one distribution, two-sided.
    pub p: f64,
}

impl Shift {
    /// The factor of the second sample over the first, with an interval that has it with this confidence. None if a sample
    /// is empty or has a value that is not positive.
    pub fn of(first: &[f64], second: &[f64], confidence: Ratio) -> Option<Self> {
        let (first, second) = (thinned(first), thinned(second));
        let is_positive = |value: &f64| *value > 0.0 && value.is_finite();
        if !first.iter().chain(&second).all(is_positive) {
            return None;
        }
        let mut ratios = Vec::with_capacity(first.len() * second.len());
        for before in &first {
            ratios.extend(second.iter().map(|after| after / before));
        }
        ratios.sort_unstable_by(f64::total_cmp);
        let ranks = Ranks::of(&first, &second);
        let trimmed = ranks.trimmed((1.0 - confidence.0) / 2.0);
        let interval = trimmed.map(|count| {
            let last = ratios.len() - 1;
            (Ratio(ratios[count]), Ratio(ratios[last - count]))
        });
        Some(Self {
            ratio: Ratio(quantile(&ratios, 0.5)?),
            interval,
            p: ranks.p(),
        })
    }
}

fn thinned(sample: &[f64]) -> Vec<f64> {
    let step = sample.len().div_ceil(MOST).max(1);
    sample.iter().copied().step_by(step).collect()
}

/// What the test needs to know of the ranks of two samples.
struct Ranks {
    sizes: (usize, usize),
    /// Pairs in which the value of the second sample is larger; ties count half.
    u: f64,
    /// Σ (t³ − t) over groups of t equal values.
    ties: f64,
}

impl Ranks {
    fn of(first: &[f64], second: &[f64]) -> Self {
        let mut values: Vec<(f64, bool)> = first.iter().map(|value| (*value, false)).collect();
        values.extend(second.iter().map(|value| (*value, true)));
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0);
        for equal in values.chunk_by(|a, b| a.0 == b.0) {
            let count = equal.len() as f64;
            let rank = before as f64 + (count + 1.0) / 2.0;
            rank_sum += rank * equal.iter().filter(|(_, is_second)| *is_second).count() as f64;
            ties += count * count * count - count;
            before += equal.len();
        }
        let size = second.len() as f64;
        Self {
            sizes: (first.len(), second.len()),
            u: rank_sum - size * (size + 1.0) / 2.0,
            ties,
        }
    }

    fn pairs(&self) -> f64 {
        self.sizes.0 as f64 * self.sizes.1 as f64
    }

    fn is_exact(&self) -> bool {
        self.sizes.0.min(self.sizes.1) <= EXACT
    }

    fn p(&self) -> f64 {
        let larger = self.u.max(self.pairs() - self.u);
        let above = match self.is_exact() && self.ties == 0.0 {
            true => {
                // The distribution is symmetric: P(U ≥ u) = P(U ≤ pairs − u).
                let most = (self.pairs() - larger) as usize;
                cumulative(self.sizes, most).last().copied().unwrap_or(1.0)
            }
            false => {
                // With the correction for continuity.
                let deviation = self.deviation();
                let distance = larger - self.pairs() / 2.0 - 0.5;
                match deviation > 0.0 {
                    true => above_normal(distance / deviation),
                    false => 1.0,
                }
            }
        };
        (2.0 * above).min(1.0)
    }

    /// Standard deviation of U.
    fn deviation(&self) -> f64 {
        let size = (self.sizes.0 + self.sizes.1) as f64;
        let ties = match size > 1.0 {
            true => self.ties / (size * (size - 1.0)),
            false => 0.0,
        };
        (self.pairs() / 12.0 * (size + 1.0 - ties)).sqrt()
    }

    /// Quotients to drop at each end, so that what is outside has at most this probability; none if the samples are
    /// too small for it.
    fn trimmed(&self, outside: f64) -> Option<usize> {
        if self.is_exact() {
            let cumulative = cumulative(self.sizes, self.sizes.0 * self.sizes.1 / 2);
            return cumulative.iter().rposition(|below| *below <= outside);
        }
        // The largest count whose normal approximation stays outside.
        let (middle, deviation) = (self.pairs() / 2.0, self.deviation());
        if deviation <= 0.0 {
            return None;
        }
        let is_outside =
            |count: usize| above_normal((middle - count as f64 - 0.5) / deviation) <= outside;
        let (mut low, mut high) = (0, middle as usize);
        if !is_outside(low) {
            return None;
        }
        while high - low > 1 {
            let count = low.midpoint(high);
            match is_outside(count) {
                true => low = count,
                false => high = count,
            }
        }
        Some(low)
    }
}

/// P(U ≤ u) for u from 0 to `most`, if both samples of these sizes are of one distribution without ties.
///
/// The number of orders with U = u is the coefficient of q^u in ∏ (1 − q^(m + i)) ÷ (1 − q^i), i = 1 … n.
fn cumulative(sizes: (usize, usize), most: usize) -> Vec<f64> {
    let (small, large) = (sizes.0.min(sizes.1), sizes.0.max(sizes.1));
    // Divided by the number of orders as it grows, lest it overflow.
    let mut orders = vec![0.0; most + 1];
    orders[0] = 1.0;
    for index in 1..=small {
        for u in (large + index..=most).rev() {
            orders[u] -= orders[u - large - index];
        }
        for u in index..=most {
            orders[u] += orders[u - index];
        }
        let factor = index as f64 / (large + index) as f64;
        orders.iter_mut().for_each(|count| *count *= factor);
    }
    let mut sum = 0.0;
    for count in &mut orders {
        sum += *count;
        *count = sum;
    }
    orders
}

/// P(Z > z) of the standard normal distribution.
fn above_normal(z: f64) -> f64 {
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// The p-values of several tests, each as the least rate of false discoveries at which it counts (Benjamini and Hochberg,
/// "Controlling the False Discovery Rate", 1995).
pub fn false_discovery_rates(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*b].total_cmp(&p_values[*a]).then(b.cmp(a)));
    let mut rates = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (place, index) in order.iter().enumerate() {
        let rank = p_values.len() - place;
        least = least.min(p_values[*index] * p_values.len() as f64 / rank as f64);
        rates[*index] = least;
    }
    rates
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Samples with what SciPy and an inversion of its test give; tests/reference/shift.py writes them.
    const SCIPY: &str = include_str!("testdata/shift.txt");

    fn numbers(text: &str) -> Vec<f64> {
        text.split(' ')
            .map(|number| number.parse().unwrap())
            .collect()
    }

    #[test]
    fn p_values_factors_and_intervals_are_those_of_scipy() {
        let mut count = 0;
        for line in SCIPY.lines().filter(|line| !line.starts_with('#')) {
            let [first, second, expected] = line.split(';').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let expected = numbers(expected);
            let shift = Shift::of(&numbers(first), &numbers(second), Ratio(0.95)).unwrap();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
            assert!(near(shift.p, expected[0]), "{line}: p {}", shift.p);
            assert!(near(shift.ratio.0, expected[1]), "{line}: {shift:?}");
            let interval = shift.interval.map(|(low, high)| [low.0, high.0]);
            match (interval, &expected[2..]) {
                (None, []) => {}
                (Some([low, high]), [from, to]) => {
                    assert!(near(low, *from) && near(high, *to), "{line}: {shift:?}");
                }
                _ => panic!("{line}: {shift:?}"),
            }
            count += 1;
        }
        assert_eq!(count, 100);
    }

    #[test]
    fn samples_that_say_nothing_have_no_factor() {
        assert_eq!(Shift::of(&[], &[1.0], Ratio(0.95)), None);
        assert_eq!(Shift::of(&[0.0], &[1.0], Ratio(0.95)), None);
        let equal = Shift::of(&[2.0; 9], &[2.0; 9], Ratio(0.95)).unwrap();
        assert_eq!((equal.ratio, equal.p), (Ratio(1.0), 1.0));
    }

    #[test]
    fn rates_of_false_discoveries_by_hand() {
        // 0.01 · 4 ÷ 1, 0.03 · 4 ÷ 2, then the smaller of 0.04 · 4 ÷ 3 and 0.5: 0.0533 also for the second.
        let rates = false_discovery_rates(&[0.04, 0.01, 0.5, 0.03]);
        let expected = [0.16 / 3.0, 0.04, 0.5, 0.16 / 3.0];
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate - expected).abs() < 1e-12, "{rates:?}");
        }
    }
}
