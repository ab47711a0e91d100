//! The roofline plot: Williams, Waterman, Patterson (2009), doi:10.1145/1498765.1498785.

use crate::length::{Degrees, Place, Pt};
use std::ops::Range;

use plotters::style::Color as _;

use rooflens_schemas::Unit;

use super::labels::{Labels, slanted};
use super::loglog::{LogPlot, frame, positive};
use super::marks::{self, Mark};
use super::page::{DASHED, Drawn, Page, Rect, Style, WIDTH, place};
use super::{palette, scale};
use rooflens_document::chart::{Ceiling, Point, Roofline};
use rooflens_document::{Quantity, words};

const LEFT: Pt = Pt(34.0);
const HEIGHT: Pt = Pt(195.0);

/// Radius of a kernel's marks at further memory levels.
const LEVEL_RADIUS: Pt = Pt(2.6);

/// Draws the plot; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Roofline) -> Drawn<Pt> {
    let levels = chart.levels.iter().map(|level| level.color);
    let top = Pt(14.0) + marks::draw_legend(page, &chart.points, levels)?;
    let area = Rect::new(LEFT, top, WIDTH - LEFT - Pt(6.0), HEIGHT);
    let (x, y) = axes(chart);
    let titles = [
        words!(page, "chart.intensity"),
        words!(page, "chart.performance"),
    ];
    let plot = frame(page, area, (&x, &y), [&titles[0], &titles[1]])?;
    let drawable = |p: &&Point| x.contains(&p.x) && y.contains(&p.y);
    let points = chart.points.iter().filter(drawable);
    let mut marks = Vec::new();
    for point in points {
        let work = Quantity::new(point.x, Unit::FlopPerByte);
        let rate = Quantity::new(point.y, Unit::FlopPerSecond);
        let center = place(&plot, point.x, point.y);
        marks.push(Mark::new(point, center, format!("{work} · {rate}")));
    }
    marks::by_weight(&mut marks);
    let mut labels = Labels::default();
    marks::avoid(&mut labels, &marks);
    draw_roofs(page, &mut labels, area, &roofs(chart, &plot, &x, &y))?;
    for level in chart.levels.iter().filter(|level| x.contains(&level.x)) {
        let Some(point) = chart.points.get(level.point).filter(drawable) else {
            continue;
        };
        let kernel = place(&plot, point.x, point.y);
        let center = place(&plot, level.x, point.y);
        page.line(&[kernel, center], palette::AXIS.stroke_width(60), "")?;
        let tooltip = format!("{} · {}", point.label, level.color.label());
        page.disc(center, LEVEL_RADIUS, palette::fill(level.color), &tooltip)?;
    }
    let numbered = marks::draw(page, &mut labels, area, &marks)?;
    let mut bottom = area.bottom() + Pt(32.0);
    bottom += marks::draw_key(page, bottom, &numbered)?;
    let left_out = chart.points.len() - marks.len();
    if left_out > 0 {
        let [left_out, points] = [left_out, chart.points.len()].map(|n| Quantity::count(n as u64));
        let note = words!(page, "chart.outside", left_out = left_out, points = points);
        page.text(Pt::ZERO, bottom + Pt(9.0), &note, Style::MUTED)?;
        bottom += Pt(12.0);
    }
    Ok(bottom + Pt(4.0))
}

/// Axes that hold the points and the ridges, with some room around them.
fn axes(chart: &Roofline) -> (Range<f64>, Range<f64>) {
    let mut rates: Vec<f64> = chart.rates.iter().map(|rate| rate.value).collect();
    let (_, top_rate) = positive(&mut rates.iter().copied());
    let mut intensities = Vec::new();
    for bandwidth in &chart.bandwidths {
        // A decade beyond the last ridge leaves room for the labels of the flat roofs.
        intensities.push(top_rate / bandwidth.value * 10.0);
    }
    for point in &chart.points {
        intensities.push(point.x);
        rates.push(point.y);
    }
    for level in &chart.levels {
        intensities.push(level.x);
    }
    let (low, high) = positive(&mut intensities.into_iter());
    let low = if low < high { low } else { high / 10_000.0 };
    let x = scale::log(low / 2.0, high * 2.0);
    let (low, high) = positive(&mut rates.into_iter());
    let low = if low < high { low } else { high / 1000.0 };
    let y = scale::log(low / 2.0, high * 2.5);
    (x, y)
}

/// A roof on the page.
struct Roof<'a> {
    ceiling: &'a Ceiling,
    from: Place,
    to: Place,
}

