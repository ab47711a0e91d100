//! Legends: a swatch and a name each, in rows across the chart.

use super::canvas::{Canvas, Rect, Style, WIDTH};
use super::measure;

const ROW: f64 = 12.0;
const SWATCH: f64 = 7.0;
const GAP: f64 = 11.0;

/// Draws `(colour, name)` entries below `top`; returns the height used.
pub(super) fn draw(canvas: &mut Canvas, left: f64, top: f64, entries: &[(String, String)]) -> f64 {
    let style = Style::MUTED;
    let (mut x, mut y) = (left, top);
    for (color, name) in entries {
        let name = measure::fit(name, 180.0, style);
        let width = SWATCH + 4.0 + measure::width(&name, style);
        if x > left && x + width > WIDTH - 2.0 {
            (x, y) = (left, y + ROW);
        }
        canvas.rect(Rect::new(x, y + 1.0, SWATCH, SWATCH), color);
        canvas.text(x + SWATCH + 4.0, y + SWATCH + 0.3, &name, style);
        x += width + GAP;
    }
    if entries.is_empty() { 0.0 } else { y - top + ROW + 4.0 }
}
