//! Single repeats around their row's median.

use super::canvas::{Anchor, Canvas, Rect, Stroke, Style, WIDTH};
use super::scale::{Axis, step, tick_labels};
use super::{measure, palette};
use crate::findings::Quantity;
use crate::findings::chart::Dots;

const PITCH: f64 = 26.0;
const RADIUS: f64 = 2.4;

/// Draws one row of dots a stage; returns the chart's height. The rows share an axis of deviations from
/// the median, because stages last from microseconds to minutes.
pub(super) fn draw(canvas: &mut Canvas, chart: &Dots) -> f64 {
    let rows: Vec<Row<'_>> = chart.rows.iter().map(Row::new).collect();
    let notes: Vec<String> = rows
        .iter()
        .map(|row| format!("{}, n = {}", Quantity::new(row.median, chart.unit), row.dots.len()))
        .collect();
    let widest = |texts: &mut dyn Iterator<Item = &str>, style| {
        texts.map(|text| measure::width(text, style)).fold(0.0, f64::max).min(WIDTH * 0.3)
    };
    let left = widest(&mut rows.iter().map(|r| r.label), Style::PLAIN) + 12.0;
    let right = widest(&mut notes.iter().map(String::as_str), Style::MUTED) + 16.0;
    let area = Rect::new(left, 16.0, WIDTH - left - right, rows.len() as f64 * PITCH);
    let axis = axis(canvas, area, &rows);
    canvas.text(area.right() + 12.0, area.y - 6.0, "median", Style::MUTED);
    for (n, (row, note)) in rows.iter().zip(&notes).enumerate() {
        let y = area.y + (n as f64 + 0.5) * PITCH;
        let label = measure::fit(row.label, left - 12.0, Style::PLAIN);
        canvas.text(left - 8.0, y + 2.8, &label, Style::PLAIN.at(Anchor::End));
        canvas.line(&[(area.x, y), (area.right(), y)], Stroke::solid(palette::GRID, 0.6));
        draw_dots(canvas, y, &axis, row);
        let note = measure::fit(note, right - 14.0, Style::MUTED);
        canvas.text(area.right() + 12.0, y + 2.5, &note, Style::MUTED);
    }
    area.bottom() + 28.0
}

/// A row with its dots as percentages from the median.
struct Row<'a> {
    label: &'a str,
    median: f64,
    dots: Vec<(f64, bool)>,
}

impl<'a> Row<'a> {
    fn new((label, dots): &'a (String, Vec<(f64, bool)>)) -> Self {
        let mut values: Vec<f64> = dots.iter().map(|d| d.0).filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let median =
            match (values.get(values.len().saturating_sub(1) / 2), values.get(values.len() / 2)) {
                (Some(low), Some(high)) => f64::midpoint(*low, *high),
                _ => f64::NAN,
            };
        let deviation =
            |value: f64| if median == 0.0 { value } else { (value / median - 1.0) * 100.0 };
        let dots: Vec<_> = dots
            .iter()
            .filter(|(value, _)| value.is_finite())
            .map(|(value, outlier)| (deviation(*value), *outlier))
            .collect();
        Self { label, median, dots }
    }
}

fn axis(canvas: &mut Canvas, area: Rect, rows: &[Row<'_>]) -> Axis {
    // Outliers do not stretch the axis: they would press all other dots into one place.
    let all = || rows.iter().flat_map(|row| row.dots.iter().filter(|d| !d.1).map(|d| d.0));
    let (low, high) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max));
    let step = step(((high - low) * 1.3).max(0.1), 6);
    let min = libm::floor(low / step) * step - step;
    let max = libm::ceil(high / step) * step + step;
    let axis = Axis::linear(min, max, area.x + 4.0, area.right() - 4.0);
    let ticks = axis.ticks(6);
    for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
        let (at, zero) = (axis.at(*tick), tick.abs() < step * 1e-6);
        let color = if zero { palette::AXIS } else { palette::GRID };
        canvas.line(&[(at, area.y), (at, area.bottom() + 3.0)], Stroke::solid(color, 0.6));
        let label = if *tick > 0.0 && !zero { format!("+{label}") } else { label };
        canvas.text(at, area.bottom() + 11.0, &label, Style::MUTED.at(Anchor::Middle));
    }
    let middle = area.x + area.w / 2.0;
    let title = "Deviation from the row's median (%); rings are outliers";
    canvas.text(middle, area.bottom() + 23.0, title, Style::PLAIN.at(Anchor::Middle));
    axis
}

/// Draws dots; those that would cover an earlier one move up or down.
fn draw_dots(canvas: &mut Canvas, y: f64, axis: &Axis, row: &Row<'_>) {
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for (value, outlier) in &row.dots {
        let x = axis.at(value.clamp(axis.min, axis.max));
        let shift = [0.0, -5.0, 5.0]
            .into_iter()
            .find(|shift| {
                !placed.iter().any(|(px, ps)| (px - x).abs() < 2.0 * RADIUS && *ps == *shift)
            })
            .unwrap_or(0.0);
        placed.push((x, shift));
        if *outlier {
            canvas.ring(x, y + shift, RADIUS, Stroke::solid(palette::ALERT, 1.2));
        } else {
            canvas.disc(x, y + shift, RADIUS, palette::LINE, "");
        }
    }
    label_far_outliers(canvas, y, axis, row);
}

/// Writes beside the end of the axis how far the farthest outlier beyond it lies.
fn label_far_outliers(canvas: &mut Canvas, y: f64, axis: &Axis, row: &Row<'_>) {
    let farthest = |beyond: fn(f64, &Axis) -> bool| {
        let values = row.dots.iter().map(|d| d.0).filter(|value| beyond(*value, axis));
        values.max_by(|a, b| a.abs().total_cmp(&b.abs()))
    };
    let style = Style::MUTED.color(palette::ALERT).halo();
    if let Some(value) = farthest(|value, axis| value > axis.max) {
        let text = format!("+{value:.0} %");
        canvas.text(axis.to - 6.0, y + 2.5, &text, style.at(Anchor::End));
    }
    if let Some(value) = farthest(|value, axis| value < axis.min) {
        let text = format!("−{:.0} %", value.abs());
        canvas.text(axis.from + 6.0, y + 2.5, &text, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_deviations_from_the_median() {
        let row = ("prefill".to_owned(), vec![(90.0, false), (100.0, false), (130.0, true)]);
        let row = Row::new(&row);
        assert_eq!(row.median, 100.0);
        let shown: Vec<f64> = row.dots.iter().map(|d| (d.0 * 1e6).round() / 1e6).collect();
        assert_eq!(shown, [-10.0, 0.0, 30.0]);
    }
}
