//! Plots with two logarithmic axes.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::prelude::*;

use super::page::{Drawn, Page, Plot, Rect, Style, WIDTH, place};
use super::scale::{self, Axis};
use super::{legend, palette};
use rooflens_document::Quantity;
use rooflens_document::chart::{LogLog, LogSeries};
use rooflens_schemas::Unit;

const LEFT: f64 = 34.0;
const HEIGHT: f64 = 120.0;
const RADIUS: f64 = 2.6;

/// A plot with two logarithmic axes.
pub(super) type LogPlot = Plot<LogCoord<f64>, LogCoord<f64>>;

/// Draws the plot; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &LogLog) -> Drawn<f64> {
    let entries: Vec<_> = (0..).map(palette::line).zip(&chart.series).collect();
    let names: Vec<_> = entries
        .iter()
        .map(|(color, one)| (*color, one.name.as_str()))
        .collect();
    let top = 14.0 + legend::draw(page, &names)?;
    let area = Rect::new(LEFT, top, WIDTH - LEFT - 6.0, HEIGHT);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let all = |one: &'_ LogSeries| one.points.iter().map(of).collect::<Vec<_>>();
        let (low, high) = positive(&mut chart.series.iter().flat_map(all));
        scale::log(low / 2.0, high * 2.0)
    };
    let (x, y) = (range(|point| point.0), range(|point| point.1));
    let plot = frame(page, area, (&x, &y), [&chart.x_label, &chart.y_label])?;
    let drawable = |(a, b): &&(f64, f64)| x.contains(a) && y.contains(b);
    for (color, series) in entries {
        let line: Vec<_> = series
            .line
            .iter()
            .filter(drawable)
            .map(|(a, b)| place(&plot, *a, *b))
            .collect();
        if line.len() > 1 {
            page.line(&line, color.stroke_width(90), "")?;
        }
        for (a, b) in series.points.iter().filter(drawable) {
            let [x, y] = [*a, *b].map(|value| Quantity::new(value, Unit::One));
            let tooltip = format!("{}: {x} · {y}", series.name);
            page.disc(place(&plot, *a, *b), RADIUS, color, &tooltip)?;
        }
    }
    Ok(area.bottom() + 36.0)
}

/// The least and the greatest of the positive values; infinity and 0 of none.
pub(super) fn positive(values: &mut dyn Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high), v| {
            (low.min(v), high.max(v))
        })
}

/// Draws axes with a line at each power of ten, and thin ones between if they do not blacken the plot.
pub(super) fn frame(
    page: &Page,
    area: Rect,
    (x, y): (&Range<f64>, &Range<f64>),
    [below, above]: [&str; 2],
) -> Drawn<LogPlot> {
    let log = |axis: &Range<f64>| axis.clone().log_scale();
    let mut plot = page.plot(area, (LEFT, 25.0), log(x), log(y))?;
    let thin = palette::GRID.stroke_width(30);
    let lines = between(x)
        .into_iter()
        .map(|v| vec![(v, y.start), (v, y.end)]);
    let lines = lines.chain(
        between(y)
            .into_iter()
            .map(|v| vec![(x.start, v), (x.end, v)]),
    );
    plot.draw_series(lines.map(|line| PathElement::new(line, thin)))?;
    let axis = |title| Axis {
        title,
        ticks: 9,
        label: &scale::power_of_ten,
        grid: true,
    };
    scale::draw(&mut plot, &axis(below), &axis(""))?;
    page.text(0.5, area.y - 7.0, above, Style::PLAIN)?;
    Ok(plot)
}

/// The multiples of powers of ten on an axis of few decades.
fn between(axis: &Range<f64>) -> Vec<f64> {
    let decade = |value| libm::floor(libm::log10(value)) as i32;
    let (first, last) = (decade(axis.start), decade(axis.end));
    let few = if last - first > 6 { 0 } else { 10 };
    (first..=last)
        .flat_map(|exponent| (2..few).map(move |n| f64::from(n) * libm::pow(10.0, exponent.into())))
        .filter(|value| axis.contains(value))
        .collect()
}
