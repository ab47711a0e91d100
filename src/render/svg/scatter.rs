//! Scatter plots with linear axes.

use super::canvas::{Canvas, Rect, Stroke, WIDTH};
use super::labels::Labels;
use super::marks::{self, Mark};
use super::scale::Axis;
use super::{frame, palette};
use crate::findings::chart::Scatter;

const LEFT: f64 = 34.0;
const HEIGHT: f64 = 195.0;
const MARGIN: f64 = 10.0;

/// Draws the plot; returns the chart's height.
pub(super) fn draw(canvas: &mut Canvas, chart: &Scatter) -> f64 {
    let top = 16.0 + marks::draw_legend(canvas, 2.0, &chart.points, std::iter::empty());
    let area = Rect::new(LEFT, top, WIDTH - LEFT - 8.0, HEIGHT);
    // Marks at zero keep clear of the ticks.
    let x = Axis::linear(0.0, chart.x_max, area.x + MARGIN, area.right());
    let y = Axis::linear(0.0, chart.y_max, area.bottom() - MARGIN, area.y);
    frame::draw(canvas, area, (&x, &chart.x_label), (&y, &chart.y_label));
    let mut labels = Labels::default();
    if chart.diagonal {
        let ends = ((x.at(0.0), y.at(0.0)), (x.at(x.max), y.at(y.max)));
        canvas.line(&[ends.0, ends.1], Stroke::dashed(palette::AXIS, 0.8));
        labels.avoid_line(ends.0, ends.1);
    }
    // What lies beyond an axis is shown at its end: a share above 100 % is a finding, not an error.
    let mut marks: Vec<Mark<'_>> = chart
        .points
        .iter()
        .filter(|point| point.x.is_finite() && point.y.is_finite())
        .map(|point| {
            let (px, py) = (point.x.clamp(0.0, x.max), point.y.clamp(0.0, y.max));
            Mark { point, x: x.at(px), y: y.at(py) }
        })
        .collect();
    marks::by_weight(&mut marks);
    marks::avoid(&mut labels, &marks);
    let numbered = marks::draw(canvas, &mut labels, area, &marks);
    let bottom = area.bottom() + 32.0;
    bottom + marks::draw_key(canvas, bottom, &numbered) + 4.0
}
