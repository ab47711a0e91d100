//! Stacked bars.

use super::canvas::{Anchor, Canvas, Rect, SMALL, Stroke, Style, WIDTH};
use super::{legend, measure, palette, scale};
use crate::findings::Quantity;
use crate::findings::chart::{Bar, Part, StackedBars};

const HEIGHT: f64 = 17.0;
const PITCH: f64 = 24.0;
/// Shares of the width that labels at the left and notes at the right may take.
const LABELS: f64 = 0.36;
const NOTES: f64 = 0.3;

/// Draws the bars; returns the chart's height.
pub(super) fn draw(canvas: &mut Canvas, chart: &StackedBars) -> f64 {
    let fills = fills(&chart.parts);
    let entries: Vec<(String, String)> = fills
        .iter()
        .zip(&chart.parts)
        .map(|(fill, part)| (fill.clone(), part.name.clone()))
        .collect();
    let top = 2.0 + legend::draw(canvas, 0.0, 2.0, &entries);
    let area = area(chart, top);
    let total = |bar: &Bar| parts(bar).sum::<f64>();
    let longest = chart.bars.iter().map(total).fold(0.0, f64::max);
    axis(canvas, chart, area, longest);
    for (row, bar) in chart.bars.iter().enumerate() {
        let y = top + row as f64 * PITCH + (PITCH - HEIGHT) / 2.0;
        let full = if chart.normalized { total(bar) } else { scale::ceiling(longest, 5) };
        let label = measure::fit(&bar.label, area.x - 8.0, Style::PLAIN);
        canvas.text(area.x - 6.0, y + 11.5, &label, Style::PLAIN.at(Anchor::End));
        let end = draw_bar(canvas, Rect::new(area.x, y, area.w, HEIGHT), full, bar, chart, &fills);
        let note = measure::fit(&bar.note, WIDTH - area.right() - 6.0, Style::MUTED);
        let x = if chart.normalized { area.right() } else { end };
        canvas.text(x + 6.0, y + 11.5, &note, Style::MUTED.halo());
    }
    area.bottom() + 24.0
}

/// Where the bars go: labels at the left and notes at the right get what they need, within limits.
fn area(chart: &StackedBars, top: f64) -> Rect {
    let widest = |texts: &mut dyn Iterator<Item = &String>, style| {
        texts.map(|text| measure::width(text, style)).fold(0.0, f64::max)
    };
    let left =
        widest(&mut chart.bars.iter().map(|b| &b.label), Style::PLAIN).min(WIDTH * LABELS) + 10.0;
    let right =
        widest(&mut chart.bars.iter().map(|b| &b.note), Style::MUTED).min(WIDTH * NOTES) + 12.0;
    Rect::new(left, top, WIDTH - left - right, chart.bars.len() as f64 * PITCH)
}

/// A part's values; what is not a positive number has no length.
fn parts(bar: &Bar) -> impl Iterator<Item = f64> {
    bar.values.iter().map(|value| if value.is_finite() { value.max(0.0) } else { 0.0 })
}

/// One colour a part; parts of one group get tints of it.
fn fills(parts: &[Part]) -> Vec<String> {
    let same = |n: usize, color| parts.iter().take(n).filter(|part| part.color == color).count();
    let fill = |(n, part): (usize, &Part)| palette::tint(part.color, same(n, part.color));
    parts.iter().enumerate().map(fill).collect()
}

fn axis(canvas: &mut Canvas, chart: &StackedBars, area: Rect, longest: f64) {
    let (max, factor, symbol) = if chart.normalized {
        (1.0, 0.01, "%")
    } else {
        let max = scale::ceiling(longest, 5);
        let (factor, symbol) = Quantity::new(max, chart.unit).scale();
        (max, factor, symbol)
    };
    let axis = scale::Axis::linear(0.0, max / factor, area.x, area.right());
    let ticks = axis.ticks(5);
    let labels = scale::tick_labels(&ticks);
    for (n, (tick, label)) in ticks.iter().zip(&labels).enumerate() {
        let x = axis.at(*tick);
        canvas.line(&[(x, area.y), (x, area.bottom() + 3.0)], Stroke::solid(palette::GRID, 0.6));
        let last = n + 1 == ticks.len();
        let label = if last { format!("{label} {symbol}") } else { label.clone() };
        canvas.text(x, area.bottom() + 11.0, label.trim_end(), Style::MUTED.at(Anchor::Middle));
    }
}

/// Draws one bar and returns where it ends.
fn draw_bar(
    canvas: &mut Canvas,
    place: Rect,
    full: f64,
    bar: &Bar,
    chart: &StackedBars,
    fills: &[String],
) -> f64 {
    let mut x = place.x;
    let total: f64 = parts(bar).sum();
    for ((value, part), fill) in parts(bar).zip(&chart.parts).zip(fills) {
        let w = if full > 0.0 { value / full * place.w } else { 0.0 };
        if w <= 0.0 {
            continue;
        }
        canvas.rect(Rect::new(x, place.y, w, place.h), fill);
        if w > 1.5 {
            canvas
                .line(&[(x + w, place.y), (x + w, place.bottom())], Stroke::solid("#ffffff", 0.7));
        }
        let label = format!("{:.0} %", value / total * 100.0);
        let tinted = fill != palette::fill(part.color);
        let color = if tinted { palette::INK } else { palette::on_fill(part.color) };
        let style = Style { size: SMALL, color, ..Style::PLAIN.at(Anchor::Middle) };
        if measure::width(&label, style) + 4.0 <= w {
            canvas.text(x + w / 2.0, place.y + 11.2, &label, style);
        }
        x += w;
    }
    x
}
