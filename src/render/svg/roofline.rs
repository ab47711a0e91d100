//! The roofline plot: Williams, Waterman, Patterson (2009), doi:10.1145/1498765.1498785.

use super::canvas::{Anchor, Canvas, Rect, SMALL, Stroke, Style, WIDTH};
use super::labels::{Labels, slanted};
use super::marks::{self, Mark};
use super::scale::Axis;
use super::{frame, measure, palette};
use crate::findings::chart::{Ceiling, Point, Roofline};

const LEFT: f64 = 34.0;
const HEIGHT: f64 = 195.0;

/// Radius of a kernel's marks at further memory levels.
const LEVEL_RADIUS: f64 = 2.6;

/// Draws the plot; returns the chart's height.
pub(super) fn draw(canvas: &mut Canvas, chart: &Roofline) -> f64 {
    let levels = chart.levels.iter().map(|level| level.color);
    let top = 16.0 + marks::draw_legend(canvas, 2.0, &chart.points, levels);
    let area = Rect::new(LEFT, top, WIDTH - LEFT - 6.0, HEIGHT);
    let (x, y) = axes(chart, area);
    frame::draw(canvas, area, (&x, "Arithmetic intensity (FLOP/B)"), (&y, "Performance (FLOP/s)"));
    let drawable = |p: &&Point| x.holds(p.x) && y.holds(p.y);
    let mut marks: Vec<Mark<'_>> = chart
        .points
        .iter()
        .filter(drawable)
        .map(|point| Mark { point, x: x.at(point.x), y: y.at(point.y) })
        .collect();
    marks::by_weight(&mut marks);
    let mut labels = Labels::default();
    marks::avoid(&mut labels, &marks);
    let roofs = roofs(chart, &x, &y);
    draw_roofs(canvas, &mut labels, area, &roofs);
    draw_levels(canvas, chart, &x, &y);
    let numbered = marks::draw(canvas, &mut labels, area, &marks);
    let mut bottom = area.bottom() + 32.0;
    bottom += marks::draw_key(canvas, bottom, &numbered);
    let left_out = chart.points.len() - marks.len();
    if left_out > 0 {
        let note = format!("{left_out} of {} points lie outside the plot.", chart.points.len());
        canvas.text(0.0, bottom + 9.0, &note, Style::MUTED);
        bottom += 12.0;
    }
    bottom + 4.0
}

/// Axes that hold the points and the ridges, with some room around them.
fn axes(chart: &Roofline, area: Rect) -> (Axis, Axis) {
    let positive = |values: &mut dyn Iterator<Item = f64>| -> (f64, f64) {
        values
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, 0.0), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (_, top_rate) = positive(&mut chart.rates.iter().map(|r| r.value));
    let levels = chart.levels.iter().map(|level| level.x);
    // A decade beyond the last ridge leaves room for the labels of the flat roofs.
    let ridges = chart.bandwidths.iter().map(|bandwidth| top_rate / bandwidth.value * 10.0);
    let (low, high) = positive(&mut ridges.chain(chart.points.iter().map(|p| p.x)).chain(levels));
    let low = if low < high { low } else { high / 10_000.0 };
    let x = Axis::log(low / 2.0, high * 2.0, area.x, area.right());
    let rates = chart.rates.iter().map(|r| r.value);
    let (low, high) = positive(&mut rates.chain(chart.points.iter().map(|p| p.y)));
    let low = if low < high { low } else { high / 1000.0 };
    let y = Axis::log(low / 2.0, high * 2.5, area.bottom(), area.y);
    (x, y)
}

/// Draws kernels at further memory levels as small marks, joined with the kernel's own.
fn draw_levels(canvas: &mut Canvas, chart: &Roofline, x: &Axis, y: &Axis) {
    for level in &chart.levels {
        let Some(point) = chart.points.get(level.point) else { continue };
        if !(x.holds(level.x) && x.holds(point.x) && y.holds(point.y)) {
            continue;
        }
        let place = (x.at(level.x), y.at(point.y));
        canvas.line(&[(x.at(point.x), place.1), place], Stroke::solid(palette::AXIS, 0.6));
        let tooltip = format!("{} · {}", point.label, level.color.label());
        canvas.disc(place.0, place.1, LEVEL_RADIUS, palette::fill(level.color), &tooltip);
    }
}

