//! Legends: a swatch and a name each, in rows across the chart.

use plotters::style::{Color, RGBColor};

use super::page::{Drawn, Page, Rect, Style, WIDTH};
use super::palette;
use rooflens_document::chart::Part;

const ROW: f64 = 12.0;
const SWATCH: f64 = 7.0;
const GAP: f64 = 11.0;

/// Draws the entries at the top of the page; returns where they end.
pub(super) fn draw(page: &Page, entries: &[(RGBColor, &str)]) -> Drawn<f64> {
    let style = Style::MUTED;
    let (mut x, mut y) = (0.0, 2.0);
    for (color, name) in entries {
        let name = style.fit(page.text.word(name), 180.0);
        let width = SWATCH + 4.0 + style.width(&name);
        if x > 0.0 && x + width > WIDTH - 2.0 {
            (x, y) = (0.0, y + ROW);
        }
        page.rect(Rect::new(x, y + 1.0, SWATCH, SWATCH), color.filled(), "")?;
        page.text(x + SWATCH + 4.0, y + SWATCH + 0.3, &name, style)?;
        x += width + GAP;
    }
    Ok(if entries.is_empty() { y } else { y + ROW + 4.0 })
}

/// The entries of parts.
pub(super) fn entries(parts: &[Part]) -> Vec<(RGBColor, &str)> {
    parts
        .iter()
        .map(|part| (palette::fill(part.color), part.name.as_str()))
        .collect()
}
