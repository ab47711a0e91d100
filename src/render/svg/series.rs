//! Lines over time with the stages behind them.

use super::canvas::{Anchor, Canvas, Rect, SMALL, Stroke, Style, WIDTH};
use super::labels::Labels;
use super::scale::{Axis, ceiling, tick_labels};
use super::{measure, palette};
use crate::findings::Quantity;
use crate::findings::chart::{Panel, Series, thin};
use rooflens_schemas::Unit;

const LEFT: f64 = 34.0;
const PANEL: f64 = 64.0;
const PITCH: f64 = PANEL + 20.0;

/// Draws all panels; returns the chart's height.
pub(super) fn draw(canvas: &mut Canvas, chart: &Series) -> f64 {
    let top = if chart.bands.is_empty() { 14.0 } else { 35.0 };
    let height = (chart.panels.len().max(1) as f64) * PITCH - 20.0;
    let all = Rect::new(LEFT, top, WIDTH - LEFT - 8.0, height);
    let time = Axis::linear(0.0, chart.duration as f64, all.x, all.right());
    for (n, panel) in chart.panels.iter().enumerate() {
        let area = Rect::new(all.x, top + n as f64 * PITCH, all.w, PANEL);
        draw_bands(canvas, area, &time, chart);
        draw_panel(canvas, area, &time, panel);
    }
    label_bands(canvas, top, &time, chart);
    time_axis(canvas, all, &time);
    all.bottom() + 26.0
}

fn draw_bands(canvas: &mut Canvas, area: Rect, time: &Axis, chart: &Series) {
    for (n, (_, start, end)) in chart.bands.iter().enumerate() {
        let (from, to) = (place(time, *start), place(time, *end));
        if to > from {
            let fill = palette::BANDS.get(n % 2).copied().unwrap_or(palette::GRID);
            canvas.rect(Rect::new(from, area.y, to - from, area.h), fill);
        }
    }
}

fn place(time: &Axis, ns: i64) -> f64 {
    time.at((ns as f64).clamp(time.min, time.max))
}

/// Names the bands in two rows above the first panel, the widest first; those without room stay unnamed.
fn label_bands(canvas: &mut Canvas, top: f64, time: &Axis, chart: &Series) {
    let style = Style::MUTED.at(Anchor::Middle);
    let mut bands: Vec<_> = chart.bands.iter().collect();
    bands.sort_by_key(|(label, start, end)| (start.saturating_sub(*end), *start, label.clone()));
    let mut labels = Labels::default();
    for (label, start, end) in bands.into_iter().take(200) {
        let (from, to) = (place(time, *start), place(time, *end));
        let text = measure::fit(label, (to - from).max(70.0), style);
        let half = measure::width(&text, style) / 2.0;
        if half * 2.0 > to - from && half * 2.0 > 70.0 {
            continue;
        }
        let x = ((from + to) / 2.0).clamp(time.from + half, (time.to - half).max(time.from + half));
        let rows = [top - 15.0, top - 24.5];
        let boxes = rows.map(|y| {
            let tight = measure::bounds(x, y, &text, style);
            vec![Rect::new(tight.x - 3.0, tight.y, tight.w + 6.0, tight.h)]
        });
        if let Some(y) = labels.place(&boxes).and_then(|row| rows.get(row)) {
            canvas.text(x, *y, &text, style);
        }
    }
}

fn draw_panel(canvas: &mut Canvas, area: Rect, time: &Axis, panel: &Panel) {
    let points: Vec<(i64, f64)> =
        panel.points.iter().copied().filter(|(t, v)| *t >= 0 && v.is_finite()).collect();
    let limit = panel.limit.as_ref().filter(|(_, value)| value.is_finite());
    let highest = points.iter().map(|(_, v)| *v).chain(limit.map(|(_, v)| *v)).fold(0.0, f64::max);
    let lowest = points.iter().map(|(_, v)| *v).fold(0.0, f64::min);
    let (factor, symbol) = Quantity::new(highest.max(-lowest), panel.unit).scale();
    let y = Axis::linear(lowest / factor, ceiling(highest / factor, 3), area.bottom(), area.y);
    let ticks = y.ticks(3);
    for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
        let at = y.at(*tick);
        canvas.line(&[(area.x, at), (area.right(), at)], Stroke::solid(palette::GRID, 0.6));
        canvas.text(area.x - 4.0, at + 2.5, &label, Style::MUTED.at(Anchor::End));
    }
    let title =
        if symbol.is_empty() { panel.label.clone() } else { format!("{} ({symbol})", panel.label) };
    let title_style = Style { size: SMALL, ..Style::PLAIN.bold() };
    canvas.text(0.5, area.y - 5.5, &measure::fit(&title, WIDTH * 0.6, title_style), title_style);
    let line: Vec<(f64, f64)> = thin(&points, time.max as i64)
        .into_iter()
        .map(|(t, v)| (place(time, t), y.at(v / factor)))
        .collect();
    if !line.is_empty() {
        canvas.line(&line, Stroke::solid(palette::LINE, 0.8));
    }
    if let Some((label, value)) = limit {
        let at = y.at(value / factor);
        canvas.line(&[(area.x, at), (area.right(), at)], Stroke::dashed(palette::ALERT, 0.8));
        let style = Style::MUTED.color(palette::ALERT).at(Anchor::End);
        let label = measure::fit(&format!("– – {label}"), WIDTH * 0.35, style);
        canvas.text(area.right(), area.y - 5.5, &label, style);
    }
}

fn time_axis(canvas: &mut Canvas, all: Rect, time: &Axis) {
    let (factor, symbol) = Quantity::new(time.max, Unit::Nanoseconds).scale();
    let axis = Axis::linear(0.0, time.max / factor, time.from, time.to);
    canvas.line(
        &[(all.x, all.bottom()), (all.right(), all.bottom())],
        Stroke::solid(palette::AXIS, 0.8),
    );
    let ticks = axis.ticks(8);
    for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
        canvas.text(axis.at(*tick), all.bottom() + 10.0, &label, Style::MUTED.at(Anchor::Middle));
    }
    let title = format!("Time ({symbol})");
    canvas.text(all.x + all.w / 2.0, all.bottom() + 21.0, &title, Style::PLAIN.at(Anchor::Middle));
}