/// A roof on the canvas.
struct Roof<'a> {
    ceiling: &'a Ceiling,
    from: (f64, f64),
    to: (f64, f64),
}

fn roofs<'a>(chart: &'a Roofline, x: &Axis, y: &Axis) -> Vec<Roof<'a>> {
    let usable = |c: &&Ceiling| c.value.is_finite() && c.value > 0.0;
    let highest =
        |ceilings: &[Ceiling]| ceilings.iter().filter(usable).map(|c| c.value).fold(0.0, f64::max);
    let (bandwidth, rate) = (highest(&chart.bandwidths), highest(&chart.rates));
    let slanted = chart.bandwidths.iter().filter(usable).filter_map(|ceiling| {
        let start = x.min.max(y.min / ceiling.value);
        let ridge = if rate > 0.0 { rate / ceiling.value } else { f64::INFINITY };
        let end = x.max.min(y.max / ceiling.value).min(ridge);
        let place = |at: f64| (x.at(at), y.at(at * ceiling.value));
        (start < end).then(|| Roof { ceiling, from: place(start), to: place(end) })
    });
    let flat = chart.rates.iter().filter(usable).filter_map(|ceiling| {
        let start = if bandwidth > 0.0 { x.min.max(ceiling.value / bandwidth) } else { x.min };
        let at = y.at(ceiling.value);
        (start < x.max && y.holds(ceiling.value)).then(|| Roof {
            ceiling,
            from: (x.at(start), at),
            to: (x.to, at),
        })
    });
    slanted.chain(flat).collect()
}

fn draw_roofs(canvas: &mut Canvas, labels: &mut Labels, area: Rect, roofs: &[Roof<'_>]) {
    for roof in roofs {
        let stroke = if roof.ceiling.measured {
            Stroke::dashed(palette::ROOF, 1.0)
        } else {
            Stroke::solid(palette::ROOF, 1.2)
        };
        canvas.line(&[roof.from, roof.to], stroke);
        labels.avoid_line(roof.from, roof.to);
    }
    for roof in roofs {
        label_roof(canvas, labels, area, roof);
    }
}

/// Writes a roof's label along it, above or below, where there is room.
fn label_roof(canvas: &mut Canvas, labels: &mut Labels, area: Rect, roof: &Roof<'_>) {
    let style = Style { size: SMALL, color: palette::ROOF, ..Style::PLAIN };
    let (dx, dy) = (roof.to.0 - roof.from.0, roof.to.1 - roof.from.1);
    let length = libm::hypot(dx, dy);
    if length < 1.0 {
        return;
    }
    let direction = (dx / length, dy / length);
    let flat = dy.abs() < 1e-9;
    // The label of a short flat roof may begin left of it.
    let text = measure::fit(&roof.ceiling.label, if flat { area.w / 2.0 } else { length }, style);
    let width = measure::width(&text, style);
    let mut starts = Vec::new();
    for share in 0..=16 {
        // Slanted labels prefer the lower left, flat ones the right end.
        let along = f64::from(share) / 16.0 * (length - width - 10.0).max(0.0) + 5.0;
        let along = if flat { length - width - along } else { along };
        for offset in [3.0, -3.0 - SMALL * 0.75] {
            let x = roof.from.0 + direction.0 * along + direction.1 * offset;
            let y = roof.from.1 + direction.1 * along - direction.0 * offset;
            starts.push((x, y));
        }
    }
    let inside = |boxes: &Vec<Rect>| boxes.iter().all(|b| area.contains(b));
    let (starts, boxes): (Vec<_>, Vec<_>) = starts
        .into_iter()
        .map(|(x, y)| ((x, y), slanted(x, y, direction, width, SMALL)))
        .filter(|(_, boxes)| inside(boxes))
        .unzip();
    let Some(&(x, y)) = labels.place(&boxes).and_then(|best| starts.get(best)) else { return };
    let degrees = libm::atan2(-dy, dx).to_degrees();
    canvas.slanted_text(x, y, degrees, &text, style.at(Anchor::Start).halo());
}
