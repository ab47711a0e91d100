//! Time against work: a fixed time and a rate by least squares.

use rooflens_units::{Ratio, Seconds};

/// time = floor + work ÷ rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Time that a launch takes however little it does; none if the times do not resolve one.
    pub floor: Option<Seconds>,
    /// Work per second beyond it.
    pub rate: f64,
    /// Coefficient of determination, by the same weights.
    pub r2: Ratio,
    /// The largest |time − fit| ÷ time.
    pub residual: Ratio,
    /// Points that it is made from.
    pub points: usize,
}

impl Fit {
    /// The line with the least sum of ((time − line) ÷ time)²: sizes over decades count alike, as relative errors of times
    /// are alike. Without a positive floor, the one through the origin. `None` below three distinct amounts of work, or if
    /// times do not rise with work.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let mut distinct: Vec<f64> = points.iter().map(|(work, _)| *work).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() < 3
            || points
                .iter()
                .any(|(work, time)| !(*work > 0.0 && *time > 0.0))
        {
            return None;
        }
        let sum = |term: fn(f64, f64) -> f64| -> f64 {
            points
                .iter()
                .map(|(work, time)| term(*work, *time) / (time * time))
                .sum()
        };
        let (weights, works, times) = (sum(|_, _| 1.0), sum(|work, _| work), sum(|_, time| time));
        let (squares, products) = (sum(|work, _| work * work), sum(|work, time| work * time));
        let determinant = weights * squares - works * works;
        let slope = (weights * products - works * times) / determinant;
        let floor = (squares * times - works * products) / determinant;
        let (floor, slope) = match floor > 0.0 && floor.is_finite() {
            true => (Some(floor), slope),
            false => (None, products / squares),
        };
        let floor = floor.map(Seconds);
        let (rate, mean) = (1.0 / slope, times / weights);
        if !(rate > 0.0 && rate.is_finite()) {
            return None;
        }
        let mut fit = Self {
            floor,
            rate,
            r2: Ratio::ZERO,
            residual: Ratio::ZERO,
            points: points.len(),
        };
        let part = |from: &dyn Fn(f64) -> f64| -> f64 {
            let square = |(work, time): &(f64, f64)| {
                ((time - from(*work)) / time) * ((time - from(*work)) / time)
            };
            points.iter().map(square).sum()
        };
        fit.r2 = Ratio(1.0 - part(&|work| fit.at(work).0) / part(&|_| mean));
        for (work, time) in points {
            let residual = ((time - fit.at(*work).0) / time).abs();
            fit.residual = fit.residual.max(Ratio(residual));
        }
        Some(fit)
    }

    /// Time that it gives for some work.
    pub fn at(&self, work: f64) -> Seconds {
        self.floor.unwrap_or(Seconds::ZERO) + Seconds(work / self.rate)
    }
}
