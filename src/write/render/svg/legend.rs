//! Legends: a swatch and a name each, in rows across the chart.

use crate::length::Pt;
use plotters::style::{Color, RGBColor};

use super::page::{Drawn, Page, Rect, Style, WIDTH};
use super::palette;
use rooflens_document::chart::Part;

const ROW: Pt = Pt(12.0);
const SWATCH: Pt = Pt(7.0);
const GAP: Pt = Pt(11.0);

/// Draws the entries at the top of the page; returns where they end.
pub(super) fn draw(page: &Page, entries: &[(RGBColor, &str)]) -> Drawn<Pt> {
    let style = Style::MUTED;
    let (mut x, mut y) = (Pt::ZERO, Pt(2.0));
    for (color, name) in entries {
        let name = style.fit(page.text.word(name), Pt(180.0));
        let width = SWATCH + Pt(4.0) + style.width(&name);
        if x > Pt::ZERO && x + width > WIDTH - Pt(2.0) {
            (x, y) = (Pt::ZERO, y + ROW);
        }
        page.rect(
            Rect::new(x, y + Pt(1.0), SWATCH, SWATCH),
            color.filled(),
            "",
        )?;
        page.text(x + SWATCH + Pt(4.0), y + SWATCH + Pt(0.3), &name, style)?;
        x += width + GAP;
    }
    Ok(if entries.is_empty() {
        y
    } else {
        y + ROW + Pt(4.0)
    })
}

/// The entries of parts.
pub(super) fn entries(parts: &[Part]) -> Vec<(RGBColor, &str)> {
    parts
        .iter()
        .map(|part| (palette::fill(part.color), part.name.as_str()))
        .collect()
}
