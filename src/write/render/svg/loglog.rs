//! Plots with two logarithmic axes.

use crate::length::Pt;
use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::page::{Drawn, Page, Plot, Rect, Style, WIDTH, place};
use super::scale::{self, Axis};
use super::{legend, palette};
use rooflens_document::Quantity;
use rooflens_document::chart::LogLog;
use rooflens_schemas::Unit;

const LEFT: Pt = Pt(34.0);
const HEIGHT: Pt = Pt(120.0);
const RADIUS: Pt = Pt(2.6);

/// A plot with two logarithmic axes.
pub(super) type LogPlot = Plot<LogCoord<f64>, LogCoord<f64>>;

/// Draws the plot; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &LogLog) -> Drawn<Pt> {
    let entries: Vec<_> = (0..).map(palette::line).zip(&chart.series).collect();
    let mut names = Vec::new();
    for (color, series) in &entries {
        names.push((*color, series.name.as_str()));
    }
    let top = Pt(14.0) + legend::draw(page, &names)?;
    let area = Rect::new(LEFT, top, WIDTH - LEFT - Pt(6.0), HEIGHT);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x = range(&mut points().map(|(x, _)| *x));
    let y = range(&mut points().map(|(_, y)| *y));
    let plot = frame(page, area, (&x, &y), [&chart.x_label, &chart.y_label])?;
    let drawable = |(a, b): &&(f64, f64)| x.contains(a) && y.contains(b);
    for (color, series) in entries {
        let mut line = Vec::new();
        for (a, b) in series.line.iter().filter(drawable) {
            line.push(place(&plot, *a, *b));
        }
        if line.len() > 1 {
            page.line(&line, color.stroke_width(90), "")?;
        }
        for (a, b) in series.points.iter().filter(drawable) {
            let [x, y] = [*a, *b].map(|value| Quantity::new(value, Unit::One));
            let tooltip = format!("{}: {x} · {y}", series.name);
            page.disc(place(&plot, *a, *b), RADIUS, color, &tooltip)?;
        }
    }
    Ok(area.bottom() + Pt(36.0))
}

/// A logarithmic axis that holds all positive values, with some room around them.
fn range(values: &mut dyn Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = positive(values);
    scale::log(low / 2.0, high * 2.0)
}

/// The least and the greatest of the positive values; infinity and 0 of none.
pub(super) fn positive(values: &mut dyn Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values {
        if value.is_finite() && value > 0.0 {
            (low, high) = (low.min(value), high.max(value));
        }
    }
    (low, high)
}

/// Draws axes with a line at each power of ten, and thin ones between if they do not blacken the plot.
pub(super) fn frame(
    page: &Page,
    area: Rect,
    (x, y): (&Range<f64>, &Range<f64>),
    [below, above]: [&str; 2],
) -> Drawn<LogPlot> {
    let log = |axis: &Range<f64>| axis.clone().log_scale();
    let mut plot = page.plot(area, (LEFT, Pt(25.0)), log(x), log(y))?;
    let thin = palette::GRID.stroke_width(30);
    let mut lines = Vec::new();
    for value in between(x) {
        lines.push([(value, y.start), (value, y.end)]);
    }
    for value in between(y) {
        lines.push([(x.start, value), (x.end, value)]);
    }
    plot.draw_series(
        lines
            .iter()
            .map(|line| PathElement::new(line.to_vec(), thin)),
    )?;
    let axis = |title| Axis {
        title,
        ticks: 9,
        label: &scale::log_label,
        grid: true,
    };
    scale::draw(&mut plot, &axis(below), &axis(""))?;
    label_between(page, area, &plot, (x, y))?;
    page.text(Pt(0.5), area.y - Pt(7.0), above, Style::PLAIN)?;
    Ok(plot)
}

/// Labels at twice and five times the powers of ten of an axis that has at most one power of ten.
fn label_between(
    page: &Page,
    area: Rect,
    plot: &LogPlot,
    (x, y): (&Range<f64>, &Range<f64>),
) -> Drawn {
    for value in labelled_between(x) {
        let (at, _) = place(plot, value, y.start);
        let style = Style::MUTED.at(HPos::Center);
        page.text(
            at,
            area.bottom() + Pt(10.0),
            &scale::log_label(&value),
            style,
        )?;
    }
    for value in labelled_between(y) {
        let (_, at) = place(plot, x.start, value);
        let style = Style::MUTED.at(HPos::Right);
        page.text(
            area.x - Pt(4.5),
            at + Pt(2.5),
            &scale::log_label(&value),
            style,
        )?;
    }
    Ok(())
}

fn labelled_between(axis: &Range<f64>) -> Vec<f64> {
    let decades = libm::floor(libm::log10(axis.end)) - libm::ceil(libm::log10(axis.start));
    if decades >= 1.0 {
        return Vec::new();
    }
    let mut values = between(axis);
    values.retain(|value| matches!(scale::digit_and_exponent(*value).0, 2 | 5));
    values
}

/// The multiples of powers of ten on an axis of few decades.
fn between(axis: &Range<f64>) -> Vec<f64> {
    let decade = |value| libm::floor(libm::log10(value)) as i32;
    let (first, last) = (decade(axis.start), decade(axis.end));
    let few = if last - first > 6 { 0 } else { 10 };
    let mut values = Vec::new();
    for exponent in first..=last {
        for multiple in 2..few {
            let value = f64::from(multiple) * libm::pow(10.0, exponent.into());
            if axis.contains(&value) {
                values.push(value);
            }
        }
    }
    values
}