fn is_usable(ceiling: &Ceiling) -> bool {
    ceiling.value.is_finite() && ceiling.value > 0.0
}

fn highest(ceilings: &[Ceiling]) -> f64 {
    let mut highest = 0.0_f64;
    for ceiling in ceilings {
        if is_usable(ceiling) {
            highest = highest.max(ceiling.value);
        }
    }
    highest
}

fn roofs<'a>(chart: &'a Roofline, plot: &LogPlot, x: &Range<f64>, y: &Range<f64>) -> Vec<Roof<'a>> {
    let (bandwidth, rate) = (highest(&chart.bandwidths), highest(&chart.rates));
    let mut roofs = Vec::new();
    for ceiling in &chart.bandwidths {
        if !is_usable(ceiling) {
            continue;
        }
        let start = x.start.max(y.start / ceiling.value);
        let ridge = if rate > 0.0 {
            rate / ceiling.value
        } else {
            f64::INFINITY
        };
        let end = x.end.min(y.end / ceiling.value).min(ridge);
        if start < end {
            roofs.push(Roof {
                ceiling,
                from: place(plot, start, start * ceiling.value),
                to: place(plot, end, end * ceiling.value),
            });
        }
    }
    for ceiling in &chart.rates {
        if !is_usable(ceiling) {
            continue;
        }
        let start = if bandwidth > 0.0 {
            x.start.max(ceiling.value / bandwidth)
        } else {
            x.start
        };
        if start < x.end && y.contains(&ceiling.value) {
            roofs.push(Roof {
                ceiling,
                from: place(plot, start, ceiling.value),
                to: place(plot, x.end, ceiling.value),
            });
        }
    }
    roofs
}

fn draw_roofs(page: &Page, labels: &mut Labels, area: Rect, roofs: &[Roof<'_>]) -> Drawn {
    for roof in roofs {
        let (width, dashes) = if roof.ceiling.measured {
            (100, DASHED)
        } else {
            (120, "")
        };
        page.line(
            &[roof.from, roof.to],
            palette::ROOF.stroke_width(width),
            dashes,
        )?;
        labels.avoid_line(roof.from, roof.to);
    }
    for roof in roofs {
        label_roof(page, labels, area, roof)?;
    }
    Ok(())
}

/// Writes a roof's label along it, above or below, where there is room.
fn label_roof(page: &Page, labels: &mut Labels, area: Rect, roof: &Roof<'_>) -> Drawn {
    let style = Style {
        color: palette::ROOF,
        ..Style::SMALL
    };
    let (dx, dy) = (roof.to.0 - roof.from.0, roof.to.1 - roof.from.1);
    let length = dx.hypot(dy);
    if length < Pt(1.0) {
        return Ok(());
    }
    let direction = (dx / length, dy / length);
    let flat = dy.abs() < Pt(1e-9);
    // The label of a short flat roof may begin left of it.
    let text = style.fit(
        &roof.ceiling.label,
        if flat { area.w / 2.0 } else { length },
    );
    let width = style.width(&text);
    // Left of a flat roof, above the slanted ones, nothing else stands.
    let mut starts = Vec::new();
    for step in 0..if flat { 24 } else { 0 } {
        let x = roof.from.0 - width - Pt(5.0) - Pt(10.0) * f64::from(step);
        starts.push((x, roof.from.1 + style.size * 0.35));
    }
    for share in 0..=16 {
        // Slanted labels prefer the lower left, flat ones the right end.
        let along = (length - width - Pt(10.0)).max(Pt::ZERO) * (f64::from(share) / 16.0) + Pt(5.0);
        let along = if flat { length - width - along } else { along };
        for offset in [Pt(3.0), Pt(-3.0) - style.size * 0.75] {
            let x = roof.from.0 + along * direction.0 + offset * direction.1;
            let y = roof.from.1 + along * direction.1 - offset * direction.0;
            starts.push((x, y));
        }
    }
    let (mut inside, mut candidates) = (Vec::new(), Vec::new());
    for (x, y) in starts {
        let boxes = slanted((x, y), direction, width, style.size);
        if boxes.iter().all(|rect| area.contains(rect)) {
            inside.push((x, y));
            candidates.push(boxes);
        }
    }
    let Some(best) = labels.place(&candidates) else {
        return Ok(());
    };
    let (x, y) = inside[best];
    let angle = Degrees(libm::atan2(-dy.0, dx.0).to_degrees());
    page.text(
        x,
        y,
        &text,
        Style {
            angle,
            ..style.halo()
        },
    )
}
