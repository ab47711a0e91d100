//! Stacked bars.

use crate::length::Pt;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::page::{Drawn, Page, Plane, Rect, Style, WIDTH, place};
use super::scale::{self, Axis};
use super::{legend, palette};
use rooflens_document::Quantity;
use rooflens_document::chart::{Bar, Part, StackedBars};
use rooflens_units::Ratio;

const PITCH: Pt = Pt(20.0);
/// White above and below a bar.
const MARGIN: Pt = Pt(3.0);
/// Shares of the width that labels at the left and notes at the right may take.
const LABELS: Ratio = Ratio(0.36);
const NOTES: Ratio = Ratio(0.3);

/// Share of a bar from which on a part can be seen, and has an entry in the legend.
const SEEN: Ratio = Ratio(0.002);

/// Draws the bars; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &StackedBars) -> Drawn<Pt> {
    let fills = fills(&chart.parts);
    let longest = chart.bars.iter().map(total).fold(0.0, f64::max);
    let is_seen = |part: usize| {
        let share = |bar: &Bar| {
            let whole = if chart.normalized {
                total(bar)
            } else {
                longest
            };
            parts(bar).nth(part).unwrap_or(0.0) >= SEEN.0 * whole
        };
        chart.bars.iter().any(share)
    };
    let mut seen = Vec::new();
    for (index, part) in chart.parts.iter().enumerate() {
        if is_seen(index) {
            seen.push((fills[index], part.name.as_str()));
        }
    }
    let top = legend::draw(page, &seen)?;
    let area = area(chart, top);
    let (max, factor, symbol) = if chart.normalized {
        (100.0, 1.0, "%")
    } else {
        let max = scale::ceiling(longest, 6);
        let (factor, symbol) = Quantity::new(max, chart.unit).scale();
        (max / factor, factor, symbol)
    };
    let x = scale::linear(0.0, max);
    let mut plot = page.plot(
        area,
        (Pt::ZERO, Pt(14.0)),
        x.clone(),
        chart.bars.len() as f64..0.0,
    )?;
    let last = scale::ticks(&x, 7).pop();
    let number = scale::tick_label(&x, 7);
    let label = |tick: &f64| match Some(*tick) == last && !symbol.is_empty() {
        true => format!("{} {symbol}", number(tick)),
        false => number(tick),
    };
    scale::draw(
        &mut plot,
        &Axis {
            title: "",
            ticks: 7,
            label: &label,
            grid: true,
        },
        &Axis::NONE,
    )?;
    for (row, bar) in chart.bars.iter().enumerate() {
        let label = Style::PLAIN.fit(&bar.label, area.x - Pt(8.0));
        let (_, y) = place(&plot, 0.0, row as f64 + 0.5);
        page.text(
            area.x - Pt(6.0),
            y + Pt(2.8),
            &label,
            Style::PLAIN.at(HPos::Right),
        )?;
        let scale = if chart.normalized {
            100.0 / total(bar)
        } else {
            1.0 / factor
        };
        let end = draw_bar(page, &plot, (row as f64, scale), bar, (chart, &fills))?;
        let note = Style::MUTED.fit(&bar.note, WIDTH - area.right() - Pt(6.0));
        let x = if chart.normalized { area.right() } else { end };
        page.text(x + Pt(6.0), y + Pt(2.5), &note, Style::MUTED.halo())?;
    }
    Ok(area.bottom() + Pt(18.0))
}

/// Where the bars go: labels at the left and notes at the right get what they need, within limits.
fn area(chart: &StackedBars, top: Pt) -> Rect {
    let left = Style::PLAIN.widest(chart.bars.iter().map(|bar| &bar.label));
    let right = Style::MUTED.widest(chart.bars.iter().map(|bar| &bar.note));
    let (left, right) = (
        left.min(WIDTH * LABELS) + Pt(10.0),
        right.min(WIDTH * NOTES) + Pt(12.0),
    );
    Rect::new(
        left,
        top,
        WIDTH - left - right,
        PITCH * chart.bars.len() as f64,
    )
}

/// A part's values; what is not a positive number has no length.
fn parts(bar: &Bar) -> impl Iterator<Item = f64> {
    bar.values.iter().map(|value| match value.is_finite() {
        true => value.max(0.0),
        false => 0.0,
    })
}

fn total(bar: &Bar) -> f64 {
    parts(bar).sum()
}

/// One colour a part; parts of one group get tints of it.
fn fills(parts: &[Part]) -> Vec<RGBColor> {
    let mut fills = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let before = parts[..n].iter();
        let of_color = before.filter(|earlier| earlier.color == part.color);
        fills.push(palette::tint(part.color, of_color.count()));
    }
    fills
}

/// Draws one bar, its values times `scale`, and returns where it ends.
fn draw_bar(
    page: &Page,
    plot: &Plane,
    (row, scale): (f64, f64),
    bar: &Bar,
    (chart, fills): (&StackedBars, &[RGBColor]),
) -> Drawn<Pt> {
    let mut start = 0.0;
    let total = total(bar);
    let shown = parts(bar)
        .zip(fills.iter().zip(&chart.parts))
        .filter(|(value, _)| *value > 0.0);
    for (value, (fill, part)) in shown {
        let end = start + value * scale;
        let ((left, y), (right, _)) = (place(plot, start, row + 0.5), place(plot, end, row + 0.5));
        let edge = if right - left > Pt(1.5) { 50 } else { 0 };
        let (_, top) = place(plot, start, row + MARGIN / PITCH);
        let (_, bottom) = place(plot, start, row + 1.0 - MARGIN / PITCH);
        let number = Quantity::new(value, chart.unit);
        let share = Quantity::ratio(value / total);
        let tooltip = format!("{} · {} · {number} · {share}", bar.label, part.name);
        let area = Rect::new(left, top, right - left, bottom - top);
        page.rect(area, fill.stroke_width(edge), &tooltip)?;
        let label = format!("{:.0} %", value / total * 100.0);
        let style = Style {
            color: palette::on(*fill),
            ..Style::SMALL.at(HPos::Center)
        };
        // Of a bar on a scale that is all one part, the length says it.
        let is_part = chart.parts.len() > 1 && (chart.normalized || value < total);
        if is_part && style.width(&label) + Pt(4.0) <= right - left {
            page.text(left.midpoint(right), y + Pt(2.5), &label, style)?;
        }
        start = end;
    }
    Ok(place(plot, start, row).0)
}
