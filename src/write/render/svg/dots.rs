//! Single repeats around their row's median.

use crate::length::{Place, Pt};
use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::page::{Drawn, Page, Plane, Rect, Style, WIDTH, place};
use super::palette;
use super::scale::{self, Axis};
use rooflens_document::Quantity;
use rooflens_document::chart::Dots;
use rooflens_document::words;
use rooflens_schemas::Unit;

const PITCH: Pt = Pt(26.0);
const RADIUS: Pt = Pt(2.4);
/// The most ticks.
const TICKS: usize = 8;

/// Draws one row of dots a stage; returns the chart's height. The rows share an axis of deviations from
/// the median, because stages last from microseconds to minutes.
pub(super) fn draw(page: &Page, chart: &Dots) -> Drawn<Pt> {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (label, dots) in &chart.rows {
        let row = DotRow::new(label, dots, chart.unit);
        notes.push(format!("{}, n = {}", row.median, row.dots.len()));
        rows.push(row);
    }
    let left = Style::PLAIN
        .widest(chart.rows.iter().map(|(label, _)| label))
        .min(WIDTH * 0.3);
    let right = Style::MUTED.widest(&notes).min(WIDTH * 0.3);
    let (left, right) = (left + Pt(12.0), right + Pt(16.0));
    let area = Rect::new(
        left,
        Pt(16.0),
        WIDTH - left - right,
        PITCH * rows.len() as f64,
    );
    let x = axis(&rows);
    let mut plot = page.plot(
        area,
        (Pt::ZERO, Pt(25.0)),
        x.clone(),
        rows.len() as f64..0.0,
    )?;
    let number = scale::tick_label(&x, TICKS);
    let label = |tick: &f64| match number(tick) {
        text if *tick > 0.0 => format!("+{text}"),
        text => text,
    };
    let title = &words!(page, "chart.deviation");
    scale::draw(
        &mut plot,
        &Axis {
            title,
            ticks: TICKS,
            label: &label,
            grid: true,
        },
        &Axis::NONE,
    )?;
    let zero = vec![(0.0, 0.0), (0.0, rows.len() as f64)];
    plot.plotting_area()
        .draw(&PathElement::new(zero, palette::AXIS.stroke_width(60)))?;
    page.text(
        area.right() + Pt(12.0),
        area.y - Pt(6.0),
        "median",
        Style::MUTED,
    )?;
    for (n, (row, note)) in rows.iter().zip(&notes).enumerate() {
        let y = n as f64 + 0.5;
        let middle = place(&plot, 0.0, y).1;
        let label = Style::PLAIN.fit(row.label, left - Pt(12.0));
        page.text(
            left - Pt(8.0),
            middle + Pt(2.8),
            &label,
            Style::PLAIN.at(HPos::Right),
        )?;
        let line = vec![(x.start, y), (x.end, y)];
        plot.plotting_area()
            .draw(&PathElement::new(line, palette::GRID.stroke_width(60)))?;
        draw_dots(page, &plot, y, &x, row)?;
        let note = Style::MUTED.fit(note, right - Pt(14.0));
        page.text(
            area.right() + Pt(12.0),
            middle + Pt(2.5),
            &note,
            Style::MUTED,
        )?;
    }
    Ok(area.bottom() + Pt(28.0))
}

/// A row with its dots as percentages from the median.
struct DotRow<'a> {
    label: &'a str,
    median: Quantity,
    dots: Vec<(f64, bool)>,
}

impl<'a> DotRow<'a> {
    fn new(label: &'a str, dots: &[(f64, bool)], unit: Unit) -> Self {
        let mut values = Vec::new();
        for (value, _) in dots {
            if value.is_finite() {
                values.push(*value);
            }
        }
        values.sort_by(f64::total_cmp);
        let median = match values.len() {
            0 => f64::NAN,
            count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
        };
        let mut deviations = Vec::new();
        for (value, is_outlier) in dots {
            if value.is_finite() {
                let deviation = if median == 0.0 {
                    *value
                } else {
                    (value / median - 1.0) * 100.0
                };
                deviations.push((deviation, *is_outlier));
            }
        }
        Self {
            label,
            median: Quantity::new(median, unit),
            dots: deviations,
        }
    }
}

fn axis(rows: &[DotRow<'_>]) -> Range<f64> {
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for (deviation, is_outlier) in rows.iter().flat_map(|row| &row.dots) {
        // Outliers do not stretch the axis: they would press all other dots into one place.
        if !is_outlier {
            (low, high) = (low.min(*deviation), high.max(*deviation));
        }
    }
    let step = scale::step(&scale::linear(0.0, ((high - low) * 1.3).max(0.1)), TICKS);
    let (min, max) = (libm::floor(low / step) - 1.0, libm::ceil(high / step) + 1.0);
    scale::linear(min * step, max * step)
}

/// Draws dots; those that would cover an earlier one move up or down.
fn draw_dots(page: &Page, plot: &Plane, y: f64, axis: &Range<f64>, row: &DotRow<'_>) -> Drawn {
    let mut placed: Vec<Place> = Vec::new();
    for (value, outlier) in &row.dots {
        let (x, y) = place(plot, value.clamp(axis.start, axis.end), y);
        let shift = [0.0, -5.0, 5.0]
            .map(Pt)
            .into_iter()
            .find(|shift| {
                !placed
                    .iter()
                    .any(|(px, ps)| (*px - x).abs() < RADIUS * 2.0 && *ps == *shift)
            })
            .unwrap_or(Pt::ZERO);
        placed.push((x, shift));
        match outlier {
            true => page.ring((x, y + shift))?,
            false => page.disc((x, y + shift), RADIUS, palette::LINE, "")?,
        }
    }
    label_far_outliers(page, plot, y, axis, row)
}

/// Writes next to the end of the axis how far the farthest outlier beyond it lies.
fn label_far_outliers(
    page: &Page,
    plot: &Plane,
    y: f64,
    axis: &Range<f64>,
    row: &DotRow<'_>,
) -> Drawn {
    let farthest = |beyond: &dyn Fn(f64) -> bool| {
        let values = row.dots.iter().map(|d| d.0).filter(|value| beyond(*value));
        values.max_by(|a, b| a.abs().total_cmp(&b.abs()))
    };
    let style = Style {
        color: palette::ALERT,
        ..Style::MUTED.halo()
    };
    if let Some(value) = farthest(&|value| value > axis.end) {
        let (x, y) = place(plot, axis.end, y);
        page.text(
            x - Pt(6.0),
            y + Pt(2.5),
            &format!("+{value:.0} %"),
            style.at(HPos::Right),
        )?;
    }
    if let Some(value) = farthest(&|value| value < axis.start) {
        let (x, y) = place(plot, axis.start, y);
        page.text(
            x + Pt(6.0),
            y + Pt(2.5),
            &format!("−{:.0} %", value.abs()),
            style,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_deviations_from_the_median() {
        let dots = [(90.0, false), (100.0, false), (130.0, true)];
        let row = DotRow::new("prefill", &dots, Unit::Nanoseconds);
        assert_eq!(row.median.value, 100.0);
        let shown: Vec<f64> = row.dots.iter().map(|d| (d.0 * 1e6).round() / 1e6).collect();
        assert_eq!(shown, [-10.0, 0.0, 30.0]);
    }
}
