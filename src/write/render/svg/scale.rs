//! Axes: ranges that plotters can lay out, round ticks, grids.

use std::ops::Range;

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::page::{Drawn, Plot, Style};
use super::palette;

/// Length of ticks in the backend's unit.
const TICK: i32 = 250;

/// A linear axis; a range that is empty or no number is replaced.
pub(super) fn linear(min: f64, max: f64) -> Range<f64> {
    let length = max - min;
    if length > 1e-300 && length < 1e300 {
        min..max
    } else {
        0.0..1.0
    }
}

/// A logarithmic axis over at most eight decades below `max`.
pub(super) fn log(min: f64, max: f64) -> Range<f64> {
    let max = if max > 1e-300 && max < 1e300 {
        max
    } else {
        1.0
    };
    if min > 0.0 && min < max {
        min.max(max / 1e8)..max
    } else {
        max / 10.0..max
    }
}

/// The round values, at most `count`, that plotters marks on a linear axis.
pub(super) fn ticks(axis: &Range<f64>, count: usize) -> Vec<f64> {
    RangedCoordf64::from(axis.clone()).key_points(count)
}

/// Distance of the ticks.
pub(super) fn step(axis: &Range<f64>, count: usize) -> f64 {
    match ticks(axis, count).as_slice() {
        [first, second, ..] => second - first,
        _ => axis.end - axis.start,
    }
}

/// The least round number at or above `value`, for an axis from 0.
pub(super) fn ceiling(value: f64, count: usize) -> f64 {
    let axis = linear(0.0, value);
    let step = step(&axis, count);
    libm::ceil(axis.end / step - 1e-9) * step
}

/// The text of a tick with just the decimals that the distance of all needs.
pub(super) fn tick_label(axis: &Range<f64>, count: usize) -> impl Fn(&f64) -> String + use<> {
    let distance = step(axis, count);
    let needed = |places: &i32| {
        let scaled = distance * libm::pow(10.0, f64::from(*places));
        (scaled - libm::round(scaled)).abs() < 1e-6 * scaled.max(1.0) && scaled >= 0.999
    };
    let places = (0..6).find(needed).unwrap_or(6) as usize;
    // Adding 0 makes a negative zero positive.
    move |tick| format!("{:.places$}", tick + 0.0).replace('-', "−")
}

/// A value of one digit as this digit and a power of ten.
pub(super) fn digit_and_exponent(value: f64) -> (i32, i32) {
    let exponent = libm::floor(libm::log10(value) + 1e-9) as i32;
    let digit = libm::round(value / libm::pow(10.0, exponent.into())) as i32;
    (digit, exponent)
}

/// A value of one digit: written out while it is short, else with the prefix of its unit.
pub(super) fn log_label(value: &f64) -> String {
    let (digit, exponent) = digit_and_exponent(*value);
    let prefix = (exponent >= 5)
        .then(|| ["", "k", "M", "G", "T", "P", "E"].get(exponent as usize / 3))
        .flatten();
    match (prefix, exponent) {
        (Some(prefix), _) => format!("{} {prefix}", digit * 10_i32.pow(exponent as u32 % 3)),
        (None, -5..5) => format!("{:.*}", -exponent.min(0) as usize, value),
        _ => format!("{digit}e{exponent}"),
    }
}

/// How an axis is labelled.
pub(super) struct Axis<'a> {
    /// Title below a horizontal axis.
    pub(super) title: &'a str,
    /// The most ticks.
    pub(super) ticks: usize,
    /// Texts of the ticks.
    pub(super) label: &'a dyn Fn(&f64) -> String,
    /// Whether lines cross the plot at the ticks.
    pub(super) grid: bool,
}

impl Axis<'_> {
    /// An axis without ticks.
    pub(super) const NONE: Self = Self {
        title: "",
        ticks: 0,
        label: &|_| String::new(),
        grid: false,
    };
}

/// Draws grid, axes and their labels.
pub(super) fn draw<X, Y>(plot: &mut Plot<X, Y>, x: &Axis<'_>, y: &Axis<'_>) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = plot.configure_mesh();
    if !x.grid {
        mesh.disable_x_mesh();
    }
    if !y.grid {
        mesh.disable_y_mesh();
    }
    if !x.title.is_empty() {
        mesh.x_desc(x.title);
    }
    mesh.max_light_lines(0)
        .light_line_style(palette::GRID.stroke_width(60))
        .bold_line_style(palette::GRID.stroke_width(60))
        .axis_style(palette::AXIS.stroke_width(80))
        .label_style(TextStyle::from(Style::MUTED))
        .axis_desc_style(TextStyle::from(Style::PLAIN))
        .set_all_tick_mark_size(TICK)
        .x_labels(x.ticks)
        .y_labels(y.ticks)
        .x_label_formatter(x.label)
        .y_label_formatter(y.label)
        .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(&(0.0..230.0), 6), [0.0, 50.0, 100.0, 150.0, 200.0]);
        let labels = |end: f64| {
            let axis = 0.0..end;
            ticks(&axis, 3)
                .iter()
                .map(tick_label(&axis, 3))
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(0.1), ["0.00", "0.05", "0.10"]);
        assert_eq!(labels(100.0), ["0", "50", "100"]);
        assert_eq!(ceiling(230.0, 6), 250.0);
    }

    #[test]
    fn log_axes_span_eight_decades() {
        assert_eq!(log(0.1, 1000.0), 0.1..1000.0);
        // Nine decades become eight.
        assert_eq!(log(1e-3, 1e6), 1e-2..1e6);
        let powers = [1e-2, 1.0, 1e3, 1e9, 1e14, 1e15].map(|value| log_label(&value));
        assert_eq!(powers, ["0.01", "1", "1000", "1 G", "100 T", "1 P"]);
        let between = [0.05, 2.0, 5e3, 2e11, 5e-7].map(|value| log_label(&value));
        assert_eq!(between, ["0.05", "2", "5000", "200 G", "5e-7"]);
    }

    #[test]
    fn degenerate_ranges_have_an_axis() {
        for axis in [
            linear(3.0, 3.0),
            linear(0.0, f64::NAN),
            linear(0.0, 1e-310),
            log(0.0, 0.0),
        ] {
            assert!(
                axis.start < axis.end && ticks(&axis, 5).len() < 6,
                "{axis:?}"
            );
        }
        assert_eq!(ceiling(0.0, 5), 1.0);
    }
}
