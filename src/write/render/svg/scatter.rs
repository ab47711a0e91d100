//! Scatter plots with linear axes.

use crate::length::Pt;
use plotters::style::Color;

use super::labels::Labels;
use super::marks::{self, Mark};
use super::page::{DASHED, Drawn, Page, Rect, Style, WIDTH, place};
use super::palette;
use super::scale::{self, Axis};
use rooflens_document::chart::Scatter;

const LEFT: Pt = Pt(34.0);
const HEIGHT: Pt = Pt(195.0);
const MARGIN: Pt = Pt(10.0);

/// Draws the plot; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Scatter) -> Drawn<Pt> {
    let top = Pt(14.0) + marks::draw_legend(page, &chart.points, std::iter::empty())?;
    let area = Rect::new(LEFT, top, WIDTH - LEFT - Pt(8.0), HEIGHT);
    let (x, y) = (
        scale::linear(0.0, chart.x_max),
        scale::linear(0.0, chart.y_max),
    );
    // Marks at zero keep clear of the ticks.
    let below = |end: f64, length: Pt| -end * MARGIN.0 / (length - MARGIN).0;
    let ranges = (below(x.end, area.w)..x.end, below(y.end, area.h)..y.end);
    let mut plot = page.plot(area, (LEFT, Pt(25.0)), ranges.0, ranges.1)?;
    let (x_label, y_label) = (scale::tick_label(&x, 6), scale::tick_label(&y, 6));
    scale::draw(
        &mut plot,
        &Axis {
            title: &chart.x_label,
            ticks: 6,
            label: &x_label,
            grid: true,
        },
        &Axis {
            title: "",
            ticks: 6,
            label: &y_label,
            grid: true,
        },
    )?;
    page.text(
        Pt(0.5),
        area.y - Pt(7.0),
        &Style::PLAIN.fit(&chart.y_label, WIDTH - Pt(10.0)),
        Style::PLAIN,
    )?;
    let mut labels = Labels::default();
    if chart.diagonal {
        let ends = [place(&plot, 0.0, 0.0), place(&plot, x.end, y.end)];
        page.line(&ends, palette::AXIS.stroke_width(80), DASHED)?;
        labels.avoid_line(ends[0], ends[1]);
    }
    // What lies beyond an axis is shown at its end: a share above 100 % is a finding, not an error.
    let mut marks = Vec::new();
    for point in &chart.points {
        if point.x.is_finite() && point.y.is_finite() {
            let center = place(&plot, point.x.clamp(0.0, x.end), point.y.clamp(0.0, y.end));
            let detail = format!("{:.1} · {:.1}", point.x, point.y);
            marks.push(Mark::new(point, center, detail));
        }
    }
    marks::by_weight(&mut marks);
    marks::avoid(&mut labels, &marks);
    let numbered = marks::draw(page, &mut labels, area, &marks)?;
    let bottom = area.bottom() + Pt(32.0);
    Ok(bottom + marks::draw_key(page, bottom, &numbered)? + Pt(4.0))
}
