//! Axes: from values to places, with round ticks.

/// An axis from `min` at place `from` to `max` at place `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    /// Value at `from`.
    pub(super) min: f64,
    /// Value at `to`.
    pub(super) max: f64,
    /// Place of `min`.
    pub(super) from: f64,
    /// Place of `max`.
    pub(super) to: f64,
    /// Logarithmic; then `min` is positive.
    pub(super) log: bool,
}

impl Axis {
    /// A linear axis; an empty range is widened.
    pub(super) fn linear(min: f64, max: f64, from: f64, to: f64) -> Self {
        let max = if max > min { max } else { min + 1.0 };
        Self { min, max, from, to, log: false }
    }

    /// A logarithmic axis over at most eight decades below `max`.
    pub(super) fn log(min: f64, max: f64, from: f64, to: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let min = if min > 0.0 && min < max { min.max(max / 1e8) } else { max / 10.0 };
        Self { min, max, from, to, log: true }
    }

    /// The place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (libm::log10(value) - libm::log10(self.min))
                / (libm::log10(self.max) - libm::log10(self.min))
        } else {
            (value - self.min) / (self.max - self.min)
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether a value lies on the axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        value >= self.min && value <= self.max
    }

    /// Round values on a linear axis, about `count` of them.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        let step = step(self.max - self.min, count);
        let first = libm::ceil(self.min / step - 1e-9);
        let last = libm::floor(self.max / step + 1e-9);
        (0..=(last - first).clamp(0.0, 100.0) as usize).map(|n| (first + n as f64) * step).collect()
    }

    /// Exponents of the powers of ten on a logarithmic axis.
    pub(super) fn decades(&self) -> Vec<i32> {
        let first = libm::ceil(libm::log10(self.min) - 1e-9) as i32;
        let last = libm::floor(libm::log10(self.max) + 1e-9) as i32;
        (first..=last).collect()
    }
}

/// A round step (1, 2, 2.5 or 5 times a power of ten) that divides `range` into about `count` parts.
pub(super) fn step(range: f64, count: usize) -> f64 {
    let raw = range / count.max(1) as f64;
    if !(raw.is_finite() && raw > 0.0) {
        return 1.0;
    }
    let power = libm::pow(10.0, libm::floor(libm::log10(raw)));
    let round = [1.0, 2.0, 2.5, 5.0, 10.0];
    let factor = round.into_iter().find(|f| f * power >= raw * 0.999).unwrap_or(10.0);
    factor * power
}

/// The least round number at or above `value`, with a step for about `count` ticks.
pub(super) fn ceiling(value: f64, count: usize) -> f64 {
    let step = step(value, count);
    (libm::ceil(value / step - 1e-9) * step).max(step)
}

/// Ticks as text with just the decimals that their distance needs.
pub(super) fn tick_labels(ticks: &[f64]) -> Vec<String> {
    let distance = match ticks {
        [first, second, ..] => (second - first).abs(),
        _ => 1.0,
    };
    let places = (0..6).find(|places| {
        let scaled = distance * libm::pow(10.0, f64::from(*places));
        (scaled - libm::round(scaled)).abs() < 1e-6 * scaled.max(1.0) && scaled >= 0.999
    });
    let places = places.unwrap_or(6) as usize;
    ticks.iter().map(|tick| format!("{tick:.places$}").replace('-', "−")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let axis = Axis::linear(0.0, 230.0, 0.0, 100.0);
        assert_eq!(axis.ticks(5), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(tick_labels(&[0.0, 0.25, 0.5]), ["0.00", "0.25", "0.50"]);
        assert_eq!(tick_labels(&[0.0, 50.0]), ["0", "50"]);
        assert_eq!(ceiling(230.0, 5), 250.0);
    }

    #[test]
    fn log_axis_places_decades_evenly() {
        let axis = Axis::log(0.1, 1000.0, 0.0, 40.0);
        assert_eq!(axis.decades(), [-1, 0, 1, 2, 3]);
        assert!((axis.at(10.0) - 20.0).abs() < 1e-9);
        // Nine decades become eight.
        assert_eq!(Axis::log(1e-3, 1e6, 0.0, 1.0).min, 1e-2);
    }

    #[test]
    fn degenerate_ranges_have_an_axis() {
        assert!(Axis::linear(3.0, 3.0, 0.0, 1.0).at(3.0).is_finite());
        assert!(Axis::log(0.0, 0.0, 0.0, 1.0).at(1.0).is_finite());
    }
}
